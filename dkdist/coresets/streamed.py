"""Coresets of sets that are read piece by piece: two passes, whatever the number of points.

    pass 1   bounds, total weight, the heaviest points, 1,024 points for the median
    pass 2   of each piece: its share of the mean embedding, its share of what distances are found from, the points that
             are heavy enough to stand for themselves, and a leaf of the others: candidates, one of each of its
             regions (or draws by weight)
    then     swaps over all leaves toward the mean embedding of the whole set
    pass 3   for optimal weights: the sums over all points of the kernel with each of the coreset

Shares are added in a tree whose shape follows from the number of pieces: every scheduler gives the same bits, on
processors of one kind.

Kernel distances between weighted points that are seen piece by piece, from sums over the points.

Of the Gaussian kernel in up to three dimensions the sums are those over cells (`kernel_cells`), with a certified error;
of others, of more dimensions, and where cells would fill the memory, random Fourier features.

The first pass over a set that is read piece by piece: what its coreset has to know before any point is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dkdist._base.parameter_checks import draw_seed, median_seed
from dkdist._base.params import EmbeddingSpec
from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import least_keys, row_keys
from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._runtime.blocks import Job
from dkdist._runtime.map_reduce import default_window, map_blocks, tree_sum
from dkdist._runtime.process import materialize_params
from dkdist.coresets import selection as choosing
from dkdist.coresets._coreset_numba import (
    certain_points,
    inclusion_threshold,
    pivotal,
    sample_pivotal,
    sample_strata,
    sample_weighted,
    spatial_order,
)
from dkdist.coresets.selection import (
    MEDIAN_SAMPLE_SIZE,
    CoresetParams,
    distance_feature_params,
    optimize_weights,
    quadratic_objective,
)
from dkdist.kernels._cells_numba import Cells, cell_sums, kernel_cells, sums_energy
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS
from dkdist.kernels.kernel_sums import kernel_matrix, scaled, sums
from dkdist.kernels.lazy_distance import LazyPoints, split_weights
from dkdist.kernels.mean_embedding import GridMeanSpec, RandomMeanSpec
from dkdist.sets import SampleSetError, SampleSets

CELL_KERNEL_TOL = 2.5e-9  # of cells: (W + W)^2 times it is 1e-8 W^2
MAX_CELLS = 2**22  # 32 MiB for each piece at work


class BoundingBox(NamedTuple):
    """Where points lie: the lower corner and the sides."""

    low: F64
    widths: F64

    def features(self, spec: GridMeanSpec | RandomMeanSpec, x: F64) -> F32:
        """Features (n, m) of each of the points x, counted from the middle of the box."""
        rows: F32 = materialize_params(spec).embed_points(self._centred(x))
        return rows

    def feature_sums(self, spec: EmbeddingSpec, x: F64, p: F64) -> F64:
        """sum_i p_i phi(x_i), (m,), for weights p > 0."""
        if len(x) == 0:
            return np.zeros(spec.n_features)
        row = materialize_params(spec).embed(SampleSets(self._centred(x), [0, len(x)], p / p.mean()))[0]
        return np.asarray(p.sum() * row.astype(np.float64))

    def _centred(self, x: F64) -> F32:
        return (x - (self.low + self.widths / 2)).astype(np.float32)


class DistanceEstimator(NamedTuple):
    """How distances are found: over ``cells``, or by the features that ``how`` specifies."""

    box: BoundingBox
    sigma: float
    how: Cells | RandomMeanSpec

    @property
    def certified(self) -> bool:
        """Whether the error of a distance is certified, for weights of one sign."""
        return isinstance(self.how, Cells)

    def sums(self, x: F64, p: F64) -> F64:
        """What is added up over points x (n, d) with weights p > 0."""
        if isinstance(self.how, RandomMeanSpec):
            return self.box.feature_sums(self.how, x, p)
        corner = np.zeros(x.shape[1])
        sums = cell_sums(x - self.box.low, p[:, None], corner, self.box.widths, self.sigma, self.how)
        return np.asarray(sums[0])

    def distance(self, total: F64, x: F64, w: F64) -> float:
        """Between the points whose sums are ``total`` and points x with signed weights w."""
        for sign in (1, -1):
            part = sign * w > 0
            total = total - sign * self.sums(x[part], sign * w[part])
        if isinstance(self.how, RandomMeanSpec):
            return float(np.sqrt((total**2).sum()))
        return float(np.sqrt(max(0.0, sums_energy(total[None], self.box.widths, self.sigma, self.how))))


def make_estimator(box: BoundingBox, choice: CoresetParams) -> DistanceEstimator:
    """The judge with the least error for points of a box."""
    d, sigma = len(box.low), choice.sigma
    if d <= MAX_GRID_DIMS and choice.kernel == "gaussian":
        cells = kernel_cells(box.widths, sigma, CELL_KERNEL_TOL)
        if cells is not None and cells.n_cells <= MAX_CELLS:
            return DistanceEstimator(box, sigma, cells)
    return DistanceEstimator(box, sigma, distance_feature_params(np.zeros(d), box.widths, choice))


@dataclass(frozen=True)
class BlockSummary:
    """What a piece holds: the bounds of its points of positive weight, their number and weight, and some of them.

    ``heaviest``: weights of those that may be heavy for the whole set too, and the weight of all ``others``; ``range``
    of the positive weights.
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
    """What the first pass found of the whole set, and of every piece: its points below ``heavy``, and their weight."""

    box: BoundingBox
    n: int
    weight: float
    heavy: float
    equal: bool
    counts: I64
    weights: F64
    sample: F64


