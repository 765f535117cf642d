"""What is drawn of many sets, and what it says: rows at random, a sample of all points, and widths taken of them.

Rows are drawn at random from a seed: evenly spaced ones beat with whatever has a period, pixels of a grid, repeated
columns, sets in turns. A sample of the points of all sets together is what one pass over blocks keeps of them: up to
`MOST_POINTS` are kept all; of more, about as many are drawn, each by itself by a hash of its place (`loops.points`), so
that blocks, pieces, workers and their order change nothing. The share of points below a value is then off by some .2 %
(one standard deviation at the median, less in the tails). A set counts as many points as it has, and its points among
themselves by their weights, whatever these sum to.

Quantiles are those of the averaged inverted distribution function (number 2 of Hyndman and Fan 1996), the only ones
for which a point of weight 2 is two points and the median is the usual one. Bandwidths are one for all sets:

    Scott's rule, set by set:   h_j = median_i(std of set i along j) * median_i(n_i)^(-1 / (d + 4))
    median heuristic:           sigma = median |x - y| over pairs of rows

An effective sample size (sum w)^2 / sum w^2 stands in for n_i where points are weighted. (Scott 1992;
Garreau et al. 2017.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import sample_points, weight_totals

MOST_POINTS, LEAST_POINTS = 2**16, 2**12  # of a sample
MOST_VALUES = 2**22  # of a sample of points of many dimensions
SEED = 0x504F4F4C  # "POOL"
ROUNDING = 1e-13  # of sums of weights
EQUAL = 1e-14  # of squared distances in float64; rows that differ in float32 are further apart


def some(n: int, count: int, *key: int) -> I64:
    """``count`` of n positions at random, or all; sorted."""
    if n <= count:
        return np.arange(n)
    return np.sort(
        np.random.default_rng([*key, RngStream.MEDIANS]).choice(n, count, replace=False, shuffle=False)
    )


def some_runs(n: int, n_runs: int, length: int, seed: int) -> I64:
    """Positions below n in runs of neighbours, so that few blocks are read: one at random in each of equal parts."""
    if n <= n_runs * length:
        return np.arange(n)
    edges = n * np.arange(n_runs + 1) // n_runs
    starts = np.random.default_rng([seed, RngStream.MEDIANS]).integers(
        edges[:-1], edges[1:] - length, endpoint=True
    )
    return (starts[:, None] + np.arange(length)).ravel()


def row_keys(first: int, count: int, seed: int) -> F64:
    """Random numbers in [0, 1) of rows ``first`` and after, the same in whatever pieces rows are looked at."""
    bits = np.random.PCG64([seed, RngStream.MEDIANS])
    bits.advance(first)
    return np.random.Generator(bits).random(count)


def least_keys(keys: F64, count: int) -> I64:
    """Positions of the least keys, ``count`` or all; sorted."""
    return np.arange(len(keys)) if len(keys) <= count else np.sort(np.argpartition(keys, count)[:count])


@dataclass(frozen=True)
class PooledSample:
    """Points (m, d) float32 and their weights (m,) float64, if they have any, in the order of sets."""

    points: F32
    weights: F64 | None

    def outside(self, low: F32, high: F32) -> float:
        """The share of its points, whatever their weight, outside a box."""
        outside = (self.points < low) | (self.points > high)
        return float(outside.any(axis=1).mean())


def sample_share(n_points: int, d: int) -> float:
    """The share of points that are drawn; 1 or more where all are kept."""
    return sample_size(d) / n_points


def sample_size(d: int) -> int:
    """How many points are kept: 65,536, fewer from 64 dimensions on."""
    return int(np.clip(MOST_VALUES // d, LEAST_POINTS, MOST_POINTS))


@dataclass(frozen=True)
class Weighing:
    """Weights of the points of some sets, or of a piece of one, and the mean of each whole set's."""

    weights: F32
    means: F64


def weighing_of(weights: F32 | None, offsets: I64) -> Weighing | None:
    """That of whole sets; None where all points weigh the same."""
    if weights is None:
        return None
    flat = weights.reshape(-1)
    return Weighing(flat, weight_totals(flat, offsets) / np.diff(offsets))


def drawn_sample(
    share: float, points: F32, offsets: I64, weighing: Weighing | None, first_set: int, first_point: int = 0
) -> PooledSample:
    """What is drawn of some sets, or of a piece of one; see `sample_points`."""
    rows = sample_points(offsets, first_set, first_point, share, SEED)
    kept = points[rows].astype(np.float32, copy=False)
    if weighing is None:
        return PooledSample(kept, None)
    owner = np.searchsorted(offsets, rows, side="right") - 1
    return PooledSample(kept, weighing.weights[rows] / weighing.means[owner])


