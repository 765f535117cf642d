"""Parts of a point set between which a kernel is nothing: each is summed alone, however far it is from the others.

    E(x, z) = sum_parts E(part) + error,   |error| <= k(reach) (W^2 - sum_parts W_part^2),   W = sum_i |z_i|

Points of two parts are more than ``reach`` apart along an axis, so that k of them is at most k(reach): what that leaves
out are pairs that no part holds. An error of k of at most eps in every part, with k(reach) <= eps, is thus one of at
most eps W^2 in all.
"""

from __future__ import annotations

import numpy as np

from dkdist.kernel.sums.exact_loops import own_pairs, padded
from dkdist.kernel.sums.profiles_loops import GAUSSIAN
from dkdist.loops.array_types import F64, I64
from dkdist.loops.compile import loop
from dkdist.loops.tiles.weighted_points import WeightedPoints

MOST_INTERVALS = 2**18  # of all axes, in which gaps are looked for


def reach_of(sigma: float, eps: float) -> float:
    """Where the Gaussian kernel is ``eps``."""
    return float(sigma * np.sqrt(-2 * np.log(min(max(eps, 1e-300), 0.5))))


def are_one_part(points: WeightedPoints, reach: float) -> bool:
    """Whether no axis cuts the points, where that is seen without sorting them; False says nothing.

    Intervals no longer than ``reach`` hide no gap: what is between the points of one and of the next that has any does.
    """
    low, widths = points.bounds[0], points.widths
    with np.errstate(over="ignore"):
        number = float((widths / reach).max()) + 1
    if not number * points.d <= MOST_INTERVALS:
        return False
    lows, highs = np.full((points.d, int(number) + 1), np.inf), np.full((points.d, int(number) + 1), -np.inf)
    for x, _ in points.tiles():
        _widen(x, low, 1 / reach, lows, highs)
    for a, b in zip(lows, highs, strict=True):
        held = np.isfinite(a)
        if (a[held][1:] - b[held][:-1] > reach).any():
            return False
    return True


@loop()
def _widen(x, low, per_length, lows, highs):  # type: ignore[no-untyped-def]
    """The least and largest coordinate of the points in each interval of each axis."""
    for i in range(len(x)):
        for j in range(x.shape[1]):
            k = min(int((x[i, j] - low[j]) * per_length), lows.shape[1] - 1)
            lows[j, k] = min(lows[j, k], x[i, j])
            highs[j, k] = max(highs[j, k], x[i, j])


def far_parts(points: WeightedPoints, reach: float) -> tuple[I64, I64]:
    """(order of the points by parts, the first of each part, and the end).

    Points in order along an axis are cut where the next one is more than ``reach`` away, the parts that are left along
    the next axis, and so on until no axis cuts any. Cost: n log n for each axis and round, two rounds as a rule.
    """
    part, count, idle, axis = np.zeros(len(points), np.int64), 1, 0, 0
    while idle < points.d:
        column = points.column(axis)
        order = np.argsort(column)
        if count > 1:
            order = order[np.argsort(part[order], kind="stable")]
        cut = (np.diff(part[order]) > 0) | (np.diff(column[order]) > reach)
        part[order] = np.concatenate([[0], np.cumsum(cut)])
        found = int(cut.sum()) + 1
        idle, count = (1 if found > count else idle + 1), found
        axis = (axis + 1) % points.d
    order = np.argsort(part, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(part))])


def spans_energy(x: F64, z: F64, spans: I64) -> float:
    """The sum of `exact_loops.energy` of runs (first, end) of scaled points (n, d) with weights (n, C)."""
    return float(_spans(padded(x), z, spans))


@loop()
def _spans(x, z, spans):  # type: ignore[no-untyped-def]
    total, nothing = 0.0, np.empty((0, z.shape[1]))
    for s in range(len(spans)):
        a, b = spans[s, 0], spans[s, 1]
        if b - a == 1:  # k(x, x) = 1
            for c in range(z.shape[1]):
                total += z[a, c] * z[a, c]
        else:
            total += own_pairs(x[a:b] - x[a], z[a:b], GAUSSIAN, nothing, 0.0)
    return total