def summarize_points(points: LazyPoints, size: int, seed: int) -> PointsSummary:
    """The first pass, for a coreset of ``size`` points: checks every value."""
    most = (
        1.0 if points.weighted else 2 * MEDIAN_SAMPLE_SIZE / points.n_points
    )  # keys beyond are not among the least
    extras = [(int(first), seed) for first in points.blocks.bounds[:-1]]
    look = partial(_summarize_block, points.weighted, size, most)
    looks: list[BlockSummary] = map_blocks(points.blocks, look, extras, label="look_at_points")
    counts, weights = np.array([look.count for look in looks]), np.array([look.weight for look in looks])
    n, weight, heavy = int(counts.sum()), float(weights.sum()), np.inf
    if not weight > 0:
        raise SampleSetError("the weights sum to 0: at least one point must have a positive weight")
    low, high = np.min([look.low for look in looks], axis=0), np.max([look.high for look in looks], axis=0)
    least, largest = (side([look.range[i] for look in looks]) for i, side in ((0, min), (1, max)))
    if least < largest and size < n:
        tops, others = [look.heaviest for look in looks], np.array([look.others for look in looks])
        heavy = inclusion_threshold(np.concatenate(tops), float(others.sum()), size)
        counts = counts - [int((mine >= heavy).sum()) for mine in tops]
        weights = others + [float(mine[mine < heavy].sum()) for mine in tops]
    keys, sample = (
        np.concatenate(parts) for parts in zip(*((look.keys, look.sample) for look in looks), strict=True)
    )
    sample = sample[least_keys(keys, MEDIAN_SAMPLE_SIZE)]
    return PointsSummary(
        BoundingBox(low, high - low), n, weight, heavy, least == largest, counts, weights, sample
    )


def _summarize_block(
    weighted: bool, size: int, most: float, block: Array, extra: tuple[int, int]
) -> BlockSummary:
    first, seed = extra
    x, p = split_weights(block, weighted, first)
    keys = row_keys(first, len(x), seed)
    counted, weight, heaviest, others, span = x, float(len(x)), np.empty(0), 0.0, (1.0, 1.0)
    if p is not None:
        weight, here = float(p.sum()), np.flatnonzero(p > 0)
        keys, counted, p = keys[here], x[here], p[here]
        top = np.arange(len(p)) if len(p) <= size else certain_points(p, size)
        heaviest, others = p[top], float(np.delete(p, top).sum())
        span = (float(p.min()), float(p.max())) if len(p) else (np.inf, -np.inf)
    drawn = np.flatnonzero(keys <= most)
    drawn = drawn[least_keys(keys[drawn], MEDIAN_SAMPLE_SIZE)]
    nothing = np.full(x.shape[1], np.inf)
    low, high = (counted.min(axis=0), counted.max(axis=0)) if len(counted) else (nothing, -nothing)
    return BlockSummary(low, high, len(counted), weight, heaviest, others, span, keys[drawn], counted[drawn])


class PartialSums(NamedTuple):
    """Sums over some pieces, and their leaves: rows of the set, points, weights and keys to draw by."""

    mean: F64
    judged: F64
    rows: I64
    points: F64
    weights: F64
    keys: F64


