"""Means and covariances of sets in units of a common centre c and scale s.

    mean_j = sum_i w_i (x_ij - c_j) / s_j,    cov_jk = sum_i w_i y_ij y_ik,    y_ij = (x_ij - c_j) / s_j - mean_j

with sum_i w_i = 1. Means are float64 sums of points minus the centre. Covariances use a second pass over points minus
their mean, with products summed in float32 over 256 points, then in float64. In one or two dimensions, one pass sums
products in float64; sets far from the centre (`MAX_SQUARED_MEAN_RATIO`) need the second pass. So there is no loss of
precision far from the origin. Cost: about d (d + 1) / 2 multiply-adds per point, vectorised over points.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FINITE_REASSOC, inline_jit, jit
from dkdist._numba.elementary import f32
from dkdist._numba.points import (
    TILE_POINTS,
    add_products,
    fill_fractions,
    read_only,
    set_arrays,
    total_weight,
)


def moments(points: F32, offsets: I64, weights: F32 | None, centre: F64, scale: F64, degree: int) -> F32:
    """Return rows (n_sets, d or d + d (d + 1) / 2) float32: mean, and upper triangle of the covariance for degree 2.

    The triangle runs row by row, (0, 0), (0, 1), ..; off-diagonal entries are multiplied by sqrt(2), so that
    Euclidean distances of rows are Frobenius distances of matrices.
    """
    d = points.shape[1]
    out = np.empty((len(offsets) - 1, d if degree == 1 else d + d * (d + 1) // 2), np.float32)
    coordinates = read_only(points.reshape(-1))
    _moments(*set_arrays(points, offsets, weights), coordinates, centre, 1 / scale, degree, out)
    return out


# E[u^2] - E[u]^2 has a relative error of at most (n / 2 + 8) 2^-53 (1 + E[u]^2 / var), because vectors have two sums or
# more. A chunk has up to 2^20 points, so this limit keeps the error below 2^-24, the rounding error of float32
# (tests/moments/test_moments_loops.py).
MAX_SQUARED_MEAN_RATIO = 2.0**10


@jit()
def _moments(points, offsets, weights, weighted, coordinates, centre, inverse, degree, out):  # type: ignore[no-untyped-def]
    d = points.shape[1]
    mean, w = np.empty(d), np.empty(TILE_POINTS)
    for s in range(len(out)):
        start, stop = offsets[s], offsets[s + 1]
        total = total_weight(weights, weighted, start, stop)
        if d <= 2 and _fill_by_one_pass(
            coordinates[d * start : d * stop],
            weights[start:stop],
            weighted,
            total,
            centre,
            inverse,
            degree,
            out[s],
        ):
            continue
        mean[:] = 0.0
        for first in range(start, stop, TILE_POINTS):
            m = min(TILE_POINTS, stop - first)
            for i in range(m):
                w[i] = weights[first + i] if weighted else 1.0
            for j in range(d):
                mean[j] += _weighted_sum(points, first, m, j, centre[j], w)
        for j in range(d):
            mean[j] /= total
            out[s, j] = f32(mean[j] * inverse[j])
        if degree == 2:
            mean += centre
            _covariance(points, start, stop, weights, weighted, total, mean, inverse, out[s, d:])


@inline_jit()
def _fill_by_one_pass(x, weights, weighted, total, centre, inverse, degree, row):  # type: ignore[no-untyped-def]
    """Fill the row of a set in one or two dimensions; return False if its covariance needs a second pass."""
    d = len(centre)
    if d == 1:
        u, v, uu, uv, vv = _sums(x, 1, weights, weighted, centre[0], centre[0])
    else:
        u, v, uu, uv, vv = _sums(x, 2, weights, weighted, centre[0], centre[1])
    u, v, uu, uv, vv = u / total, v / total, uu / total, uv / total, vv / total
    var_u, var_v = uu - u * u, vv - v * v
    if u * u > MAX_SQUARED_MEAN_RATIO * var_u or v * v > MAX_SQUARED_MEAN_RATIO * var_v:
        return False
    row[0], row[d - 1] = f32(u * inverse[0]), f32(v * inverse[d - 1])
    if degree == 1:
        return True
    row[d] = f32(var_u * inverse[0] * inverse[0])
    if d == 2:
        row[3] = f32(np.sqrt(2.0) * (uv - u * v) * inverse[0] * inverse[1])
        row[4] = f32(var_v * inverse[1] * inverse[1])
    return True


@inline_jit(FINITE_REASSOC, early=False)
def _sums(x, d, weights, weighted, a, b):  # type: ignore[no-untyped-def]
    """Return the sums of weight times (u, v, u^2, u v, v^2), for points (u + a, v + b) in d = 2; u = v in d = 1.

    d is a literal in the caller, so that loads have a constant stride and are vectorised.
    """
    s = t = ss = st = tt = 0.0
    for i in range(len(x) // d):
        w = float(weights[i]) if weighted else 1.0
        u, v = float(x[d * i]) - a, float(x[d * i + d - 1]) - b
        s += w * u
        t += w * v
        ss += w * u * u
        st += w * u * v
        tt += w * v * v
    return s, t, ss, st, tt


@inline_jit(FINITE_REASSOC)
def _weighted_sum(points, first, m, j, centre, w):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(m):
        total += w[i] * (float(points[first + i, j]) - centre)
    return total


@inline_jit()
def _covariance(points, start, stop, weights, weighted, total, mean, inverse, out):  # type: ignore[no-untyped-def]
    d = points.shape[1]
    Y, fractions, t = np.zeros((d, TILE_POINTS), f32), np.empty(TILE_POINTS, f32), np.empty(TILE_POINTS, f32)
    products, sums = np.empty(len(out), f32), np.zeros(len(out))
    for first in range(start, stop, TILE_POINTS):
        m = min(TILE_POINTS, stop - first)
        fill_fractions(weights, weighted, first, m, total, fractions)
        for i in range(m):
            for j in range(d):
                Y[j, i] = f32((float(points[first + i, j]) - mean[j]) * inverse[j])
        products[:] = f32(0.0)
        column = 0
        for j in range(d):
            for i in range(TILE_POINTS):
                t[i] = fractions[i] * Y[j, i]  # padded weights are 0
            add_products(t, Y[j:], products[column : column + d - j])
            column += d - j
        sums += products
    column = 0
    for j in range(d):
        out[column] = f32(sums[column])
        for k in range(column + 1, column + d - j):
            out[k] = f32(np.sqrt(2.0) * sums[k])
        column += d - j