def no_sample(d: int) -> PooledSample:
    """That of no sets."""
    return PooledSample(np.empty((0, d), np.float32), None)


def joined(samples: list[PooledSample]) -> PooledSample:
    """The samples of parts, one after the other."""
    full = [sample for sample in samples if len(sample.points)] or samples[:1]
    weights = [sample.weights for sample in full if sample.weights is not None]
    return PooledSample(
        np.concatenate([sample.points for sample in full]), np.concatenate(weights) if weights else None
    )


def quantiles(values: ArrayLike, weights: ArrayLike | None, levels: ArrayLike) -> F64:
    """Quantiles of (n,) values at some levels in [0, 1], n > 0: the averaged inverted distribution function."""
    x, w = _sorted(*_positive(values, weights))
    mass = np.cumsum(w)
    target = np.asarray(levels, np.float64) * mass[-1]
    first = np.searchsorted(mass, target * (1 - ROUNDING), side="left")
    last = np.searchsorted(mass, target * (1 + ROUNDING), side="right")
    top = len(x) - 1
    return np.asarray((x[np.minimum(first, top)] + x[np.minimum(last, top)]) / 2)


def _positive(values: ArrayLike, weights: ArrayLike | None) -> tuple[F64, F64]:
    """Values and weights as float64, without those that weigh nothing."""
    x = np.asarray(values, np.float64)
    if weights is None:
        return x, np.ones(len(x))
    w = np.asarray(weights, np.float64)
    return x[w > 0], w[w > 0]


def weighted_columns(sample: PooledSample) -> list[tuple[F64, F64]]:
    """The values of each dimension in rising order, and their weights, without those that weigh nothing."""
    if sample.weights is None:
        ones = np.ones(len(sample.points))
        return [(x, ones) for x in np.sort(sample.points.T, axis=1).astype(np.float64)]
    return [_sorted(*_positive(column, sample.weights)) for column in sample.points.T]


def _sorted(x: F64, w: F64) -> tuple[F64, F64]:
    order = np.argsort(x, kind="stable")  # which takes what is sorted already at a glance
    return x[order], w[order]


def moments(points: F32, offsets: I64, weights: F32 | None) -> tuple[F64, F64, F64]:
    """Mean and variance of each set along each dimension, (n_sets, d) both, and effective sizes (n_sets,)."""
    w = np.ones(len(points)) if weights is None else weights.astype(np.float64).reshape(-1)
    starts = offsets[:-1]
    total = np.add.reduceat(w, starts)
    x = points.astype(np.float64)
    mean = np.add.reduceat(w[:, None] * x, starts) / total[:, None]
    centred = x - np.repeat(mean, np.diff(offsets), axis=0)
    variance = np.add.reduceat(w[:, None] * centred**2, starts) / total[:, None]
    return mean, variance, total**2 / np.add.reduceat(w**2, starts)


def scott_bandwidth(std: F64, size: F64, dims: int, least: float) -> F64:
    """Scott's rule from the typical set, never below ``least``: (d,). ``dims`` is that of the estimated density."""
    h = np.median(std, axis=0) * float(np.median(size)) ** (-1 / (dims + 4))
    return np.asarray(np.maximum(h, least))


def median_distance(X: NDArray[np.floating]) -> float:
    """Median Euclidean distance between different rows of X; the mean of the non-zero ones if the median is 0."""
    x = X.astype(np.float64)
    unit = 2.0 ** min(1000, max(-1000, int(np.frexp(np.abs(x).max(initial=0.0))[1])))  # changes no digit
    x = x / unit
    x = x - np.median(x, axis=0)  # which outliers do not move
    square, products, end = (x**2).sum(axis=1), 2 * x @ x.T, 0
    packed = products.reshape(-1)
    for i in range(len(x) - 1):  # each pair once, in the room of products that are used up
        total = square[i] + square[i + 1 :]
        d2 = total - products[i, i + 1 :]
        d2[d2 < EQUAL * total] = 0  # equal rows: what is left is rounding
        packed[end : end + len(d2)] = d2
        end += len(d2)
    distances = np.sqrt(packed[:end], out=packed[:end])
    median = float(np.median(distances)) if len(distances) else 0.0
    if median > 0:
        return median * unit
    positive = distances[distances > 0]
    return float(positive.mean()) * unit if len(positive) else 0.0
