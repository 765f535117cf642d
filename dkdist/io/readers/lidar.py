"""Sets from LAS and LAZ files of LiDAR: a file is a set, read chunk by chunk.

Counts and sizes in the header are checked against the size of the file before laspy allocates or reads anything.
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
    """Error for a file that is not LAS, or whose header does not match its size."""


class LasClaims(NamedTuple):
    """Fields of a header that determine the amount of data."""

    point_count: int
    point_bytes: int
    data_begin: int
    is_compressed: bool


def checked_claims(file: BinaryIO) -> LasClaims:
    """Return header fields, checked against the size of the file; rewinds the file."""
    file_bytes = file.seek(0, 2)
    file.seek(0)
    header = file.read(max(HEADER_BYTES.values()))
    if header[:4] != b"LASF" or len(header) < min(HEADER_BYTES.values()):
        raise LasFormatError(
            f"it must begin with LASF and a header of at least 227 bytes; got {header[:4]!r}, {len(header)} bytes"
        )
    version = header[24], header[25]
    if len(header) < HEADER_BYTES.get(version, 0) or version not in HEADER_BYTES:
        raise LasFormatError(
            f"its version must be 1.0 to 1.5, with a complete header; got {version[0]}.{version[1]}"
        )
    header_bytes, begin, n_records = struct.unpack_from("<HII", header, 94)
    point_format, point_bytes, n_points = struct.unpack_from("<BHI", header, 104)
    if version >= (1, 4):
        (n_points,) = struct.unpack_from("<Q", header, 247)
    claims = LasClaims(n_points, point_bytes, begin, bool(point_format & COMPRESSED_BIT))
    if header_bytes + n_records * VLR_BYTES > begin or begin > file_bytes:
        raise LasFormatError(
            f"its header declares {n_records} variable-length records before its points at byte {begin}, but it has "
            f"{file_bytes} bytes"
        )
    n_bytes = file_bytes - begin
    if claims.is_compressed:
        _check_chunks(file, claims, n_bytes)
    elif n_points * max(point_bytes, 1) > n_bytes:
        raise LasFormatError(
            f"its header declares {n_points} points of {point_bytes} bytes, but only {n_bytes} bytes follow: it is cut "
            "short or damaged"
        )
    file.seek(0)
    return claims


def _check_chunks(file: BinaryIO, claims: LasClaims, n_bytes: int) -> None:
    """Check the declared points against the number of chunks; each chunk has one uncompressed point."""
    file.seek(0)
    records = file.read(claims.data_begin)
    user_id = records.find(LASZIP_USER_ID)
    data = user_id + VLR_BYTES - 2  # the user id begins at byte 2 of the record
    if user_id < 0 or data + 34 > len(records):
        raise LasFormatError(
            "its header declares compressed points, but the record of the compression is missing"
        )
    compressor, chunk_points, n_items = (
        struct.unpack_from("<H", records, data)[0],
        struct.unpack_from("<I", records, data + 12)[0],
        struct.unpack_from("<H", records, data + 32)[0],
    )
    if data + 34 + 6 * n_items > len(records):
        raise LasFormatError(f"its header declares {n_items} kinds of compressed fields, but describes fewer")
    item_bytes = sum(struct.unpack_from("<H", records, data + 36 + 6 * i)[0] for i in range(n_items))
    if item_bytes != claims.point_bytes:
        raise LasFormatError(
            f"its points have {claims.point_bytes} bytes, but its compressed fields have {item_bytes}: it is damaged"
        )
    if not claims.point_count:
        return
    if compressor not in CHUNKED:
        raise LasFormatError(f"its compressor must be 2 or 3, which write chunks; got {compressor}")
    n_chunks = _number_of_chunks(file, claims.data_begin, n_bytes)
    fits = n_chunks * claims.point_bytes <= n_bytes
    if chunk_points != VARIABLE_CHUNK_SIZE:
        fits = fits and (n_chunks - 1) * chunk_points < claims.point_count <= n_chunks * chunk_points
    if not fits:
        raise LasFormatError(
            f"its header declares {claims.point_count} points, but it has {n_chunks} chunks of {chunk_points} points: "
            "it is cut short or damaged"
        )


def _number_of_chunks(file: BinaryIO, begin: int, n_bytes: int) -> int:
    """Read the number of chunks; the first (or last) 8 bytes of the point data hold the position of the chunk table."""
    end = begin + n_bytes
    file.seek(begin)
    raw = file.read(8)
    if raw == b"\xff" * 8:
        file.seek(max(begin, end - 8))
        raw = file.read(8)
    (table,) = struct.unpack("<q", raw) if len(raw) == 8 else (-1,)
    if not begin + 8 <= table <= end - 8:
        raise LasFormatError("its table of chunks is outside the file: it is cut short or damaged")
    file.seek(table)
    (n_chunks,) = struct.unpack("<4xI", file.read(8))
    return int(n_chunks)


SUFFIXES = (".las", ".laz")
CHUNK_POINTS, CHUNK_BYTES = 2**18, 2**26  # limits of one read; tests/store/test_las_format.py
# The buffer doubles when full: a compressed file may declare more points than it has (tests/store/test_las_format.py)
INITIAL_BUFFER_POINTS = 2**22
SCALED = ("x", "y", "z")


@dataclass(frozen=True)
class LidarReader:
    """Reader of LAS and LAZ files, for `import_sets` or direct use. Each file is a set.

    The id is the name of the file without its suffix. Requires laspy and lazrs (``pip install 'dkdist[lidar]'``).

    Parameters
    ----------
    points : sequence of str, optional
        Dimensions: ``x``, ``y`` and ``z`` in map units (the default), ``intensity``, ``classification`` and other
        dimensions of the files.
    id_parts : int, default=1
        Number of trailing path components in the id: with 2, the id of ``plate1/A01.las`` is ``plate1/A01``.

    Raises
    ------
    ValueError
        When reading: for invalid or truncated files, or a missing dimension. `import_sets` raises `SourceError`
        instead.

    Notes
    -----
    The first pass of `import_sets` reads the header and the first 262,144 points, which determine the origin. Memory:
    as many points, and up to three float32 copies of all points of one file (also a float64 copy while `import_sets`
    compares them with the origin of the store).

    Examples
    --------
    >>> LidarReader(["x", "y", "z", "intensity"]).points
    ('x', 'y', 'z', 'intensity')
    """

    points: tuple[str, ...] = SCALED
    id_parts: int = 1

    def __post_init__(self) -> None:
        points = SCALED if self.points is None else self.points
        object.__setattr__(self, "points", as_names("points", points))
        require_id_parts(self.id_parts)

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, Array], Array]]:
        """Return a single tuple (sets, targets, ids) with one set and no targets."""
        with _opened(path, self.points) as file:
            points, origin = _all_points(file, self.points)
        offsets: I64 = np.array([0, len(points)], np.int64)
        require_finite(points, offsets)
        sets = SampleSets._trusted(points, offsets, None, None, origin)
        yield sets.labelled(names=self.points), {}, self._ids(path)

    def outline(self, path: Any) -> Outline:
        """Return number of points, id, form, origin and names."""
        with _opened(path, self.points) as file:
            n = int(file.header.point_count)
            first = next(_chunks(file, self.points), np.empty((0, len(self.points))))
        origin = infer_origin([first])
        form = {"points": ("float32", (len(self.points),)), "ids": ("str", ())}
        stored_origin: F64 = np.zeros(len(self.points)) if origin is None else origin
        sizes = np.array([n] if n else [], np.int64)
        return Outline(
            sizes,
            self._ids(path)[: len(sizes)],
            form,
            stored_origin,
            self.points,
            sample=rows_of_source(first),
        )

    def _ids(self, path: Any) -> Array:
        return np.array([file_id(path, self.id_parts)])


def _all_points(file: Any, names: tuple[str, ...]) -> tuple[F32, F64 | None]:
    """Return the points (n, d) of a file and their origin; the buffer grows with the points read."""
    n, origin, filled = int(file.header.point_count), None, 0
    points: F32 = np.empty((min(n, INITIAL_BUFFER_POINTS), len(names)), np.float32)
    for part in _chunks(file, names):
        origin = infer_origin([part]) if filled == 0 else origin
        stop = filled + len(part)
        if stop > len(points):
            grown = np.empty((min(n, 2 * stop), len(names)), np.float32)
            grown[:filled] = points[:filled]
            points = grown
        subtract_origin(part, origin, points[filled:stop])
        filled = stop
    return points[:filled], origin


def _chunks(file: Any, names: tuple[str, ...]) -> Iterator[F64]:
    """Iterate over chunks of the points of a file in float64; LasFormatError if points are missing."""
    n, n_done = int(file.header.point_count), 0
    step = max(1, min(CHUNK_POINTS, CHUNK_BYTES // file.header.point_format.size))
    while n_done < n:
        chunk = file.read_points(min(step, n - n_done))
        if not len(chunk):
            raise LasFormatError(f"its header declares {n} points, but it has {n_done}: it is cut short")
        n_done += len(chunk)
        with np.errstate(all="ignore"):  # points with a damaged scale raise an error later
            yield np.stack([np.asarray(chunk[name], np.float64) for name in names], axis=1)


@contextmanager
def _opened(path: Any, names: tuple[str, ...]) -> Iterator[Any]:
    """Open a file and check its header and dimensions; errors name the file."""
    if find_spec("laspy") is None:
        raise ImportError("reading LAS and LAZ files requires laspy: pip install 'dkdist[lidar]'")
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
            if error.errno is not None:  # an error of the operating system, not of the format
                raise
            raise _unreadable(name, error) from error
        except (MemoryError, _NoDimensionError):
            raise
        except Exception as error:  # laspy and lazrs raise many types
            raise _unreadable(name, error) from error


class _NoDimensionError(ValueError):
    """Error for a missing dimension."""


def _unreadable(name: str, error: Exception) -> ValueError:
    return ValueError(f"{name} cannot be read as LAS ({str(error) or type(error).__name__}). Write it again")


def _require_dimensions(name: str, file: Any, names: tuple[str, ...]) -> None:
    dimensions = file.header.point_format.dimension_names
    available = [*SCALED, *(dimension for dimension in dimensions if dimension not in ("X", "Y", "Z"))]
    missing = [dimension for dimension in names if dimension not in available]
    if missing:
        raise _NoDimensionError(f"{name} has no dimension {missing[0]!r}; it has {', '.join(available)}")
