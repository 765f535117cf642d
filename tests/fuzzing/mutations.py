"""Files as damage and malice leave them: seeded changes of the bytes of a valid one."""

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
ODD: list[Any] = [
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


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The content with one to three changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(WAYS)(rng, content)
    return content


def flip(rng: random.Random, content: bytes) -> bytes:
    """Some bits changed."""
    changed = bytearray(content or b"\0")
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(rng: random.Random, content: bytes) -> bytes:
    """The end is lost."""
    return content[: rng.randrange(len(content) + 1)]


def _span(rng: random.Random, content: bytes) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.choice((1, 4, 16, 200, 4096)))


def doubled(rng: random.Random, content: bytes) -> bytes:
    """A span stands twice."""
    a, b = _span(rng, content)
    return content[:b] + content[a:b] + content[b:]


def zeroed(rng: random.Random, content: bytes) -> bytes:
    """A span is zero."""
    a, b = _span(rng, content)
    return content[:a] + bytes(b - a) + content[b:]


def removed(rng: random.Random, content: bytes) -> bytes:
    """A span is lost."""
    a, b = _span(rng, content)
    return content[:a] + content[b:]


def numbered(rng: random.Random, content: bytes) -> bytes:
    """A number that is written in text, replaced by an extreme one."""
    result = list(NUMBER.finditer(content[: 2**16]))
    if not result:
        return flip(rng, content)
    one = rng.choice(result)
    return content[: one.start()] + str(rng.choice(EXTREMES)).encode() + content[one.end() :]


def binary(rng: random.Random, content: bytes) -> bytes:
    """Two, four or eight bytes replaced by an extreme number."""
    width = rng.choice((2, 4, 8))
    if len(content) < width:
        return flip(rng, content)
    a = rng.randrange(len(content) - width + 1)
    value = rng.choice((0, 1, 2 ** (8 * width) - 1, 2 ** (8 * width - 1), 2 ** (8 * width - 1) - 1))
    return content[:a] + value.to_bytes(width, "little") + content[a + width :]


def of_json(rng: random.Random, content: bytes) -> bytes:
    """A value or key of a JSON text replaced, or nested deeply."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return flip(rng, content)
    if rng.random() < 0.1:
        deep = rng.choice((60, 2000, 200_000))
        return b'{"a":' * deep + content + b"}" * deep
    places = list(_places(value))
    if not places:
        return flip(rng, content)
    holder, key = rng.choice(places)
    if isinstance(holder, dict) and rng.random() < 0.2:
        holder[rng.choice(("", "other", "__class__", "x" * 300))] = holder.pop(key)
    elif rng.random() < 0.15:
        del holder[key]
    else:
        holder[key] = rng.choice((*ODD, *EXTREMES))
    return json.dumps(value).encode()


def _places(value: Any) -> Any:
    """(holder, key) of everything inside."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(inner):
        yield value, key
        yield from _places(item)


def of_zip(rng: random.Random, content: bytes) -> bytes:
    """Members of an archive swapped, dropped, foreign, renamed, changed or compressed; its checksums fit again."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:
        return flip(rng, content)
    if not members:
        return flip(rng, content)
    i, j = rng.randrange(len(members)), rng.randrange(len(members))
    way = rng.randrange(7)
    if way == 0:
        members[i], members[j] = (members[i][0], members[j][1]), (members[j][0], members[i][1])
    elif way == 1:
        del members[i]
    elif way == 2:
        members.append(
            (rng.choice(("../evil.npy", "code.py", "values.npy", "x.npy")), b"\x93NUMPY\x01\x00v\x00{}")
        )
    elif way == 3:
        members[i] = (rng.choice(("other.npy", "a/b.npy", "")), members[i][1])
    elif way == 4:
        members[i] = (members[i][0], _inside(rng, members[i][1]))
    elif way == 5:
        members.append((members[i][0] + "x"[: rng.randrange(2)], members[i][1]))
    else:
        members[i] = (members[i][0], mutated(rng, members[i][1]))
    output = io.BytesIO()
    kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with warnings.catch_warnings(), zipfile.ZipFile(output, "w", kind) as archive:
        warnings.simplefilter("ignore")  # two members of one name
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=kind)
    return output.getvalue()


def _inside(rng: random.Random, data: bytes) -> bytes:
    """An .npy member whose header says other numbers, of the same length."""
    head = NUMBER.sub(
        lambda m: str(rng.choice(EXTREMES)).encode() if rng.random() < 0.3 else m[0], data[10:128]
    )
    return data[:10] + head.rstrip()[:117].ljust(117) + b"\n" + data[128:]


WAYS: list[Callable[[random.Random, bytes], bytes]] = [
    flip, flip, cut, doubled, zeroed, removed, numbered, binary, of_json, of_json, of_zip, of_zip,
]  # fmt: skip
