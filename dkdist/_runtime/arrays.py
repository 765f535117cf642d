"""Lazy Dask arrays with one task per block, from views of a store or from blocks of another lazy array.

Parameters are one key of the graph, whose task materializes them from a small record. No arrays are scattered, and
workers that join late or replace others materialize them again. Tasks are restricted to the CPU type of the process
that created the array (`process.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.typing import Key

from dkdist._numba.arrays import I64, Array
from dkdist._runtime._dask_private import DataNode, GraphNode, Task, TaskRef
from dkdist._runtime._tuning import MAX_BLOCK_BYTES
from dkdist._runtime.blocks import BlockSource, block_keys, max_block_sets, row_blocks
from dkdist._runtime.map_reduce import map_blocks, map_pieces
from dkdist._runtime.process import materialize_params, require_same_cpu
from dkdist._runtime.set_warnings import COMPUTATIONS


def block_bounds(sizes: I64, point_bytes: int, row_bytes: int, block_sets: int | None = None) -> I64:
    """Return the bounds of blocks of whole sets, (n_blocks + 1,).

    A block has at most 32 MiB of points (but at least one set), 32 MiB of rows and 1,024 sets, or 2,048 sets in
    collections of 65,536 and more. ``block_sets`` of the user replaces these limits.
    """
    max_sets = block_sets or int(np.clip(MAX_BLOCK_BYTES // max(1, row_bytes), 1, max_block_sets(len(sizes))))
    if block_sets is not None or sizes.max(initial=0) * max_sets * point_bytes <= MAX_BLOCK_BYTES:
        return np.append(np.arange(0, len(sizes), max_sets), len(sizes)).astype(np.int64)
    ends = np.cumsum(sizes) * point_bytes
    bounds = [0]
    while bounds[-1] < len(sizes):
        first = bounds[-1]
        before = ends[first - 1] if first else 0
        end = int(np.searchsorted(ends, before + MAX_BLOCK_BYTES, side="right"))
        bounds.append(min(max(end, first + 1), first + max_sets))
    return np.array(bounds, np.int64)


def lazy_from_views(
    function: Callable[[Any, Any, int], Any],
    spec: Any,
    source: BlockSource,
    bounds: I64,
    label: str,
    read_bytes: int,
) -> da.Array:
    """Return a lazy float32 array (n_sets, spec.n_features) from blocks of sets.

    Block i is ``function(spec.materialize(), view of block i, bounds[i])``.
    """
    COMPUTATIONS.register()
    name = f"{label}-{tokenize(spec, source.token)}"
    calls = [(view, int(start)) for view, start in zip(source.arguments, bounds[:-1], strict=True)]
    graph = _block_tasks(function, spec, calls, name, label) | dict(source.layer)
    layer = MaterializedLayer(graph, annotations={"dkdist_read_bytes": read_bytes})
    layers = HighLevelGraph.from_collections(name, layer, dependencies=list(source.arrays))  # type: ignore[arg-type]
    return _dask_array(layers, name, np.diff(bounds), spec.n_features)


def _block_tasks(
    function: Callable[..., Any], spec: Any, calls: Sequence[tuple[Any, ...]], name: str, label: str
) -> dict[Key, GraphNode]:
    """Return tasks (name, i, 0) of ``function(spec.materialize(), *calls[i])``, with shared parameters."""
    params, function = f"{label}_parameters-{tokenize(spec)}", require_same_cpu(function)
    graph: dict[Key, GraphNode] = {params: Task(params, require_same_cpu(materialize_params), spec)}
    for i, call in enumerate(calls):
        graph[name, i, 0] = Task((name, i, 0), function, TaskRef(params), *call)
    return graph


def lazy_from_calls(
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    rows: Sequence[int],
    columns: int,
    label: str,
    read_bytes: int,
) -> da.Array:
    """Return a lazy float32 array; block i is ``function(*calls[i])`` of shape (rows[i], columns)."""
    name = f"{label}-{tokenize(function, [call[0] for call in calls[:1]], [call[1:] for call in calls])}"
    function = require_same_cpu(function)
    graph: dict[Key, GraphNode] = {
        (name, i, 0): Task((name, i, 0), function, *call) for i, call in enumerate(calls)
    }
    layer = MaterializedLayer(graph, annotations={"dkdist_read_bytes": read_bytes})
    return _dask_array(HighLevelGraph({name: layer}, {name: set()}), name, rows, columns)


def equalize_chunks(X: Any) -> Any:
    """Return X with row chunks of one length (the last one may be shorter); arrays in memory unchanged."""
    if not isinstance(X, da.Array):
        return X
    *first, last = X.chunks[0]
    if not first or (len(set(first)) == 1 and last <= first[0]):
        return X
    return X.rechunk({0: int(np.median(X.chunks[0]))})


def lazy_from_rows(function: Callable[[Any, Any], Any], spec: Any, X: da.Array, label: str) -> da.Array:
    """Return a lazy float32 array (n, spec.n_features); block i is ``function(spec.materialize(), X block i)``."""
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    name = f"{label}-{tokenize(spec, X.name)}"
    calls = [(TaskRef((X.name, i, 0)),) for i in range(X.numblocks[0])]
    graph = _block_tasks(function, spec, calls, name, label)
    layers = HighLevelGraph.from_collections(name, MaterializedLayer(graph), dependencies=[X])  # type: ignore[list-item]
    return _dask_array(layers, name, X.chunks[0], spec.n_features)


def lazy_from_model(
    function: Callable[[Any, Any], Any],
    model: Any,
    source: BlockSource,
    rows: Iterable[float],
    meta: Array,
    label: str,
) -> da.Array:
    """Return a lazy array whose block i is ``function(model, block i)``; the model is one key of the graph.

    ``rows`` are the lengths of the blocks (NaN if unknown). ``meta`` has the dtype and, after the first axis, the shape
    of the result.
    """
    name, shared = f"{label}-{tokenize(function, model, source.token)}", f"{label}_model-{tokenize(model)}"
    function = require_same_cpu(function)
    graph: dict[Key, GraphNode] = {**source.layer, shared: DataNode(shared, model)}
    for key, block in zip(block_keys(name, len(source.arguments), meta.ndim), source.arguments, strict=True):
        graph[key] = Task(key, function, TaskRef(shared), block)
    layer = MaterializedLayer(graph)
    layers = HighLevelGraph.from_collections(name, layer, dependencies=list(source.arrays))  # type: ignore[arg-type]
    chunks = (tuple(rows), *((n,) for n in meta.shape[1:]))
    return da.Array(layers, name, chunks, dtype=meta.dtype, meta=np.empty((0,) * meta.ndim, meta.dtype))


def _dask_array(graph: HighLevelGraph, name: str, rows: Iterable[int], columns: int) -> da.Array:
    chunks = (tuple(int(r) for r in rows), (columns,))
    return da.Array(graph, name, chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))


def fill_in_memory(function: Callable[[slice], None], bounds: I64) -> None:
    """Call ``function(rows)`` for each block of rows, on threads of this machine; it writes to arrays of the caller."""
    blocks = [slice(a, b) for a, b in itertools.pairwise(bounds.tolist())]
    map_pieces(function, blocks, label="fill", local=True)


def take_rows(X: da.Array, rows: I64) -> Array:
    """Return rows of a lazy array as a NumPy array; computes only the blocks that contain them."""
    blocks = row_blocks(X)
    block_of = np.searchsorted(blocks.bounds, rows, side="right") - 1
    numbers = np.unique(block_of)
    block_rows: list[Any] = [None] * len(blocks)
    for i in numbers:
        block_rows[i] = rows[block_of == i] - blocks.bounds[i]
    return np.concatenate(
        map_blocks(blocks, _take, block_rows, only=numbers.tolist(), label="sampled_rows", quiet=True)
    )


def _take(block: Array, rows: I64) -> Array:
    return np.asarray(block)[rows]
