"""Quantiles of projections of weighted sets; their squared distances are squared sliced Wasserstein distances.

    row[l Q + q] = F_l^-1((q + 1/2) / Q) / sqrt(L Q),    F_l^-1(t) = min {s : weight of {u_l . (x - c) <= s} >= t}

The mean over quantiles is the midpoint rule for W_2^2 = int_0^1 (F^-1 - G^-1)^2 dt on each of L directions. It is exact
if the sizes of both sets divide Q. A fraction 1 / (2 Q) of the weight lies beyond each outermost quantile, so a
smaller fraction of outliers has no influence. Cost: L n (d + log2 n) steps per set.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FMA, inline_jit, jit
from dkdist._numba.elementary import f32
from dkdist._numba.points import read_only, set_arrays, total_weight
from dkdist.distances._tuning import MIN_NUMPY_PROJECTIONS

DIRECTIONS_PER_GROUP = 16  # two 512-bit vectors of float64 (python benchmarks/distances.py)
# Tolerance for rounded sums of weights (tests/distances/test_sliced_wasserstein_embedding.py).
LEVEL_ROUNDING = 1.0 - 1e-12


def projected_quantiles(
    points: F32, offsets: I64, weights: F32 | None, centre: F64, directions: F64, n_quantiles: int
) -> F32:
    """Return rows (n_sets, L Q) float32: Q quantiles for each of L directions (L, d), direction by direction."""
    out = np.empty((len(offsets) - 1, len(directions) * n_quantiles), np.float32)
    centre, U = read_only(centre), _group_directions(directions)
    if weights is None and len(points) * len(directions) > MIN_NUMPY_PROJECTIONS * len(out):
        for row, start, stop in zip(out, offsets[:-1], offsets[1:], strict=True):
            _fill_large_set(read_only(points[start:stop]), centre, U, row.reshape(len(directions), -1))
    else:
        _quantiles(*set_arrays(points, offsets, weights), centre, U, n_quantiles, out)
    return out


def _group_directions(directions: F64) -> F64:
    """Group directions (L, d) by w = min(16, L): return (L / w, d, w), padded with zeros."""
    L, d = directions.shape
    width = min(L, DIRECTIONS_PER_GROUP)
    padded = np.zeros((-(-L // width) * width, d))
    padded[:L] = directions
    return read_only(np.ascontiguousarray(padded.reshape(-1, width, d).transpose(0, 2, 1)))


def _fill_large_set(points: F32, centre: F64, U: F64, rows: F32) -> None:
    """Fill the row (L, Q) of one set, bitwise identical to `_quantiles`; faster, because NumPy sorts with SIMD."""
    (L, Q), n = rows.shape, len(points)
    ranks, factor = ((2 * np.arange(Q) + 1) * n + 2 * Q - 1) // (2 * Q) - 1, 1 / np.sqrt(float(rows.size))
    lines = np.empty((U.shape[2], n), np.float32)
    for first, block in zip(range(0, L, DIRECTIONS_PER_GROUP), U, strict=True):
        _project(points, centre, block, lines)
        lines.sort(axis=1)
        rows[first : first + DIRECTIONS_PER_GROUP] = lines[: L - first, ranks] * factor


@jit(FMA)
def _quantiles(points, offsets, weights, weighted, centre, U, Q, out):  # type: ignore[no-untyped-def]
    L, factor = out.shape[1] // Q, 1 / np.sqrt(float(out.shape[1]))
    for s in range(len(out)):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        total = total_weight(weights, weighted, start, start + n)
        lines = np.empty((U.shape[2], n), f32)
        for first in range(0, L, DIRECTIONS_PER_GROUP):
            _project_lanes(points[start : start + n], centre, U[first // DIRECTIONS_PER_GROUP], lines)
            for u in range(first, min(first + DIRECTIONS_PER_GROUP, L)):
                line, row = lines[u - first], out[s, u * Q : (u + 1) * Q]
                if weighted:
                    _weighted_quantiles(line, weights[start : start + n], total, row)
                else:
                    _equal_weight_quantiles(line, row)
                for q in range(Q):
                    row[q] = f32(row[q] * factor)


@inline_jit(FMA)
def _project_lanes(points, centre, U, lines):  # type: ignore[no-untyped-def]
    """Set lines[u, i] = u . (x_i - c) for all directions of U (d, w); sums stay in vector registers."""
    width = U.shape[1]
    products = np.empty(width)
    for i in range(len(points)):
        for lane in range(width):
            products[lane] = 0.0
        for k in range(len(centre)):
            x = np.float64(points[i, k]) - centre[k]
            for lane in range(width):
                products[lane] += U[k, lane] * x
        for lane in range(width):
            lines[lane, i] = f32(products[lane])


@jit(FMA)
def _project(points, centre, U, lines):  # type: ignore[no-untyped-def]
    _project_lanes(points, centre, U, lines)


@inline_jit()
def _equal_weight_quantiles(line, row):  # type: ignore[no-untyped-def]
    line.sort()
    n, Q = len(line), len(row)
    for q in range(Q):
        row[q] = line[((2 * q + 1) * n + 2 * Q - 1) // (2 * Q) - 1]


@inline_jit()
def _weighted_quantiles(line, weights, total, row):  # type: ignore[no-untyped-def]
    order, i, cumulative = np.argsort(line, kind="mergesort"), 0, 0.0
    cumulative = np.float64(weights[order[0]])
    for q in range(len(row)):
        level = (q + 0.5) / len(row) * total * LEVEL_ROUNDING
        while cumulative < level and i < len(line) - 1:
            i += 1
            cumulative += weights[order[i]]
        row[q] = line[order[i]]
