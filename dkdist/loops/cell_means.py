"""Few points for many where a kernel is wide: the means of regions, halved again and again across their widest side.

Moving the points of a region to their mean changes a smooth function's sum by the second order of the region's width.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import F64
from dkdist.loops.compile import loop


def cell_means(x: F64, size: int, weights: F64) -> tuple[F64, F64]:
    """(means, weights) of at most ``size`` regions of points (n, d), which have as many points each, but for one.

    Points have ``weights`` (n,) above zero.
    """
    if len(x) <= size:
        return x, weights
    orders = np.argsort(np.ascontiguousarray(x.T), axis=1, kind="stable")
    found: tuple[F64, F64] = _halved(np.ascontiguousarray(x, np.float64), weights, orders, int(np.log2(size)))
    return found


@loop()
def _halved(x, weights, orders, levels):  # type: ignore[no-untyped-def]
    """Means (2^levels, d) and sums of weights, from the points' ``orders`` (d, n) along each axis, which change.

    Each list holds the points of a region together, and in order: its ends are the region's sides.
    """
    n, d = x.shape
    right, aside = np.empty(n, np.int64), np.empty(n, np.int64)
    ends = np.array([0, n])
    for _ in range(levels):
        finer = np.empty(2 * len(ends) - 1, np.int64)
        finer[::2] = ends
        for c in range(len(ends) - 1):
            finer[2 * c + 1] = (ends[c] + ends[c + 1]) // 2
            _split(x, orders, ends[c], finer[2 * c + 1], ends[c + 1], right, aside)
        ends = finer
    means, sums = np.zeros((len(ends) - 1, d)), np.zeros(len(ends) - 1)
    for c in range(len(means)):
        for i in orders[0, ends[c] : ends[c + 1]]:
            sums[c] += weights[i]
            for a in range(d):
                means[c, a] += weights[i] * x[i, a]
        for a in range(d):
            means[c, a] /= sums[c]
    return means, sums


@loop()
def _split(x, orders, start, middle, stop, right, aside):  # type: ignore[no-untyped-def]
    """Order positions ``start`` to ``stop`` such that those before ``middle`` lie on one side of the widest side."""
    widest, side = 0, -1.0
    for a in range(len(orders)):
        wide = x[orders[a, stop - 1], a] - x[orders[a, start], a]
        if wide > side:
            widest, side = a, wide
    for i in range(start, stop):
        right[orders[widest, i]] = i >= middle
    for a in range(len(orders)):
        if a == widest:
            continue
        here, there = start, 0
        for i in range(start, stop):
            point = orders[a, i]
            orders[a, here] = aside[there] = point
            here, there = here + 1 - right[point], there + right[point]
        for i in range(there):
            orders[a, middle + i] = aside[i]
