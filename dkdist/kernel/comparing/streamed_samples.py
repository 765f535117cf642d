"""Samples that are read block by block: dask arrays, Zarr arrays, and the points of all sets of a store together."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dkdist.base.inputs import block_views
from dkdist.execution.blocks import Blocks, Job, source_blocks
from dkdist.execution.map_reduce import collect, default_window, tree_sum
from dkdist.kernel.comparing.samples import Look, sums_over_bins, weighted
from dkdist.kernel.distance.lazy.lazy_points import lazy_points
from dkdist.loops.array_types import F32, F64, I64, U16
from dkdist.sets import SampleSetError, SampleSets
from dkdist.store import SetStore


class Streamed(NamedTuple):
    """A sample whose points ``firsts[i]`` to ``firsts[i + 1]`` - 1 are those of block i."""

    name: str
    blocks: Blocks
    firsts: I64
    d: int

    @property
    def n(self) -> int:
        """The number of points."""
        return int(self.firsts[-1])

    def rows(self, positions: I64) -> F64:
        """The points at some positions, in rising order: one pass, which checks every value."""
        edges = np.searchsorted(positions, self.firsts)
        extras = [
            (int(first), positions[a:b] - first)
            for first, a, b in zip(self.firsts[:-1], edges[:-1], edges[1:], strict=True)
        ]
        return np.concatenate(
            collect(self.blocks, partial(_checked_rows, self.name), extras, label="look_at_points")
        )

    def bin_sums(self, look: Look, bins: U16, n_bins: int) -> F32:
        """Sums over the points of each bin: one pass."""
        jobs = [
            Job((i,), bins[a:b])
            for i, (a, b) in enumerate(zip(self.firsts[:-1], self.firsts[1:], strict=True))
        ]
        window = default_window(self.blocks.local)
        work = partial(_block_sums, look, n_bins)
        sums: F32 = tree_sum(self.blocks, jobs, work, np.add, window=window, label="bin_sums")
        return sums


def streamed_sample(name: str, P: Any) -> Streamed | None:
    """The sample that P is, if it is read block by block; None for anything in memory."""
    if isinstance(P, SetStore) and len(P) != 1:
        return _of_sets(name, P)
    lazy = lazy_points(name, P, None)
    if lazy is None:
        return None
    if lazy.weighted:
        raise weighted(name)
    return Streamed(name, lazy.blocks, lazy.blocks.bounds, lazy.n_dims)


def _of_sets(name: str, P: SetStore) -> Streamed:
    if len(P) == 0:
        raise SampleSetError(f"{name} holds no sets: a test needs points")
    if P.alphabet is not None:
        raise SampleSetError(f"{name} holds strings of characters, whose codes are no coordinates")
    if P.weights_shape is not None:
        raise weighted(name)
    views, bounds, read_bytes = block_views(P, 0)
    firsts = np.append(0, np.cumsum(P.sizes))[bounds]
    return Streamed(name, source_blocks(views, bounds, read_bytes), firsts.astype(np.int64), P.n_dims)


def _points(block: Any) -> F64:
    return np.asarray(block.points if isinstance(block, SampleSets) else block, np.float64)


def _checked_rows(name: str, block: Any, extra: tuple[int, I64]) -> F64:
    first, positions = extra
    x = _points(block)
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        i = int(np.argmin(finite))
        raise SampleSetError(f"point {first + i} of {name} is {x[i].tolist()}: every value must be finite")
    return x[positions]


def _block_sums(look: Look, n_bins: int, made: Any, bins: U16) -> F32:
    return sums_over_bins(look, _points(next(made)), bins, n_bins)
