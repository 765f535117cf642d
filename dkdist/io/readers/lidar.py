"""Sets from LAS and LAZ files of LiDAR: a file is a set, and its points come chunk by chunk.

What a LAS or LAZ file claims, compared with its size before a library allocates or reads what it claims.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._utils.files import open_file, path_name
from dkdist._utils.rust_panics import panics_as_errors
from dkdist.io._zarr.batches import Outline
from dkdist.io.readers.files import file_id, require_id_parts
from dkdist.io.readers.table_files import as_names
from dkdist.sets import SampleSets
from dkdist.sets.origins import infer_origin, rows_of_source, subtract_origin
from dkdist.sets.point_checks import require_finite

HEADER_BYTES = {(1, 0): 227, (1, 1): 227, (1, 2): 227, (1, 3): 235, (1, 4): 375, (1, 5): 393}
VLR_BYTES = 54  # header of a variable-length record; tests/store/test_las_format.py
LASZIP_USER_ID = b"laszip encoded"
CHUNKED = (2, 3)  # compressors that write a table of chunks
VARIABLE_CHUNK_SIZE = 2**32 - 1  # marks chunks of variable size; tests/store/test_las_format.py
COMPRESSED_BIT = 0x80  # https://github.com/LAStools/LAStools/blob/master/LASzip/design/specification.rst


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
    if chunk_points != VARIABLE_CHUNK_SIZE:
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


SUFFIXES = (".las", ".laz")
CHUNK_POINTS, CHUNK_BYTES = 2**18, 2**26  # bound memory of a read; tests/store/test_las_format.py
# The buffer then doubles: a compressed file may declare more points than it has (tests/store/test_las_format.py)
INITIAL_BUFFER_POINTS = 2**22
SCALED = ("x", "y", "z")


@dataclass(frozen=True)
class LidarReader:
    """Reads LAS and LAZ files, each of them a set; a reader for `import_sets`, or used alone.

    The id is the name of the file without its suffix. Needs laspy and lazrs (``pip install 'dkdist[lidar]'``).

    Parameters
    ----------
    points : sequence of str, optional
        The dimensions: ``x``, ``y`` and ``z`` in the units of the map (the default), ``intensity``,
        ``classification`` and whatever else the files have.
    id_parts : int, default=1
        Take this many last parts of the path as the id: with 2, that of ``plate1/A01.las`` is ``plate1/A01``.

    Raises
    ------
    ValueError
        When reading: for files that are no LAS or are cut short, or lack a dimension. `import_sets` makes a
        `SourceError` of it.

    Notes
    -----
    An outline reads the header and the first quarter of a million points, which say what coordinates are counted from.
    Memory: a chunk of as many points, and all points of one file in float32, up to three times (in float64 too, while
    `import_sets` compares them with the origin of the store).

    Examples
    --------
    >>> LidarReader(["x", "y", "z", "intensity"]).points
    ('x', 'y', 'z', 'intensity')
    """

    points: tuple[str, ...] = SCALED
    id_parts: int = 1

    def __post_init__(self) -> None:
        given = SCALED if self.points is None else self.points
        object.__setattr__(self, "points", as_names("points", given))
        require_id_parts(self.id_parts)

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, Array], Array]]:
        """(sets, targets, ids): one set, no targets."""
        with _opened(path, self.points) as file:
            kept, origin = _all_points(file, self.points)
        edges: I64 = np.array([0, len(kept)], np.int64)
        require_finite(kept, edges)
        sets = SampleSets._trusted(kept, edges, None, None, origin)
        yield sets.labelled(names=self.points), {}, self._ids(path)

    def outline(self, path: Any) -> Outline:
        """Number of points, id, form, origin and names."""
        with _opened(path, self.points) as file:
            n = int(file.header.point_count)
            first = next(_chunks(file, self.points), np.empty((0, len(self.points))))
        origin = infer_origin([first])
        form = {"points": ("float32", (len(self.points),)), "ids": ("str", ())}
        known: F64 = np.zeros(len(self.points)) if origin is None else origin
        sizes = np.array([n] if n else [], np.int64)
        return Outline(
            sizes, self._ids(path)[: len(sizes)], form, known, self.points, sample=rows_of_source(first)
        )

    def _ids(self, path: Any) -> Array:
        return np.array([file_id(path, self.id_parts)])


def _all_points(file: Any, names: tuple[str, ...]) -> tuple[F32, F64 | None]:
    """(n, d) points of a file, and what they are counted from; room for them grows with what was read."""
    n, origin, filled = int(file.header.point_count), None, 0
    kept: F32 = np.empty((min(n, INITIAL_BUFFER_POINTS), len(names)), np.float32)
    for part in _chunks(file, names):
        origin = infer_origin([part]) if filled == 0 else origin
        stop = filled + len(part)
        if stop > len(kept):
            grown = np.empty((min(n, 2 * stop), len(names)), np.float32)
            grown[:filled] = kept[:filled]
            kept = grown
        subtract_origin(part, origin, kept[filled:stop])
        filled = stop
    return kept[:filled], origin


def _chunks(file: Any, names: tuple[str, ...]) -> Iterator[F64]:
    """The points of a file in float64, some at a time; LasFormatError if there are fewer than it claims."""
    n, done = int(file.header.point_count), 0
    step = max(1, min(CHUNK_POINTS, CHUNK_BYTES // file.header.point_format.size))
    while done < n:
        chunk = file.read_points(min(step, n - done))
        if not len(chunk):
            raise LasFormatError(f"it has {done} of the {n} points that it claims: it is cut short")
        done += len(chunk)
        with np.errstate(all="ignore"):  # a damaged scale is refused with its points
            yield np.stack([np.asarray(chunk[name], np.float64) for name in names], axis=1)


@contextmanager
def _opened(path: Any, names: tuple[str, ...]) -> Iterator[Any]:
    """A file whose header was read, with these dimensions; whatever its reading raises names the file."""
    if find_spec("laspy") is None:
        raise ImportError("reading LAS and LAZ files needs laspy: pip install 'dkdist[lidar]'")
    import laspy

    name = path_name(path)
    with open_file(path) as handle:
        try:
            with panics_as_errors():
                checked_claims(handle)
                file = laspy.open(handle, closefd=False, laz_backend=laspy.LazBackend.Lazrs, read_evlrs=False)
                _require_dimensions(name, file, names)
                yield file
        except OSError as error:
            if error.errno is not None:  # of the system, not of the format
                raise
            raise _unreadable(name, error) from error
        except (MemoryError, _NoDimensionError):
            raise
        except Exception as error:  # laspy and lazrs raise a dozen kinds
            raise _unreadable(name, error) from error


class _NoDimensionError(ValueError):
    """The file has no such dimension."""


def _unreadable(name: str, error: Exception) -> ValueError:
    return ValueError(f"{name} cannot be read as LAS ({str(error) or type(error).__name__}). Write it again")


def _require_dimensions(name: str, file: Any, names: tuple[str, ...]) -> None:
    dimensions = file.header.point_format.dimension_names
    has = [*SCALED, *(one for one in dimensions if one not in ("X", "Y", "Z"))]
    lacking = [one for one in names if one not in has]
    if lacking:
        raise _NoDimensionError(f"{name} has no dimension {lacking[0]!r}; it has {', '.join(has)}")
