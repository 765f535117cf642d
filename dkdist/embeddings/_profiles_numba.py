"""Distance profiles of points without weights: means of sorted distances over equal intervals of levels.

    out[i, q] = L int_(q/L)^((q+1)/L) F_i^(-1)(t) dt,    F_i the distribution of the distances |x_i - y_j| over j

One point per lane: a column contains its distances to all references, and a sorting network sorts the columns.
Each point has a unit, a power of two, such that its largest difference from the references in a coordinate is 2^50 to
2^51 units. So squares do not overflow in float32, and only distances below 2^-63 units lose precision.
Cost per point: m (d + log2(m)^2 / 4) steps for m references, divided by the number of lanes.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist._numba.compilation import FMA, inline_jit, jit
from dkdist._numba.elementary import bits_to_float, f32, float_bits, i32, maximum, minimum
from dkdist._numba.points import cache_lines, read_only
from dkdist._numba.simd import SIMD_WIDTH, full, fused, load, minus, square_roots, store, times, zeros
from dkdist._numba.sorting import padded_rows, sort_blocks, sort_columns

EXPONENT_BITS = i32(0x7F800000)
# largest differences for which units and their inverses are normal (tests/embeddings/test_rotations.py)
SMALLEST, LARGEST = f32(2.0**-76), f32(np.finfo(np.float32).max)


def fill_profiles(
    points: F32, offsets: I64, references: F32, reference_offsets: I64, n_quantiles: int, out: F32
) -> None:
    """Fill rows of out (n, L) with means of the distances from points (n, d) to the references (m, d) of their set."""
    n_references = int(np.diff(reference_offsets).max(initial=1))
    d, L, rows = points.shape[1], n_quantiles, padded_rows(n_references)
    sizes = rows * SIMD_WIDTH, L * SIMD_WIDTH, (d + 2) * SIMD_WIDTH, 2 * d
    arrays = (read_only(a) for a in (points, offsets, references, reference_offsets))
    _fill_profiles(*arrays, L, *cache_lines(*sizes), out)


@jit(FMA)
def _fill_profiles(points, offsets, references, reference_offsets, L, x, y, lanes, box, out):  # type: ignore[no-untyped-def]
    for s in range(len(offsets) - 1):
        start, m = reference_offsets[s], reference_offsets[s + 1] - reference_offsets[s]
        _fill_box(references, start, m, box)
        for first in range(offsets[s], offsets[s + 1], SIMD_WIDTH):
            n = minimum(SIMD_WIDTH, offsets[s + 1] - first)
            _fill_lanes(points, first, n, box, lanes)
            _fill_distances(references, start, m, lanes, x)
            sort_columns(x, m)
            sort_blocks(x, m)
            units = load(lanes, len(lanes) - SIMD_WIDTH, 0, 1, SIMD_WIDTH)
            for q in range(L):
                mean = zeros(1, SIMD_WIDTH)
                for i in range(q * m // L, ((q + 1) * m - 1) // L + 1):
                    overlap = minimum((i + 1) * L, (q + 1) * m) - maximum(i * L, q * m)
                    mean = fused(load(x, i * SIMD_WIDTH, 0, 1, SIMD_WIDTH), f32(overlap / m), mean)
                store(times(mean, units), y, q * SIMD_WIDTH, 0)
            for u in range(n):
                for q in range(L):
                    out[first + u, q] = y[q * SIMD_WIDTH + u]


@inline_jit()
def _fill_box(references, start, m, box):  # type: ignore[no-untyped-def]
    """Fill the minima (d,) and the maxima (d,) of the columns of m references."""
    d = references.shape[1]
    for k in range(d):
        box[k] = box[d + k] = references[start, k]
        for j in range(start + 1, start + m):
            box[k] = minimum(box[k], references[j, k])
            box[d + k] = maximum(box[d + k], references[j, k])


@inline_jit()
def _fill_lanes(points, first, n, box, lanes):  # type: ignore[no-untyped-def]
    """Fill lanes (d + 2, w): coordinates of the n points from ``first`` on, 1 / unit, unit; the last repeats."""
    d = points.shape[1]
    for u in range(SIMD_WIDTH):
        largest = SMALLEST
        for k in range(d):
            x = points[first + minimum(u, n - 1), k]
            lanes[k * SIMD_WIDTH + u] = x
            largest = maximum(largest, maximum(abs(x - box[k]), abs(x - box[d + k])))
        unit = bits_to_float(float_bits(minimum(largest, LARGEST)) & EXPONENT_BITS) * f32(2.0**-50)
        lanes[d * SIMD_WIDTH + u], lanes[(d + 1) * SIMD_WIDTH + u] = f32(1.0) / unit, unit


@inline_jit(FMA)
def _fill_distances(references, start, m, lanes, x):  # type: ignore[no-untyped-def]
    """Set x[j w + lane] = |x_lane - y_j| in units of the lane."""
    d = references.shape[1]
    scale = load(lanes, d * SIMD_WIDTH, 0, 1, SIMD_WIDTH)
    for j in range(m):
        squares = zeros(1, SIMD_WIDTH)
        for k in range(d):
            y = full(references[start + j, k], 1, SIMD_WIDTH)
            difference = times(minus(load(lanes, k * SIMD_WIDTH, 0, 1, SIMD_WIDTH), y), scale)
            squares = fused(difference, difference, squares)
        store(square_roots(squares), x, j * SIMD_WIDTH, 0)
