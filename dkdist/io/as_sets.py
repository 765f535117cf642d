"""`as_sets`: sets from the arrays and collections of other libraries.

A converter (`converters.py`) returns the points as one array, flat (T, d) with offsets or padded (N, n, d), or as a
list of arrays. NumPy arrays become `SampleSets`; Dask and Zarr arrays become lazy `ArraySets`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dkdist._numba.arrays import I64, Array
from dkdist._runtime.blocks import is_lazy, require_known_chunks
from dkdist._runtime.lazy_rows import is_partitioned, lazy_array
from dkdist.io.array_sets import ArraySets
from dkdist.io.converters import CONVERTERS, Arrays, convert, library_of
from dkdist.io.lazy_sets import LazySets
from dkdist.sets import SampleSetError, SampleSets, as_sample_sets
from dkdist.sets.indexing import load_collection
from dkdist.sets.labels import Labels
from dkdist.sets.point_checks import as_offsets, concatenate_weights


def as_sets(
    data: Any,
    offsets: Any = None,
    *,
    weights: Any = None,
    ids: Any = None,
    names: Any = None,
    targets: Any = None,
) -> SampleSets | LazySets:
    """Return sets from arrays or collections of other libraries, lazily where these are lazy.

    Parameters
    ----------
    data : collection
        In memory: `SampleSets`, a list of (n_i, d) arrays or of strings, an (N, n, d) array, an (T, d) array with
        ``offsets``, an object array or pandas Series of arrays, awkward arrays, list columns of Arrow and polars,
        tensors of PyTorch. Lazy: a `SetStore`, the path or URL of a store or of other Zarr arrays; Dask and Zarr arrays
        of the same shapes; xarray arrays and datasets with Dask arrays; bags; lists of delayed values or futures; Zarr
        groups and xarray datasets with the arrays ``points`` and ``offsets`` or ``lengths``, or in CF's contiguous
        ragged representation.
    offsets : (N + 1,) integer array, optional
        Set i is rows ``offsets[i]`` to ``offsets[i + 1]`` - 1 of flat points (T, d), or (T,) for d = 1.
    weights : array of the shape of the points without the last axis, optional
        One weight per point; for a list or list column also one array or list per set.
    ids, names, targets : optional
        As for `SampleSets.labelled`. Dask arrays and Series are computed.

    Returns
    -------
    SampleSets or LazySets
        `LazySets` has the interface of a `SetStore`: embeddings return dask arrays, and only blocks are read.

    Raises
    ------
    SampleSetError
        If the data are not sets, or an array in memory contains an invalid set. Invalid sets of lazy data raise an
        error when they are read.

    Notes
    -----
    Nothing of a Dask or Zarr array is read, except for float64 and large integers: sets at eight places are read to
    choose the origin (see `SampleSets`). Bags, delayed values and futures are computed once for their shapes, and again
    in each pass unless they are persisted. A task holds the chunks of its block, so chunks must be much smaller than
    the memory. Chunks of flat arrays need not end with a set; the chunk at a border is computed for both blocks.

    Examples
    --------
    >>> import dask.array as da, dkdist as dk, numpy as np
    >>> points = da.random.default_rng(0).random((600, 50, 2), chunks=(100, 50, 2)).astype("float32")
    >>> sets = dk.as_sets(points)
    >>> sets
    ArraySets('array of shape (600, 50, 2)', n_sets=600, n_dims=2)
    >>> dk.MomentEmbedding().fit(sets).transform(sets)
    dask.array<moment_embedding, shape=(600, 2), dtype=float32, chunksize=(600, 2), chunktype=numpy.ndarray>
    >>> dk.as_sets(np.arange(10.0).reshape(5, 2), [0, 2, 5], ids=["a", "b"])
    SampleSets(n_sets=2, n_points=5, n_dims=2)
    """
    if isinstance(data, (SampleSets, LazySets)):
        return _with_labels(data, offsets, weights, ids, names, targets)
    arrays = convert(data)
    arrays = replace(
        arrays,
        offsets=arrays.offsets if offsets is None else offsets,
        weights=arrays.weights if weights is None else weights,
        ids=arrays.ids if ids is None else ids,
        names=arrays.names if names is None else names,
        targets=arrays.targets if targets is None else targets,
    )
    if arrays.offsets is not None and arrays.weights is not None:
        offsets = np.asarray(load_collection(arrays.offsets))
        arrays = replace(arrays, offsets=offsets, weights=_flat_weights(arrays.weights, offsets))
    return _sets_of(arrays)


def _flat_weights(weights: Any, offsets: Array) -> Any:
    """Return weights (T,) or (T, k) of a list or list column with one entry per set; other weights unchanged."""
    library, n_sets = library_of(weights), len(offsets) - 1
    is_list = isinstance(weights, (list, tuple)) or library in ("awkward", "pandas", "polars", "pyarrow")
    if not is_list or len(weights) != n_sets or n_sets == 0:
        return weights
    values = list(np.asarray(weights) if library == "pyarrow" else weights)
    if np.ndim(values[0]) == 0:
        return weights
    return concatenate_weights(values, [range(n) for n in np.diff(offsets).tolist()], offsets)


def is_foreign(data: Any) -> bool:
    """Whether the data need `as_sets`: they are neither sets, NumPy arrays of numbers nor lists of plain arrays."""
    if isinstance(data, (SampleSets, LazySets)):
        return False
    if isinstance(data, np.ndarray):
        return data.dtype == object and data.ndim == 1
    if isinstance(data, (list, tuple)):
        return bool(len(data)) and (library_of(data[0]) == "torch" or is_partitioned(data))
    return library_of(data) in CONVERTERS or is_lazy(data) or is_partitioned(data)


def _with_labels(
    sets: SampleSets | LazySets, offsets: Any, weights: Any, ids: Any, names: Any, targets: Any
) -> SampleSets | LazySets:
    if offsets is not None or weights is not None:
        raise SampleSetError(
            f"offsets and weights must be None for {type(sets).__name__}, which contains them."
        )
    if ids is None and names is None and targets is None:
        return sets
    if isinstance(sets, LazySets):
        raise SampleSetError(
            f"ids, names and targets must be None for {type(sets).__name__}. Pass them where the sets were made "
            "(write_sets, or as_sets of an array)."
        )
    return sets.labelled(ids, names, targets)


def _sets_of(arrays: Arrays) -> SampleSets | LazySets:
    points = arrays.points
    if isinstance(points, (SampleSets, LazySets)):  # the store at a path
        return _with_labels(points, arrays.offsets, arrays.weights, arrays.ids, arrays.names, arrays.targets)
    if library_of(points) == "zarr":
        points = lazy_array(points)
    if is_lazy(points):
        return _lazy_sets(replace(arrays, points=points))
    if isinstance(points, np.ndarray) and arrays.offsets is not None:
        if points.ndim > 2:
            raise SampleSetError(
                f"points with offsets must have shape (n_points, n_dims); got {points.shape}."
            )
        weights = None if arrays.weights is None else load_collection(arrays.weights)
        sets = SampleSets(points, load_collection(arrays.offsets), weights)
    elif isinstance(points, np.ndarray) and points.ndim == 3:
        sets = _padded_sets(points, arrays)
    elif arrays.offsets is not None:
        raise SampleSetError(
            f"offsets must be None for {type(points).__name__}. Pass one array of the points of all sets."
        )
    elif arrays.weights is not None:
        sets = SampleSets.from_arrays(points, arrays.weights)
    else:
        sets = as_sample_sets(points)
    return sets.labelled(arrays.ids, arrays.names, arrays.targets)


def _padded_sets(points: Array, arrays: Arrays) -> SampleSets:
    """Return sets of an array (N, n, d); lengths, if any, are the numbers of points that count."""
    n_sets, width, d = points.shape
    lengths = _as_lengths(arrays.lengths, n_sets, width)
    is_point = np.arange(width) < lengths[:, None]
    edges = np.concatenate([[0], np.cumsum(lengths)])
    weights = arrays.weights
    if weights is not None:
        weights = np.asarray(load_collection(weights))
        if weights.shape[:2] != (n_sets, width):
            raise SampleSetError(f"weights must have shape {(n_sets, width)}; got {weights.shape}.")
        weights = weights[is_point]
    rows = points.reshape(n_sets * width, d) if is_point.all() else points[is_point]
    return SampleSets(rows, edges, weights)


def _as_lengths(lengths: Any, n_sets: int, width: int) -> I64:
    """Return the numbers of points (N,) of padded sets, by default all."""
    if lengths is None:
        return np.full(n_sets, width, np.int64)
    values = np.asarray(load_collection(lengths))
    if values.shape != (n_sets,) or values.dtype.kind not in "iu":
        raise SampleSetError(
            f"lengths must be {n_sets} integers; got {values.dtype} of shape {values.shape}."
        )
    if len(values) and not 0 < values.min() <= values.max() <= width:
        i = int(np.argmax((values < 1) | (values > width)))
        raise SampleSetError(
            f"lengths must be from 1 to {width}; got {values[i]} for set {i}. Drop empty sets and their targets."
        )
    return values.astype(np.int64)


def _lazy_sets(arrays: Arrays) -> ArraySets:
    points, weights = arrays.points, arrays.weights
    require_known_chunks(points, "points")
    if points.dtype.kind not in "fiub":
        raise SampleSetError(f"points must be real numbers; got {points.dtype}.")
    if arrays.offsets is None:
        if points.ndim != 3 or 0 in points.shape:
            raise SampleSetError(
                f"a lazy array must have shape (n_sets, n_points, n_dims), or (n_points, n_dims) with offsets; got "
                f"{points.shape}. Use dk.as_sets(array, offsets)."
            )
        sizes = _as_lengths(arrays.lengths, *points.shape[:2])
    else:
        points = points[:, None] if points.ndim == 1 else points
        if points.ndim != 2 or 0 in points.shape:
            raise SampleSetError(
                f"points with offsets must have shape (n_points, n_dims); got {points.shape}."
            )
        sizes = np.diff(as_offsets(np.asarray(load_collection(arrays.offsets)), points.shape[0]))
    if weights is not None:
        weights = weights if is_lazy(weights) else _chunked_like(weights, points)
        leading = points.shape[:-1]
        if weights.shape[: len(leading)] != leading or weights.ndim > len(leading) + 1:
            raise SampleSetError(f"weights must have shape {leading}, one per point; got {weights.shape}.")
    labels = Labels.of(arrays.ids, arrays.names, arrays.targets, (len(sizes), int(points.shape[-1])))
    return ArraySets.of(points, weights, sizes, labels)


def _chunked_like(weights: Any, points: Any) -> Any:
    """Return weights as a Dask array."""
    if library_of(weights) == "zarr":
        return lazy_array(weights)
    return lazy_array(np.asarray(weights), int(points.chunks[0][0]))
