"""Samples of points of many sets, their quantiles and moments, and bandwidths.

Rows are sampled at random from a seed, because evenly spaced rows alias with periodic data such as grids and
repeated columns.

A pooled sample keeps up to `MAX_POOLED_POINTS` points, all if there are no more. Each point is selected by a hash of
its position (`dkdist._numba.points.sample_points`), so the sample does not depend on blocks, pieces, workers
or their order. A set counts in proportion to its number of points; weights of points matter only within a set.

Quantiles invert the averaged distribution function (definition 2 of Hyndman and Fan 1996), for which a point of weight
2 equals two points. Bandwidths are common to all sets:

    Scott's rule, set by set:   h_j = median_i(std of set i along j) * median_i(n_i)^(-1 / (d + 4))
    median heuristic:           sigma = median |x - y| over pairs of rows

with the effective sample size (sum w)^2 / sum w^2 for n_i if points are weighted (Scott 1992; Garreau et al. 2017).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist._base._tuning import MAX_POOLED_POINTS, MAX_POOLED_VALUES, MIN_POOLED_POINTS, MOMENTS_BYTES
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import sample_points, weight_totals

POOL_SEED = 0x504F4F4C  # "POOL" in ASCII; arbitrary seed of all samples (tests/base/test_domains.py)
WEIGHT_SUM_RTOL = 1e-13  # rounding error of float64 sums of 65,536 weights (tests/base/test_domains.py)
# Relative rounding error of squared distances in float64, 90 units of 2^-53 (IEEE 754-2019). Rows that differ in
# float32 have larger distances.
EQUAL_ROWS_RTOL = 1e-14


def random_subset(n: int, count: int, *key: int) -> I64:
    """Return ``count`` random positions below n, or all if n is not larger; sorted."""
    if n <= count:
        return np.arange(n)
    return np.sort(
        np.random.default_rng([*key, RngStream.MEDIANS]).choice(n, count, replace=False, shuffle=False)
    )


def random_runs(n: int, n_runs: int, length: int, seed: int) -> I64:
    """Return runs of consecutive positions below n, one at random in each of ``n_runs`` equal parts."""
    if n <= n_runs * length:
        return np.arange(n)
    edges = n * np.arange(n_runs + 1) // n_runs
    starts = np.random.default_rng([seed, RngStream.MEDIANS]).integers(
        edges[:-1], edges[1:] - length, endpoint=True
    )
    return (starts[:, None] + np.arange(length)).ravel()


def random_row_keys(first: int, count: int, seed: int) -> F64:
    """Return random numbers in [0, 1) for rows from ``first`` on; they do not depend on the division into pieces."""
    bits = np.random.PCG64([seed, RngStream.MEDIANS])
    bits.advance(first)
    return np.random.Generator(bits).random(count)


def smallest_keys(keys: F64, count: int) -> I64:
    """Return positions of the ``count`` smallest keys, or all positions if there are no more; sorted."""
    return np.arange(len(keys)) if len(keys) <= count else np.sort(np.argpartition(keys, count)[:count])


@dataclass(frozen=True)
class PooledSample:
    """Points (m, d) float32 and their weights (m,) float64, or None, in the order of sets."""

    points: F32
    weights: F64 | None

    def outside_fraction(self, low: F32, high: F32) -> float:
        """Return the unweighted fraction of points outside a box."""
        is_outside = (self.points < low) | (self.points > high)
        return float(is_outside.any(axis=1).mean())


def sampling_fraction(n_points: int, d: int) -> float:
    """Return the fraction of points to sample; 1 or more if all are sampled."""
    return sample_size(d) / n_points


def sample_size(d: int) -> int:
    """Return the number of points of a pooled sample: 65,536, fewer above 64 dimensions."""
    return int(np.clip(MAX_POOLED_VALUES // d, MIN_POOLED_POINTS, MAX_POOLED_POINTS))


@dataclass(frozen=True)
class PointWeights:
    """Weights (n,) of the points of sets, or of a piece of one, and the mean weight (n_sets,) of each whole set."""

    weights: F32
    means: F64


def point_weights(weights: F32 | None, offsets: I64) -> PointWeights | None:
    """Return the weights of whole sets; None if they have none."""
    if weights is None:
        return None
    flat = weights.reshape(-1)
    return PointWeights(flat, weight_totals(flat, offsets) / np.diff(offsets))


def draw_sample(
    fraction: float,
    points: F32,
    offsets: I64,
    weights: PointWeights | None,
    first_set: int,
    first_point: int = 0,
) -> PooledSample:
    """Return a sample of sets, or of a piece of one; see `sample_points`."""
    rows = sample_points(offsets, first_set, first_point, fraction, POOL_SEED)
    sampled = points[rows].astype(np.float32, copy=False)
    if weights is None:
        return PooledSample(sampled, None)
    set_index = np.searchsorted(offsets, rows, side="right") - 1
    return PooledSample(sampled, weights.weights[rows] / weights.means[set_index])


def empty_sample(d: int) -> PooledSample:
    return PooledSample(np.empty((0, d), np.float32), None)


def concatenate_samples(samples: list[PooledSample]) -> PooledSample:
    parts = [sample for sample in samples if len(sample.points)] or samples[:1]
    weights = [sample.weights for sample in parts if sample.weights is not None]
    return PooledSample(
        np.concatenate([sample.points for sample in parts]), np.concatenate(weights) if weights else None
    )


def quantiles(values: ArrayLike, weights: ArrayLike | None, levels: ArrayLike) -> F64:
    """Return quantiles of values (n,), n > 0, at ``levels`` in [0, 1]: the averaged inverse distribution function."""
    x, w = _sort_by_value(*_drop_zero_weights(values, weights))
    mass = np.cumsum(w)
    target = np.asarray(levels, np.float64) * mass[-1]
    first = np.searchsorted(mass, target * (1 - WEIGHT_SUM_RTOL), side="left")
    last = np.searchsorted(mass, target * (1 + WEIGHT_SUM_RTOL), side="right")
    end = len(x) - 1
    return np.asarray((x[np.minimum(first, end)] + x[np.minimum(last, end)]) / 2)


def _drop_zero_weights(values: ArrayLike, weights: ArrayLike | None) -> tuple[F64, F64]:
    x = np.asarray(values, np.float64)
    if weights is None:
        return x, np.ones(len(x))
    w = np.asarray(weights, np.float64)
    return x[w > 0], w[w > 0]


def sorted_columns(sample: PooledSample) -> list[tuple[F64, F64]]:
    """Return the values of positive weight of each dimension in ascending order, and their weights."""
    if sample.weights is None:
        ones = np.ones(len(sample.points))
        return [(x, ones) for x in np.sort(sample.points.T, axis=1).astype(np.float64)]
    return [_sort_by_value(*_drop_zero_weights(column, sample.weights)) for column in sample.points.T]


def _sort_by_value(x: F64, w: F64) -> tuple[F64, F64]:
    order = np.argsort(x, kind="stable")  # linear time on sorted input
    return x[order], w[order]


def moments(points: F32, offsets: I64, weights: F32 | None) -> tuple[F64, F64, F64]:
    """Return mean and variance (n_sets, d) of each set, and effective sizes (n_sets,)."""
    rows = max(1, MOMENTS_BYTES // (8 * points.shape[1]))
    firsts = np.arange(0, max(1, len(points)), rows)
    cuts = np.unique(np.searchsorted(offsets, firsts, side="right") - 1)
    parts = []
    for a, b in itertools.pairwise([*cuts.tolist(), len(offsets) - 1]):
        part = slice(offsets[a], offsets[b])
        part_weights = None if weights is None else weights[part]
        parts.append(_moments_of_sets(points[part], offsets[a : b + 1] - offsets[a], part_weights))
    mean, variance, effective = zip(*parts, strict=True)
    return np.concatenate(mean), np.concatenate(variance), np.concatenate(effective)


def _moments_of_sets(points: F32, offsets: I64, weights: F32 | None) -> tuple[F64, F64, F64]:
    starts, x = offsets[:-1], points.astype(np.float64)
    sizes = np.diff(offsets).astype(np.float64)
    if weights is None:
        mean, total, effective = np.add.reduceat(x, starts) / sizes[:, None], sizes, sizes
    else:
        w = weights.astype(np.float64).reshape(-1)
        total = np.add.reduceat(w, starts)
        mean = np.add.reduceat(w[:, None] * x, starts) / total[:, None]
        effective = total**2 / np.add.reduceat(w**2, starts)
    # one set may be as large as memory; blocks of several sets are small
    x -= mean if len(mean) == 1 else np.repeat(mean, np.diff(offsets), axis=0)
    x *= x
    if weights is not None:
        x *= w[:, None]
    return mean, np.add.reduceat(x, starts) / total[:, None], effective


def scott_bandwidth(std: F64, size: F64, dims: int, minimum: float) -> F64:
    """Return Scott's rule for the median set, at least ``minimum``: (d,). ``dims`` is the dimension of the density."""
    h = np.median(std, axis=0) * float(np.median(size)) ** (-1 / (dims + 4))
    return np.asarray(np.maximum(h, minimum))


def median_distance(X: NDArray[np.floating]) -> float:
    """Return the median Euclidean distance between rows of X; if it is 0, the mean of the positive distances."""
    x = X.astype(np.float64)
    unit = 2.0 ** min(1000, max(-1000, int(np.frexp(np.abs(x).max(initial=0.0))[1])))  # exact: a power of 2
    x = x / unit
    x = x - np.median(x, axis=0)  # unlike the mean, robust to outliers
    square, products, end = (x**2).sum(axis=1), 2 * x @ x.T, 0
    packed = products.reshape(-1)
    for i in range(len(x) - 1):  # each pair once, overwriting products that are no longer needed
        total = square[i] + square[i + 1 :]
        d2 = total - products[i, i + 1 :]
        d2[d2 < EQUAL_ROWS_RTOL * total] = 0  # distances of equal rows are rounding errors
        packed[end : end + len(d2)] = d2
        end += len(d2)
    distances = np.sqrt(packed[:end], out=packed[:end])
    median = float(np.median(distances)) if len(distances) else 0.0
    if median > 0:
        return median * unit
    positive = distances[distances > 0]
    return float(positive.mean()) * unit if len(positive) else 0.0
