"""Points outside a box, counted set by set, and the box that points lie in."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]


@njit(nogil=True, cache=True)
def count_outside(points, offsets, low, high):  # type: ignore[no-untyped-def]
    """Points of each set with a coordinate below ``low`` or above ``high``: (n_sets,) int64."""
    counts = np.zeros(len(offsets) - 1, np.int64)
    d = points.shape[1]
    for s in range(len(counts)):
        n = 0
        for i in range(offsets[s], offsets[s + 1]):
            outside = False
            for j in range(d):
                outside |= (points[i, j] < low[j]) | (points[i, j] > high[j])
            n += outside
        counts[s] = n
    return counts


def extent(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and largest coordinates (d,) of points (n, d): by columns, many times faster than by rows."""
    return np.array([column.min() for column in x.T]), np.array([column.max() for column in x.T])
