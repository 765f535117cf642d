"""Sets from LAS and LAZ files of LiDAR: a file is a set, and its points come chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from dkdist.loops.array_types import F32, F64, I64, Array
from dkdist.plain.files import opened_file, path_name
from dkdist.plain.libraries.rust_panics import panics_as_errors
from dkdist.sets import SampleSets
from dkdist.sets.origins import natural_origin, relative, rows_of_source
from dkdist.sets.point_checks import require_finite
from dkdist.store.format.batches import Outline
from dkdist.store.importing.file_ids import file_id, require_id_parts
from dkdist.store.importing.las_header import LasFormatError, checked_claims
from dkdist.store.importing.table_files import as_names

SUFFIXES = (".las", ".laz")
CHUNK_POINTS, CHUNK_BYTES = 2**18, 2**26
FIRST_ROOM_POINTS = 2**22  # more only as they come: a compressed file may claim what it does not have
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
        origin = natural_origin([first])
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
    kept: F32 = np.empty((min(n, FIRST_ROOM_POINTS), len(names)), np.float32)
    for part in _chunks(file, names):
        origin = natural_origin([part]) if filled == 0 else origin
        stop = filled + len(part)
        if stop > len(kept):
            grown = np.empty((min(n, 2 * stop), len(names)), np.float32)
            grown[:filled] = kept[:filled]
            kept = grown
        relative(part, origin, kept[filled:stop])
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
    with opened_file(path) as handle:
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
