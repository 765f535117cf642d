"""Quantiles of projections of weighted sets; their squared distances are squared sliced Wasserstein distances.

    row[l Q + q] = F_l^-1((q + 1/2) / Q) / sqrt(L Q),    F_l^-1(t) = min {s : weight of {u_l . (x - c) <= s} >= t}

The mean over quantiles is the midpoint rule for W_2^2 = int_0^1 (F^-1 - G^-1)^2 dt on each of L directions. It is exact
if the sizes of both sets divide Q. A fraction 1 / (2 Q) of the weight lies beyond each outermost quantile, so a
smaller fraction of outliers has no influence. Cost: L n (d + log2(n)^2 / 4) steps per set, for one direction per lane.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FMA, inline_jit, jit
from dkdist._numba.elementary import f32
from dkdist._numba.points import cache_lines, read_only, total_weight
from dkdist._numba.simd import SIMD_WIDTH, full, fused, load, rounded, store, times, widened
from dkdist._numba.sorting import padded_rows, row_at_rank, sort_columns
from dkdist.distances._tuning import MAX_NETWORK_POINTS

# Tolerance for rounded sums of weights (tests/distances/test_sliced_wasserstein_embedding.py).
LEVEL_ROUNDING = 1.0 - 1e-12


def projected_quantiles(
    points: F32, offsets: I64, weights: F32 | None, centre: F64, directions: F64, n_quantiles: int
) -> F32:
    """Return rows (n_sets, L Q) float32: Q quantiles for each of L directions (L, d), direction by direction."""
    out = np.empty((len(offsets) - 1, len(directions) * n_quantiles), np.float32)
    sizes, centre, U = np.diff(offsets), read_only(centre), _group_directions(directions)
    arrays = read_only(points), read_only(offsets)
    if weights is not None:  # a function of its own, because argsort takes seconds to compile
        (x,) = cache_lines(padded_rows(int(sizes.max(initial=1))) * SIMD_WIDTH)
        _weighted_rows(*arrays, read_only(weights.reshape(-1)), centre, U, n_quantiles, x, out)
        return out
    is_large = sizes > MAX_NETWORK_POINTS
    n_rows = padded_rows(int(sizes[~is_large].max(initial=1)))
    x, y = cache_lines(n_rows * SIMD_WIDTH, n_quantiles * SIMD_WIDTH)
    _rows(*arrays, read_only(is_large), centre, U, n_quantiles, x, y, out)
    for s in np.flatnonzero(is_large):
        part = read_only(points[offsets[s] : offsets[s + 1]])
        _fill_large_set(part, centre, U, out[s].reshape(len(directions), -1))
    return out


def _group_directions(directions: F64) -> F64:
    """Group directions (L, d) by SIMD width w: return (L / w, d, w), padded with zeros."""
    L, d = directions.shape
    padded = np.zeros((-(-L // SIMD_WIDTH) * SIMD_WIDTH, d))
    padded[:L] = directions
    return read_only(np.ascontiguousarray(padded.reshape(-1, SIMD_WIDTH, d).transpose(0, 2, 1)))


def _fill_large_set(points: F32, centre: F64, U: F64, rows: F32) -> None:
    """Fill the row (L, Q) of one set, bitwise identical to `_rows`; needs less memory, because NumPy sorts."""
    (L, Q), n = rows.shape, len(points)
    ranks, factor = ((2 * np.arange(Q) + 1) * n + 2 * Q - 1) // (2 * Q) - 1, 1 / np.sqrt(float(rows.size))
    x = np.empty((n + -n % 4, SIMD_WIDTH), np.float32)
    for u in range(L):
        if u % SIMD_WIDTH == 0:
            _project(points, centre, U[u // SIMD_WIDTH], x.reshape(-1))
        rows[u] = np.sort(x[:n, u % SIMD_WIDTH])[ranks] * factor


@jit(FMA)
def _rows(points, offsets, skipped, centre, U, Q, x, y, out):  # type: ignore[no-untyped-def]
    L, factor, ranks = out.shape[1] // Q, 1 / np.sqrt(float(out.shape[1])), np.empty(Q, np.int64)
    for s in range(len(out)):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        if skipped[s]:
            continue
        for q in range(Q):
            ranks[q] = ((2 * q + 1) * n + 2 * Q - 1) // (2 * Q) - 1
        for first in range(0, L, SIMD_WIDTH):
            _project_lanes(points[start : start + n], centre, U[first // SIMD_WIDTH], x)
            sort_columns(x, n)
            for q in range(Q):
                quantiles = times(widened(row_at_rank(x, ranks[q])), full(factor, 1, SIMD_WIDTH))
                store(rounded(quantiles), y, q * SIMD_WIDTH, 0)
            for u in range(first, min(first + SIMD_WIDTH, L)):
                for q in range(Q):
                    out[s, u * Q + q] = y[q * SIMD_WIDTH + u - first]


@jit(FMA)
def _weighted_rows(points, offsets, weights, centre, U, Q, x, out):  # type: ignore[no-untyped-def]
    L, factor = out.shape[1] // Q, 1 / np.sqrt(float(out.shape[1]))
    line = np.empty(len(x) // SIMD_WIDTH, f32)
    for s in range(len(out)):
        start, stop = offsets[s], offsets[s + 1]
        total = total_weight(weights, True, start, stop)
        for u in range(L):
            lane = u % SIMD_WIDTH
            if lane == 0:
                _project_lanes(points[start:stop], centre, U[u // SIMD_WIDTH], x)
            for i in range(stop - start):
                line[i] = x[i * SIMD_WIDTH + lane]
            row = out[s, u * Q : (u + 1) * Q]
            _weighted_quantiles(line[: stop - start], weights[start:stop], total, factor, row)


@inline_jit(FMA)
def _project_lanes(points, centre, U, x):  # type: ignore[no-untyped-def]
    """Set x[i w + lane] = u . (x_i - c) for the w = `SIMD_WIDTH` directions of U (d, w), four points at a time.

    The last point is repeated up to a multiple of four.
    """
    last = len(points) - 1
    for i in range(0, len(points), 4):
        i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        p0 = p1 = p2 = p3 = full(0.0, 1, SIMD_WIDTH)
        for k in range(len(centre)):
            u, c = load(U, k * SIMD_WIDTH, 0, 1, SIMD_WIDTH), centre[k]
            p0, p1 = fused(u, float(points[i, k]) - c, p0), fused(u, float(points[i1, k]) - c, p1)
            p2, p3 = fused(u, float(points[i2, k]) - c, p2), fused(u, float(points[i3, k]) - c, p3)
        at = i * SIMD_WIDTH
        store(rounded(p0), x, at, 0)
        store(rounded(p1), x, at + SIMD_WIDTH, 0)
        store(rounded(p2), x, at + 2 * SIMD_WIDTH, 0)
        store(rounded(p3), x, at + 3 * SIMD_WIDTH, 0)


@jit(FMA)
def _project(points, centre, U, x):  # type: ignore[no-untyped-def]
    _project_lanes(points, centre, U, x)


@inline_jit()
def _weighted_quantiles(line, weights, total, factor, row):  # type: ignore[no-untyped-def]
    order, i, cumulative = np.argsort(line, kind="mergesort"), 0, 0.0
    cumulative = np.float64(weights[order[0]])
    for q in range(len(row)):
        level = (q + 0.5) / len(row) * total * LEVEL_ROUNDING
        while cumulative < level and i < len(line) - 1:
            i += 1
            cumulative += weights[order[i]]
        row[q] = f32(line[order[i]] * factor)
