"""Sets from NumPy files: points with offsets, or one array (sets, points, dimensions); never a pickle.

The roles of arrays follow from the names and shapes in their headers. The first pass of an import
reads offsets and ids only.
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
BATCH_POINTS = 2**20  # points per batch, 4 MiB per column; tests/store/test_file_readers.py


@dataclass(frozen=True)
class ArrayReader:
    """Reader of ``.npz`` and ``.npy`` files of sets, for `import_sets` or direct use.

    Parameters
    ----------
    values : str, optional
        Name of the array of points: (T, d) or (T,), set after set, or (N, n, d). Default: ``values``, or the only
        3-D array.
    offsets : str, optional
        Name of the offsets: set i is ``values[offsets[i]:offsets[i + 1]]``. Default: ``offsets``.
    weight : str, optional
        Name of an array with one weight per point.
    targets : sequence of str, optional
        Names of arrays with one entry per set. Default: all arrays of this length. The array ``ids`` holds the ids.

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
        """Iterate over (sets, targets, ids), about a million points each; ValueError for unsuitable files."""
        with _opened(Path(path_name(path))) as file:
            roles = _assign_roles(file, self)
            points, offsets = _points(file, roles), _offsets(file, roles)
            weights = None if roles.weight is None else file.load(roles.weight).reshape(-1)
            targets = {name: file.load(name) for name in roles.targets}
            ids = file.load("ids") if roles.ids else None
            start = 0
            while start < len(offsets) - 1:
                limit = offsets[start] + BATCH_POINTS
                stop = max(start + 1, int(np.searchsorted(offsets, limit, side="right")) - 1)
                rows, entries = slice(offsets[start], offsets[stop]), slice(start, stop)
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
                yield sets, {n: a[entries] for n, a in targets.items()}, None if ids is None else ids[entries]
                start = stop

    def outline(self, path: Any) -> Outline:
        """Return sizes, ids and form, from headers, offsets and ids."""
        with _opened(Path(path_name(path))) as file:
            roles = _assign_roles(file, self)
            offsets = _offsets(file, roles)
            ids = file.load("ids") if roles.ids else None
            form = _form(file, roles)
        (_, (d,)), dtype = form["points"], file.headers[roles.values][1]
        sample = np.empty((0, d)) if fits_float32([np.empty((0, d), dtype)], None) else None
        return Outline(np.diff(offsets), ids, form, sample=sample)


class _File(NamedTuple):
    """Arrays of a file: (shape, dtype) by name, and a function that loads one."""

    path: Path
    headers: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    load: Callable[[str], Array]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.headers[name][0]

    def require(self, name: str, option: str) -> str:
        if name not in self.headers:
            raise ValueError(
                f"{self.path} has no array {name!r}; it has {', '.join(self.headers)}. Set {option}"
            )
        return name


class _Roles(NamedTuple):
    """Roles of the arrays of a file; ``offsets`` is None for points (sets, points, dimensions)."""

    values: str
    offsets: str | None
    weight: str | None
    targets: tuple[str, ...]
    ids: bool


@contextmanager
def _opened(path: Path) -> Iterator[_File]:
    """Open the arrays of a file; the array of an .npy file is called 'values' and is memory-mapped."""
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
            f"{path} cannot be read ({error}). It must hold complete arrays of numbers or text, without Python objects"
        ) from error


def _assign_roles(file: _File, names: ArrayReader) -> _Roles:
    cubes = [name for name, (shape, _) in file.headers.items() if len(shape) == 3]
    default = cubes[0] if "values" not in file.headers and len(cubes) == 1 else "values"
    values, offsets = file.require(names.values or default, "values"), None
    shape = file.shape(values)
    if len(shape) not in (1, 2, 3):
        raise ValueError(
            f"array {values!r} of {file.path} must have shape (points, dimensions), with offsets, or (sets, points, "
            f"dimensions); got {shape}"
        )
    if len(shape) != 3:
        offsets = file.require(names.offsets or "offsets", "offsets")
    elif names.offsets is not None:
        raise ValueError(f"offsets must be None for points of shape {shape} (sets, points, dimensions)")
    n_sets = shape[0] if offsets is None else max(int(np.prod(file.shape(offsets))) - 1, 0)
    n_points = shape[0] * shape[1] if offsets is None else shape[0]
    if names.weight is not None:
        weight_shape = file.shape(file.require(names.weight, "weight"))
        if np.prod(weight_shape) != n_points:
            raise ValueError(
                f"weight {names.weight!r} must have one weight for each of {n_points} points; got shape {weight_shape}"
            )
    used_names = {values, offsets, names.weight, "ids"}
    other_shapes = {name: shape for name, (shape, _) in file.headers.items() if name not in used_names}
    if names.targets is not None:
        targets = [file.require(name, "targets") for name in names.targets]
    else:
        targets = [n for n, shape in other_shapes.items() if len(shape) in (1, 2) and shape[0] == n_sets]
        ignored_names = sorted(other_shapes.keys() - set(targets))
        if ignored_names:
            warnings.warn(
                f"ignored arrays without one entry for each of the {n_sets} sets: {', '.join(ignored_names)}",
                stacklevel=find_stacklevel(),
            )
    return _Roles(values, offsets, names.weight, tuple(targets), "ids" in file.headers)


def _offsets(file: _File, roles: _Roles) -> I64:
    n, *trailing = file.shape(roles.values)
    if roles.offsets is None:
        return np.arange(n + 1, dtype=np.int64) * trailing[0]
    offsets = file.load(roles.offsets)
    is_increasing = (
        offsets.ndim == 1 and offsets.dtype.kind in "iu" and (np.diff(offsets.astype(np.int64)) > 0).all()
    )
    if not is_increasing or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != n:
        raise ValueError(
            f"offsets must be increasing integers from 0 to {n}, the number of points "
            f"(set i is points[offsets[i]:offsets[i + 1]]); got {offsets!r}"
        )
    return offsets.astype(np.int64)


def _points(file: _File, roles: _Roles) -> Array:
    values = file.load(roles.values)
    return values.reshape(-1, values.shape[-1]) if values.ndim == 3 else values.reshape(len(values), -1)


def _form(file: _File, roles: _Roles) -> Form:
    """Return the form of the batches, from empty arrays of the same dtypes and trailing shapes."""

    def empty(name: str) -> Array:
        shape, dtype = file.headers[name]
        return np.empty((0, *shape[1:]), dtype)

    shape, dtype = file.headers[roles.values]
    d = 1 if len(shape) == 1 else shape[-1]
    weights = None if roles.weight is None else np.empty(0, np.float32)
    sets = SampleSets(np.empty((0, d), dtype), [0], weights)
    columns = as_columns({n: empty(n) for n in roles.targets}, empty("ids") if roles.ids else None, 0)
    return form_of(sets, columns)
