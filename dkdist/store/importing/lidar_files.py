"""Sets from LAS and LAZ files of LiDAR: a file is a set, and its points come chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dkdist.loops.array_types import F32, F64, I64, Array
from dkdist.plain.files import path_name
from dkdist.sets import SampleSets
from dkdist.sets.origins import natural_origin, relative
from dkdist.sets.point_checks import require_finite
from dkdist.store.format.batches import Outline
from dkdist.store.importing.table_files import as_names

SUFFIXES = (".las", ".laz")
CHUNK_POINTS = 2**18
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

    Raises
    ------
    ValueError
        When reading: for files that are no LAS or are cut short, or lack a dimension. `import_sets` makes a
        `SourceError` of it.

    Notes
    -----
    An outline reads the header and the first quarter of a million points, which say what coordinates are counted from.
    Memory: a chunk of as many points, and all points of one file in float32 (in float64 too, while `import_sets`
    compares them with the origin of the store).

    Examples
    --------
    >>> LidarReader(["x", "y", "z", "intensity"]).points
    ('x', 'y', 'z', 'intensity')
    """

    points: tuple[str, ...] = SCALED

    def __post_init__(self) -> None:
        given = SCALED if self.points is None else self.points
        object.__setattr__(self, "points", as_names("points", given))

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, Array], Array]]:
        """(sets, targets, ids): one set, no targets."""
        with _opened(path, self.points) as file:
            n = int(file.header.point_count)
            kept: F32 = np.empty((n, len(self.points)), np.float32)
            origin, filled = None, 0
            for chunk in file.chunk_iterator(CHUNK_POINTS):
                part = _columns(chunk, self.points)
                origin = natural_origin([part]) if filled == 0 else origin
                relative(part, origin, kept[filled : filled + len(part)])
                filled += len(part)
        if filled < n:
            raise ValueError(
                f"{path_name(path)} has {filled} of the {n} points that it claims: it is cut short"
            )
        edges: I64 = np.array([0, n], np.int64)
        require_finite(kept, edges)
        yield SampleSets._trusted(kept, edges, None, None, origin).labelled(names=self.points), {}, _ids(path)

    def outline(self, path: Any) -> Outline:
        """Number of points, id, form, origin and names."""
        with _opened(path, self.points) as file:
            n = int(file.header.point_count)
            origin = natural_origin([_columns(file.read_points(min(n, CHUNK_POINTS)), self.points)])
        form = {"points": ("float32", (len(self.points),)), "ids": ("str", ())}
        known: F64 = np.zeros(len(self.points)) if origin is None else origin
        sizes = np.array([n] if n else [], np.int64)
        return Outline(sizes, _ids(path)[: len(sizes)], form, known, names=self.points)


def _columns(chunk: Any, names: tuple[str, ...]) -> F64:
    return np.stack([np.asarray(chunk[name], np.float64) for name in names], axis=1)


def _opened(path: Any, names: tuple[str, ...]) -> Any:
    """A file whose header was read, with these dimensions."""
    if find_spec("laspy") is None:
        raise ImportError("reading LAS and LAZ files needs laspy: pip install 'dkdist[lidar]'")
    import laspy

    name = path_name(path)
    try:
        file = laspy.open(name)
    except laspy.errors.LaspyException as error:
        raise ValueError(f"{name} cannot be read as LAS ({error})") from error
    has = [*SCALED, *(one for one in file.header.point_format.dimension_names if one not in ("X", "Y", "Z"))]
    lacking = [one for one in names if one not in has]
    if lacking:
        file.close()
        raise ValueError(f"{name} has no dimension {lacking[0]!r}; it has {', '.join(has)}")
    return file


def _ids(path: Any) -> Array:
    return np.array([Path(path_name(path)).stem])
