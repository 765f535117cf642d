"""Distance profiles of points without weights: means of sorted distances over equal intervals of levels.

    out[i, q] = L int_(q/L)^((q+1)/L) F_i^(-1)(t) dt,    F_i the distribution of the distances |x_i - y_j| over j

One point per lane: a column contains its float32 distances, computed in float64, to all references. A sorting network
sorts the columns. Cost per point: m (d + log2(m)^2 / 4) steps for m references, divided by the number of lanes.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist._numba.compilation import FMA, inline_jit, jit
from dkdist._numba.elementary import f32, maximum, minimum
from dkdist._numba.points import cache_lines, read_only
from dkdist._numba.simd import SIMD_WIDTH, full, fused, load, minus, rounded, square_roots, store, zeros
from dkdist._numba.sorting import padded_rows, sort_blocks, sort_columns


def fill_profiles(
    points: F32, offsets: I64, references: F32, reference_offsets: I64, n_quantiles: int, out: F32
) -> None:
    """Fill rows of out (n, L) with means of the distances from points (n, d) to the references (m, d) of their set."""
    n_references = int(np.diff(reference_offsets).max(initial=1))
    d, rows = points.shape[1], padded_rows(n_references)
    x, y, lanes, shares = cache_lines(
        rows * SIMD_WIDTH, n_quantiles * SIMD_WIDTH, 2 * d * SIMD_WIDTH, n_references + n_quantiles
    )
    arrays = (read_only(a) for a in (points, offsets, references, reference_offsets))
    _fill_profiles(*arrays, n_quantiles, x, y, lanes.view(np.float64), shares, out)


@jit(FMA)
def _fill_profiles(points, offsets, references, reference_offsets, L, x, y, lanes, shares, out):  # type: ignore[no-untyped-def]
    for s in range(len(offsets) - 1):
        start, m = reference_offsets[s], reference_offsets[s + 1] - reference_offsets[s]
        _fill_shares(m, L, shares)
        for first in range(offsets[s], offsets[s + 1], SIMD_WIDTH):
            n = minimum(SIMD_WIDTH, offsets[s + 1] - first)
            _fill_distances(points, first, n, references, start, m, lanes, x)
            sort_columns(x, m)
            sort_blocks(x, m)
            k = 0
            for q in range(L):
                mean = zeros(1, SIMD_WIDTH)
                for i in range(q * m // L, ((q + 1) * m - 1) // L + 1):
                    mean = fused(load(x, i * SIMD_WIDTH, 0, 1, SIMD_WIDTH), shares[k], mean)
                    k += 1
                store(mean, y, q * SIMD_WIDTH, 0)
            for u in range(n):
                for q in range(L):
                    out[first + u, q] = y[q * SIMD_WIDTH + u]


@inline_jit()
def _fill_shares(m, L, shares):  # type: ignore[no-untyped-def]
    """Fill the shares of m equal items in the means over L equal intervals, interval by interval."""
    k = 0
    for q in range(L):
        for i in range(q * m // L, ((q + 1) * m - 1) // L + 1):
            shares[k] = f32((minimum((i + 1) * L, (q + 1) * m) - maximum(i * L, q * m)) / m)
            k += 1


@inline_jit(FMA)
def _fill_distances(points, first, n, references, start, m, lanes, x):  # type: ignore[no-untyped-def]
    """Set x[j w + lane] = |x_lane - y_j| for the n points from row ``first`` on; other lanes repeat the last one."""
    d = points.shape[1]
    for k in range(d):
        for u in range(SIMD_WIDTH):
            lanes[k * SIMD_WIDTH + u] = points[first + minimum(u, n - 1), k]
    for j in range(m):
        squares = full(0.0, 1, SIMD_WIDTH)
        for k in range(d):
            y = full(np.float64(references[start + j, k]), 1, SIMD_WIDTH)
            difference = minus(load(lanes, k * SIMD_WIDTH, 0, 1, SIMD_WIDTH), y)
            squares = fused(difference, difference, squares)
        store(rounded(square_roots(squares)), x, j * SIMD_WIDTH, 0)
