"""Tiles of pairs of sets: cut from two collections, read and compared in a task, and timed beforehand."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dkdist._base.inputs import Sets
from dkdist._base.invalid_sets import PartialResult, run_skipping_invalid
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.pairs import PairTiles, Tile, fill_pairs, plan_pairs, tile_bounds
from dkdist._runtime.process import one_blas_thread
from dkdist.io import SetStore
from dkdist.pairwise_matrices.divergence_params import DivergenceEstimator, Place
from dkdist.sets import SampleSets

SAMPLE_SETS = 3  # of each side, whose pairs are timed for the plan
FEW_PRODUCTS = 2**17  # of coordinates: up to which starting threads takes longer than comparing


def _point_bytes(sets: Sets) -> int:
    return sets.n_dims * sets.points_dtype.itemsize


def tile_bounds_of(sets: Sets) -> I64:
    """Where a collection is cut into the sides of tiles, by its sizes."""
    own = sets.block_sets if isinstance(sets, SetStore) else None
    return tile_bounds(sets.sizes, _point_bytes(sets), own)


def tile_read_bytes(pairs: PairTiles, rows: Sets, columns: Sets | None) -> int:
    """What all tiles read from stores: every block once for each tile it is in."""
    sides = zip((rows, rows if columns is None else columns), pairs.n_read, strict=True)
    return sum(
        n * sets.n_points // max(1, len(sets)) * _point_bytes(sets)
        for sets, n in sides
        if isinstance(sets, SetStore)
    )


@dataclass(frozen=True)
class Block:
    """Some sets of one side, at their place there."""

    sets: Sets
    first: int
    other: bool

    def prepared(self, measure: DivergenceEstimator) -> list[Any]:
        """What a measure makes of each set of the block beforehand."""

        def work(sets: SampleSets, first: int) -> list[Any]:
            return measure.prepare(sets, [Place(first + i, self.other) for i in range(len(sets))])

        positions = range(self.first, self.first + len(self.sets))
        made: PartialResult[list[Any]] = run_skipping_invalid(work, self.sets, positions, [], skip=False)
        return list(itertools.chain.from_iterable(made.results))


@dataclass(frozen=True)
class Cutter:
    """The blocks of a tile; one only where a block meets itself."""

    rows: Sets
    columns: Sets | None

    def __call__(self, rows: slice, columns: slice) -> tuple[Block, ...]:
        """The one or two blocks of sets that a tile compares."""
        across = self.rows if self.columns is None else self.columns
        here = Block(self.rows[rows], rows.start, False)
        if self.columns is None and rows == columns:
            return (here,)
        return here, Block(across[columns], columns.start, self.columns is not None)


@dataclass(frozen=True)
class CompareTile:
    """Compares all pairs of a tile; sent to every worker once."""

    measure: DivergenceEstimator

    def __call__(self, tile: tuple[Block, ...]) -> Tile:
        """The values of one tile."""
        measure = self.measure
        a = tile[0].prepared(measure)
        if len(tile) == 1:
            return _among(measure, a), None
        b = tile[1].prepared(measure)
        here = _across(measure, a, b)
        if tile[1].other:
            return here, None
        return here, here.T if measure.symmetric else _across(measure, b, a)


def all_pairs(
    work: Callable[[Any], Tile], pairs: PairTiles, rows: Sets, columns: Sets | None, *,
    what: str, label: str, sample: tuple[float, float] | None, verbose: bool | int,
) -> F64:  # fmt: skip
    """The matrix of all tiles, planned from the ``sample`` of seconds, announced, and filled."""
    local = isinstance(rows, SampleSets) or isinstance(columns, SampleSets)
    read_bytes = tile_read_bytes(pairs, rows, columns)
    plan = plan_pairs(pairs, what=what, read_bytes=read_bytes, sample=sample, local=local)
    with plan.run(verbose) as progress:
        return fill_pairs(work, Cutter(rows, columns), pairs, label=label, progress=progress, local=local)


def are_few(rows: Sets, columns: Sets | None) -> bool:
    """Whether two collections in memory are compared sooner than threads are started."""
    across = rows if columns is None else columns
    in_memory = isinstance(rows, SampleSets) and isinstance(across, SampleSets)
    return in_memory and rows.n_points * across.n_points * rows.n_dims <= FEW_PRODUCTS


def in_one_tile(work: Callable[[Any], Tile], rows: Sets, columns: Sets | None) -> F64:
    """The matrix as one tile, made by the thread that asks."""
    everything = slice(0, len(rows)), slice(0, len(rows if columns is None else columns))
    with one_blas_thread():
        return work(Cutter(rows, columns)(*everything))[0].astype(np.float64, copy=False)


def _across(measure: DivergenceEstimator, a: list[Any], b: list[Any]) -> F64:
    return np.array([[measure.pair(x, y) for y in b] for x in a])


def _among(measure: DivergenceEstimator, a: list[Any]) -> F64:
    made = np.zeros((len(a), len(a)))
    for i, j in itertools.combinations(range(len(a)), 2):
        made[i, j] = measure.pair(a[i], a[j])
        made[j, i] = made[i, j] if measure.symmetric else measure.pair(a[j], a[i])
    return made


def timed_sample(measure: DivergenceEstimator, rows: Sets, columns: Sets | None) -> tuple[float, float]:
    """Seconds to read and prepare a set, and to compare a pair, from up to three sets of each side.

    What is found out of a set alone when it is first compared counts as prepared: pairs are timed the second time.
    """
    across = rows if columns is None else columns
    Block(rows[:1], 0, False).prepared(measure)  # compiled code and tables are made once, not for each set
    started = time.perf_counter()
    a, b = _some(measure, rows, False), _some(measure, across, columns is not None)
    compared = [(x, y) for i, x in enumerate(a) for j, y in enumerate(b) if columns is not None or i != j]
    compare = [partial(measure.pair, x, y) for x, y in compared]
    seconds = []
    for _ in range(2):
        for pair in compare:
            pair()
        seconds.append(time.perf_counter() - started)
    again = seconds[1] - seconds[0]
    directions = 2 if columns is None and not measure.symmetric else 1
    return (seconds[0] - again) / (len(a) + len(b)), directions * again / max(1, len(compare))


def _some(measure: DivergenceEstimator, sets: Sets, other: bool) -> list[Any]:
    chosen = np.unique(np.linspace(0, len(sets) - 1, SAMPLE_SETS).astype(np.int64)).tolist()
    return [Block(sets[i : i + 1], i, other).prepared(measure)[0] for i in chosen]
