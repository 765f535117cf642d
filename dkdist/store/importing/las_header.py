"""What a LAS or LAZ file claims, compared with its size before a library allocates or reads what it claims."""

from __future__ import annotations

import struct
from typing import BinaryIO, NamedTuple

HEADER_BYTES = {(1, 0): 227, (1, 1): 227, (1, 2): 227, (1, 3): 235, (1, 4): 375, (1, 5): 393}
VLR_BYTES = 54  # of a variable-length record without its data
LASZIP_USER_ID = b"laszip encoded"
CHUNKED = (2, 3)  # compressors that write a table of chunks
VARIABLE_CHUNKS = 2**32 - 1
COMPRESSED_BIT = 0x80  # of the point format


class LasFormatError(ValueError):
    """The file is no LAS, or claims more than it can hold."""


class LasClaims(NamedTuple):
    """Numbers of a header that decide how much is read."""

    point_count: int
    point_bytes: int
    data_begin: int
    is_compressed: bool


def checked_claims(file: BinaryIO) -> LasClaims:
    """The claims of a file, which fit into its size; the file is then at its beginning again."""
    file_bytes = file.seek(0, 2)
    file.seek(0)
    header = file.read(max(HEADER_BYTES.values()))
    if header[:4] != b"LASF" or len(header) < min(HEADER_BYTES.values()):
        raise LasFormatError(
            f"it begins with {header[:4]!r}: expected LASF and a header of 227 bytes or more"
        )
    version = header[24], header[25]
    if len(header) < HEADER_BYTES.get(version, 0) or version not in HEADER_BYTES:
        raise LasFormatError(
            f"its version is {version[0]}.{version[1]}: supported are whole headers of 1.0 to 1.5"
        )
    header_bytes, begin, n_records = struct.unpack_from("<HII", header, 94)
    point_format, point_bytes, n_points = struct.unpack_from("<BHI", header, 104)
    if version >= (1, 4):
        (n_points,) = struct.unpack_from("<Q", header, 247)
    claims = LasClaims(n_points, point_bytes, begin, bool(point_format & COMPRESSED_BIT))
    if header_bytes + n_records * VLR_BYTES > begin or begin > file_bytes:
        raise LasFormatError(
            f"it claims {n_records} variable-length records before its points at byte {begin}, and has {file_bytes} "
            "bytes"
        )
    room = file_bytes - begin
    if claims.is_compressed:
        _check_chunks(file, claims, room)
    elif n_points * max(point_bytes, 1) > room:
        raise LasFormatError(
            f"it claims {n_points} points of {point_bytes} bytes, and has room for {room // max(point_bytes, 1)}: it "
            "is cut short or damaged"
        )
    file.seek(0)
    return claims


def _check_chunks(file: BinaryIO, claims: LasClaims, room: int) -> None:
    """Compare the points with the chunks: each has a point that is not compressed, and a stated number of points."""
    file.seek(0)
    records = file.read(claims.data_begin)
    where = records.find(LASZIP_USER_ID)
    data = where + VLR_BYTES - 2  # the user id stands 2 bytes after the begin of the record
    if where < 0 or data + 34 > len(records):
        raise LasFormatError("it claims compressed points, and has no record of how they are compressed")
    compressor, chunk_points, n_items = (
        struct.unpack_from("<H", records, data)[0],
        struct.unpack_from("<I", records, data + 12)[0],
        struct.unpack_from("<H", records, data + 32)[0],
    )
    if data + 34 + 6 * n_items > len(records):
        raise LasFormatError(f"it claims {n_items} kinds of compressed fields, more than it describes")
    item_bytes = sum(struct.unpack_from("<H", records, data + 36 + 6 * i)[0] for i in range(n_items))
    if item_bytes != claims.point_bytes:
        raise LasFormatError(
            f"its points have {claims.point_bytes} bytes, and its compressed fields {item_bytes}: it is damaged"
        )
    if not claims.point_count:
        return
    if compressor not in CHUNKED:
        raise LasFormatError(f"its compressor is {compressor}: supported are 2 and 3, which write chunks")
    n_chunks = _number_of_chunks(file, claims.data_begin, room)
    fits = n_chunks * claims.point_bytes <= room
    if chunk_points != VARIABLE_CHUNKS:
        fits = fits and (n_chunks - 1) * chunk_points < claims.point_count <= n_chunks * chunk_points
    if not fits:
        raise LasFormatError(
            f"it claims {claims.point_count} points in {n_chunks} chunks of {chunk_points}, which do not fit: it is "
            "cut short or damaged"
        )


def _number_of_chunks(file: BinaryIO, begin: int, room: int) -> int:
    """What the table of chunks states; it stands where the first 8 bytes of the points say, or else the last ones."""
    end = begin + room
    file.seek(begin)
    raw = file.read(8)
    if raw == b"\xff" * 8:
        file.seek(max(begin, end - 8))
        raw = file.read(8)
    (table,) = struct.unpack("<q", raw) if len(raw) == 8 else (-1,)
    if not begin + 8 <= table <= end - 8:
        raise LasFormatError("its table of chunks lies outside of it: it is cut short or damaged")
    file.seek(table)
    (n_chunks,) = struct.unpack("<4xI", file.read(8))
    return int(n_chunks)
