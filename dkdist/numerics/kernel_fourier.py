"""Kernel energies from a Fourier grid with a certified error: few frequencies by themselves, many on cells.

    E(x, z) = sum_ij <z_i, z_j> k(x_i, x_j),   |error of E| <= W^2 sup |error of k|,   W = sum_i |z_i|

Sums of frequencies run in float32 (`grid_sums`), so that rounding takes its part of the error; those on cells in
float64 (`kernel_cells`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dkdist.numerics.domain import extent
from dkdist.numerics.fourier_grid import FourierGrid, fourier_grid, grid_layout
from dkdist.numerics.grid_sums import grid_sums
from dkdist.numerics.kernel_cells import Cells, cell_energy, kernel_cells

F64 = NDArray[np.float64]

MOST_NUMBERS = 2**26  # in memory
ROUNDING = 1e-6  # of the kernel of two points from float32 sums: three times the largest seen
CELL_NS, FREQUENCY_NS = 0.5, 0.05  # of a core with 512-bit vectors
MOST_FREQUENCIES = 8192  # more take longer to find than they save
WORST = 0.1  # error of k, however large an eps is allowed


@dataclass(frozen=True)
class FourierPlan:
    """Which grid is used, or which cells if None, and the certified error of the energy."""

    grid: FourierGrid | None
    cells: Cells
    error: float

    @property
    def n_modes(self) -> int:
        """Real frequencies, or cells: numbers in memory for each channel."""
        return self.cells.n_cells if self.grid is None else self.grid.n_features

    @property
    def cost(self) -> float:
        """Nanoseconds a point and channel, as measured on one core."""
        return CELL_NS * self.cells.cost if self.grid is None else FREQUENCY_NS * self.grid.n_features


def mass(z: F64) -> float:
    """W = sum_i |z_i| of weights (n, C): energies are at most W^2."""
    return float(np.sqrt(np.einsum("ic,ic->i", z, z)).sum())


def fourier_plan(widths: F64, sigma: float, eps: float, W: float) -> FourierPlan | None:
    """The cheapest way to an error of at most ``eps``, for points in a box with sides ``widths``; None if none is."""
    share = min(eps / max(W**2, 1e-300), WORST)
    cells = kernel_cells(widths, sigma, share)
    if cells is None:
        return None
    rounding = ROUNDING + np.exp(-0.5) * 2.0**-24 * float(np.sqrt((widths**2).sum())) / sigma
    if rounding < share / 2:
        most = min(MOST_FREQUENCIES, int(CELL_NS / FREQUENCY_NS * cells.cost))
        grid = fourier_grid(widths, sigma, share - rounding, most)
        if grid.error + rounding <= share:
            return FourierPlan(grid, cells, W**2 * (grid.error + rounding))
    return FourierPlan(None, cells, W**2 * cells.error)


def fourier_energy(x: F64, z: F64, sigma: float, plan: FourierPlan) -> float:
    """E of points (n, d <= 3) and weights (n, C), by what `fourier_plan` gave for their box."""
    low, high = extent(x)
    if plan.grid is None:
        return cell_energy(x, z, low, sigma, plan.cells)
    points = (x - (low + high) / 2).astype(np.float32)
    half = ((high - low) / 2).astype(np.float32)
    box, n, W = (-half, half), len(x), mass(z)
    if W == 0:
        return 0.0
    layout = grid_layout(plan.grid.periods, plan.grid.cutoff, sigma)
    shares, spans = (z * (n / W)).astype(np.float32), np.array([[0, n]])
    S = grid_sums(points, spans, shares, np.array([W / n]), box, np.array(plan.grid.periods), layout.lengths)
    return float(((S[0] * layout.scales) ** 2).sum())
