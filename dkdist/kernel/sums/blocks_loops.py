"""The cells of `kernel_cells` block by block, only where points are: any bandwidth, any width, the memory of a block.

    f_m = sum_i z_i prod_j g(x_ij - m_j delta),   E = height sum_m |f_m|^2

is the same sum with the same certified error, taken over blocks of cells in turn. A point's 2J cells along a dimension
lie in one block or in two, so that it is listed under at most 2^d blocks, and a block that no point reaches is never
made. Cost: that of `kernel_cells` for each of a point's blocks, and two passes over the cells of each block; an own
sort of (point, block). So time and memory go with the number of points and not with the box that they lie in.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dkdist.kernel.sums.cells_loops import GAUSSIANS, Cells
from dkdist.kernel.sums.profiles_loops import exp2
from dkdist.loops.array_types import F64, I64
from dkdist.loops.compile import ELEMENTWISE, inlined, loop
from dkdist.loops.points import column_bounds

SIDES = (512, 32, 16)  # cells of a block along each side, in one to three dimensions
WIDEST = 2.0**62  # cells: beyond it they cannot be counted


class Blocks(NamedTuple):
    """Points (n, 3) in units of cells, and the blocks that they reach: point of each entry, block corners, firsts."""

    places: F64
    entries: I64
    corners: I64
    firsts: I64
    shape: tuple[int, int, int]

    @property
    def n_cells(self) -> int:
        """Cells of all blocks, one after the other."""
        return len(self.corners) * int(np.prod(self.shape))

    def cost(self, reach: int) -> float:
        """Multiply-adds of all points, with those that the Gaussians take as long as."""
        wide = sum(n > 1 for n in self.shape)
        return len(self.places) * float((2 * reach) ** wide) + len(self.entries) * GAUSSIANS * max(wide, 1)


def kernel_blocks(x: F64, cells: Cells) -> Blocks | None:
    """Blocks of the points (n, d <= 3) for cells of this side and reach; None if the points are too far apart."""
    low, high = column_bounds(x)
    wide = np.flatnonzero(high > low)
    if (high - low).max() / cells.side > WIDEST:
        return None
    side = max(SIDES[max(len(wide), 1) - 1], 2 * cells.reach)
    axes = range(3 - len(wide), 3)
    places, shape = np.zeros((len(x), 3)), np.ones(3, np.int64)
    places[:, 3 - len(wide) :] = (x[:, wide] - low[wide]) / cells.side
    shape[3 - len(wide) :] = side
    first = places.astype(np.int64)
    home, points = first // shape, np.arange(len(x))
    blocks = home
    for j in axes:  # cells beyond the end of a block are in the next one
        over = first[points, j] + 2 * cells.reach > (blocks[:, j] + 1) * side
        blocks = np.concatenate([blocks, blocks[over] + (np.arange(3) == j)])
        points = np.concatenate([points, points[over]])
    order = np.lexsort(blocks.T[::-1])
    blocks, points = blocks[order], points[order]
    new = np.concatenate([[True], (np.diff(blocks, axis=0) != 0).any(axis=1)])
    firsts = np.append(np.flatnonzero(new), len(points))
    return Blocks(places, points, blocks[new] * shape, firsts, (int(shape[0]), int(shape[1]), int(shape[2])))


def block_energy(z: F64, sigma: float, cells: Cells, blocks: Blocks) -> float:
    """E of the points of ``blocks`` with weights (n, C)."""
    d = max(1, sum(n > 1 for n in blocks.shape))
    beta = float(np.log2(math.e) * (cells.side / sigma) ** 2)
    height = (np.sqrt(2 / np.pi) * cells.side / sigma) ** d
    J = cells.reach
    if blocks.shape[2] == 1:  # all points are one: its cells along a line
        blocks = blocks._replace(shape=(1, 1, 2 * J))
    return float(height * _squares(blocks, z, J, beta))


@loop(ELEMENTWISE)
def _squares(blocks, z, J, beta):  # type: ignore[no-untyped-def]
    """sum over blocks, cells and channels of f^2."""
    places, entries, corners, firsts, shape = blocks
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
                    base = np.int64(places[i, j])
                    near = places[i, j] - base + (J - 1)
                    start[j] = base - corners[block, j]
                    low[j], high[j] = max(0, -start[j]), min(2 * J, shape[j] - start[j])
                    for n in range(2 * J):
                        t = near - n
                        g[j, n] = exp2(-beta * t * t)
            for c in range(z.shape[1]):
                for a in range(low[0], high[0]):
                    w = z[i, c] * g[0, a]
                    for b in range(low[1], high[1]):
                        at = ((start[0] + a) * n1 + start[1] + b) * n2 + start[2]
                        _add(f[c, at + low[2] : at + high[2]], w * g[1, b], g[2, low[2] : high[2]])
        total += _sum(f.reshape(-1))
    return total


@inlined(ELEMENTWISE)
def _add(cells, w, g):  # type: ignore[no-untyped-def]
    for n in range(len(g)):
        cells[n] += w * g[n]


@loop(ELEMENTWISE)
def _sum(f):  # type: ignore[no-untyped-def]
    total = 0.0
    for value in f:
        total += value * value
    return total
