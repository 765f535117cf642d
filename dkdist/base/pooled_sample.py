"""A sample of the points of all sets together, and its quantiles: what one pass over blocks keeps of the points.

Up to `MOST_POINTS` points are kept all; of more, about as many are drawn, each by itself by a hash of its place
(`loops.points`), so that blocks, pieces, workers and their order change nothing. The share of points below a value is
then off by some .2 % (one standard deviation at the median, less in the tails). A set counts as many points as it has,
and its points among themselves by their weights, whatever these sum to.

Quantiles are those of the averaged inverted distribution function (number 2 of Hyndman and Fan 1996), the only ones
for which a point of weight 2 is two points and the median is the usual one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.points import drawn_points, weight_totals

MOST_POINTS, LEAST_POINTS = 2**16, 2**12  # of a sample
MOST_VALUES = 2**22  # of a sample of points of many dimensions
SEED = 0x504F4F4C  # "POOL"


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
    """What is drawn of some sets, or of a piece of one; see `drawn_points`."""
    rows = drawn_points(offsets, first_set, first_point, share, SEED)
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


ROUNDING = 1e-13  # of sums of weights


def _positive(values: ArrayLike, weights: ArrayLike | None) -> tuple[F64, F64]:
    """Values and weights as float64, without those that weigh nothing."""
    x = np.asarray(values, np.float64)
    if weights is None:
        return x, np.ones(len(x))
    w = np.asarray(weights, np.float64)
    return x[w > 0], w[w > 0]


def weighted_columns(sample: PooledSample) -> list[tuple[F64, F64]]:
    """The values of each dimension in rising order, and their weights, without those that weigh nothing."""
    return [_sorted(*_positive(column, sample.weights)) for column in sample.points.T]


def _sorted(x: F64, w: F64) -> tuple[F64, F64]:
    order = np.argsort(x, kind="stable")  # which takes what is sorted already at a glance
    return x[order], w[order]
