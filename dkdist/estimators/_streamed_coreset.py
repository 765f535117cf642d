"""Coresets of sets that are read piece by piece: two passes, whatever the number of points.

    pass 1   bounds, total weight, 1,024 points for the median
    pass 2   of each piece: its share of the mean embedding, its share of what distances are found from, and a leaf:
             candidates of equal weight, one of each of its regions (or draws by weight)
    then     swaps over all leaves toward the mean embedding of the whole set

Shares are added in a tree whose shape follows from the number of pieces: every scheduler gives the same bits, on
processors of one kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.estimators._judging import Box, Judge, find_judge
from dkdist.estimators._lazy_points import LazyPoints, split_weights
from dkdist.estimators._thinning import BASE, ROLE, doubled, from_base, point_spec
from dkdist.execution.fold import default_window
from dkdist.execution.jobs import Job
from dkdist.execution.mapping import collect
from dkdist.execution.tree import tree_sum
from dkdist.numerics.thinning import best_weights, spatial_order, strata
from dkdist.parameters.mean import GridMeanSpec, RandomMeanSpec
from dkdist.sets import SampleSetError

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

SAMPLE = 1024  # points that the median distance is taken of


@dataclass(frozen=True)
class Look:
    """What a piece holds: the bounds of its points of positive weight, their number and weight, and some of them."""

    low: F64
    high: F64
    count: int
    weight: float
    sample: F64


@dataclass(frozen=True)
class Survey:
    """What the first pass found of the whole set, and of every piece."""

    box: Box
    counts: I64
    weights: F64
    sample: F64


@dataclass(frozen=True)
class Share:
    """Sums over some pieces, and their leaves: rows of the set, points, weights and keys to draw by."""

    mean: F64
    judged: F64
    rows: I64
    points: F64
    weights: F64
    keys: F64


def survey_points(points: LazyPoints) -> Survey:
    """The first pass: checks every value."""
    n, bounds = points.n_points, points.blocks.bounds
    sample = np.linspace(0, n - 1, min(SAMPLE, n)).round().astype(np.int64)
    ends = np.searchsorted(sample, bounds)
    extras = [
        (int(first), sample[a:b] - first)
        for first, a, b in zip(bounds[:-1], ends[:-1], ends[1:], strict=True)
    ]
    looks: list[Look] = collect(
        points.blocks, partial(_look, points.weighted), extras, label="look_at_points"
    )
    weights = np.array([look.weight for look in looks])
    if not weights.sum() > 0:
        raise SampleSetError("the weights sum to 0: at least one point must have a positive weight")
    low, high = np.min([look.low for look in looks], axis=0), np.max([look.high for look in looks], axis=0)
    counts = np.array([look.count for look in looks])
    return Survey(Box(low, high - low), counts, weights, np.concatenate([look.sample for look in looks]))


def _look(weighted: bool, block: NDArray[Any], extra: tuple[int, I64]) -> Look:
    first, picked = extra
    x, p = split_weights(block, weighted, first)
    total = float(len(x) if p is None else p.sum())
    light = np.zeros(len(x), bool) if p is None else p == 0
    sample, heavy = x[picked[~light[picked]]], x[~light] if light.any() else x
    nothing = np.full(x.shape[1], np.inf)
    low, high = (heavy.min(axis=0), heavy.max(axis=0)) if len(heavy) else (nothing, -nothing)
    return Look(low, high, len(heavy), total, sample)


def streamed_coreset(
    points: LazyPoints, found: Survey, size: int, sigma: float, method: str, optimal: bool, seed: int
) -> tuple[I64, F64, float]:
    """(indices, weights, distance) of the points that stand for the whole set: the second pass, and the choice."""
    unit = 1.0 if points.weighted else 1 / points.n_points
    W = unit * float(found.weights.sum())
    corners = np.stack([-found.box.widths, found.box.widths]) / 2
    embedding = point_spec(corners.astype(np.float32), sigma, size, seed)
    judge = find_judge(found.box, sigma, seed + 1)
    draws = size if method == "random" else 0
    work = partial(_share, Piecework(points.weighted, unit, embedding, judge, draws, seed))
    leaves = _leaf_sizes(found, size)
    jobs = [Job((i,), (i, int(first), leaves[i])) for i, first in enumerate(points.blocks.bounds[:-1])]
    window = default_window(points.blocks.local)
    total: Share = tree_sum(
        points.blocks, jobs, work, partial(_merge, draws), window=window, label="coreset_shares"
    )
    if size >= found.counts.sum():
        chosen, weights = np.arange(len(total.rows)), total.weights
    else:
        chosen = np.arange(size) if draws else _choose(found.box, embedding, total, W, size, method, seed)
        weights = np.full(size, W / size)
        if optimal:
            phi = found.box.features(embedding, total.points[chosen])
            weights = best_weights(phi, total.mean)
    chosen = chosen[np.argsort(total.rows[chosen])] if draws else chosen
    return total.rows[chosen], weights, judge.distance(total.judged, total.points[chosen], weights)


def _leaf_sizes(found: Survey, size: int) -> list[int]:
    """Candidates that each piece gives: by weight, and by number as many as a coreset of it would need."""
    base, n = max(BASE, size), int(found.counts.sum())
    if n <= base:
        return [int(count) for count in found.counts]
    ends = np.floor(np.cumsum(found.weights) / found.weights.sum() * base + 0.5).astype(np.int64)
    by_weight, by_number = np.diff(ends, prepend=0), -(-size * found.counts // n)
    return [int(k) for k in np.minimum(found.counts, np.maximum(by_weight, by_number))]


@dataclass(frozen=True)
class Piecework:
    """What the second pass asks of every piece; ``draws`` points by weight, or strata if none."""

    weighted: bool
    unit: float  # the weight of a point that has none
    embedding: GridMeanSpec | RandomMeanSpec
    judge: Judge
    draws: int
    seed: int


def _share(task: Piecework, made: Iterator[Any], extra: tuple[int, int, int]) -> Share:
    """The second pass over a block: ``extra`` are its number, its first row, and how many candidates it gives."""
    number, first, n_leaf = extra
    x, p = split_weights(next(made), task.weighted, first)
    rows = np.arange(first, first + len(x))
    if p is None:
        p = np.full(len(x), task.unit)
    else:
        heavy = p > 0
        rows, x, p = rows[heavy], x[heavy], p[heavy]
    rng = np.random.default_rng([task.seed, ROLE, number])
    if task.draws:
        keys = rng.exponential(size=len(x)) / p  # the smallest ones are draws by weight, without repetition
        chosen = np.sort(np.argsort(keys, kind="stable")[: task.draws])
        keys, weights = keys[chosen], p[chosen]
    else:
        chosen, keys = _one_of_each_region(task.judge.box, x, p, n_leaf, rng), np.empty(0)
        weights = p if len(chosen) == len(x) else np.full(len(chosen), p.sum() / max(1, len(chosen)))
    mean, judged = task.judge.box.feature_sums(task.embedding, x, p), task.judge.sums(x, p)
    return Share(mean, judged, rows[chosen], x[chosen], weights, keys)


def _one_of_each_region(box: Box, x: F64, p: F64, n: int, rng: np.random.Generator) -> I64:
    if n >= len(x):
        return np.arange(len(x))
    if n == 0:
        return np.empty(0, np.int64)
    order = spatial_order((x - box.low).astype(np.float32), len(x) // n)
    return order[strata(p[order], n, rng.random(n))]


def _merge(draws: int, left: Share, right: Share) -> Share:
    mean, judged = left.mean + right.mean, left.judged + right.judged
    rows, points = np.concatenate([left.rows, right.rows]), np.concatenate([left.points, right.points])
    weights, keys = np.concatenate([left.weights, right.weights]), np.concatenate([left.keys, right.keys])
    if len(keys) > draws:
        kept = np.sort(np.argsort(keys, kind="stable")[:draws])
        rows, points, weights, keys = rows[kept], points[kept], weights[kept], keys[kept]
    return Share(mean, judged, rows, points, weights, keys)


def _choose(
    box: Box,
    embedding: GridMeanSpec | RandomMeanSpec,
    total: Share,
    W: float,
    size: int,
    method: str,
    seed: int,
) -> I64:
    """Positions among the leaves: strata of them, halving, or swaps toward the mean embedding of the whole set."""
    rng = np.random.default_rng([seed, ROLE])
    order = spatial_order((total.points - box.low).astype(np.float32))
    weights = total.weights[order]
    if method == "stratified":
        return order[strata(weights, size, rng.random(size))]
    if method == "halving":
        n = doubled(size, len(order))
        order, weights = order[strata(weights, n, rng.random(n))], np.ones(n)
    phi = box.features(embedding, total.points[order])
    return order[from_base(phi, weights, total.mean / W, size, method, rng)]
