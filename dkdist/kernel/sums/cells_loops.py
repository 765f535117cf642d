"""Kernel energies by Gaussian gridding: for small bandwidths, when too many frequencies would be needed.

A Gaussian kernel is the overlap of two narrower ones, and its integral over u is the trapezoidal sum over cells:

    k(x, y) = prod_j (2/pi)^(1/2) / sigma int g(x_j - u) g(y_j - u) du,   g(t) = exp(-t^2 / sigma^2),
    E(x, z) = sum_ij <z_i, z_j> k(x_i, x_j) ~ C sum_m |f_m|^2,   f_m = sum_i z_i prod_j g(x_ij - m_j delta)

where each point counts in the 2J cells nearest to it along each dimension. By Parseval's formula this is the Fourier
grid of `fourier_grid` on a box of frequencies, without a transform. By Poisson's formula the whole sum is the kernel
times 1 + a_j cos(..) along each dimension, and cells that are left out take at most tau from it, so that

    |error of k| <= (1 + a + tau)^d - 1,   a = 2 sum_n exp(-(pi n sigma / delta)^2 / 2),
    tau = 8^(1/2) (1 + a) exp(-(J delta / sigma)^2).

Nothing is estimated, all of it is float64. Cost of a point: (2J)^d multiply-adds (J = 6 for 1e-5), whatever the
bandwidth; memory: a number for each cell of the box that the points lie in.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dkdist.kernel.sums.profiles_loops import exp2
from dkdist.loops.array_types import F64, I64
from dkdist.loops.compile import ELEMENTWISE, inlined, loop
from dkdist.loops.tiles.weighted_points import WeightedPoints, sorted_rows

LEAST_ERROR = 1e-12  # of k: nearer to rounding nothing is certified
GAUSSIANS = 200  # multiply-adds in the time of those of one dimension
LANES = 16  # cells of a row at a time
MOST_REACH = 16  # cells on each side
STEPS = np.linspace(0.2, 1.5, 1301)  # trial sides of a cell, in units of sigma
BLOCK = 8  # cells along a side of the blocks that points are sorted by


class Cells(NamedTuple):
    """Side of a cell, cells J on each side of a point, numbers of cells of three dimensions, certified error of k."""

    side: float
    reach: int
    shape: tuple[int, int, int]
    error: float

    @property
    def n_cells(self) -> int:
        """Numbers to be kept for one channel."""
        return int(np.prod([float(n) for n in self.shape]))

    @property
    def cost(self) -> int:
        """Multiply-adds of a point, with those that the Gaussians take as long as."""
        wide = [n for n in self.shape[:2] if n > 1]
        return int((2 * self.reach) ** len(wide)) * _row(self.reach) + GAUSSIANS * (len(wide) + 1)


def kernel_cells(widths: F64, sigma: float, eps: float) -> Cells | None:
    """The fewest and largest cells whose error of k is at most ``eps``, for points in a box with sides ``widths``.

    None if float64 cannot reach ``eps``: below 1e-12.
    """
    d = max(1, int((widths > 0).sum()))
    q = np.exp(-((np.pi / STEPS) ** 2) / 2)
    a = 2 * q / (1 - q)
    for J in range(2, MOST_REACH + 1 if eps >= LEAST_ERROR else 0):
        errors = d * np.log1p(a + np.sqrt(8) * (1 + a) * np.exp(-((J * STEPS) ** 2)))
        good = np.flatnonzero(np.expm1(errors) <= eps)
        if len(good):
            side = float(STEPS[good[-1]]) * sigma
            return Cells(side, J, _shape(widths, side, J), float(np.expm1(errors[good[-1]])))
    return None


def _row(J: int) -> int:
    return 2 * J + -2 * J % LANES


def _shape(widths: F64, side: float, J: int) -> tuple[int, int, int]:
    """Cells of the three dimensions, the last one wide (if any is); rows of cells are whole lanes."""
    wide = [int(w / side) + 2 * J for w in widths if w > 0]
    full = [1] * (3 - len(wide)) + wide
    full[2] = (full[2] if wide else 2 * J) + _row(J) - 2 * J
    return full[0], full[1], full[2]


def cell_energy(points: WeightedPoints, sigma: float, cells: Cells) -> float:
    """E of points in the box that ``cells`` was made for."""
    (low, _), widths, f = points.bounds, points.widths, np.zeros((points.channels, cells.n_cells))
    for x, z in points.tiles(sorted_rows(len(points))):
        _add_sums(x, z, low, widths, sigma, cells, f)
    return sums_energy(f, widths, sigma, cells)


def cell_sums(x: F64, z: F64, low: F64, widths: F64, sigma: float, cells: Cells) -> F64:
    """f (C, n_cells) of points (n, d) in the box that ``cells`` was made for: it adds up over points."""
    f = np.zeros((z.shape[1], cells.n_cells))
    _add_sums(x, z, low, widths, sigma, cells, f)
    return f


def _add_sums(x: F64, z: F64, low: F64, widths: F64, sigma: float, cells: Cells, f: F64) -> None:
    wide = widths > 0
    places = np.zeros((len(x), 3))
    places[:, 3 - int(wide.sum()) :] = (x[:, wide] - low[wide]) / cells.side
    beta = float(np.log2(math.e) * (cells.side / sigma) ** 2)
    _spread(places, z, _order(places, cells.shape), cells.reach, _row(cells.reach), beta, cells.shape, f)


def sums_energy(f: F64, widths: F64, sigma: float, cells: Cells) -> float:
    """E of the points whose `cell_sums` these are."""
    height = (np.sqrt(2 / np.pi) * cells.side / sigma) ** max(1, int((widths > 0).sum()))
    return float(height * np.square(f).sum())


def _order(places: F64, shape: tuple[int, int, int]) -> I64:
    """Points sorted by blocks of cells, so that those at work lie in the cache."""
    counts = [n // BLOCK + 1 for n in shape]
    block = (places / BLOCK).astype(np.int64)
    keys = (block[:, 0] * counts[1] + block[:, 1]) * counts[2] + block[:, 2]
    order: I64 = counting_sort(keys, int(np.prod(counts)))
    return order


@loop()
def counting_sort(keys, n_keys):  # type: ignore[no-untyped-def]
    """Positions of whole numbers from 0 to before ``n_keys`` in rising order."""
    starts, order = np.zeros(n_keys + 1, np.int64), np.empty(len(keys), np.int64)
    for key in keys:
        starts[key + 1] += 1
    starts = np.cumsum(starts)
    for i in range(len(keys)):
        order[starts[keys[i]]] = i
        starts[keys[i]] += 1
    return order


@loop(ELEMENTWISE)
def _spread(places, z, order, J, row, beta, shape, f):  # type: ignore[no-untyped-def]
    """f[c, cells] += z_ic times the product of the Gaussians of three dimensions; one cell: that of no width."""
    g, base = np.ones((3, row)), np.zeros(3, np.int64)
    n0, n1, n2 = shape
    n_first, n_second = (2 * J if n0 > 1 else 1), (2 * J if n1 > 1 else 1)
    for i in order:
        for j in range(3):
            if j == 2 or shape[j] > 1:
                base[j] = int(places[i, j])
                near = places[i, j] - base[j] + (J - 1)
                for n in range(row):
                    t = near - n
                    g[j, n] = exp2(-beta * t * t)
        for c in range(z.shape[1]):
            for a in range(n_first):
                w = z[i, c] * g[0, a]
                for b in range(n_second):
                    at = ((base[0] + a) * n1 + base[1] + b) * n2 + base[2]
                    for start in range(0, row, LANES):
                        _add_row(
                            f[c, at + start : at + start + LANES], w * g[1, b], g[2, start : start + LANES]
                        )


@inlined(ELEMENTWISE)
def _add_row(cells, w, g):  # type: ignore[no-untyped-def]
    for n in range(LANES):
        cells[n] += w * g[n]
