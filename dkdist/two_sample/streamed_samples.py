"""Samples that are read block by block: Dask arrays, Zarr arrays, and the points of all sets of a store together."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from dkdist.base.inputs import block_views
from dkdist.execution.blocks import Blocks, Job, source_blocks
from dkdist.execution.map_reduce import collect, default_window, tree_sum
from dkdist.kernel.distance.lazy.lazy_points import lazy_points
from dkdist.loops.array_types import F32, F64, I64, U16
from dkdist.sets import SampleSetError, SampleSets
from dkdist.store import SetStore
from dkdist.two_sample.pooled_statistics import PooledStatistics
from dkdist.two_sample.samples import Sample, require_points


def streamed_sample(name: str, P: Any) -> Sample | None:
    """The sample P, if it is read block by block; None for anything in memory."""
    if isinstance(P, SetStore) and len(P) != 1:
        if len(P) == 0:
            raise SampleSetError(f"{name} holds no sets: a test needs points")
        require_points(name, P.alphabet, P.weights_shape is not None)
        views, bounds, read_bytes = block_views(P, 0)
        firsts = np.append(0, np.cumsum(P.sizes))[bounds].astype(np.int64)
        return _sample(name, source_blocks(views, bounds, read_bytes), firsts, P.n_dims)
    lazy = lazy_points(name, P, None)
    if lazy is None:
        return None
    require_points(name, None, lazy.weighted)
    return _sample(name, lazy.blocks, lazy.blocks.bounds, lazy.n_dims)


def _sample(name: str, blocks: Blocks, firsts: I64, d: int) -> Sample:
    """The sample whose points ``firsts[i]`` to ``firsts[i + 1]`` - 1 are those of block i: a pass for each method."""

    def rows(positions: I64) -> F64:
        parts = np.split(positions, np.searchsorted(positions, firsts[1:-1]))
        extras = [(int(first), part - first) for first, part in zip(firsts[:-1], parts, strict=True)]
        return np.concatenate(collect(blocks, partial(_checked_rows, name), extras, label="sample_points"))

    def bin_sums(pooled: PooledStatistics, bins: U16, n_bins: int) -> F32:
        jobs = [Job((i,), part) for i, part in enumerate(np.split(bins, firsts[1:-1]))]
        work, window = partial(_block_sums, pooled, n_bins), default_window(blocks.local)
        sums: F32 = tree_sum(blocks, jobs, work, np.add, window=window, label="bin_sums")
        return sums

    return Sample(int(firsts[-1]), d, rows, bin_sums)


def _points(block: Any) -> F64:
    return np.asarray(block.points if isinstance(block, SampleSets) else block, np.float64)


def _checked_rows(name: str, block: Any, extra: tuple[int, I64]) -> F64:
    (first, positions), x = extra, _points(block)
    invalid = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(invalid):
        i = invalid[0]
        raise SampleSetError(f"point {first + i} of {name} is {x[i].tolist()}: every value must be finite")
    return x[positions]


def _block_sums(pooled: PooledStatistics, n_bins: int, block: Any, bins: U16) -> F32:
    return pooled.bin_sums(_points(next(block)), bins, n_bins)
