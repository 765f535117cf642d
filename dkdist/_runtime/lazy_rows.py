"""Rows of Dask arrays: reading of selected rows, and graphs whose tasks get the rows of a block.

A block of sets needs runs of rows of one or two arrays (points and weights). Its task depends on the chunks that
contain them and concatenates the runs, so no array is rechunked. Partitions of other Dask collections (bags, lists of
delayed values) become the chunks of an array once their shapes are known, in one pass.
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.base import compute, is_dask_collection, tokenize
from dask.delayed import Delayed, delayed
from dask.typing import Key

from dkdist._numba.arrays import I64, Array
from dkdist._runtime._dask_private import GraphNode, List, Task, TaskRef
from dkdist._runtime._tuning import JOINED_CHUNK_BYTES, MAX_BLOCK_BYTES, MAX_UNSPLIT_BYTES
from dkdist._runtime.blocks import BlockSource, DaskArray, RowAssembly, max_block_sets


@dataclass(frozen=True)
class Runs:
    """Runs of rows, start and length (n,) each, in any order."""

    starts: I64
    sizes: I64

    @classmethod
    def of_rows(cls, rows: I64) -> Runs:
        """Return runs of single rows, joined where they are consecutive."""
        first = (
            np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1) if len(rows) else np.empty(0, np.int64)
        )
        return cls(rows[first], np.diff(np.append(first, len(rows))))

    def joined(self) -> Runs:
        """Return the runs, consecutive ones joined."""
        ends = self.starts + self.sizes
        first = np.flatnonzero(np.append(True, self.starts[1:] != ends[:-1])[: len(self.starts)])
        return Runs(self.starts[first], np.add.reduceat(self.sizes, first) if len(first) else self.sizes)


@dataclass(frozen=True)
class LazyRows:
    """A Dask array whose rows (entries of the first axis) are read in runs; other axes have one chunk."""

    array: DaskArray

    @classmethod
    def of(cls, array: DaskArray) -> LazyRows:
        """Return the rows of an array with known chunks."""
        return cls(array.rechunk(dict.fromkeys(range(1, array.ndim), -1)))

    @property
    def token(self) -> Any:
        """Name of the array, which Dask derives from its content or its graph."""
        return self.array.name

    @property
    def edges(self) -> I64:
        """Bounds of the chunks (n_chunks + 1,)."""
        return np.concatenate([[0], np.cumsum(self.array.chunks[0])]).astype(np.int64)

    def read(self, runs: Runs) -> Array:
        """Compute runs of rows with the active scheduler; of each chunk only the part that contains them is kept."""
        runs = runs.joined()
        if len(runs.starts) == 0:
            return np.empty((0, *self.array.shape[1:]), self.array.dtype)
        numbers, lows, highs = self._parts(runs)
        parts = compute(
            [self.array[low:high] for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
        )[0]
        return _take_runs(parts, *self._relative(runs, numbers, lows, highs))

    def node(self, runs: Runs) -> Task:
        """Return a nested task that takes runs of rows from chunks of the array."""
        runs = runs.joined()
        numbers, edges = self._parts(runs)[0], self.edges
        trailing = (0,) * (self.array.ndim - 1)
        chunks = List(*(TaskRef((self.array.name, k, *trailing)) for k in numbers.tolist()))
        return Task(
            None, _take_runs, chunks, *self._relative(runs, numbers, edges[numbers], edges[numbers + 1])
        )

    def _parts(self, runs: Runs) -> tuple[I64, I64, I64]:
        """Return the numbers of the chunks with rows of the runs, and the first row and the end of these rows."""
        edges, ends = self.edges, runs.starts + runs.sizes
        first = np.searchsorted(edges, runs.starts, side="right") - 1
        last = np.searchsorted(edges, ends, side="left")
        lows, highs = edges[1:].copy(), edges[:-1].copy()
        np.minimum.at(lows, first, runs.starts)
        np.maximum.at(highs, last - 1, ends)
        for i in np.flatnonzero(last - first > 1):  # runs that cross borders of chunks
            borders = slice(first[i] + 1, last[i])
            lows[borders] = edges[borders]
            highs[first[i] : last[i] - 1] = edges[borders]
        numbers = np.flatnonzero(lows < highs)
        return numbers, lows[numbers], highs[numbers]

    def _relative(self, runs: Runs, numbers: I64, lows: I64, highs: I64) -> tuple[I64, I64]:
        """Return the starts of runs in the concatenated parts of some chunks, and their sizes."""
        part = np.searchsorted(numbers, np.searchsorted(self.edges, runs.starts, side="right") - 1)
        before = np.concatenate([[0], np.cumsum(highs - lows)])
        return before[part] + runs.starts - lows[part], runs.sizes


@dataclass(frozen=True)
class MemoryRows:
    """Rows of a NumPy array, with the interface of `LazyRows`."""

    array: Array

    @property
    def edges(self) -> I64:
        """Bounds of the only chunk."""
        return np.array([0, len(self.array)])

    @property
    def token(self) -> Any:
        """Token of the content."""
        return tokenize(self.array)

    def read(self, runs: Runs) -> Array:
        """Return runs of rows."""
        joined = runs.joined()
        return _take_runs([self.array], joined.starts, joined.sizes)


def _take_runs(chunks: Sequence[Array], starts: I64, sizes: I64) -> Array:
    """Return runs of rows of the concatenated chunks; a view if one run lies in one chunk."""
    if any(map(np.ma.is_masked, chunks)):
        raise ValueError("points must not contain masked values. Fill them or drop their points.")
    if len(chunks) == len(starts) == 1:
        return np.asarray(chunks[0])[starts[0] : starts[0] + sizes[0]]
    ends = np.cumsum([len(chunk) for chunk in chunks])
    parts = []
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        stop = start + size
        k = int(np.searchsorted(ends, start, side="right"))
        while start < stop:
            low = ends[k] - len(chunks[k])
            parts.append(np.asarray(chunks[k])[start - low : stop - low])
            start, k = int(ends[k]), k + 1
    return np.concatenate(parts)


def rows_source(
    make: Callable[..., Any],
    blocks: Sequence[tuple[Any, Sequence[Runs]]],
    rows: Sequence[LazyRows],
    token: Any,
) -> BlockSource:
    """Return a source whose block i is ``make(description, *arrays)``.

    ``blocks[i]`` is (description, runs of rows to read from each of ``rows``).
    """
    name = f"sets-{tokenize(token)}"
    make = RowAssembly(make)
    layer: dict[Key, GraphNode] = {
        (name, i): Task(
            (name, i), make, what, *(r.node(runs) for r, runs in zip(rows, all_runs, strict=True))
        )
        for i, (what, all_runs) in enumerate(blocks)
    }
    return BlockSource([TaskRef(key) for key in layer], token, layer, tuple(r.array for r in rows))


def chunk_aligned_bounds(
    owners: I64, sizes: I64, point_bytes: int, row_bytes: int, max_sets: int | None
) -> I64:
    """Return bounds of blocks of sets that end with chunks where possible; ``owners`` (n,) is the chunk of each set.

    Chunks are joined to blocks of the usual size. Blocks of more than ``max_sets`` sets, or with more than 128 MiB of
    rows, are split.
    """
    n = len(sizes)
    limit = max_block_sets(n) if max_sets is None else max_sets
    ends = np.concatenate([[0], np.cumsum(sizes)]) * point_bytes
    groups = [*np.flatnonzero(np.diff(owners) != 0) + 1, n]
    bounds = [0]
    start = 0
    for stop in map(int, groups):
        is_full = stop - bounds[-1] > limit or ends[stop] - ends[bounds[-1]] > MAX_BLOCK_BYTES
        is_full |= (stop - bounds[-1]) * row_bytes > MAX_BLOCK_BYTES
        if is_full and start > bounds[-1]:
            bounds.append(start)
        start = stop
    bounds.append(n)
    step = max(1, MAX_UNSPLIT_BYTES // max(1, row_bytes))
    step = step if max_sets is None else min(step, max_sets)
    parts = [
        np.linspace(a, b, -(-(b - a) // step) + 1).astype(np.int64)[1:] for a, b in itertools.pairwise(bounds)
    ]
    return np.concatenate([[0], *parts]).astype(np.int64)


def lazy_array(array: Any, chunk_rows: int | None = None) -> DaskArray:
    """Return an array, by default a chunked one such as a Zarr array, as a Dask array.

    Without ``chunk_rows`` small chunks are joined to chunks of about 1 MiB.
    """
    if chunk_rows is None:
        stored_rows = int(array.chunks[0])
        row_bytes = array.dtype.itemsize * max(1, math.prod(array.shape[1:]))
        chunk_rows = stored_rows * max(1, JOINED_CHUNK_BYTES // (stored_rows * row_bytes))
    # the name is unique, because the content of the array may change
    chunks = (chunk_rows, *array.shape[1:])
    lazy: DaskArray = da.from_array(array, chunks=chunks, name=f"rows-{uuid.uuid4().hex}")
    return lazy


def stack_columns(columns: Sequence[Any]) -> Any:
    """Return columns (T,) as an array (T, d): a Dask array if one of them is."""
    is_lazy = any(isinstance(column, da.Array) for column in columns)
    return da.stack(columns, axis=1) if is_lazy else np.stack(columns, axis=1)


def is_delayed(value: Any) -> bool:
    """Whether this is a delayed value or a future."""
    return isinstance(value, (Delayed, TaskRef))  # futures are references to tasks


def is_partitioned(data: Any) -> bool:
    """Whether this is a delayed value, a list that contains one, or a Dask collection of lists of sets (a bag)."""
    if isinstance(data, (list, tuple)):
        return any(map(is_delayed, data))
    if is_delayed(data):
        return True
    is_table = isinstance(data, da.Array) or getattr(data, "ndim", 1) == 2
    return not is_table and hasattr(data, "npartitions") and is_dask_collection(data)


def partitions_of(data: Any) -> list[Any]:
    """Return delayed lists of sets: the partitions of a collection, or a list of one set for each value of a list."""
    if isinstance(data, (list, tuple)):
        return [delayed(_single)(value) for value in data]
    return list(data.to_delayed())


def _single(value: Any) -> list[Any]:
    return [value]


def map_partitions(function: Callable[[Any], Any], partitions: Sequence[Any]) -> list[Any]:
    """Compute a function of each partition."""
    return list(compute([delayed(function)(part) for part in partitions])[0])


def join_partitions(
    join: Callable[[Any], Array], partitions: Sequence[Any], n_rows: Sequence[int], n_dims: int, dtype: Any
) -> DaskArray:
    """Return the array (T, d) of the points of all partitions, with ``join(partition)`` as chunks."""
    chunks = [
        da.from_delayed(delayed(join)(part), shape=(n, n_dims), dtype=dtype)
        for part, n in zip(partitions, n_rows, strict=True)
        if n
    ]
    points: DaskArray = da.concatenate(chunks)
    return points
