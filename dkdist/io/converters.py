"""Converters of the collections of other libraries to arrays of points, for `as_sets`.

Libraries are recognised by the module of the type, so none is imported before it is in use.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dkdist._numba.arrays import I64, Array
from dkdist._runtime.lazy_rows import (
    is_delayed,
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
from dkdist.sets.point_checks import as_parts, locate, offsets_of, require_increasing


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
        return _from_objects(list(data))
    if isinstance(data, (list, tuple)) and len(data) and library_of(data[0]) == "torch":
        return Arrays([_tensor_array(tensor) for tensor in data])
    if is_partitioned(data):
        return _from_partitions(_partitions(data))
    converter = CONVERTERS.get(library_of(data))
    return Arrays(data) if converter is None else converter(data)


# collections of Dask


def _from_partitions(partitions: Sequence[Any]) -> Arrays:
    """Return sets of delayed lists of arrays; computes all of them once for their shapes."""
    shapes: list[_PartitionShape] = map_partitions(_describe, partitions)
    starts = np.concatenate([[0], np.cumsum([len(part.sizes) for part in shapes])])
    for i, part in enumerate(shapes):
        if part.is_invalid:  # the position of its first set is known now
            map_partitions(partial(_describe, first_set=int(starts[i])), partitions[i : i + 1])
    sizes, dims = (np.concatenate([getattr(part, name) for part in shapes]) for name in ("sizes", "dims"))
    if not len(sizes):
        raise SampleSetError("sets must contain at least one set; got empty partitions.")
    if (dims != dims[0]).any():
        i = int(np.argmax(dims != dims[0]))
        raise SampleSetError(f"set {i} must have {dims[0]} dimensions, as set 0 has; got {dims[i]}.")
    columns = [part.columns for part in shapes if part.columns is not None]
    if any(names != columns[0] for names in columns):
        other = next(names for names in columns if names != columns[0])
        raise SampleSetError(
            f"data frames of all partitions must have the same columns, {columns[0]}; got {other}. Reorder or rename "
            "them."
        )
    require_increasing(_offsets(sizes))
    dtype = np.result_type(*(part.dtype for part in shapes if part.dtype is not None))
    n_rows = [int(part.sizes.sum()) for part in shapes]
    points = join_partitions(_join, partitions, n_rows, int(dims[0]), dtype)
    names = columns[0] if columns and all(isinstance(name, str) for name in columns[0]) else None
    return Arrays(points, _offsets(sizes), names=names)


def _partitions(data: Any) -> list[Any]:
    if is_delayed(data):
        raise SampleSetError(
            f"data must be a list of delayed values; got one {type(data).__name__}, which could be one set or a list "
            "of sets. Pass [value] for one set, or dask.bag.from_delayed([value]) for a list of sets."
        )
    return partitions_of(data)


@dataclass(frozen=True)
class _PartitionShape:
    """Sizes and dimensions (n,) of the sets of a partition, and their dtype and columns."""

    sizes: I64
    dims: I64
    dtype: Any = None
    columns: list[Any] | None = None
    is_invalid: bool = False


def _describe(partition: Any, first_set: int | None = None) -> _PartitionShape:
    """Return the shapes of sets; without ``first_set``, mark a partition with an invalid set instead of raising."""
    sets = _nested_arrays(list(partition))
    zeros = np.zeros(len(sets), np.int64)
    if not sets:
        return _PartitionShape(zeros, zeros)
    try:
        parts = as_parts(sets, first_set or 0)
    except SampleSetError:
        if first_set is not None:
            raise
        return _PartitionShape(zeros, zeros, is_invalid=True)
    sizes, dims = np.array([part.shape for part in parts], np.int64).T
    dtype = np.result_type(*{part.dtype for part in parts})
    return _PartitionShape(
        sizes, dims, dtype, next((list(x.columns) for x in sets if hasattr(x, "columns")), None)
    )


def _join(partition: Any) -> Array:
    parts = as_parts(_nested_arrays(list(partition)))
    offsets_of(parts)
    return np.concatenate(parts)


# lists of objects


def _from_objects(values: list[Any]) -> Arrays:
    """Return sets of the objects of an array or Series: arrays, nested lists, or delayed values."""
    return convert(values) if is_partitioned(values) else Arrays(_nested_arrays(values))


def _nested_arrays(values: list[Any]) -> list[Any]:
    """Return sets, where arrays of the rows of points, which pandas reads from Parquet, become lists of rows."""
    return [
        list(value) if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1 else value
        for value in values
    ]


# arrays of other libraries


def _from_torch(tensor: Any) -> Arrays:
    if tensor.is_nested:
        return Arrays([_tensor_array(part) for part in tensor.unbind()])
    return Arrays(_tensor_array(tensor))


def _tensor_array(tensor: Any) -> Array:
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # NumPy has no such dtype
        tensor = tensor.float()
    array: Array = tensor.numpy()
    return array


def _from_pandas(series: Any) -> Arrays:
    if getattr(series, "ndim", 0) != 1:
        return Arrays(series)
    if str(series.dtype).startswith(("list", "large_list", "fixed_size_list")):  # pd.ArrowDtype
        return _from_arrow(series.array.__arrow_array__())
    return _from_objects(series.tolist())


def _from_polars(series: Any) -> Arrays:
    if str(getattr(series, "dtype", "")) == "Object":
        return _from_objects(series.to_list())
    return _from_arrow(series.to_arrow() if type(series).__name__ == "Series" else series)


def _from_awkward(array: Any) -> Arrays:
    """Return sets of an array N * var * d * number, N * var * number, or N * var * {names: numbers}."""
    import awkward as ak

    fields = ak.fields(array)
    parts = [array[name] for name in fields] if fields else [array]
    if min(part.ndim for part in parts) < 2:
        raise SampleSetError(f"awkward arrays of sets must have the type N * var * ...; got {array.type}.")
    counts = [ak.to_numpy(ak.num(part, axis=1)) for part in parts]
    for count in counts:
        if np.ma.is_masked(count):
            raise _missing_set_error(int(np.argmax(np.ma.getmaskarray(count))))
        if (count != counts[0]).any():
            i = int(np.argmax(count != counts[0]))
            raise SampleSetError(
                f"the fields {fields} of set {i} must have one value per point; got {counts[0][i]} and {count[i]} "
                "values. Drop the surplus values."
            )
    offsets = _offsets(np.asarray(counts[0]))
    columns = [_awkward_points(ak.flatten(part, axis=1), offsets) for part in parts]
    return Arrays(np.stack(columns, axis=1) if fields else columns[0], offsets, names=fields or None)


def _awkward_points(values: Any, offsets: I64) -> Array:
    """Return the points of an awkward array T * number, or T * d * number."""
    import awkward as ak

    try:
        points = ak.to_numpy(values)
    except ValueError as error:  # lists of unequal lengths
        raise SampleSetError(
            f"points must be numbers, or lists of numbers of equal length ({error}). Drop or complete the other points."
        ) from None
    if np.ma.is_masked(points):
        is_missing = np.ma.getmaskarray(points).reshape(len(points), -1).any(axis=1)
        raise _missing_point_error(offsets, int(np.argmax(is_missing)))
    return np.asarray(points)


def _missing_set_error(i: int) -> SampleSetError:
    return SampleSetError(f"set {i} is missing. Drop its row and its target.")


def _missing_point_error(offsets: I64, row: int) -> SampleSetError:
    i, r = locate(offsets, row)
    return SampleSetError(f"point {r} of set {i}, or one of its coordinates, is missing. Drop or replace it.")


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
    kind, is_text = column.type, pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if not (is_text or _is_list(kind)):
        raise SampleSetError(f"data must be a list column; got Arrow values of type {kind}.")
    if column.null_count:
        raise _missing_set_error(_first_null(column))
    if is_text:
        return Arrays(column.to_pylist())
    offsets = _offsets(column.value_lengths().to_numpy(zero_copy_only=False))
    points, names = _arrow_points(column.flatten(), offsets)
    return Arrays(points, offsets, names=names)


def _first_null(values: Any) -> int:
    return int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _arrow_points(values: Any, offsets: I64, n_values: int = 1) -> tuple[Array, list[str] | None]:
    """Return points (T, d) of the values of a list column, and names of the dimensions of structs.

    ``n_values`` is the number of values per point.
    """
    import pyarrow as pa

    if values.null_count:
        raise _missing_point_error(offsets, _first_null(values) // n_values)
    if pa.types.is_struct(values.type):
        names = [values.type.field(i).name for i in range(values.type.num_fields)]
        return np.stack([_arrow_points(column, offsets)[0] for column in values.flatten()], axis=1), names
    if _is_list(values.type):
        sizes = np.unique(values.value_lengths().to_numpy(zero_copy_only=False))
        if len(sizes) > 1:
            raise SampleSetError(f"points must have the same number of dimensions; got {sizes.tolist()}.")
        d = int(sizes[0]) if len(sizes) else 1
        coordinates = _arrow_points(values.flatten(), offsets, n_values * d)[0]
        return coordinates.reshape(len(values), d * math.prod(coordinates.shape[1:])), None
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
        sample = next(
            (v.attrs["sample_dimension"] for v in data.variables.values() if "sample_dimension" in v.attrs),
            None,
        )
        return _from_variables({str(name): _xarray_variable(v, sample) for name, v in data.variables.items()})
    coordinates = {
        str(dim): _xarray_variable(data.coords[dim].variable) for dim in data.dims if dim in data.coords
    }
    return _from_variables({**coordinates, "points": _xarray_variable(data.variable)})


EXPORTED_DIMS: tuple[str, ...] = ("set", "point", "column")  # written by SampleSets.to_xarray


def _xarray_variable(variable: Any, sample: str | None = None) -> Variable:
    """Return a variable in the order of the dimensions of exported sets, or with the sample dimension first."""
    dims = [str(dim) for dim in variable.dims]
    order: list[str] = [dim for dim in EXPORTED_DIMS if dim in dims]
    if len(order) < len(dims):
        order = sorted(dims, key=lambda dim: dim != sample)
    data = _xarray_data(variable)
    data = data if order == dims else data.transpose([dims.index(dim) for dim in order])
    return Variable(data, tuple(order), variable.attrs)


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
    dims = variables["points"].dims
    others = {
        name: v.data
        for name, v in variables.items()
        if name not in ("points", "offsets", "lengths", "weights", "ids", *dims)
    }
    values = {
        name: _small(variables[name].data) for name in ("offsets", "lengths", "ids") if name in variables
    }
    n_sets = len(values["lengths"]) if "lengths" in values else len(values.get("offsets", [0])) - 1
    targets = _stored_targets(
        {name: v for name, v in others.items() if v.shape[:1] == (n_sets,) and v.ndim <= 2}
    )
    weights = variables["weights"].data if "weights" in variables else None
    ids = values.pop("ids", None)
    if ids is None and len(dims) == 3:
        ids = _dimension_labels(variables, dims[0], "iuU")
    names = _dimension_labels(variables, dims[-1], "U") if dims else None
    return Arrays(
        variables["points"].data, weights=weights, ids=ids, names=names, targets=targets or None, **values
    )


def _dimension_labels(variables: Mapping[str, Variable], dim: str, kinds: str) -> Array | None:
    """Return the coordinate of a dimension if it has values of some kinds of dtype."""
    values = _small(variables[dim].data) if dim in variables and variables[dim].dims == (dim,) else None
    return values if values is not None and values.dtype.kind in kinds else None


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
