"""Sets from HDF5 files of tile features, as CLAM, TRIDENT and others write them: a file is a set, a tile is a point."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from dkdist._numba.arrays import Array
from dkdist._utils.files import path_name
from dkdist.io._zarr.batches import Outline
from dkdist.io.readers.files import file_id, require_id_parts
from dkdist.io.readers.table_files import as_names
from dkdist.sets import SampleSets

SUFFIXES = (".h5", ".hdf5")


@dataclass(frozen=True)
class HDF5Reader:
    """Reader of HDF5 files that hold one set each, such as features of tiles, for `import_sets` or direct use.

    The id is the name of the file without its suffix.

    Parameters
    ----------
    points : name or sequence of names, default="features"
        Datasets (n, d), (1, n, d) or (n,), whose columns are joined: ``["features", "coords"]`` adds the positions of
        the tiles. Columns are called ``features_0``, ``features_1``, ...
    id_parts : int, default=1
        Number of trailing path components in the id.

    Raises
    ------
    ValueError
        When reading: for files that are not HDF5, missing datasets and datasets of other shapes. `import_sets` raises
        `SourceError` instead.

    Notes
    -----
    Requires h5py (``pip install 'dkdist[hdf5]'``). Memory: one file.

    Examples
    --------
    >>> HDF5Reader(["features", "coords"]).points
    ('features', 'coords')
    """

    points: tuple[str, ...] | str = "features"
    id_parts: int = 1

    def __post_init__(self) -> None:
        require_id_parts(self.id_parts)
        points = (self.points,) if isinstance(self.points, str) else self.points
        object.__setattr__(self, "points", as_names("points", points))
        if not self.points:
            raise ValueError("points must name at least one dataset; got none")

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, Array], Array]]:
        """Iterate over (sets, targets, ids): one set without targets."""
        with self._opened(path) as arrays:
            points = np.concatenate([array[:].reshape(n, d) for array, n, d in arrays], axis=1)
            sets = SampleSets(points, [0, len(points)]).labelled(names=self._names([d for _, _, d in arrays]))
            yield sets, {}, self._ids(path)

    def outline(self, path: Any) -> Outline:
        """Return the number of points, id, form and names, from the shapes of the datasets."""
        with self._opened(path) as arrays:
            widths = [d for _, _, d in arrays]
            sizes = np.array([arrays[0][1]], np.int64)
        form = {"points": ("float32", (sum(widths),)), "ids": ("str", ())}
        return Outline(sizes, self._ids(path), form, names=self._names(widths))

    def _ids(self, path: Any) -> Array:
        return np.array([file_id(path, self.id_parts)], np.str_)

    def _names(self, widths: list[int]) -> tuple[str, ...]:
        pairs = zip(self.points, widths, strict=True)
        return tuple(f"{name}_{j}" for name, d in pairs for j in range(d))

    @contextmanager
    def _opened(self, path: Any) -> Iterator[list[tuple[Any, int, int]]]:
        """Open the datasets of a file: (dataset, n, d) each."""
        if find_spec("h5py") is None:
            raise ImportError("reading HDF5 files requires h5py: pip install 'dkdist[hdf5]'")
        import h5py

        name = path_name(path)
        try:
            file = h5py.File(name, "r")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ValueError(f"{name} cannot be opened as HDF5 ({error})") from error
        with file:
            shapes = [self._shape(file, name, key) for key in self.points]
            yield [(file[key], *shape) for key, shape in zip(self.points, shapes, strict=True)]

    def _shape(self, file: Any, path: str, key: str) -> tuple[int, int]:
        if key not in file or not hasattr(file[key], "shape"):
            raise ValueError(f"{path} has no dataset {key!r}; it has {', '.join(file) or 'none'}. Set points")
        dataset = file[key]
        shape = dataset.shape[1:] if dataset.ndim == 3 and dataset.shape[0] == 1 else dataset.shape
        if len(shape) not in (1, 2) or dataset.dtype.kind not in "fiub" or 0 in shape:
            raise ValueError(
                f"dataset {key!r} of {path} must hold numbers of shape (n, d); got {dataset.dtype} of shape "
                f"{dataset.shape}"
            )
        n, d = shape if len(shape) == 2 else (shape[0], 1)
        first = file[self.points[0]]
        expected = first.shape[1] if first.ndim == 3 else first.shape[0]
        if n != expected:
            raise ValueError(
                f"datasets of {path} must have equal numbers of points; got {n} in {key!r} and {expected} in "
                f"{self.points[0]!r}"
            )
        return int(n), int(d)
