"""Compiled densities of sets on a tensor grid of midpoints, in any dimension.

    p_k = sum_i u_i prod_j G_j,k_j(x_ij),   G_jk(x) = sum_(a < K) g_a cos(pi a x_k) cos(pi a x),   x_k = (k + 1/2) / q

G_jk is the Gaussian at node k, reflected at the boundary (see `dkdist.embeddings._density_numba`). Nodes share the
products of their first dimensions, so a point costs q^d + q^(d-1) + .. + q products.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist._numba.compilation import FINITE_REASSOC, jit
from dkdist._numba.elementary import f32
from dkdist._numba.points import TILE_POINTS, fill_fractions, read_only, set_arrays, total_weight
from dkdist.embeddings._density_numba import (
    POINTS_PER_STEP,
    basis_table,
    chebyshev_cosines,
    cosines,
    degree_for,
)


def node_tables(q: int, bandwidth: tuple[float, ...]) -> F32:
    """Return g_a cos(pi a x_k) of each dimension: (d, q, K); degrees that a Gaussian makes negligible are zero."""
    degrees, nodes = [degree_for(h) for h in bandwidth], (np.arange(q) + 0.5) / q
    tables = np.zeros((len(bandwidth), q, max(degrees)), np.float32)
    for table, K, h in zip(tables, degrees, bandwidth, strict=True):
        table[:, :K] = basis_table(nodes, K, h)
    return read_only(tables)


def grid_densities(points: F32, spans: I64, weights: F32 | None, low: F32, scale: F32, tables: F32) -> F32:
    """Return unclipped densities on the grid of the `node_tables`: (n_sets, q^d), last dimension fastest."""
    d, q, _ = tables.shape
    out = np.zeros((len(spans), q**d), np.float32)
    _grid_sums(*set_arrays(points, spans, weights), read_only(low), read_only(scale), tables, out)
    return out


@jit(FINITE_REASSOC)
def _grid_sums(points, spans, weights, weighted, low, scale, tables, out):  # type: ignore[no-untyped-def]
    d, q, K = tables.shape
    fractions, cosine = np.empty(TILE_POINTS, f32), np.empty(TILE_POINTS, f32)
    T = np.zeros(K * TILE_POINTS, f32)
    # products[j]: weights times functions of the first j dimensions; they fit the L1 cache for grids of any size
    G, products = np.empty((d, q, TILE_POINTS), f32), np.empty((d, TILE_POINTS), f32)
    for s in range(len(spans)):
        start, stop = spans[s, 0], spans[s, 1]
        total = total_weight(weights, weighted, start, stop)
        for first in range(start, stop, TILE_POINTS):
            m = min(TILE_POINTS, stop - first)
            n_padded = (m + POINTS_PER_STEP - 1) // POINTS_PER_STEP * POINTS_PER_STEP
            fill_fractions(weights, weighted, first, m, total, fractions)
            for j in range(d):
                cosines(points, first, m, j, low, scale, cosine)
                chebyshev_cosines(cosine, m, K, T, 0)
                for k in range(q):
                    row = G[j, k]
                    for i in range(n_padded):
                        row[i] = tables[j, k, 0]
                    for a in range(1, K):
                        factor, column = tables[j, k, a], T[a * TILE_POINTS : (a + 1) * TILE_POINTS]
                        for i in range(n_padded):
                            row[i] += factor * column[i]
            for i in range(n_padded):
                products[0, i] = fractions[i]
            for prefix in range(q ** (d - 1)):
                # in order of the nodes, the last digits of the prefix change; products of the others are reused
                j, digits = d - 2, prefix
                while j > 0 and digits % q == 0:
                    j, digits = j - 1, digits // q
                for axis in range(j, d - 1):
                    left, right = products[axis], G[axis, prefix // q ** (d - 2 - axis) % q]
                    product = products[axis + 1]
                    for i in range(n_padded):
                        product[i] = left[i] * right[i]
                left = products[d - 1]
                for k in range(q):
                    right, c = G[d - 1, k], f32(0.0)
                    for i in range(n_padded):
                        c += left[i] * right[i]
                    out[s, prefix * q + k] += c
