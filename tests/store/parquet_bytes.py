"""Parquet files written by hand: one row group, plain encoding, no compression, a checksum on every page."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

I32, I64, TEXT, LIST, STRUCT = 5, 6, 8, 9, 12  # types of Thrift's compact protocol
INT64, DOUBLE, BYTE_ARRAY = 2, 5, 6  # types of Parquet
PLAIN, RLE = 0, 3
Fields = list[tuple[int, int, Any]]  # (number, type, value)


def parquet_bytes(
    columns: dict[str, Any], *, has_checksums: bool = True, rows: int | None = None, page_rows: int = 100
) -> bytes:
    """A file with these columns: int64 or float64 arrays, lists of str, or lists of floats and None.

    ``rows`` is a number of rows to state in place of the right one.
    """
    n_rows = len(next(iter(columns.values()))) if rows is None else rows
    content, chunks = bytearray(b"PAR1"), []
    schema: list[Any] = [[(4, TEXT, b"schema"), (5, I32, len(columns))]]
    for name, values in columns.items():
        kind, optional = _kind(values), any(value is None for value in values)
        begin = len(content)
        for a in range(0, len(values), page_rows):
            content += _page(values[a : a + page_rows], optional, has_checksums)
        size = len(content) - begin
        meta = [
            (1, I32, kind), (2, LIST, (I32, [PLAIN, RLE])), (3, LIST, (TEXT, [name.encode()])), (4, I32, 0),
            (5, I64, len(values)), (6, I64, size), (7, I64, size), (9, I64, begin),
        ]  # fmt: skip
        chunks.append([(2, I64, begin), (3, STRUCT, meta)])
        element: Fields = [(1, I32, kind), (3, I32, int(optional)), (4, TEXT, name.encode())]
        schema.append(element + [(6, I32, 0)] * (kind == BYTE_ARRAY))
    group = [(1, LIST, (STRUCT, chunks)), (2, I64, len(content) - 4), (3, I64, n_rows)]
    footer = _struct(
        [(1, I32, 1), (2, LIST, (STRUCT, schema)), (3, I64, n_rows), (4, LIST, (STRUCT, [group]))]
    )
    return bytes(content) + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _kind(values: Any) -> int:
    if isinstance(values, list) and isinstance(values[0], str):
        return BYTE_ARRAY
    return INT64 if np.asarray(values).dtype.kind == "i" else DOUBLE


def _page(values: Any, optional: bool, has_checksum: bool) -> bytes:
    known = [value for value in values if value is not None]
    if _kind(values) == BYTE_ARRAY:
        body = b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in known)
    else:
        body = np.asarray(known, "<i8" if _kind(values) == INT64 else "<f8").tobytes()
    if optional:
        bits = np.packbits([value is not None for value in values], bitorder="little").tobytes()
        levels = _varint(len(bits) << 1 | 1) + bits
        body = struct.pack("<I", len(levels)) + levels + body
    (crc,) = struct.unpack("<i", struct.pack("<I", zlib.crc32(body)))
    data = [(1, I32, len(values)), (2, I32, PLAIN), (3, I32, RLE), (4, I32, RLE)]
    header: Fields = [(1, I32, 0), (2, I32, len(body)), (3, I32, len(body))]
    return _struct([*header, *[(4, I32, crc)] * has_checksum, (5, STRUCT, data)]) + body


def _struct(fields: Fields) -> bytes:
    out, last = bytearray(), 0
    for number, kind, value in fields:
        out += bytes([(number - last) << 4 | kind]) + _value(kind, value)
        last = number
    return bytes(out) + b"\0"


def _value(kind: int, value: Any) -> bytes:
    if kind in (I32, I64):
        return _varint((value << 1) ^ (value >> 63))
    if kind == TEXT:
        return _varint(len(value)) + value
    if kind == STRUCT:
        return _struct(value)
    inner, items = value
    head = (
        bytes([len(items) << 4 | inner]) if len(items) < 15 else bytes([0xF0 | inner]) + _varint(len(items))
    )
    return head + b"".join(_value(inner, item) for item in items)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
