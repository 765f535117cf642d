"""Kernel energies from a Fourier grid with a certified error: by frequencies, on a mesh or on cells.

    E(x, z) = sum_ij <z_i, z_j> k(x_i, x_j),   |error of E| <= W^2 sup |error of k|,   W = sum_i |z_i|

Sums of few frequencies run in float32 (`grid_sums`), so that rounding takes its part of the error; on a mesh, with a
fast transform (`kernel_mesh`), and on cells, without one (`kernel_cells`: few points, little memory), in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dkdist.numerics.domain import extent
from dkdist.numerics.fourier_grid import FourierGrid, fourier_grid, grid_layout
from dkdist.numerics.grid_sums import grid_sums
from dkdist.numerics.kernel_cells import Cells, cell_energy, kernel_cells
from dkdist.numerics.kernel_mesh import Mesh, kernel_mesh, mesh_energy

F64 = NDArray[np.float64]

MOST_NUMBERS = 2**26  # in memory
ROUNDING = 1e-6  # of the kernel of two points from float32 sums: three times the largest seen
CELL_NS, EMPTY_NS, FREQUENCY_NS = 0.5, 2.0, 0.05  # of a core with 512-bit vectors
FIND_NS = 2e7  # to search for a grid of frequencies: for less it is not worth it
MOST_FREQUENCIES = 8192
WORST = 0.1  # error of k, however large an eps is allowed


@dataclass(frozen=True)
class FourierPlan:
    """Which frequencies, mesh or cells are used, the certified error of the energy, nanoseconds of one channel."""

    way: FourierGrid | Mesh | Cells
    error: float
    nanoseconds: float

    @property
    def n_modes(self) -> int:
        """Real frequencies, or cells: numbers in memory for each channel."""
        return self.way.n_features if isinstance(self.way, FourierGrid) else self.way.n_cells


def mass(z: F64) -> float:
    """W = sum_i |z_i| of weights (n, C): energies are at most W^2."""
    return float(np.sqrt(np.einsum("ic,ic->i", z, z)).sum())


def fourier_plan(widths: F64, sigma: float, eps: float, W: float, n: int) -> FourierPlan | None:
    """The cheapest way to an error of at most ``eps``, for n points in a box with sides ``widths``; None if none is."""
    share = min(eps / max(W**2, 1e-300), WORST)
    cells, mesh = kernel_cells(widths, sigma, share), kernel_mesh(widths, sigma, share, n)
    if cells is None:
        return None
    best = FourierPlan(cells, W**2 * cells.error, CELL_NS * n * cells.cost + EMPTY_NS * cells.n_cells)
    if mesh is not None and mesh.n_cells <= MOST_NUMBERS and mesh.nanoseconds < best.nanoseconds:
        best = FourierPlan(mesh, W**2 * mesh.error, mesh.nanoseconds)
    rounding = ROUNDING + np.exp(-0.5) * 2.0**-24 * float(np.sqrt((widths**2).sum())) / sigma
    if rounding < share / 2 and best.nanoseconds > FIND_NS:
        most = min(MOST_FREQUENCIES, int(best.nanoseconds / (FREQUENCY_NS * n)))
        grid = fourier_grid(widths, sigma, share - rounding, most)
        if grid.error + rounding <= share:
            return FourierPlan(grid, W**2 * (grid.error + rounding), FREQUENCY_NS * n * grid.n_features)
    return best


def fourier_energy(x: F64, z: F64, sigma: float, plan: FourierPlan) -> float:
    """E of points (n, d <= 3) and weights (n, C), by what `fourier_plan` gave for their box."""
    low, high = extent(x)
    if isinstance(plan.way, Mesh):
        return mesh_energy(x, z, low, sigma, plan.way)
    if isinstance(plan.way, Cells):
        return cell_energy(x, z, low, sigma, plan.way)
    points = (x - (low + high) / 2).astype(np.float32)
    half = ((high - low) / 2).astype(np.float32)
    box, n, W = (-half, half), len(x), mass(z)
    if W == 0:
        return 0.0
    layout = grid_layout(plan.way.periods, plan.way.cutoff, sigma)
    shares, spans = (z * (n / W)).astype(np.float32), np.array([[0, n]])
    S = grid_sums(points, spans, shares, np.array([W / n]), box, np.array(plan.way.periods), layout.lengths)
    return float(((S[0] * layout.scales) ** 2).sum())
