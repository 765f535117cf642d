"""Coresets of sets that are read piece by piece, in two passes for any number of points.

    pass 1   bounds, total weight, heaviest points, and a sample for the median distance
    pass 2   per piece: sums of the mean embedding and of the distance estimator, heavy points, and candidates
    then     swaps over the candidates of all pieces, towards the mean embedding of the whole set
    pass 3   for optimal weights: kernel sums over all points at each point of the coreset

Sums are merged in a tree whose shape depends only on the number of pieces, so results of all schedulers are bitwise
identical on one CPU type. Distances come from sums over cells (Gaussian kernel, up to three dimensions) with a
certified error, or else from random Fourier features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dkdist._base.parameter_checks import RandomStateLike, draw_seed, median_seed
from dkdist._base.params import EmbeddingSpec
from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import random_row_keys, smallest_keys
from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._runtime.blocks import Job
from dkdist._runtime.map_reduce import default_window, map_blocks, tree_sum
from dkdist._runtime.process import materialize_params
from dkdist.coresets import selection
from dkdist.coresets._coreset_numba import (
    certain_points,
    inclusion_threshold,
    pivotal,
    sample_pivotal,
    sample_strata,
    sample_weighted,
    spatial_order,
)
from dkdist.coresets._tuning import CELL_KERNEL_TOL, MAX_CANDIDATES, MAX_CELLS, MEDIAN_SAMPLE_SIZE
from dkdist.coresets.selection import (
    CoresetParams,
    distance_feature_params,
    optimize_weights,
    quadratic_objective,
)
from dkdist.kernels._cells_numba import Cells, cell_sums, kernel_cells, sums_energy
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS
from dkdist.kernels.kernel_sums import summed_matrix, summed_sums
from dkdist.kernels.lazy_distance import LazyPoints, split_weights
from dkdist.kernels.mean_embedding_params import GridMeanSpec, RandomMeanSpec
from dkdist.sets import SampleSetError, SampleSets


class BoundingBox(NamedTuple):
    """Lower corner and sides of the box that contains the points."""

    low: F64
    widths: F64

    def features(self, spec: GridMeanSpec | RandomMeanSpec, x: F64) -> F32:
        """Return features (n, m) of the points x, relative to the centre of the box."""
        rows: F32 = materialize_params(spec).embed_points(self._centred(x))
        return rows

    def feature_sums(self, spec: EmbeddingSpec, x: F64, p: F64) -> F64:
        """Return sum_i p_i phi(x_i), (m,), for weights p > 0."""
        if len(x) == 0:
            return np.zeros(spec.n_features)
        row = materialize_params(spec).embed(SampleSets(self._centred(x), [0, len(x)], p / p.mean()))[0]
        return np.asarray(p.sum() * row.astype(np.float64))

    def _centred(self, x: F64) -> F32:
        return (x - (self.low + self.widths / 2)).astype(np.float32)


class DistanceEstimator(NamedTuple):
    """Estimator of kernel distances from additive sums, over cells or by random features."""

    box: BoundingBox
    sigmas: tuple[float, ...]
    basis: list[Cells] | RandomMeanSpec

    @property
    def is_certified(self) -> bool:
        """Return whether the error of a distance is certified, for weights of one sign."""
        return not isinstance(self.basis, RandomMeanSpec)

    def sums(self, x: F64, p: F64) -> F64:
        """Return the sums over points x (n, d) with weights p > 0."""
        if isinstance(self.basis, RandomMeanSpec):
            return self.box.feature_sums(self.basis, x, p)
        corner = np.zeros(x.shape[1])
        return np.concatenate(
            [
                cell_sums(x - self.box.low, p[:, None], corner, self.box.widths, sigma, cells)[0]
                for sigma, cells in zip(self.sigmas, self.basis, strict=True)
            ]
        )

    def distance(self, total: F64, x: F64, w: F64) -> float:
        """Return the distance between the set with sums ``total`` and points x with signed weights w."""
        for sign in (1, -1):
            part = sign * w > 0
            total = total - sign * self.sums(x[part], sign * w[part])
        if isinstance(self.basis, RandomMeanSpec):
            # features approximate the mean of the kernels
            return float(np.sqrt(len(self.sigmas) * (total**2).sum()))
        ends = np.cumsum([cells.n_cells for cells in self.basis])
        parts = zip(self.sigmas, self.basis, np.split(total, ends[:-1]), strict=True)
        square = sum(sums_energy(f[None], self.box.widths, sigma, cells) for sigma, cells, f in parts)
        return float(np.sqrt(max(0.0, square)))


def make_estimator(box: BoundingBox, params: CoresetParams) -> DistanceEstimator:
    """Return the estimator with the smallest error for points in a box."""
    d, sigmas = len(box.low), params.sigmas
    if d <= MAX_GRID_DIMS and params.kernel == "gaussian":
        grids = [kernel_cells(box.widths, sigma, CELL_KERNEL_TOL / len(sigmas)) for sigma in sigmas]
        cells = [grid for grid in grids if grid is not None]
        if len(cells) == len(sigmas) and sum(grid.n_cells for grid in cells) <= MAX_CELLS:
            return DistanceEstimator(box, sigmas, cells)
    return DistanceEstimator(box, sigmas, distance_feature_params(np.zeros(d), box.widths, params))


@dataclass(frozen=True)
class BlockSummary:
    """Summary of the points of positive weight in a piece: bounds, number, total weight and a sample.

    ``heaviest`` are weights that may be heavy in the whole set, ``others`` is the total weight of the other points, and
    ``range`` is the range of positive weights.
    """

    low: F64
    high: F64
    count: int
    weight: float
    heaviest: F64
    others: float
    range: tuple[float, float]
    keys: F64
    sample: F64


class PointsSummary(NamedTuple):
    """Summary of the whole set, with number and weight of light points (weight < ``heavy``) in each piece."""

    box: BoundingBox
    n: int
    weight: float
    heavy: float
    equal: bool
    counts: I64
    weights: F64
    sample: F64


def summarize_points(points: LazyPoints, size: int, seed: int) -> PointsSummary:
    """Run the first pass for a coreset of ``size`` points, which also validates all values."""
    # The smallest keys form the sample; larger keys are almost never among them.
    max_key = 1.0 if points.weighted else 2 * MEDIAN_SAMPLE_SIZE / points.n_points
    extras = [(int(first), seed) for first in points.blocks.bounds[:-1]]
    work = partial(_summarize_block, points.weighted, size, max_key)
    parts: list[BlockSummary] = map_blocks(points.blocks, work, extras, label="summarize_points")
    counts, weights = np.array([part.count for part in parts]), np.array([part.weight for part in parts])
    n, weight, heavy = int(counts.sum()), float(weights.sum()), np.inf
    if not weight > 0:
        raise SampleSetError("weights must have a positive sum; got 0.")
    low, high = np.min([part.low for part in parts], axis=0), np.max([part.high for part in parts], axis=0)
    min_weight, max_weight = (side([part.range[i] for part in parts]) for i, side in ((0, min), (1, max)))
    if min_weight < max_weight and size < n:
        heaviest, others = [part.heaviest for part in parts], np.array([part.others for part in parts])
        heavy = inclusion_threshold(np.concatenate(heaviest), float(others.sum()), size)
        counts = counts - [int((top >= heavy).sum()) for top in heaviest]
        weights = others + [float(top[top < heavy].sum()) for top in heaviest]
    keys, sample = (
        np.concatenate(column) for column in zip(*((part.keys, part.sample) for part in parts), strict=True)
    )
    sample = sample[smallest_keys(keys, MEDIAN_SAMPLE_SIZE)]
    box = BoundingBox(low, high - low)
    return PointsSummary(box, n, weight, heavy, min_weight == max_weight, counts, weights, sample)


def _summarize_block(
    weighted: bool, size: int, max_key: float, block: Array, extra: tuple[int, int]
) -> BlockSummary:
    first, seed = extra
    x, p = split_weights(block, weighted, first)
    keys = random_row_keys(first, len(x), seed)
    inside, weight, heaviest, others, weight_range = x, float(len(x)), np.empty(0), 0.0, (1.0, 1.0)
    if p is not None:
        weight, positive_rows = float(p.sum()), np.flatnonzero(p > 0)
        keys, inside, p = keys[positive_rows], x[positive_rows], p[positive_rows]
        top = np.arange(len(p)) if len(p) <= size else certain_points(p, size)
        heaviest, others = p[top], float(np.delete(p, top).sum())
        weight_range = (float(p.min()), float(p.max())) if len(p) else (np.inf, -np.inf)
    sampled = np.flatnonzero(keys <= max_key)
    sampled = sampled[smallest_keys(keys[sampled], MEDIAN_SAMPLE_SIZE)]
    no_bound = np.full(x.shape[1], np.inf)
    low, high = (inside.min(axis=0), inside.max(axis=0)) if len(inside) else (no_bound, -no_bound)
    return BlockSummary(
        low, high, len(inside), weight, heaviest, others, weight_range, keys[sampled], inside[sampled]
    )


class PartialSums(NamedTuple):
    """Sums over some pieces, and candidates from them: row indices, points, weights and sampling keys."""

    mean: F64
    estimator_sums: F64
    rows: I64
    points: F64
    weights: F64
    keys: F64


def streamed_coreset(
    points: LazyPoints,
    size: int,
    sigma: float | str | Sequence[float],
    kernel: str,
    method: str,
    optimal: bool,
    random_state: RandomStateLike,
) -> tuple[I64, F64, float, F64, float | tuple[float, ...], int, float | None]:
    """Return the fields of a `Coreset` of the whole set, in its order."""
    selection.check_size(size, points.n_points)
    if method == "every":
        raise ValueError("method='every' requires points in memory. Load them or use 'swap'.")
    selection.check_dims(method, kernel, points.n_dims)
    sigmas = selection.check_sigma(sigma)
    summary = summarize_points(points, size, median_seed(random_state))
    total = summary.weight if points.weighted else 1.0
    selection.check_float32_range(width_of_the_points=float(summary.box.widths.max()), total_weight=total)
    sigmas = sigmas or (selection.median_sigma(summary.sample),)
    selection.check_bandwidths(sigmas)
    params = selection.CoresetParams(size, sigmas, method, draw_seed(random_state), kernel)
    indices, weights, distance, coreset_points = _select_points(points, summary, params, optimal)
    return (
        indices,
        weights,
        distance,
        coreset_points,
        selection.public_sigma(sigmas),
        points.n_points,
        total if points.weighted else None,
    )


def _select_points(
    points: LazyPoints, summary: PointsSummary, params: selection.CoresetParams, optimal: bool
) -> tuple[I64, F64, float, F64]:
    """Run the second pass and the selection, and the third pass for ``optimal`` weights."""
    size, box = params.size, summary.box
    half = (box.widths / 2).astype(np.float32).astype(np.float64)
    draws = size if params.method == "random" and size < summary.n else 0
    spec, estimator = selection.point_feature_params(-half, half, params), make_estimator(box, params)
    unit = 1.0 if points.weighted else 1 / points.n_points
    task = CoresetTask(params, points.weighted, unit, spec, estimator, draws, summary.heavy, summary.equal)
    firsts = [int(first) for first in points.blocks.bounds[:-1]]
    n_candidates = _candidate_counts(summary, size)
    jobs = [Job((i,), (i, first, n_candidates[i])) for i, first in enumerate(firsts)]
    window = default_window(points.blocks.local)
    merge = partial(_merge_sums, draws if summary.equal else 0)
    total: PartialSums = tree_sum(
        points.blocks, jobs, partial(_sum_block, task), merge, window=window, label="coreset_sums"
    )
    if size >= summary.n:
        chosen, weights = np.arange(len(total.rows)), total.weights
    else:
        chosen, weights = _choose_all(task, total, task.unit * float(summary.weights.sum()))
    coreset_points = total.points[chosen]
    distance = task.estimator.distance(total.estimator_sums, coreset_points, weights)
    if optimal and size < summary.n:
        jobs = [Job((i,), first) for i, first in enumerate(firsts)]
        work = partial(_sum_overlaps, task, coreset_points)
        overlaps = tree_sum(points.blocks, jobs, work, np.add, window=window, label="coreset_weights")
        equal_weights, K = (
            weights,
            summed_matrix(coreset_points - box.low, coreset_points - box.low, params.sigmas, params.kernel),
        )
        weights = optimize_weights(K, overlaps, equal_weights)
        if task.estimator.is_certified:  # weights of both signs would increase the error
            gain = quadratic_objective(K, overlaps, weights) - quadratic_objective(K, overlaps, equal_weights)
            distance = float(np.sqrt(max(0.0, distance**2 + gain)))
        else:
            distance = task.estimator.distance(total.estimator_sums, coreset_points, weights)
    return total.rows[chosen], weights, distance, coreset_points


def _sum_overlaps(task: CoresetTask, coreset_points: F64, blocks: Iterator[Any], first: int) -> F64:
    """Run the third pass over a block: sum_i p_i k(x_i, s) for each point s of the coreset."""
    x, p = split_weights(next(blocks), task.weighted, first)
    weights = np.full(len(x), task.unit) if p is None else p
    u, v = (y - task.estimator.box.low for y in (coreset_points, x))
    return summed_sums(u, v, weights, task.params.sigmas, task.params.kernel)


def _choose_all(task: CoresetTask, total: PartialSums, W: float) -> tuple[I64, F64]:
    """Return (positions of candidates, weights): heavy points keep their weight, others share the rest equally."""
    size, random = task.params.size, task.params.method == "random"
    if random and not task.equal:
        weights = np.minimum(total.weights, task.heavy)
        rng = np.random.default_rng([task.params.seed, RngStream.CORESET])
        chosen = sample_pivotal(weights, size, rng.random(len(weights)))
        return chosen, np.maximum(total.weights[chosen], task.heavy)
    heavy = np.flatnonzero(total.weights >= task.heavy)
    light, n = np.flatnonzero(total.weights < task.heavy), size - len(heavy)
    chosen = np.argsort(total.rows) if random else light[_choose_light(task, total, light, W, n)]
    return np.concatenate([heavy, chosen]), np.concatenate([total.weights[heavy], np.full(n, W / n)])


def _candidate_counts(summary: PointsSummary, size: int) -> list[int]:
    """Return the number of candidates per piece, proportional to its weight and sufficient for its coreset points."""
    base, n = max(MAX_CANDIDATES, size), int(summary.counts.sum())  # n: number of light points
    if n <= base:
        return [int(count) for count in summary.counts]
    ends = np.floor(np.cumsum(summary.weights) / summary.weights.sum() * base + 0.5).astype(np.int64)
    by_weight, by_number = np.diff(ends, prepend=0), -(-size * summary.counts // n)
    return [int(k) for k in np.minimum(summary.counts, np.maximum(by_weight, by_number))]


class CoresetTask(NamedTuple):
    """Parameters of the second pass: number ``draws`` of points sampled by weight, or 0 for strata.

    Points of weight ``heavy`` or more are always included, and excluded from the means. ``equal``: weights are equal.
    """

    params: selection.CoresetParams
    weighted: bool
    unit: float  # weight of a point without weights
    embedding: GridMeanSpec | RandomMeanSpec
    estimator: DistanceEstimator
    draws: int
    heavy: float
    equal: bool


def _sum_block(task: CoresetTask, blocks: Iterator[Any], extra: tuple[int, int, int]) -> PartialSums:
    """Run the second pass over a block; ``extra`` is (block number, first row, number of candidates)."""
    number, first, n_candidates = extra
    x, p = split_weights(next(blocks), task.weighted, first)
    rows = np.arange(first, first + len(x))
    if p is None:
        p = np.full(len(x), task.unit)
    else:
        is_positive = p > 0
        rows, x, p = rows[is_positive], x[is_positive], p[is_positive]
    estimator_sums = task.estimator.sums(x, p)
    heavy, light = np.flatnonzero(p >= task.heavy), np.flatnonzero(p < task.heavy)
    rng = np.random.default_rng([task.params.seed, RngStream.CORESET, number])
    keys = np.empty(0)
    if task.draws and task.equal:
        # the smallest keys form a sample without replacement (Efraimidis, Spirakis 2006)
        keys = rng.exponential(size=len(x)) / p
        chosen = np.sort(np.argsort(keys, kind="stable")[: task.draws])
        keys, weights = keys[chosen], p[chosen]
    elif task.draws:
        chosen, weights = _sample_pivotal(p[light], task.heavy, rng)
    else:
        chosen, weights = _sample_regions(task, x[light], p[light], n_candidates, rng)
    mean = task.estimator.box.feature_sums(task.embedding, x[light], p[light])
    chosen, weights = np.concatenate([heavy, light[chosen]]), np.concatenate([p[heavy], weights])
    return PartialSums(mean, estimator_sums, rows[chosen], x[chosen], weights, keys)


def _sample_pivotal(p: F64, heavy: float, rng: np.random.Generator) -> tuple[I64, F64]:
    """Sample (positions, weights) with probabilities p / heavy; the last point has the remaining, smaller weight."""
    if len(p) == 0:
        return np.empty(0, np.int64), p
    taken, last, left = pivotal(p / heavy, rng.random(len(p)))
    chosen = np.flatnonzero(taken)
    return np.append(chosen, last), heavy * np.append(np.ones(len(chosen)), left)


def _sample_regions(task: CoresetTask, x: F64, p: F64, n: int, rng: np.random.Generator) -> tuple[I64, F64]:
    if n >= len(x):
        return np.arange(len(x)), p
    if n == 0:
        return np.empty(0, np.int64), np.empty(0)
    order = spatial_order((x - task.estimator.box.low).astype(np.float32), len(x) // n)
    if task.equal:
        return order[sample_strata(p[order], n, rng.random(n))], np.full(n, p.sum() / n)
    places, weights = sample_weighted(p[order], n, rng.random(len(p)))
    return order[places], weights


def _merge_sums(draws: int, left: PartialSums, right: PartialSums) -> PartialSums:
    mean, estimator_sums = left.mean + right.mean, left.estimator_sums + right.estimator_sums
    rows, points = np.concatenate([left.rows, right.rows]), np.concatenate([left.points, right.points])
    weights, keys = np.concatenate([left.weights, right.weights]), np.concatenate([left.keys, right.keys])
    if 0 < draws < len(keys):
        smallest = np.sort(np.argsort(keys, kind="stable")[:draws])
        rows, points, weights, keys = rows[smallest], points[smallest], weights[smallest], keys[smallest]
    return PartialSums(mean, estimator_sums, rows, points, weights, keys)


def _choose_light(task: CoresetTask, total: PartialSums, light: I64, W: float, size: int) -> I64:
    """Choose positions among light candidates: strata, halving, or swaps towards the mean embedding of light points."""
    method, box = task.params.method, task.estimator.box
    rng = np.random.default_rng([task.params.seed, RngStream.CORESET])
    points = total.points[light]
    order = spatial_order((points - box.low).astype(np.float32))
    weights = total.weights[light][order]
    if method == "stratified":
        return order[selection.sample_regions(weights, task.equal, size, rng)]
    if method == "halving" and task.equal:
        n = selection.halving_start_size(size, len(order))
        order, weights = order[sample_strata(weights, n, rng.random(n))], np.ones(n)
    phi = box.features(task.embedding, points[order])
    params, mean = task.params._replace(size=size), total.mean / W
    return order[selection.choose_from_candidates(phi, weights, task.equal, mean, params, rng)]
