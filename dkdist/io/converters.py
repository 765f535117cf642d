"""Converters of the collections of other libraries to arrays of points, for `as_sets`.

Libraries are recognised by the module of the type, so none is imported before it is in use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dkdist._numba.arrays import I64, Array
from dkdist._runtime.lazy_rows import (
    is_partitioned,
    join_partitions,
    lazy_array,
    map_partitions,
    partitions_of,
    stack_columns,
)
from dkdist.io._zarr.location.address import as_location
from dkdist.io.errors import StoreFormatError
from dkdist.io.set_store import open_sets
from dkdist.sets import SampleSetError
from dkdist.sets.indexing import load_collection
from dkdist.sets.point_checks import as_parts, offsets_of, require_increasing


@dataclass(frozen=True)
class Arrays:
    """Points of sets, with what is known of them: ``points`` is an array, or a list of arrays or strings."""

    points: Any
    offsets: Any = None
    lengths: Any = None
    weights: Any = None
    ids: Any = None
    names: Any = None
    targets: Any = None


def library_of(data: Any) -> str:
    """Return the top-level module of the type."""
    return type(data).__module__.partition(".")[0]


def convert(data: Any) -> Arrays:
    """Return the arrays of a collection; of a library without a converter unchanged."""
    if isinstance(data, (str, os.PathLike)):
        return _from_path(data)
    if isinstance(data, np.ndarray) and data.dtype == object and data.ndim == 1:
        return Arrays(list(data))
    if isinstance(data, (list, tuple)) and len(data) and library_of(data[0]) == "torch":
        return Arrays([_tensor_array(tensor) for tensor in data])
    if is_partitioned(data):
        return _from_partitions(partitions_of(data))
    converter = CONVERTERS.get(library_of(data))
    return Arrays(data) if converter is None else converter(data)


# collections of Dask


def _from_partitions(partitions: Sequence[Any]) -> Arrays:
    """Return sets of delayed lists of arrays; computes all of them once for their shapes."""
    described = map_partitions(_describe, partitions)
    sizes: list[Any] = [part.sizes for part in described]
    dims = {d for part in described for d in part.dims}
    if not dims:
        raise SampleSetError("sets must contain at least one set; got empty partitions.")
    if len(dims) > 1:
        raise SampleSetError(f"all sets must have the same number of dimensions; got {sorted(dims)}.")
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
    require_increasing(offsets)
    dtype = np.result_type(*(part.dtype for part in described if part.dtype is not None))
    points = join_partitions(_join, partitions, [int(np.sum(n)) for n in sizes], dims.pop(), dtype)
    return Arrays(points, offsets)


@dataclass(frozen=True)
class _PartitionShape:
    sizes: I64
    dims: frozenset[int] = frozenset()
    dtype: Any = None


def _describe(partition: Any) -> _PartitionShape:
    sets = list(partition)
    if not sets:
        return _PartitionShape(np.empty(0, np.int64))
    parts = as_parts(sets)
    sizes = np.array([len(part) for part in parts], np.int64)
    dtype = np.result_type(*{part.dtype for part in parts})
    return _PartitionShape(sizes, frozenset(part.shape[1] for part in parts), dtype)


def _join(partition: Any) -> Array:
    parts = as_parts(list(partition))
    offsets_of(parts)
    return np.concatenate(parts)


# arrays of other libraries


def _from_torch(tensor: Any) -> Arrays:
    if tensor.is_nested:
        return Arrays([_tensor_array(part) for part in tensor.unbind()])
    return Arrays(_tensor_array(tensor))


def _tensor_array(tensor: Any) -> Array:
    array: Array = tensor.detach().cpu().numpy()
    return array


def _from_pandas(series: Any) -> Arrays:
    if getattr(series, "ndim", 0) != 1:
        return Arrays(series)
    if str(series.dtype).startswith(("list", "large_list", "fixed_size_list")):  # pd.ArrowDtype
        return _from_arrow(series.array.__arrow_array__())
    return Arrays(series.tolist())


def _from_polars(series: Any) -> Arrays:
    return _from_arrow(series.to_arrow() if type(series).__name__ == "Series" else series)


def _from_awkward(array: Any) -> Arrays:
    """Return sets of an array N * var * d * number, N * var * number, or N * var * {names: numbers}."""
    import awkward as ak

    fields = ak.fields(array)
    first = array[fields[0]] if fields else array
    if first.ndim < 2:
        raise SampleSetError(f"awkward arrays of sets must have the type N * var * ...; got {array.type}.")
    sizes = ak.to_numpy(ak.num(first, axis=1))
    parts = [array[name] for name in fields] if fields else [array]
    columns = [ak.to_numpy(ak.flatten(part, axis=1)) for part in parts]
    if any(np.ma.is_masked(column) for column in columns):
        raise SampleSetError("points must have no missing values; got some. Drop or replace them.")
    points = np.stack(columns, axis=1) if fields else np.asarray(columns[0])
    return Arrays(points, _offsets(sizes), names=fields or None)


def _offsets(sizes: Any) -> I64:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _from_arrow(column: Any) -> Arrays:
    """Return sets of a list column: lists of numbers (d = 1), of lists of d numbers, or of structs of numbers."""
    import pyarrow as pa

    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        raise SampleSetError(
            f"data must be a list column; got {type(column).__name__}. Pass one column, such as table['cells'], or "
            "use SampleSets.from_frame for one row per point."
        )
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Arrays(column.to_pylist())
    if not _is_list(kind):
        raise SampleSetError(f"data must be a list column; got Arrow values of type {kind}.")
    if column.null_count:
        i = column.is_null().to_pylist().index(True)
        raise SampleSetError(f"set {i} is missing. Drop its row and its target.")
    sizes = column.value_lengths().to_numpy(zero_copy_only=False)
    points, names = _arrow_points(column.flatten())
    return Arrays(points, _offsets(sizes), names=names)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _arrow_points(values: Any) -> tuple[Array, list[str] | None]:
    """Return points (T, d) of the values of a list column, and names of the dimensions of structs."""
    import pyarrow as pa

    if values.null_count:
        raise SampleSetError("points must have no missing values; got some. Drop or replace them.")
    if pa.types.is_struct(values.type):
        names = [values.type.field(i).name for i in range(values.type.num_fields)]
        return np.stack([_arrow_points(column)[0] for column in values.flatten()], axis=1), names
    if _is_list(values.type):
        sizes = np.unique(values.value_lengths().to_numpy(zero_copy_only=False))
        if len(sizes) > 1:
            raise SampleSetError(f"points must have the same number of dimensions; got {sizes.tolist()}.")
        return _arrow_points(values.flatten())[0].reshape(len(values), -1), None
    return values.to_numpy(zero_copy_only=False), None


# groups of arrays: Zarr and xarray


@dataclass(frozen=True)
class Variable:
    """An array of a group, with its attributes and names of dimensions, if it has any."""

    data: Any
    dims: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)


def _from_zarr(data: Any) -> Arrays:
    import zarr

    if isinstance(data, zarr.Array):
        return Arrays(data)
    if "dkdist" in data.attrs:
        return Arrays(open_sets(data.store_path.store if not data.path else _local_path(data)))
    return _from_variables(
        {
            name: Variable(a, tuple(getattr(a.metadata, "dimension_names", None) or ()), dict(a.attrs))
            for name, a in sorted(data.arrays())  # a folder has no order
        }
    )


def _from_path(path: Any) -> Arrays:
    """Return the sets of a store, or of other Zarr arrays, at a path or URL."""
    import zarr

    try:
        return Arrays(open_sets(path))
    except StoreFormatError as error:
        try:
            node = zarr.open(as_location(path).open(read_only=True), mode="r")
        except Exception:
            raise error from None
        if isinstance(node, zarr.Group) and "dkdist" in node.attrs:
            raise
        return _from_zarr(node)


def _local_path(group: Any) -> Any:
    root = getattr(group.store, "root", None)
    if root is None:
        raise SampleSetError("a store inside a group must be on a local disk. Use dk.open_sets(URL).")
    return f"{root}/{group.path}"


def _from_xarray(data: Any) -> Arrays:
    if hasattr(data, "data_vars"):
        if "dkdist" in data.attrs:  # points may be relative to an origin, or codes
            raise SampleSetError(
                "data must not be a store of dkdist opened by xarray. Use dk.open_sets(path)."
            )
        return _from_variables(
            {
                str(name): Variable(_xarray_data(v), tuple(map(str, v.dims)), v.attrs)
                for name, v in data.variables.items()
            }
        )
    ids, names = (
        data.coords[dim].to_numpy() if dim in data.coords else None for dim in (data.dims[0], data.dims[-1])
    )
    return Arrays(
        _xarray_data(data.variable),
        ids=ids if ids is not None and ids.dtype.kind in "iuUT" and data.ndim == 3 else None,
        names=[str(n) for n in names]
        if names is not None and names.dtype.kind in "UTO" and data.ndim == 3
        else None,
    )


def _xarray_data(variable: Any) -> Any:
    """Return the Dask array of a variable, or its NumPy array; arrays of files become lazy."""
    in_memory = isinstance(variable._data, np.ndarray) or variable.chunks is not None or variable.ndim < 1
    return variable.data if in_memory or type(variable).__name__ == "IndexVariable" else variable.chunk().data


def _from_variables(variables: Mapping[str, Variable]) -> Arrays:
    """Return sets of a group of arrays: contiguous ragged (CF), or ``points`` with ``offsets`` or ``lengths``."""
    for name, count in variables.items():
        if "sample_dimension" in count.attrs:
            return _from_ragged(variables, name)
    if "points" not in variables:
        raise SampleSetError(
            "a group of sets must have an array 'points' with 'offsets' or 'lengths', or a count variable with the "
            f"attribute sample_dimension (CF); got the arrays {sorted(variables)}. Use dk.as_sets(array, offsets)."
        )
    others = {
        name: v.data
        for name, v in variables.items()
        if name not in ("points", "offsets", "lengths", "weights", "ids")
    }
    values = {
        name: _small(variables[name].data) for name in ("offsets", "lengths", "ids") if name in variables
    }
    n_sets = len(values["lengths"]) if "lengths" in values else len(values.get("offsets", [0])) - 1
    targets = _stored_targets(
        {name: v for name, v in others.items() if v.shape[:1] == (n_sets,) and v.ndim <= 2}
    )
    weights = variables["weights"].data if "weights" in variables else None
    return Arrays(variables["points"].data, weights=weights, targets=targets or None, **values)


def _from_ragged(variables: Mapping[str, Variable], count: str) -> Arrays:
    sample = str(variables[count].attrs["sample_dimension"])
    instance = variables[count].dims[:1]
    names: list[str] | None = None
    weights = variables["weights"].data if "weights" in variables else None
    columns = {
        name: v
        for name, v in variables.items()
        if v.dims[:1] == (sample,) and _is_numeric(v) and name != "weights"
    }
    matrices = [name for name, v in columns.items() if v.data.ndim == 2]
    if len(matrices) == 1:
        points = columns[matrices[0]].data
        column_labels = variables.get(columns[matrices[0]].dims[1])
        names = None if column_labels is None else [str(name) for name in _small(column_labels.data)]
    elif columns and not matrices:
        names = list(columns)
        points = stack_columns([_lazy(v.data) for v in columns.values()])
    else:
        raise SampleSetError(
            f"variables along {sample!r} must be columns, or one matrix; got {sorted(columns)}. Drop the others."
        )
    sizes = _small(variables[count].data)
    per_set = _stored_targets(
        {
            name: v.data
            for name, v in variables.items()
            if name != count and v.dims[:1] == instance and v.data.ndim <= 2
        }
    )
    ids = per_set.pop(instance[0] if instance else "", None)
    return Arrays(points, _offsets(sizes), weights=weights, ids=ids, names=names, targets=per_set or None)


def _stored_targets(variables: Mapping[str, Any]) -> dict[str, Array]:
    """Return variables with one entry per set that can be targets: numbers, booleans and text."""
    values = {name: _small(variable) for name, variable in variables.items()}
    return {name: column for name, column in values.items() if column.dtype.kind in "biufU"}


def _is_numeric(variable: Variable) -> bool:
    return np.dtype(variable.data.dtype).kind in "fiub"


def _small(values: Any) -> Array:
    """Return an array with one entry per set as a NumPy array."""
    array = np.asarray(load_collection(values[...] if library_of(values) == "zarr" else values))
    return array.astype(str) if array.dtype.kind in "OT" else array


def _lazy(values: Any) -> Any:
    return lazy_array(values) if library_of(values) == "zarr" else values


CONVERTERS: dict[str, Callable[[Any], Arrays]] = {
    "awkward": _from_awkward,
    "pandas": _from_pandas,
    "polars": _from_polars,
    "pyarrow": _from_arrow,
    "torch": _from_torch,
    "xarray": _from_xarray,
    "zarr": _from_zarr,
}
