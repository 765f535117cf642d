"""Random changes of the bytes of valid files."""

from __future__ import annotations

import io
import json
import random
import re
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

EXTREMES = [-1, 0, 1, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**52, 2**63 - 1, 2**63, 10**30, -(2**63)]
INVALID_VALUES: list[Any] = [
    None,
    True,
    "",
    "x" * 9,
    [],
    {},
    [1],
    {"a": 1},
    -1,
    0,
    2**52,
    2**64,
    1e308,
    0.5,
    "\ud800",
    "inf",
]
NUMBER = re.compile(rb"\d+")


def mutate(rng: random.Random, content: bytes) -> bytes:
    """Apply one to three changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(MUTATIONS)(rng, content)
    return content


def flip(rng: random.Random, content: bytes) -> bytes:
    """Flip some bits."""
    changed = bytearray(content or b"\0")
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(rng: random.Random, content: bytes) -> bytes:
    """Truncate at a random position."""
    return content[: rng.randrange(len(content) + 1)]


def _span(rng: random.Random, content: bytes) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.choice((1, 4, 16, 200, 4096)))


def duplicate_span(rng: random.Random, content: bytes) -> bytes:
    """Duplicate a span."""
    a, b = _span(rng, content)
    return content[:b] + content[a:b] + content[b:]


def zero_span(rng: random.Random, content: bytes) -> bytes:
    """Replace a span by zeros."""
    a, b = _span(rng, content)
    return content[:a] + bytes(b - a) + content[b:]


def remove_span(rng: random.Random, content: bytes) -> bytes:
    """Remove a span."""
    a, b = _span(rng, content)
    return content[:a] + content[b:]


def replace_number(rng: random.Random, content: bytes) -> bytes:
    """Replace a number in text by an extreme one."""
    result = list(NUMBER.finditer(content[: 2**16]))
    if not result:
        return flip(rng, content)
    match = rng.choice(result)
    return content[: match.start()] + str(rng.choice(EXTREMES)).encode() + content[match.end() :]


def replace_bytes(rng: random.Random, content: bytes) -> bytes:
    """Replace two, four or eight bytes by an extreme number."""
    width = rng.choice((2, 4, 8))
    if len(content) < width:
        return flip(rng, content)
    a = rng.randrange(len(content) - width + 1)
    value = rng.choice((0, 1, 2 ** (8 * width) - 1, 2 ** (8 * width - 1), 2 ** (8 * width - 1) - 1))
    return content[:a] + value.to_bytes(width, "little") + content[a + width :]


def mutate_json(rng: random.Random, content: bytes) -> bytes:
    """Replace a value or key of a JSON text, or nest it deeply."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return flip(rng, content)
    if rng.random() < 0.1:
        depth = rng.choice((60, 2000, 200_000))
        return b'{"a":' * depth + content + b"}" * depth
    items = list(_items(value))
    if not items:
        return flip(rng, content)
    holder, key = rng.choice(items)
    if isinstance(holder, dict) and rng.random() < 0.2:
        holder[rng.choice(("", "other", "__class__", "x" * 300))] = holder.pop(key)
    elif rng.random() < 0.15:
        del holder[key]
    else:
        holder[key] = rng.choice((*INVALID_VALUES, *EXTREMES))
    return json.dumps(value).encode()


def _items(value: Any) -> Any:
    """Yield (holder, key) of all nested items."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(inner):
        yield value, key
        yield from _items(item)


def mutate_zip(rng: random.Random, content: bytes) -> bytes:
    """Swap, remove, add, rename, change or compress members of an archive, with valid checksums."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:
        return flip(rng, content)
    if not members:
        return flip(rng, content)
    i, j = rng.randrange(len(members)), rng.randrange(len(members))
    mutation = rng.randrange(7)
    if mutation == 0:
        members[i], members[j] = (members[i][0], members[j][1]), (members[j][0], members[i][1])
    elif mutation == 1:
        del members[i]
    elif mutation == 2:
        members.append(
            (rng.choice(("../evil.npy", "code.py", "values.npy", "x.npy")), b"\x93NUMPY\x01\x00v\x00{}")
        )
    elif mutation == 3:
        members[i] = (rng.choice(("other.npy", "a/b.npy", "")), members[i][1])
    elif mutation == 4:
        members[i] = (members[i][0], _mutate_header(rng, members[i][1]))
    elif mutation == 5:
        members.append((members[i][0] + "x"[: rng.randrange(2)], members[i][1]))
    else:
        members[i] = (members[i][0], mutate(rng, members[i][1]))
    output = io.BytesIO()
    kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with warnings.catch_warnings(), zipfile.ZipFile(output, "w", kind) as archive:
        warnings.simplefilter("ignore")  # two members with the same name
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=kind)
    return output.getvalue()


def _mutate_header(rng: random.Random, data: bytes) -> bytes:
    """Change numbers in the header of an .npy member, keeping its length."""
    head = NUMBER.sub(
        lambda m: str(rng.choice(EXTREMES)).encode() if rng.random() < 0.3 else m[0], data[10:128]
    )
    return data[:10] + head.rstrip()[:117].ljust(117) + b"\n" + data[128:]


MUTATIONS: list[Callable[[random.Random, bytes], bytes]] = [
    flip, flip, truncate, duplicate_span, zero_span, remove_span, replace_number, replace_bytes, mutate_json,
    mutate_json, mutate_zip, mutate_zip,
]  # fmt: skip
