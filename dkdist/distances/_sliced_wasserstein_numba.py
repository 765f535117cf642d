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
from dkdist._numba.elementary import f32, minimum
from dkdist._numba.points import cache_lines, read_only, total_weight
from dkdist._numba.simd import SIMD_WIDTH, full, fused, load, rounded, store, times, widened
from dkdist._numba.sorting import padded_rows, row_at_rank, sort_blocks, sort_columns
from dkdist.distances._tuning import MAX_NETWORK_POINTS

# Tolerance for rounded sums of weights (tests/distances/test_sliced_wasserstein_embedding.py).
LEVEL_ROUNDING = 1.0 - 1e-12
INDEX_BITS = np.int64(2**29 - 1)  # bits of a float64 mantissa that are zero for a float32


def projected_quantiles(
    points: F32, offsets: I64, weights: F32 | None, centre: F64, directions: F64, n_quantiles: int
) -> F32:
    """Return rows (n_sets, L Q) float32: Q quantiles for each of L directions (L, d), direction by direction."""
    out = np.empty((len(offsets) - 1, len(directions) * n_quantiles), np.float32)
    sizes, centre, U = np.diff(offsets), read_only(centre), _group_directions(directions)
    is_large = sizes > MAX_NETWORK_POINTS
    n_rows = padded_rows(int(sizes[~is_large].max(initial=1)))
    x, y = cache_lines(n_rows * SIMD_WIDTH, n_quantiles * SIMD_WIDTH)
    arrays = read_only(points), read_only(offsets), read_only(is_large), centre, U, n_quantiles, x
    if weights is None:
        _quantiles(*arrays, y, out)
    else:
        keys = cache_lines(2 * n_rows * SIMD_WIDTH)[0].view(np.float64)
        _weighted_quantiles(*arrays, read_only(weights.reshape(-1)), keys, keys.view(np.int64), out)
    for s in np.flatnonzero(is_large):
        part = slice(offsets[s], offsets[s + 1])
        own_weights = None if weights is None else weights.reshape(-1)[part]
        _fill_large_set(read_only(points[part]), own_weights, centre, U, out[s].reshape(len(directions), -1))
    return out


def _group_directions(directions: F64) -> F64:
    """Group directions (L, d) by SIMD width w: return (L / w, d, w), padded with zeros."""
    L, d = directions.shape
    padded = np.zeros((-(-L // SIMD_WIDTH) * SIMD_WIDTH, d))
    padded[:L] = directions
    return read_only(np.ascontiguousarray(padded.reshape(-1, SIMD_WIDTH, d).transpose(0, 2, 1)))


def _fill_large_set(points: F32, weights: F32 | None, centre: F64, U: F64, rows: F32) -> None:
    """Fill the row (L, Q) of one set; needs less memory than the network, because NumPy sorts.

    Without weights, rows are bitwise identical to those of `_quantiles`.
    """
    (L, Q), n = rows.shape, len(points)
    ranks, factor = ((2 * np.arange(Q) + 1) * n + 2 * Q - 1) // (2 * Q) - 1, 1 / np.sqrt(float(rows.size))
    x = np.empty((n + -n % 4, SIMD_WIDTH), np.float32)
    for u in range(L):
        if u % SIMD_WIDTH == 0:
            _project(points, centre, U[u // SIMD_WIDTH], x.reshape(-1))
        line = x[:n, u % SIMD_WIDTH]
        if weights is None:
            rows[u] = np.sort(line)[ranks] * factor
        else:
            order = np.argsort(line)
            cumulative = np.cumsum(weights[order], dtype=np.float64)
            levels = (np.arange(Q) + 0.5) / Q * cumulative[-1] * LEVEL_ROUNDING
            rows[u] = line[order][np.searchsorted(cumulative, levels)] * factor


@jit(FMA)
def _quantiles(points, offsets, skipped, centre, U, Q, x, y, out):  # type: ignore[no-untyped-def]
    L, factor = out.shape[1] // Q, 1 / np.sqrt(float(out.shape[1]))
    for s in range(len(out)):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        if skipped[s]:
            continue
        for first in range(0, L, SIMD_WIDTH):
            _project_lanes(points, start, n, centre, U[first // SIMD_WIDTH], x)
            sort_columns(x, n)
            for q in range(Q):
                rank = ((2 * q + 1) * n + 2 * Q - 1) // (2 * Q) - 1
                quantiles = times(widened(row_at_rank(x, rank)), full(factor, 1, SIMD_WIDTH))
                store(rounded(quantiles), y, q * SIMD_WIDTH, 0)
            for u in range(minimum(SIMD_WIDTH, L - first)):
                for q in range(Q):
                    out[s, (first + u) * Q + q] = y[q * SIMD_WIDTH + u]


@jit(FMA)
def _weighted_quantiles(points, offsets, skipped, centre, U, Q, x, weights, keys, bits, out):  # type: ignore[no-untyped-def]
    L, factor = out.shape[1] // Q, 1 / np.sqrt(float(out.shape[1]))
    for s in range(len(out)):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        if skipped[s]:
            continue
        total = total_weight(weights, True, start, start + n)
        for first in range(0, L, SIMD_WIDTH):
            _project_lanes(points, start, n, centre, U[first // SIMD_WIDTH], x)
            # the low bits of a float64, which a float32 does not use, hold the index of the point
            for i in range(n):
                for k in range(i * SIMD_WIDTH, (i + 1) * SIMD_WIDTH):
                    keys[k] = x[k]
                    bits[k] |= i
            sort_columns(keys, n)
            sort_blocks(keys, n)
            for u in range(minimum(SIMD_WIDTH, L - first)):
                i, cumulative = -1, 0.0
                for q in range(Q):
                    level = (q + 0.5) / Q * total * LEVEL_ROUNDING
                    while i < 0 or (cumulative < level and i < n - 1):
                        i += 1
                        cumulative += weights[start + (bits[i * SIMD_WIDTH + u] & INDEX_BITS)]
                    out[s, (first + u) * Q + q] = f32(f32(keys[i * SIMD_WIDTH + u]) * factor)


@inline_jit(FMA)
def _project_lanes(points, start, n, centre, U, x):  # type: ignore[no-untyped-def]
    """Set x[i w + lane] = u . (x_i - c) for the w = `SIMD_WIDTH` directions of U (d, w), four points at a time.

    Points are the n rows from ``start`` on; the last one is repeated up to a multiple of four.
    """
    last = start + n - 1
    for i in range(start, start + n, 4):
        i1, i2, i3 = minimum(i + 1, last), minimum(i + 2, last), minimum(i + 3, last)
        p0 = p1 = p2 = p3 = full(0.0, 1, SIMD_WIDTH)
        for k in range(len(centre)):
            u, c = load(U, k * SIMD_WIDTH, 0, 1, SIMD_WIDTH), centre[k]
            p0, p1 = fused(u, float(points[i, k]) - c, p0), fused(u, float(points[i1, k]) - c, p1)
            p2, p3 = fused(u, float(points[i2, k]) - c, p2), fused(u, float(points[i3, k]) - c, p3)
        at = (i - start) * SIMD_WIDTH
        store(rounded(p0), x, at, 0)
        store(rounded(p1), x, at + SIMD_WIDTH, 0)
        store(rounded(p2), x, at + 2 * SIMD_WIDTH, 0)
        store(rounded(p3), x, at + 3 * SIMD_WIDTH, 0)


@jit(FMA)
def _project(points, centre, U, x):  # type: ignore[no-untyped-def]
    _project_lanes(points, 0, len(points), centre, U, x)