def streamed_coreset(
    points: LazyPoints,
    size: int,
    sigma: float | str,
    kernel: str,
    method: str,
    optimal: bool,
    random_state: Any,
) -> tuple[I64, F64, float, F64, float, int, float | None]:
    """Indices and weights of the points that stand for the whole set, and what else a `Coreset` holds, in its order."""
    choosing.check_size(size, points.n_points)
    if method == "every":
        raise ValueError("method='every' needs all points in order: load them, or use 'swap'")
    width = choosing.check_sigma(sigma)
    found = summarize_points(points, size, median_seed(random_state))
    total = found.weight if points.weighted else 1.0
    choosing.check_float32_range(width_of_the_points=float(found.box.widths.max()), total_weight=total)
    width = choosing.median_sigma(found.sample) if width is None else width
    choosing.check_float32_range(bandwidth_sigma=width)
    choice = choosing.CoresetParams(size, width, method, draw_seed(random_state), kernel)
    indices, weights, distance, few = _chosen_points(points, found, choice, optimal)
    return indices, weights, distance, few, width, points.n_points, total if points.weighted else None


def _chosen_points(
    points: LazyPoints, found: PointsSummary, choice: choosing.CoresetParams, optimal: bool
) -> tuple[I64, F64, float, F64]:
    """The second pass, the choice, and the third pass if weights are to be ``optimal``."""
    size, box = choice.size, found.box
    half = (box.widths / 2).astype(np.float32).astype(np.float64)
    draws = size if choice.method == "random" and size < found.n else 0
    spec, judge = choosing.point_feature_params(-half, half, choice), make_estimator(box, choice)
    unit = 1.0 if points.weighted else 1 / points.n_points
    task = CoresetTask(choice, points.weighted, unit, spec, judge, draws, found.heavy, found.equal)
    firsts = [int(first) for first in points.blocks.bounds[:-1]]
    leaves = _leaf_sizes(found, size)
    jobs = [Job((i,), (i, first, leaves[i])) for i, first in enumerate(firsts)]
    window = default_window(points.blocks.local)
    merge = partial(_merge_sums, draws if found.equal else 0)
    total: PartialSums = tree_sum(
        points.blocks, jobs, partial(_sum_block, task), merge, window=window, label="coreset_shares"
    )
    if size >= found.n:
        chosen, weights = np.arange(len(total.rows)), total.weights
    else:
        chosen, weights = _choose_all(task, total, task.unit * float(found.weights.sum()))
    few = total.points[chosen]
    distance = task.judge.distance(total.judged, few, weights)
    if optimal and size < found.n:
        jobs = [Job((i,), first) for i, first in enumerate(firsts)]
        work = partial(_sum_overlaps, task, few)
        overlaps = tree_sum(points.blocks, jobs, work, np.add, window=window, label="coreset_weights")
        given, K = weights, kernel_matrix(few - box.low, few - box.low, choice.sigma, choice.kernel)
        weights = optimize_weights(K, overlaps, given)
        if task.judge.certified:  # weights of both signs would add to its error
            gain = quadratic_objective(K, overlaps, weights) - quadratic_objective(K, overlaps, given)
            distance = float(np.sqrt(max(0.0, distance**2 + gain)))
        else:
            distance = task.judge.distance(total.judged, few, weights)
    return total.rows[chosen], weights, distance, few


def _sum_overlaps(task: CoresetTask, few: F64, made: Iterator[Any], first: int) -> F64:
    """The third pass over a block: sum_i p_i k(x_i, s) for each point s of the coreset."""
    x, p = split_weights(next(made), task.weighted, first)
    weights = np.full((len(x), 1), task.unit) if p is None else p[:, None]
    u, v = (scaled(y - task.judge.box.low, task.choice.sigma, task.choice.kernel) for y in (few, x))
    return sums(u, v, weights, task.choice.kernel)[:, 0]


def _choose_all(task: CoresetTask, total: PartialSums, W: float) -> tuple[I64, F64]:
    """(positions of leaves, weights) of heavy points as they are, and of others of equal weight, ``W`` in all."""
    size, random = task.choice.size, task.choice.method == "random"
    if random and not task.equal:
        shares = np.minimum(total.weights, task.heavy)
        rng = np.random.default_rng([task.choice.seed, RngStream.CORESET])
        chosen = sample_pivotal(shares, size, rng.random(len(shares)))
        return chosen, np.maximum(total.weights[chosen], task.heavy)
    heavy = np.flatnonzero(total.weights >= task.heavy)
    light, n = np.flatnonzero(total.weights < task.heavy), size - len(heavy)
    chosen = np.argsort(total.rows) if random else light[_choose_light(task, total, light, W, n)]
    return np.concatenate([heavy, chosen]), np.concatenate([total.weights[heavy], np.full(n, W / n)])


