"""Tasks of a pairwise matrix: divide collections into tiles, compute tiles, and time a sample for the plan."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.inputs import Sets
from dkdist._base.invalid_sets import PartialResult, run_skipping_invalid
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.pairs import PairTiles, Tile, fill_pairs, plan_pairs, tile_bounds
from dkdist._runtime.process import one_blas_thread
from dkdist.io.lazy_sets import LazySets
from dkdist.pairwise_matrices._tuning import MIN_THREADED_PRODUCTS, N_TIMED_SETS
from dkdist.pairwise_matrices.divergence_params import DivergenceEstimator, SetPosition
from dkdist.sets import SampleSets


def _point_bytes(sets: Sets) -> int:
    return sets.n_dims * sets.points_dtype.itemsize


def tile_bounds_of(sets: Sets) -> I64:
    """Return the bounds of the blocks of a collection that form the sides of tiles."""
    block_sets = sets.block_sets if isinstance(sets, LazySets) else None
    return tile_bounds(sets.sizes, _point_bytes(sets), block_sets)


def tile_read_bytes(pairs: PairTiles, rows: Sets, columns: Sets | None) -> int:
    """Return the bytes that all tiles read from stores; every tile reads its blocks."""
    sides = zip((rows, rows if columns is None else columns), pairs.n_read, strict=True)
    return sum(
        n * sets.n_points // max(1, len(sets)) * _point_bytes(sets)
        for sets, n in sides
        if isinstance(sets, LazySets)
    )


@dataclass(frozen=True)
class SetBlock:
    """Consecutive sets of a collection, or of ``other``, starting at position ``first``."""

    sets: Sets
    first: int
    other: bool

    def prepare(self, estimator: DivergenceEstimator) -> list[Any]:
        """Prepare each set of the block for comparisons."""

        def work(sets: SampleSets, first: int) -> list[Any]:
            return estimator.prepare(sets, [SetPosition(first + i, self.other) for i in range(len(sets))])

        positions = range(self.first, self.first + len(self.sets))
        prepared: PartialResult[list[Any]] = run_skipping_invalid(work, self.sets, positions, [], skip=False)
        return list(itertools.chain.from_iterable(prepared.results))


@dataclass(frozen=True)
class TileReader:
    """Callable that returns the blocks of a tile: two, or one for a tile on the diagonal."""

    rows: Sets
    columns: Sets | None

    def __call__(self, rows: slice, columns: slice) -> tuple[SetBlock, ...]:
        """Return the one or two blocks of sets that a tile compares."""
        across = self.rows if self.columns is None else self.columns
        row_block = SetBlock(self.rows[rows], rows.start, False)
        if self.columns is None and rows == columns:
            return (row_block,)
        return row_block, SetBlock(across[columns], columns.start, self.columns is not None)


@dataclass(frozen=True)
class CompareTile:
    """Callable that estimates the divergences of all pairs of a tile; sent to every worker once."""

    estimator: DivergenceEstimator

    def __call__(self, tile: tuple[SetBlock, ...]) -> Tile:
        """Return the values of a tile, and of its transpose (None if not needed)."""
        estimator = self.estimator
        a = tile[0].prepare(estimator)
        if len(tile) == 1:
            return square(estimator, a), None
        b = tile[1].prepare(estimator)
        values = rectangle(estimator, a, b)
        if tile[1].other:
            return values, None
        return values, values.T if estimator.symmetric else rectangle(estimator, b, a)


def fill_matrix(
    work: Callable[[Any], Tile], pairs: PairTiles, rows: Sets, columns: Sets | None, *,
    what: str, label: str, sample: tuple[float, float] | None, verbose: bool | int,
) -> F64:  # fmt: skip
    """Print the plan, with the time predicted from ``sample`` in seconds, and compute the matrix."""
    local = isinstance(rows, SampleSets) or isinstance(columns, SampleSets)
    read_bytes = tile_read_bytes(pairs, rows, columns)
    plan = plan_pairs(pairs, what=what, read_bytes=read_bytes, sample=sample, local=local)
    with plan.run(verbose) as progress:
        return fill_pairs(work, TileReader(rows, columns), pairs, label=label, progress=progress, local=local)


def is_small(rows: Sets, columns: Sets | None) -> bool:
    """Return whether collections in memory are compared faster than threads start."""
    across = rows if columns is None else columns
    in_memory = isinstance(rows, SampleSets) and isinstance(across, SampleSets)
    return in_memory and rows.n_points * across.n_points * rows.n_dims <= MIN_THREADED_PRODUCTS


def compute_single_tile(work: Callable[[Any], Tile], rows: Sets, columns: Sets | None) -> F64:
    """Compute the matrix as one tile, in the calling thread."""
    everything = slice(0, len(rows)), slice(0, len(rows if columns is None else columns))
    with one_blas_thread():
        return work(TileReader(rows, columns)(*everything))[0].astype(np.float64, copy=False)


def rectangle(estimator: DivergenceEstimator, a: list[Any], b: list[Any]) -> F64:
    """Return the divergences (len(a), len(b)) of prepared sets; some estimators compare all pairs at once."""
    if hasattr(estimator, "matrix"):
        return np.asarray(estimator.matrix(a, b))
    return np.array([[estimator.pair(x, y) for y in b] for x in a])


def square(estimator: DivergenceEstimator, a: list[Any]) -> F64:
    """Return the divergences (len(a), len(a)) of prepared sets, with zeros on the diagonal."""
    if hasattr(estimator, "matrix"):
        values = rectangle(estimator, a, a)
        np.fill_diagonal(values, 0)
        return values
    values = np.zeros((len(a), len(a)))
    for i, j in itertools.combinations(range(len(a)), 2):
        values[i, j] = estimator.pair(a[i], a[j])
        values[j, i] = values[i, j] if estimator.symmetric else estimator.pair(a[j], a[i])
    return values


def time_sample(estimator: DivergenceEstimator, rows: Sets, columns: Sets | None) -> tuple[float, float]:
    """Return the seconds for reading and preparing a set, and for comparing a pair, from up to three sets per side.

    Some estimators complete the preparation of a set in its first comparison, so the second comparison is timed.
    """
    across = rows if columns is None else columns
    SetBlock(rows[:1], 0, False).prepare(estimator)  # warm-up: excludes compilation from the timing
    started = time.perf_counter()
    a, b = _prepare_sample(estimator, rows, False), _prepare_sample(estimator, across, columns is not None)
    pairs = [(x, y) for i, x in enumerate(a) for j, y in enumerate(b) if columns is not None or i != j]
    seconds = []
    for _ in range(2):
        for x, y in pairs:
            estimator.pair(x, y)
        seconds.append(time.perf_counter() - started)
    second_run = seconds[1] - seconds[0]
    n_directions = 2 if columns is None and not estimator.symmetric else 1
    return (seconds[0] - second_run) / (len(a) + len(b)), n_directions * second_run / max(1, len(pairs))


def _prepare_sample(estimator: DivergenceEstimator, sets: Sets, other: bool) -> list[Any]:
    positions = np.unique(np.linspace(0, len(sets) - 1, N_TIMED_SETS).astype(np.int64)).tolist()
    return [SetBlock(sets[i : i + 1], i, other).prepare(estimator)[0] for i in positions]
