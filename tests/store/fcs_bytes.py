"""FCS files written byte by byte from the standard, so that readers are not tested with their own writer."""

from __future__ import annotations

from typing import Any

import numpy as np

TEXT_BEGIN = 64
ORDERS = {"<": "1,2,3,4", ">": "4,3,2,1"}


def fcs_bytes(
    columns: dict[str, np.ndarray[Any, Any]],
    *,
    order: str = "<",
    version: str = "3.1",
    keywords: dict[str, str | None] | None = None,
    raw: bytes | None = None,
    header_shift: tuple[int, int] | None = (0, 0),
    text_shift: tuple[int, int] | None = (0, 0),
    data_before_text: bool = False,
    delimiter: str = "/",
    supplement: dict[str, str] | None = None,
    is_last: bool = True,
) -> bytes:
    """One data set: header, text, events, and 8 zeros in place of a checksum.

    ``columns`` are the channels by name, of dtype u1, u2, u4, u8, f4 or f8. The shifts are added to the stated first
    and last byte of the events in header and text; None leaves them out. ``keywords`` add, replace or (None) remove.
    """
    n_events = len(next(iter(columns.values())))
    fields = [(f"f{i}", order + column.dtype.str[1:]) for i, column in enumerate(columns.values())]
    events = np.empty(n_events, fields)
    for i, column in enumerate(columns.values()):
        events[f"f{i}"] = column
    data = events.tobytes() if raw is None else raw
    kinds = {column.dtype.kind + str(column.dtype.itemsize) for column in columns.values()}
    kind = {"f4": "F", "f8": "D"}.get(kinds.pop(), "I") if len(kinds) == 1 else "I"
    text: dict[str, str | None] = {
        "$PAR": str(len(columns)), "$TOT": str(n_events), "$DATATYPE": kind, "$MODE": "L",
        "$BYTEORD": ORDERS[order], "$BEGINANALYSIS": "0", "$ENDANALYSIS": "0",
    }  # fmt: skip
    for i, (name, column) in enumerate(columns.items(), 1):
        bits = 8 * column.dtype.itemsize
        largest = str(2**bits) if column.dtype.kind == "u" else "262144"
        text |= {f"$P{i}N": name, f"$P{i}B": str(bits), f"$P{i}E": "0,0", f"$P{i}R": largest}
    text |= keywords or {}
    n_text = len(_joined(text, delimiter).encode()) + 200  # room for the offsets, which are padded
    begin = TEXT_BEGIN if data_before_text else TEXT_BEGIN + n_text
    text_begin = TEXT_BEGIN + len(data) if data_before_text else TEXT_BEGIN
    last = begin + len(data) - 1
    end = max(last + 1, text_begin + n_text)
    more = b"" if supplement is None else _joined(supplement, delimiter).encode()
    if text_shift is not None:
        text |= {"$BEGINDATA": f"{begin + text_shift[0]:10}", "$ENDDATA": f"{last + text_shift[1]:10}"}
    stext = (end, end + len(more) - 1) if more else (0, 0)
    text |= {"$BEGINSTEXT": f"{stext[0]:10}", "$ENDSTEXT": f"{stext[1]:10}"}
    total = end + len(more) + 8
    text["$NEXTDATA"] = (keywords or {}).get("$NEXTDATA") or f"{0 if is_last else total:10}"
    body = _joined(text, delimiter).encode()
    assert len(body) <= n_text
    stated = f"{'':16}"
    if header_shift is not None:
        stated = f"{begin + header_shift[0]:8}{last + header_shift[1]:8}"
    header = f"FCS{version}    {text_begin:8}{text_begin + len(body) - 1:8}{stated}{0:8}{0:8}"
    content = bytearray(end)
    content[: len(header)] = header.encode()
    content[text_begin : text_begin + len(body)] = body
    content[begin : begin + len(data)] = data
    return bytes(content) + more + b"0" * 8


def _joined(text: dict[str, Any], delimiter: str) -> str:
    """Keywords and values, a delimiter inside a value doubled."""
    parts = [part for key, value in text.items() if value is not None for part in (key, value)]
    return delimiter + "".join(part.replace(delimiter, delimiter * 2) + delimiter for part in parts)
