"""LAS files written byte by byte from the standard."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

POINT_FORMATS = {0: 20, 6: 30}  # bytes of a point
SCALE = 0.001


def las_bytes(
    points: np.ndarray[Any, Any], *, intensity: Any = 0, minor: int = 2, offset: Any = (0.0, 0.0, 0.0)
) -> bytes:
    """A file of version 1.2 (points of format 0) or 1.4 (format 6), in steps of 0.001 from the offset."""
    n, kind = len(points), 6 if minor >= 4 else 0
    header_bytes = 375 if minor >= 4 else 227
    header = bytearray(header_bytes)
    header[:4], header[24], header[25] = b"LASF", 1, minor
    struct.pack_into("<HHHII", header, 90, 1, 2026, header_bytes, header_bytes, 0)
    struct.pack_into("<BHI", header, 104, kind, POINT_FORMATS[kind], 0 if minor >= 4 else n)
    struct.pack_into("<6d", header, 131, *[SCALE] * 3, *offset)
    if minor >= 4:
        struct.pack_into("<Q", header, 247, n)
    fields = [("xyz", "<i4", 3), ("intensity", "<u2"), ("rest", "V", POINT_FORMATS[kind] - 14)]
    rows = np.zeros(n, fields)
    rows["xyz"] = np.round((points - np.asarray(offset)) / SCALE)
    rows["intensity"] = intensity
    return bytes(header) + rows.tobytes()
