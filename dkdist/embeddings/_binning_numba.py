"""Cosine coefficients of large sets on a grid: each point is distributed over its 2^d nearest grid nodes.

    C_a ~ sum_g N_g prod_j cos(pi a_j g_j / G) / sinc^2(a_j / 2G),   N = linear binning of the weights

Linear interpolation damps a cosine of degree a by sinc^2(a / 2G) on average; the division corrects this. The remaining
error is aliasing from the degrees 2Gm +- a (Wand 1994), at most 1 / sinc^2(a / 2G) - 1 per dimension. With G = 2K this
bound is 1.3 % at a = K/4 and 5 % at a = K/2, and it is reached only if all points coincide. A Gaussian of the bandwidth
for K damps these degrees to 60 % and 13 %. Cost: 2^d additions per point, and d small matrix products per set.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist._numba.compilation import FINITE_FMA, inline_jit, jit
from dkdist._numba.elementary import f32
from dkdist._numba.points import set_arrays, total_weight
from dkdist._numba.products import pad_to_three, separable

# Points binned in float32 before the sums are accumulated: the rounding error of a cell is below 0.1 %.
POINTS_PER_BATCH = 65536  # tests/densities/test_binning.py
# Set sizes, by dimension, above which the grid is faster (python benchmarks/roofline.py).
MIN_BINNED_POINTS_BY_DIM = {2: 1024, 3: 256}


def binned_coefficients(
    points: F32, spans: I64, weights: F32 | None, low: F32, scale: F32, degrees: tuple[int, ...]
) -> F32:
    """Return coefficients of all degrees a_j < degrees[j], d = 2 or 3: (n_sets, K_1 * .. * K_d) float32."""
    out = np.zeros((len(spans), int(np.prod(degrees))), np.float32)
    tables = pad_to_three([_table(K) for K in degrees])
    first, second, third = tables
    _binned_coefficients(*set_arrays(points, spans, weights), low, scale, first, second, third, out)
    return out


def _table(K: int) -> F32:
    """Return cos(pi a g / G) / sinc^2(a / 2G) for a < K and g = 0 .. G, with G = 2K."""
    G = 2 * K
    a, g = np.arange(K)[:, None], np.arange(G + 1)[None, :]
    return (np.cos(np.pi * a * g / G) / np.sinc(a / (2 * G)) ** 2).astype(np.float32)


@inline_jit(FINITE_FMA)
def _cell(x, low, scale, G):  # type: ignore[no-untyped-def]
    """Return the lower grid node of a point and the weight of the upper node."""
    u = min(max((x - low) * scale, f32(0.0)), f32(1.0)) * f32(G)
    g = min(np.int64(u), G - 1)
    return g, u - f32(g)


@inline_jit(FINITE_FMA)
def _bin(points, first, last, weights, weighted, total, low, scale, grid):  # type: ignore[no-untyped-def]
    d = points.shape[1]
    G1, G2, G3 = grid.shape[0] - 1, grid.shape[1] - 1, grid.shape[2] - 1
    for i in range(first, last):
        w = f32(weights[i] / total) if weighted else f32(1.0 / total)
        g, t = _cell(points[i, 0], low[0], scale[0], G1)
        k, u = _cell(points[i, 1], low[1], scale[1], G2)
        if d == 2:
            for e in range(2):
                v = w * (t if e else f32(1.0) - t)
                grid[g + e, k, 0] += v * (f32(1.0) - u)
                grid[g + e, k + 1, 0] += v * u
            continue
        m, z = _cell(points[i, 2], low[2], scale[2], G3)
        for e in range(2):
            for f in range(2):
                v = w * (t if e else f32(1.0) - t) * (u if f else f32(1.0) - u)
                grid[g + e, k + f, m] += v * (f32(1.0) - z)
                grid[g + e, k + f, m + 1] += v * z


@jit()
def _binned_coefficients(points, spans, weights, weighted, low, scale, D1, D2, D3, out):  # type: ignore[no-untyped-def]
    (K1, M1), (K2, M2), (K3, M3) = D1.shape, D2.shape, D3.shape
    grid = np.empty((M1, M2, M3), f32)
    coefficients = np.empty((K1, K2, K3), f32)
    D3t = np.ascontiguousarray(D3.T)
    for s in range(len(spans)):
        total = total_weight(weights, weighted, spans[s, 0], spans[s, 1])
        for first in range(spans[s, 0], spans[s, 1], POINTS_PER_BATCH):
            last = min(first + POINTS_PER_BATCH, spans[s, 1])
            grid[:] = f32(0.0)
            _bin(points, first, last, weights, weighted, total, low, scale, grid)
            separable(D1, D2, D3t, grid, coefficients)
            row = coefficients.ravel()
            for c in range(len(row)):
                out[s, c] += row[c]
