"""Few points for many where a kernel is wide: the means of regions, halved again and again across their widest side.

Moving the points of a region to their mean changes a smooth function's sum by the second order of the region's width.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def cell_means(x: F64, size: int) -> tuple[F64, F64]:
    """(means, shares) of at most ``size`` regions of points (n, d), which have as many points each, but for one."""
    if len(x) <= size:
        return x, np.full(len(x), 1 / len(x))
    means, counts = _halved(np.ascontiguousarray(x, np.float64), int(np.log2(size)))
    return means, counts / len(x)


def merged(means: F64, shares: F64) -> tuple[F64, F64]:
    """The same of regions twice as large, of an even number of them."""
    pairs = shares.reshape(-1, 2)
    total = pairs.sum(axis=1)
    return (means.reshape(-1, 2, means.shape[1]) * (pairs / total[:, None])[..., None]).sum(axis=1), total


@njit(nogil=True, cache=True)
def _halved(x, levels):  # type: ignore[no-untyped-def]
    n, d = x.shape
    order, ends = np.arange(n), np.array([0, n])
    moved = np.empty(n, np.int64)
    for _ in range(levels):
        middles = (ends[:-1] + ends[1:]) // 2
        for c in range(len(middles)):
            _split(x, order, ends[c], middles[c], ends[c + 1], moved)
        finer = np.empty(2 * len(middles) + 1, np.int64)
        finer[::2], finer[1::2] = ends, middles
        ends = finer
    means, counts = np.zeros((len(ends) - 1, d)), np.diff(ends)
    for c in range(len(means)):
        for i in order[ends[c] : ends[c + 1]]:
            for a in range(d):
                means[c, a] += x[i, a] / counts[c]
    return means, counts


@njit(nogil=True, cache=True)
def _split(x, order, start, middle, stop, moved):  # type: ignore[no-untyped-def]
    """Order positions ``start`` to ``stop`` such that those before ``middle`` lie on one side."""
    widest, side = 0, -1.0
    for a in range(x.shape[1]):
        low, high = x[order[start], a], x[order[start], a]
        for i in order[start:stop]:
            low, high = min(low, x[i, a]), max(high, x[i, a])
        if high - low > side:
            widest, side = a, high - low
    values = np.empty(stop - start)
    for i in range(start, stop):
        values[i - start] = x[order[i], widest]
    wall = np.partition(values, middle - start)[middle - start]
    equal, left = middle - start, 0
    for value in values:
        equal -= value < wall
    right = middle - start
    for i in range(start, stop):
        value = values[i - start]
        if value < wall or (value == wall and equal > 0):
            equal -= value == wall
            moved[left] = order[i]
            left += 1
        else:
            moved[right] = order[i]
            right += 1
    order[start:stop] = moved[: stop - start]