def _leaf_sizes(found: PointsSummary, size: int) -> list[int]:
    """Candidates that each piece gives: by weight, and by number as many as a coreset of it would need."""
    base, n = max(choosing.MAX_CANDIDATES, size), int(found.counts.sum())  # of light points
    if n <= base:
        return [int(count) for count in found.counts]
    ends = np.floor(np.cumsum(found.weights) / found.weights.sum() * base + 0.5).astype(np.int64)
    by_weight, by_number = np.diff(ends, prepend=0), -(-size * found.counts // n)
    return [int(k) for k in np.minimum(found.counts, np.maximum(by_weight, by_number))]


class CoresetTask(NamedTuple):
    """What is asked of every piece; ``draws`` points by weight, or strata if none.

    Points of weight ``heavy`` or more stand for themselves, outside the means; ``equal``: all weights are.
    """

    choice: choosing.CoresetParams
    weighted: bool
    unit: float  # the weight of a point that has none
    embedding: GridMeanSpec | RandomMeanSpec
    judge: DistanceEstimator
    draws: int
    heavy: float
    equal: bool


def _sum_block(task: CoresetTask, made: Iterator[Any], extra: tuple[int, int, int]) -> PartialSums:
    """The second pass over a block: ``extra`` are its number, its first row, and how many candidates it gives."""
    number, first, n_leaf = extra
    x, p = split_weights(next(made), task.weighted, first)
    rows = np.arange(first, first + len(x))
    if p is None:
        p = np.full(len(x), task.unit)
    else:
        counted = p > 0
        rows, x, p = rows[counted], x[counted], p[counted]
    judged = task.judge.sums(x, p)
    heavy, light = np.flatnonzero(p >= task.heavy), np.flatnonzero(p < task.heavy)
    rng = np.random.default_rng([task.choice.seed, RngStream.CORESET, number])
    keys = np.empty(0)
    if task.draws and task.equal:
        keys = rng.exponential(size=len(x)) / p  # the smallest ones are draws without repetition
        chosen = np.sort(np.argsort(keys, kind="stable")[: task.draws])
        keys, weights = keys[chosen], p[chosen]
    elif task.draws:
        chosen, weights = _sample_pivotal(p[light], task.heavy, rng)
    else:
        chosen, weights = _sample_regions(task, x[light], p[light], n_leaf, rng)
    mean = task.judge.box.feature_sums(task.embedding, x[light], p[light])
    chosen, weights = np.concatenate([heavy, light[chosen]]), np.concatenate([p[heavy], weights])
    return PartialSums(mean, judged, rows[chosen], x[chosen], weights, keys)


def _sample_pivotal(p: F64, heavy: float, rng: np.random.Generator) -> tuple[I64, F64]:
    """(positions, weights) of draws with probabilities p / heavy; what is left at the end of a piece weighs less."""
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
    order = spatial_order((x - task.judge.box.low).astype(np.float32), len(x) // n)
    if task.equal:
        return order[sample_strata(p[order], n, rng.random(n))], np.full(n, p.sum() / n)
    places, weights = sample_weighted(p[order], n, rng.random(len(p)))
    return order[places], weights


def _merge_sums(draws: int, left: PartialSums, right: PartialSums) -> PartialSums:
    mean, judged = left.mean + right.mean, left.judged + right.judged
    rows, points = np.concatenate([left.rows, right.rows]), np.concatenate([left.points, right.points])
    weights, keys = np.concatenate([left.weights, right.weights]), np.concatenate([left.keys, right.keys])
    if 0 < draws < len(keys):
        kept = np.sort(np.argsort(keys, kind="stable")[:draws])
        rows, points, weights, keys = rows[kept], points[kept], weights[kept], keys[kept]
    return PartialSums(mean, judged, rows, points, weights, keys)


def _choose_light(task: CoresetTask, total: PartialSums, light: I64, W: float, size: int) -> I64:
    """Positions among light leaves: strata of them, halving, or swaps toward the mean embedding of all light points."""
    method, box = task.choice.method, task.judge.box
    rng = np.random.default_rng([task.choice.seed, RngStream.CORESET])
    points = total.points[light]
    order = spatial_order((points - box.low).astype(np.float32))
    weights = total.weights[light][order]
    if method == "stratified":
        return order[choosing.sample_regions(weights, task.equal, size, rng)]
    if method == "halving" and task.equal:
        n = choosing.halving_start_size(size, len(order))
        order, weights = order[sample_strata(weights, n, rng.random(n))], np.ones(n)
    phi = box.features(task.embedding, points[order])
    choice, mean = task.choice._replace(size=size), total.mean / W
    return order[choosing.choose_from_candidates(phi, weights, task.equal, mean, choice, rng)]
