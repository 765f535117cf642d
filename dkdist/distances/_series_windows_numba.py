"""Fractions of the outputs of filters above thresholds; a filter of a dilated window of a series is a convolution.

    y_l(t) = sum_k sum_c U_l(k, c) z(t - h + k a, c)        h = (K - 1) a // 2
    row[l Q + q] = fraction of t = 1, ..., n with y_l(t) > threshold(l, q)

z is the standardised series, zero outside 1, ..., n, for K positions in a window, variables c and dilation a. Sums
are float64: filters of sum zero then map constant pieces to |y| < 1e-12, below the margin of the thresholds.
Cost: n (K d + Q) steps per filter.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import FMA, inline_jit, jit
from dkdist._numba.elementary import f32

# 4 KiB of outputs fit the L1 cache (benchmarks/machine_rates.py). Results do not depend on it.
TILE_POINTS = 512


@jit(FMA)
def fill_fractions_above(points, offsets, centre, inverse, filters, dilation, thresholds, out):  # type: ignore[no-untyped-def]
    """Fill rows ``out`` (n_sets, L Q) for ``filters`` (L, K, d) of one dilation and ``thresholds`` (L, Q)."""
    L, K, d = filters.shape
    span, Q = (K - 1) * dilation, thresholds.shape[1]
    y, counts = np.empty(TILE_POINTS), np.empty(Q, np.int64)
    for s in range(len(out)):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        padded = np.zeros((d, n + span))
        for c in range(d):
            for i in range(n):
                padded[c, span // 2 + i] = (np.float64(points[start + i, c]) - centre[c]) * inverse[c]
        for u in range(L):
            counts[:] = 0
            for first in range(0, n, TILE_POINTS):
                tile = y[: min(TILE_POINTS, n - first)]
                tile[:] = 0.0
                for c in range(d):
                    for k in range(K):
                        _add_multiple(filters[u, k, c], padded[c, first + k * dilation :], tile)
                for q in range(Q):
                    counts[q] += _count_above(tile, np.float64(thresholds[u, q]))
            for q in range(Q):
                out[s, u * Q + q] = f32(counts[q] / n)


@inline_jit(FMA)
def _add_multiple(factor, z, y):  # type: ignore[no-untyped-def]
    for i in range(len(y)):
        y[i] += factor * z[i]


@inline_jit()
def _count_above(y, threshold):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(len(y)):
        count += y[i] > threshold
    return count
