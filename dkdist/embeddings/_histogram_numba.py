"""Histograms of sets as densities: weight fractions in equal cells of a box.

    density[cell] = (number of cells) * sum of w_i over points in the cell,    sum_i w_i = 1

Cells include their lower edges, and the last cell also its upper edge, as in numpy.histogramdd. Points outside the box
are clipped. Cells are computed in float64 with a division, because a rounded reciprocal would move points on edges to
other cells. Cost: about 2 ns per point and dimension, plus the cells of each set.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.elementary import f32, i32
from dkdist._numba.points import TILE_POINTS, set_arrays, total_weight


def histograms(
    points: F32,
    spans: I64,
    weights: F32 | None,
    low: F64,
    width: F64,
    n_bins: int,
    dims: int,
    column: int = 0,
) -> F32:
    """Return densities in the n_bins^dims cells of ``dims`` columns from ``column`` on: (n_sets, n_cells) float32.

    ``spans`` (n_sets, 2) are the first row of each set and the row after its last. In a dimension of width 0,
    all points are in the first bin. The last dimension varies fastest.
    """
    out = np.empty((len(spans), n_bins**dims), np.float32)
    width = np.where(width > 0, width, np.inf)
    _histograms(*set_arrays(points, spans, weights), low, width, n_bins, dims, column, out)
    return out


@inline_jit({"nnan", "ninf", "nsz"})  # no "arcp": a reciprocal would not be exact
def _cells(points, first, m, low, width, n_bins, dims, column, cell):  # type: ignore[no-untyped-def]
    """Fill the cells of the m points from ``first`` on."""
    cell[:] = i32(0)
    for j in range(column, column + dims):
        for i in range(m):
            position = (float(points[first + i, j]) - low[j]) * n_bins / width[j]
            cell[i] = cell[i] * i32(n_bins) + i32(min(max(position, 0.0), n_bins - 1.0))


@jit()
def _histograms(points, spans, weights, weighted, low, width, n_bins, dims, column, out):  # type: ignore[no-untyped-def]
    n_cells = out.shape[1]
    mass = np.empty(n_cells)  # float64 counts are exact
    cell = np.empty(TILE_POINTS, i32)
    for s in range(len(spans)):
        start, stop = spans[s, 0], spans[s, 1]
        mass[:] = 0.0
        for first in range(start, stop, TILE_POINTS):
            m = min(TILE_POINTS, stop - first)
            _cells(points, first, m, low, width, n_bins, dims, column, cell)
            for i in range(m):
                mass[cell[i]] += weights[first + i] if weighted else 1.0
        density_per_weight = n_cells / total_weight(weights, weighted, start, stop)
        for k in range(n_cells):
            out[s, k] = f32(mass[k] * density_per_weight)
