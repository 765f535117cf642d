"""Kernel energies by Gaussian gridding on cells, for bandwidths too small for Fourier grids.

A Gaussian kernel is the overlap of two narrower Gaussians, and its integral over u is the trapezoidal sum over cells:

    k(x, y) = prod_j (2/pi)^(1/2) / sigma int g(x_j - u) g(y_j - u) du,   g(t) = exp(-t^2 / sigma^2),
    E(x, z) = sum_ij <z_i, z_j> k(x_i, x_j) ~ C sum_m |f_m|^2,   f_m = sum_i z_i prod_j g(x_ij - m_j delta)

where each point contributes to the 2J nearest cells per dimension. By Poisson's formula the infinite sum is the kernel
times 1 + a_j cos(..) per dimension, and truncation removes at most tau. This gives the rigorous bound

    |error of k| <= (1 + a + tau)^d - 1,   a = 2 sum_n exp(-(pi n sigma / delta)^2 / 2),
    tau = 8^(1/2) (1 + a) exp(-(J delta / sigma)^2).

All sums are float64. Cost per point: (2J)^d multiply-adds (J = 6 for an error of 1e-5) for any bandwidth. Memory: one
number per cell of the bounding box. `kernel_blocks` restricts the sum to blocks of cells that contain points: time and
memory then depend on the number of points, not on the size of the box.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F64, I64
from dkdist._numba.compilation import FINITE_FMA, inline_jit, jit
from dkdist._numba.points import column_bounds
from dkdist._numba.weighted_points import WeightedPoints, sorted_rows
from dkdist.kernels._profiles_numba import exp2

# smallest error of k; float64 rounding is slightly smaller (tests/kernel/test_certified_sums.py)
MIN_ERROR = 1e-12
# time to evaluate the Gaussians of one dimension, in multiply-adds (python benchmarks/kernel.py growth)
GAUSSIAN_COST = 200
SIMD_WIDTH = 16  # cells per vectorised loop; fills whole registers (python benchmarks/kernel.py growth)
# maximum J, cells on each side of a point; other methods are faster than larger J (python benchmarks/kernel.py growth)
MAX_REACH_CELLS = 16
TRIAL_SIDES = np.linspace(0.2, 1.5, 1301)  # trial sides of a cell, in units of sigma
# side of the blocks of cells by which points are sorted, for cache locality (python benchmarks/kernel.py growth)
SORT_BLOCK_CELLS = 8


class Cells(NamedTuple):
    """Cell side, number J of cells on each side of a point, grid shape in three dimensions, certified error of k."""

    side: float
    reach: int
    shape: tuple[int, int, int]
    error: float

    @property
    def n_cells(self) -> int:
        """Number of float64 values in memory for one channel."""
        return int(np.prod([float(n) for n in self.shape]))

    @property
    def cost(self) -> int:
        """Time per point in multiply-adds, including the Gaussians."""
        wide = [n for n in self.shape[:2] if n > 1]
        return int((2 * self.reach) ** len(wide)) * _row_cells(self.reach) + GAUSSIAN_COST * (len(wide) + 1)


def kernel_cells(widths: F64, sigma: float, eps: float) -> Cells | None:
    """Return the largest cells with an error of k of at most ``eps``, for points in a box with sides ``widths``.

    None for ``eps`` below 1e-12, which float64 cannot reach.
    """
    d = max(1, int((widths > 0).sum()))
    q = np.exp(-((np.pi / TRIAL_SIDES) ** 2) / 2)
    a = 2 * q / (1 - q)
    for J in range(2, MAX_REACH_CELLS + 1 if eps >= MIN_ERROR else 0):
        errors = d * np.log1p(a + np.sqrt(8) * (1 + a) * np.exp(-((J * TRIAL_SIDES) ** 2)))
        good = np.flatnonzero(np.expm1(errors) <= eps)
        if len(good):
            side = float(TRIAL_SIDES[good[-1]]) * sigma
            return Cells(side, J, _shape(widths, side, J), float(np.expm1(errors[good[-1]])))
    return None


def _row_cells(J: int) -> int:
    return 2 * J + -2 * J % SIMD_WIDTH


def _shape(widths: F64, side: float, J: int) -> tuple[int, int, int]:
    """Return the grid shape in three dimensions, wide axes last; rows are padded to the SIMD width."""
    wide = [int(w / side) + 2 * J for w in widths if w > 0]
    full = [1] * (3 - len(wide)) + wide
    full[2] = (full[2] if wide else 2 * J) + _row_cells(J) - 2 * J
    return full[0], full[1], full[2]


def cell_energy(points: WeightedPoints, sigma: float, cells: Cells) -> float:
    """Return E of points in the box of ``cells``."""
    (low, _), widths, f = points.bounds, points.widths, np.zeros((points.channels, cells.n_cells))
    for x, z in points.tiles(sorted_rows(len(points))):
        _add_sums(x, z, low, widths, sigma, cells, f)
    return sums_energy(f, widths, sigma, cells)


def cell_sums(x: F64, z: F64, low: F64, widths: F64, sigma: float, cells: Cells) -> F64:
    """Return f (C, n_cells) of points (n, d) in the box of ``cells``; it is additive over points."""
    f = np.zeros((z.shape[1], cells.n_cells))
    _add_sums(x, z, low, widths, sigma, cells, f)
    return f


def _add_sums(x: F64, z: F64, low: F64, widths: F64, sigma: float, cells: Cells, f: F64) -> None:
    wide = widths > 0
    coordinates = np.zeros((len(x), 3))
    coordinates[:, 3 - int(wide.sum()) :] = (x[:, wide] - low[wide]) / cells.side
    beta = float(np.log2(math.e) * (cells.side / sigma) ** 2)
    _spread(
        coordinates,
        z,
        _sort_by_block(coordinates, cells.shape),
        cells.reach,
        _row_cells(cells.reach),
        beta,
        cells.shape,
        f,
    )


def sums_energy(f: F64, widths: F64, sigma: float, cells: Cells) -> float:
    """Return E from the `cell_sums` of points."""
    height = (np.sqrt(2 / np.pi) * cells.side / sigma) ** max(1, int((widths > 0).sum()))
    return float(height * np.square(f).sum())


def _sort_by_block(coordinates: F64, shape: tuple[int, int, int]) -> I64:
    """Return the order of points by blocks of cells; nearby cells then stay in the cache."""
    counts = [n // SORT_BLOCK_CELLS + 1 for n in shape]
    block = (coordinates / SORT_BLOCK_CELLS).astype(np.int64)
    keys = (block[:, 0] * counts[1] + block[:, 1]) * counts[2] + block[:, 2]
    order: I64 = counting_sort(keys, int(np.prod(counts)))
    return order


@jit()
def counting_sort(keys, n_keys):  # type: ignore[no-untyped-def]
    """Return the stable sorting order of integers from 0 to ``n_keys`` - 1."""
    starts, order = np.zeros(n_keys + 1, np.int64), np.empty(len(keys), np.int64)
    for key in keys:
        starts[key + 1] += 1
    starts = np.cumsum(starts)
    for i in range(len(keys)):
        order[starts[keys[i]]] = i
        starts[keys[i]] += 1
    return order


@jit(FINITE_FMA)
def _spread(coordinates, z, order, J, row, beta, shape, f):  # type: ignore[no-untyped-def]
    """Add z_ic times the product of the Gaussians of three dimensions to f; axes without width have one cell."""
    g, base = np.ones((3, row)), np.zeros(3, np.int64)
    n0, n1, n2 = shape
    n_first, n_second = (2 * J if n0 > 1 else 1), (2 * J if n1 > 1 else 1)
    for i in order:
        for j in range(3):
            if j == 2 or shape[j] > 1:
                base[j] = int(coordinates[i, j])
                offset = coordinates[i, j] - base[j] + (J - 1)
                for n in range(row):
                    t = offset - n
                    g[j, n] = exp2(-beta * t * t)
        for c in range(z.shape[1]):
            for a in range(n_first):
                w = z[i, c] * g[0, a]
                for b in range(n_second):
                    first_cell = ((base[0] + a) * n1 + base[1] + b) * n2 + base[2]
                    for start in range(0, row, SIMD_WIDTH):
                        _add_row(
                            f[c, first_cell + start : first_cell + start + SIMD_WIDTH],
                            w * g[1, b],
                            g[2, start : start + SIMD_WIDTH],
                        )


@inline_jit(FINITE_FMA)
def _add_row(cells, w, g):  # type: ignore[no-untyped-def]
    for n in range(SIMD_WIDTH):
        cells[n] += w * g[n]


BLOCK_SIDES = (512, 32, 16)  # cells per side of a block in 1, 2, 3 dimensions; a block fits the cache
# more cells per side would overflow int64 indices (tests/kernel/test_kernel_outliers.py)
MAX_SIDE_CELLS = 2.0**62


class Blocks(NamedTuple):
    """Points (n, 3) in units of cells, and for each block: indices of its points, corner and first index."""

    coordinates: F64
    entries: I64
    corners: I64
    firsts: I64
    shape: tuple[int, int, int]

    @property
    def n_cells(self) -> int:
        """Number of cells of all blocks."""
        return len(self.corners) * int(np.prod(self.shape))

    def cost(self, reach: int) -> float:
        """Return the time of all points in multiply-adds, including the Gaussians."""
        wide = sum(n > 1 for n in self.shape)
        return len(self.coordinates) * float((2 * reach) ** wide) + len(self.entries) * GAUSSIAN_COST * max(
            wide, 1
        )


def kernel_blocks(x: F64, cells: Cells) -> Blocks | None:
    """Return the blocks with cells near points (n, d <= 3); None if cell indices would overflow int64."""
    low, high = column_bounds(x)
    wide = np.flatnonzero(high > low)
    if (high - low).max() / cells.side > MAX_SIDE_CELLS:
        return None
    side = max(BLOCK_SIDES[max(len(wide), 1) - 1], 2 * cells.reach)
    axes = range(3 - len(wide), 3)
    coordinates, shape = np.zeros((len(x), 3)), np.ones(3, np.int64)
    coordinates[:, 3 - len(wide) :] = (x[:, wide] - low[wide]) / cells.side
    shape[3 - len(wide) :] = side
    first = coordinates.astype(np.int64)
    first_blocks, points = first // shape, np.arange(len(x))
    blocks = first_blocks
    for j in axes:  # points near the end of a block also contribute to the next block
        is_split = first[points, j] + 2 * cells.reach > (blocks[:, j] + 1) * side
        blocks = np.concatenate([blocks, blocks[is_split] + (np.arange(3) == j)])
        points = np.concatenate([points, points[is_split]])
    order = np.lexsort(blocks.T[::-1])
    blocks, points = blocks[order], points[order]
    is_first = np.concatenate([[True], (np.diff(blocks, axis=0) != 0).any(axis=1)])
    firsts = np.append(np.flatnonzero(is_first), len(points))
    return Blocks(
        coordinates, points, blocks[is_first] * shape, firsts, (int(shape[0]), int(shape[1]), int(shape[2]))
    )


def block_energy(z: F64, sigma: float, cells: Cells, blocks: Blocks) -> float:
    """Return E of the points of ``blocks`` with weights (n, C)."""
    d = max(1, sum(n > 1 for n in blocks.shape))
    beta = float(np.log2(math.e) * (cells.side / sigma) ** 2)
    height = (np.sqrt(2 / np.pi) * cells.side / sigma) ** d
    J = cells.reach
    if blocks.shape[2] == 1:  # all points are equal: use one row of cells
        blocks = blocks._replace(shape=(1, 1, 2 * J))
    return float(height * _sum_squares(blocks, z, J, beta))


@jit(FINITE_FMA)
def _sum_squares(blocks, z, J, beta):  # type: ignore[no-untyped-def]
    """Return the sum of f^2 over blocks, cells and channels."""
    coordinates, entries, corners, firsts, shape = blocks
    n0, n1, n2 = shape
    f, g = np.empty((z.shape[1], n0 * n1 * n2)), np.ones((3, 2 * J))
    start, low, high = np.zeros(3, np.int64), np.zeros(3, np.int64), np.ones(3, np.int64)
    total = 0.0
    for block in range(len(corners)):
        f[:] = 0.0
        for e in range(firsts[block], firsts[block + 1]):
            i = entries[e]
            for j in range(3):
                if shape[j] > 1:
                    base = np.int64(coordinates[i, j])
                    offset = coordinates[i, j] - base + (J - 1)
                    start[j] = base - corners[block, j]
                    low[j], high[j] = max(0, -start[j]), min(2 * J, shape[j] - start[j])
                    for n in range(2 * J):
                        t = offset - n
                        g[j, n] = exp2(-beta * t * t)
            for c in range(z.shape[1]):
                for a in range(low[0], high[0]):
                    w = z[i, c] * g[0, a]
                    for b in range(low[1], high[1]):
                        first_cell = ((start[0] + a) * n1 + start[1] + b) * n2 + start[2]
                        _add(
                            f[c, first_cell + low[2] : first_cell + high[2]],
                            w * g[1, b],
                            g[2, low[2] : high[2]],
                        )
        total += _sum(f.reshape(-1))
    return total


@inline_jit(FINITE_FMA)
def _add(cells, w, g):  # type: ignore[no-untyped-def]
    for n in range(len(g)):
        cells[n] += w * g[n]


@jit(FINITE_FMA)
def _sum(f):  # type: ignore[no-untyped-def]
    total = 0.0
    for value in f:
        total += value * value
    return total
