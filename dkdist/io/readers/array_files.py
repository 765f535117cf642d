"""Sets from NumPy files: points with offsets, or one array (sets, points, dimensions); never a pickle.

What is what is decided from names and shapes alone, which stand in the headers; values are read only where they
are used, so that an outline costs no more than offsets and ids.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import I64, Array
from dkdist._utils.archives import memory_map, open_archive
from dkdist._utils.files import path_name
from dkdist._utils.validation import find_stacklevel
from dkdist.io._zarr.batches import Form, Outline, as_columns, form_of
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.origins import fits_float32

SUFFIXES = (".npz", ".npy")
BATCH_POINTS = 2**20  # bounds memory to 4 MiB per column; tests/store/test_file_readers.py


@dataclass(frozen=True)
class ArrayReader:
    """Reads ``.npz`` and ``.npy`` files of sets; a reader for `import_sets`, or used alone.

    Parameters
    ----------
    values : str, optional
        The array with the points: (T, d) or (T,), set after set, or (N, n, d). By default ``values``, or the only
        array of three dimensions.
    offsets : str, optional
        Set i is ``values[offsets[i]:offsets[i + 1]]``; by default ``offsets``.
    weight : str, optional
        An array with one weight a point.
    targets : sequence of str, optional
        Arrays with one entry a set; by default all that have the right length. ``ids`` are the ids of the sets.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> path = tempfile.mkdtemp() + "/a.npz"
    >>> np.savez(path, values=np.zeros((5, 2)), offsets=[0, 3, 5], y=[1, 2])
    >>> [(len(sets), targets) for sets, targets, ids in ArrayReader().read(path)]
    [(2, {'y': array([1, 2])})]
    """

    values: str | None = None
    offsets: str | None = None
    weight: str | None = None
    targets: Sequence[str] | None = None

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, Array], Array | None]]:
        """(sets, targets, ids), about a million points at a time. Raises `ValueError` for files that do not fit."""
        with _opened(Path(path_name(path))) as file:
            chosen = _choose(file, self)
            points, offsets = _points(file, chosen), _offsets(file, chosen)
            weights = None if chosen.weight is None else file.load(chosen.weight).reshape(-1)
            targets = {name: file.load(name) for name in chosen.targets}
            ids = file.load("ids") if chosen.ids else None
            start = 0
            while start < len(offsets) - 1:
                limit = offsets[start] + BATCH_POINTS
                stop = max(start + 1, int(np.searchsorted(offsets, limit, side="right")) - 1)
                rows, here = slice(offsets[start], offsets[stop]), slice(start, stop)
                try:
                    sets = SampleSets(
                        points[rows],
                        offsets[start : stop + 1] - offsets[start],
                        None if weights is None else weights[rows],
                    )
                except SampleSetError as error:
                    raise SampleSetError(
                        f"sets {start} to {stop - 1} of {path}, counted from 0: {error}"
                    ) from error
                yield sets, {n: a[here] for n, a in targets.items()}, None if ids is None else ids[here]
                start = stop

    def outline(self, path: Any) -> Outline:
        """Sizes, ids and form; reads headers, offsets and ids."""
        with _opened(Path(path_name(path))) as file:
            chosen = _choose(file, self)
            offsets = _offsets(file, chosen)
            ids = file.load("ids") if chosen.ids else None
            form = _form(file, chosen)
        (_, (d,)), dtype = form["points"], file.headers[chosen.values][1]
        sample = np.empty((0, d)) if fits_float32([np.empty((0, d), dtype)], None) else None
        return Outline(np.diff(offsets), ids, form, sample=sample)


class _File(NamedTuple):
    """The arrays of a file: dtypes and shapes by name, and a way to load one."""

    path: Path
    headers: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    load: Callable[[str], Array]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.headers[name][0]

    def require(self, name: str, option: str) -> str:
        if name not in self.headers:
            raise ValueError(
                f"{self.path} has no array {name!r}; it has {', '.join(self.headers)}. Name one with {option}"
            )
        return name


class _Choice(NamedTuple):
    """Which arrays of a file mean what; ``offsets`` None where points are (sets, points, dimensions)."""

    values: str
    offsets: str | None
    weight: str | None
    targets: tuple[str, ...]
    ids: bool


@contextmanager
def _opened(path: Path) -> Iterator[_File]:
    """The arrays of a file; that of an .npy file is called 'values' and stays on disk."""
    if path.suffix == ".npy":
        with _decoding(path):
            values = memory_map(path)
        yield _File(path, {"values": (values.shape, values.dtype)}, {"values": values}.__getitem__)
        return
    with ExitStack() as stack:
        with _decoding(path):
            archive = stack.enter_context(open_archive(path, compressed=True))
            result = {name: archive.header(name) for name in archive.names}
        headers = {name: (header.shape, header.dtype) for name, header in result.items()}

        def load(name: str) -> Array:
            with _decoding(path):
                return archive.read(name)

        yield _File(path, headers, load)


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be read ({error}): expected plain arrays of numbers or text, whole and "
            "without Python objects"
        ) from error


def _choose(file: _File, names: ArrayReader) -> _Choice:
    cubes = [name for name, (shape, _) in file.headers.items() if len(shape) == 3]
    usual = cubes[0] if "values" not in file.headers and len(cubes) == 1 else "values"
    values, offsets = file.require(names.values or usual, "values"), None
    shape = file.shape(values)
    if len(shape) not in (1, 2, 3):
        raise ValueError(
            f"array {values!r} of {file.path} has shape {shape}: expected (points, dimensions) with offsets, or "
            "(sets, points, dimensions)"
        )
    if len(shape) != 3:
        offsets = file.require(names.offsets or "offsets", "offsets")
    elif names.offsets is not None:
        raise ValueError(f"offsets have no meaning for points of shape {shape} (sets, points, dimensions)")
    n_sets = shape[0] if offsets is None else max(int(np.prod(file.shape(offsets))) - 1, 0)
    n_points = shape[0] * shape[1] if offsets is None else shape[0]
    if names.weight is not None:
        result = file.shape(file.require(names.weight, "weight"))
        if np.prod(result) != n_points:
            raise ValueError(
                f"weight {names.weight!r} has shape {result}: expected one weight for each of {n_points} points"
            )
    taken = {values, offsets, names.weight, "ids"}
    others = {name: shape for name, (shape, _) in file.headers.items() if name not in taken}
    if names.targets is not None:
        targets = [file.require(name, "targets") for name in names.targets]
    else:
        targets = [n for n, shape in others.items() if len(shape) in (1, 2) and shape[0] == n_sets]
        left = sorted(others.keys() - set(targets))
        if left:
            warnings.warn(
                f"left out (no entry for each of the {n_sets} sets): {', '.join(left)}",
                stacklevel=find_stacklevel(),
            )
    return _Choice(values, offsets, names.weight, tuple(targets), "ids" in file.headers)


def _offsets(file: _File, chosen: _Choice) -> I64:
    n, *rest = file.shape(chosen.values)
    if chosen.offsets is None:
        return np.arange(n + 1, dtype=np.int64) * rest[0]
    offsets = file.load(chosen.offsets)
    ordered = (
        offsets.ndim == 1 and offsets.dtype.kind in "iu" and (np.diff(offsets.astype(np.int64)) > 0).all()
    )
    if not ordered or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != n:
        raise ValueError(
            f"offsets must be whole numbers that start at 0, increase and end at the {n} points "
            f"(set i is points[offsets[i]:offsets[i + 1]]); found {offsets!r}"
        )
    return offsets.astype(np.int64)


def _points(file: _File, chosen: _Choice) -> Array:
    values = file.load(chosen.values)
    return values.reshape(-1, values.shape[-1]) if values.ndim == 3 else values.reshape(len(values), -1)


def _form(file: _File, chosen: _Choice) -> Form:
    """The form that batches have, from empty arrays of the same dtypes and trailing shapes."""

    def empty(name: str) -> Array:
        shape, dtype = file.headers[name]
        return np.empty((0, *shape[1:]), dtype)

    shape, dtype = file.headers[chosen.values]
    d = 1 if len(shape) == 1 else shape[-1]
    weights = None if chosen.weight is None else np.empty(0, np.float32)
    sets = SampleSets(np.empty((0, d), dtype), [0], weights)
    columns = as_columns({n: empty(n) for n in chosen.targets}, empty("ids") if chosen.ids else None, 0)
    return form_of(sets, columns)
