"""Samples of a two-sample test, in memory or read block by block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64, I64, U16
from dkdist.kernels.inputs import as_points
from dkdist.kernels.shapes import Shape, is_mesh
from dkdist.sets import SampleSetError, SampleSets
from dkdist.two_sample.pooled_statistics import PooledStatistics

if TYPE_CHECKING:
    from dkdist._runtime.blocks import Blocks


class Sample(NamedTuple):
    """Sample of n points in d dimensions, with the two operations required by the test.

    ``rows(positions)`` returns the points at ascending positions. ``bin_sums(pooled, bins, n_bins)`` returns the sums
    of features over the points of each bin, (n_bins, n_features).
    """

    n: int
    d: int
    rows: Callable[[I64], F64]
    bin_sums: Callable[[PooledStatistics, U16, int], F32]


def sample_of(name: str, P: Any) -> Sample:
    """Convert P to a sample; Dask and Zarr arrays and stores are read block by block."""
    if isinstance(P, Shape) or is_mesh(P):
        raise ValueError(f"{name} must be a point set; got a shape. Pass an array (n, d).")
    if getattr(P, "ndim", 0) == 3:  # points of all sets
        from dkdist.io import as_sets

        P = as_sets(P)
    if isinstance(P, SampleSets):
        _require_points(name, P.alphabet, P.weights is not None)
        x = np.ascontiguousarray(P.points, np.float64)
    else:
        if hasattr(P, "blocks") and (streamed := _streamed_sample(name, P)) is not None:
            return streamed
        x = as_points(name, P)
    return Sample(len(x), x.shape[1], x.__getitem__, lambda pooled, *bins: pooled.bin_sums(x, *bins))


def _require_points(name: str, alphabet: Any, has_weights: bool) -> None:
    if has_weights:
        raise SampleSetError(f"{name} must have no weights. Draw points by weight, or omit weights.")
    if alphabet is not None:
        raise SampleSetError(f"{name} must be a point set; got strings of characters.")


def _streamed_sample(name: str, P: Any) -> Sample | None:
    from dkdist._base.inputs import block_views  # imported lazily: only streamed samples need Dask and Zarr
    from dkdist._runtime.blocks import source_blocks
    from dkdist.io.lazy_sets import LazySets
    from dkdist.kernels.lazy_distance import lazy_points

    if isinstance(P, LazySets) and len(P) != 1:
        if len(P) == 0:
            raise SampleSetError(f"{name} must contain points; got a store of 0 sets.")
        _require_points(name, P.alphabet, P.weights_shape is not None)
        source, bounds, read_bytes = block_views(P, 0)
        firsts = np.append(0, np.cumsum(P.sizes))[bounds].astype(np.int64)
        return _sample_of_blocks(name, source_blocks(source, bounds, read_bytes), firsts, P.n_dims)
    if (lazy := lazy_points(name, P, None)) is None:
        return None
    _require_points(name, None, lazy.weighted)
    return _sample_of_blocks(name, lazy.blocks, lazy.blocks.bounds, lazy.n_dims)


def _sample_of_blocks(name: str, blocks: Blocks, firsts: I64, d: int) -> Sample:
    """Return a sample whose block i holds the points ``firsts[i]`` to ``firsts[i + 1]`` - 1."""
    from dkdist._runtime.blocks import Job
    from dkdist._runtime.map_reduce import default_window, map_blocks, tree_sum

    def rows(positions: I64) -> F64:
        parts = np.split(positions, np.searchsorted(positions, firsts[1:-1]))
        extras = [(int(first), part - first) for first, part in zip(firsts[:-1], parts, strict=True)]
        return np.concatenate(map_blocks(blocks, partial(_checked_rows, name), extras, label="sample_points"))

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
    for i in np.flatnonzero(~np.isfinite(x).all(axis=1)):
        raise SampleSetError(f"{name} must be finite; got {x[i].tolist()} at point {first + i}.")
    return x[positions]


def _block_sums(pooled: PooledStatistics, n_bins: int, block: Any, bins: U16) -> F32:
    return pooled.bin_sums(_points(next(block)), bins, n_bins)
