"""Kernel energies from a Fourier grid with a certified error: by frequencies, on a mesh or on cells.

    E(x, z) = sum_ij <z_i, z_j> k(x_i, x_j),   |error of E| <= W^2 sup |error of k|,   W = sum_i |z_i|

Sums of few frequencies run in float32 (`grid_sums`), so that rounding takes its part of the error; on a mesh, with a
fast transform (`mesh_loops`), and on cells, without one (`cells_loops`: few points, little memory), in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import gamma
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincc

from dkdist.kernel.sums.cells_loops import cell_energy, kernel_cells
from dkdist.kernel.sums.fourier_grid import FourierGrid, fourier_grid, grid_layout
from dkdist.kernel.sums.grid_sums_loops import Products, add_grid_sums
from dkdist.kernel.sums.mesh_loops import kernel_mesh, mesh_energy
from dkdist.loops.array_types import F64
from dkdist.loops.tiles.weighted_points import WeightedPoints

MOST_NUMBERS = 2**26  # in memory
ROUNDING = 1e-6  # of the kernel of two points from float32 sums: three times the largest seen
CELL_NS, EMPTY_NS, FREQUENCY_NS = 0.5, 2.0, 0.05  # of a core with 512-bit vectors
FIND_NS = 2e7  # to search for a grid of frequencies: for less it is not worth it
MOST_FREQUENCIES = 8192
FEW_BYTES, MESH_SHARE = 1e7, 0.43  # of points in float32; of these the part that a mesh beside more has
HOPELESS = 10.0  # times the error: if so much is left out, no grid is looked for
WORST = 0.1  # error of k, however large an eps is allowed


class FourierPlan(NamedTuple):
    """Certified error of the energy, nanoseconds of one channel, numbers in memory for each channel, and what sums:
    ``energy`` of points in one to three dimensions, by frequencies, on a mesh or on cells.
    """

    energy: Callable[[WeightedPoints], float]
    error: float
    nanoseconds: float
    n_modes: int


def fourier_plan(widths: F64, sigma: float, eps: float, W: float, n: int) -> FourierPlan | None:
    """The cheapest way to an error of at most ``eps``, for n points in a box with sides ``widths``; None if none is."""
    share = min(eps / max(W**2, 1e-300), WORST)
    cells, mesh = (
        kernel_cells(widths, sigma, share),
        kernel_mesh(widths, sigma, share, n, room=_room(n, len(widths))),
    )
    if cells is None:
        return None
    time = CELL_NS * n * cells.cost + EMPTY_NS * cells.n_cells
    energy = partial(cell_energy, sigma=sigma, cells=cells)
    best = FourierPlan(energy, W**2 * cells.error, time, cells.n_cells)
    if mesh is not None and mesh.n_cells <= MOST_NUMBERS and mesh.nanoseconds < best.nanoseconds:
        energy = partial(mesh_energy, sigma=sigma, mesh=mesh)
        best = FourierPlan(energy, W**2 * mesh.error, mesh.nanoseconds, mesh.n_cells)
    rounding = ROUNDING + np.exp(-0.5) * 2.0**-24 * float(np.sqrt((widths**2).sum())) / sigma
    most = min(MOST_FREQUENCIES, int(best.nanoseconds / (FREQUENCY_NS * n)))
    if (
        rounding < share / 2
        and best.nanoseconds > FIND_NS
        and _left_out(widths, sigma, most) < HOPELESS * share
    ):
        grid = fourier_grid(widths, sigma, share - rounding, most)
        if grid.error + rounding <= share:
            energy = partial(frequency_energy, sigma=sigma, grid=grid)
            time, error = FREQUENCY_NS * n * grid.n_features, W**2 * (grid.error + rounding)
            return FourierPlan(energy, error, time, grid.n_features)
    return best


def _left_out(widths: F64, sigma: float, most: int) -> float:
    """Weight of the frequencies beyond the ``most`` that weigh most, were they as dense as the box is wide."""
    wide = widths[widths > 0]
    d = len(wide)
    if d == 0:
        return 0.0
    radius = 2 * np.pi * (most * gamma(d / 2 + 1) / np.pi ** (d / 2) / np.prod(wide)) ** (1 / d)
    return float(gammaincc(d / 2, (radius * sigma) ** 2 / 2))


def _room(n: int, d: int) -> float:
    """Cells of a mesh beside many points: in a part of the bytes that these have in float32."""
    return MESH_SHARE * 4 * n * d / 8 if 4 * n * d > FEW_BYTES else np.inf


def frequency_energy(points: WeightedPoints, sigma: float, grid: FourierGrid) -> float:
    """E of points in the box that the ``grid`` was made for, by its frequencies."""
    n, W, (low, high) = len(points), points.mass, points.bounds
    if W == 0:
        return 0.0
    middle, half = (low + high) / 2, ((high - low) / 2).astype(np.float32)
    layout = grid_layout(grid.periods, grid.cutoff, sigma)
    products = Products(-half, half, np.array(grid.periods), layout.lengths)
    S = np.zeros((points.channels, len(layout.scales)))
    for x, z in points.tiles():  # weights near one add up with least rounding
        add_grid_sums((x - middle).astype(np.float32), (z * (n / W)).astype(np.float32), W, products, S)
    return float(((S / n * layout.scales) ** 2).sum())
