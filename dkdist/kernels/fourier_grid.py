"""A Gaussian kernel on a box as a finite Fourier series, with a certified error.

    exp(-|t|^2 / (2 sigma^2)) ~ sum_k w_k cos(w_k . t),   w_k = 2 pi k_j / L_j,   |w_k| <= R,   |t_j| <= width_j

is the trapezoidal rule of the spectral integral, w_k = prod_j sqrt(2 pi) sigma / L_j exp(-|w_k|^2 sigma^2 / 2), cut to
a ball of frequencies. By Poisson's formula the infinite series is the kernel plus its images at distances L_j, which
are positive. So at every t in the box

    |error| <= images + (mass of the truncated weights),   images = prod_j (1 + a_j) - 1,
    a_j = sum_(m >= 1) exp(-(m L_j - width_j)^2 / 2 sigma^2) + exp(-(m L_j)^2 / 2 sigma^2).

Both are sums of a few terms, without estimates. A longer period has smaller images but needs more frequencies; the
search minimises the number of features. (Joshi, Kommaraju, Phillips, Venkatasubramanian 2011 use random frequencies
here.)
"""

from __future__ import annotations

from math import gamma
from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F64, I64

MAX_GRID_DIMS = 3  # the number of frequencies is proportional to width^d (tests/kernel/test_fourier_grid.py)
# more trials are slower and find slightly smaller grids (tests/kernel/test_fourier_grid.py)
N_TRIAL_PERIODS = 64
# frequencies with closer |w_k| form one shell, which is kept or dropped as a whole (tests/kernel/test_fourier_grid.py)
SHELL_RELATIVE_TOL = 1e-6


class FourierGrid(NamedTuple):
    """Periods L_j (0 where the box is flat), cut-off R, number of real features and certified sup-norm error."""

    periods: tuple[float, ...]
    cutoff: float
    n_features: int
    error: float


def fourier_grid(widths: F64, sigma: float, eps: float, max_features: int) -> FourierGrid:
    """Return the grid with the fewest features and an error of at most ``eps``.

    If no grid of ``max_features`` reaches ``eps``, return the one with the smallest error. ``widths`` (d,), d <= 3, are
    the sides of the bounding box of the points.
    """
    longest = np.sqrt(2 * np.log(100 / eps)) * sigma
    candidates: list[FourierGrid] = []
    min_error = np.inf
    for extra in np.linspace(longest, 0, N_TRIAL_PERIODS, endpoint=False):
        L = np.array([float(f"{length:.7g}") for length in np.where(widths > 0, widths + extra, 0)])
        images, total = _images(widths, L, sigma)
        if images > max(eps, min_error):  # shorter periods have even larger images
            break
        candidates.append(_truncate(L, images, total, sigma, eps, max_features))
        min_error = min(min_error, candidates[-1].error)
    candidates.reverse()
    enough = [grid for grid in candidates if grid.error <= eps]
    if enough:
        return min(enough, key=lambda grid: (grid.n_features, grid.error))
    return min(candidates, key=lambda grid: grid.error)


def _truncate(
    L: F64, images: float, total: float, sigma: float, eps: float, max_features: int
) -> FourierGrid:
    """Return the grid of periods L with the smallest cut-off for an error of ``eps``, or the largest allowed one."""
    radius, weight = _frequencies(L, sigma, eps, max_features)
    shell_ends = (
        np.flatnonzero(
            np.append(np.diff(radius) > SHELL_RELATIVE_TOL * radius[1:], len(radius) <= max_features)
        )
        + 1
    )
    shell_ends = shell_ends[shell_ends <= max_features]
    if len(shell_ends) == 0:
        return FourierGrid(tuple(L.tolist()), 0.0, 1, images + total - float(weight[0]))
    errors = images + np.maximum(total - np.cumsum(weight)[shell_ends - 1], 0)
    reaching = np.flatnonzero(errors <= eps)
    chosen = int(reaching[0]) if len(reaching) else len(shell_ends) - 1
    m = int(shell_ends[chosen])
    next_radius = radius[m] if m < len(radius) else radius[m - 1] * 1.01 + 1 / sigma
    cutoff = float((radius[m - 1] + next_radius) / 2)
    return FourierGrid(tuple(L.tolist()), cutoff, m, float(errors[chosen]))


def _images(widths: F64, L: F64, sigma: float) -> tuple[float, float]:
    """Return (bound on the images on the box, sum of all weights)."""
    m = np.arange(1, 64)[:, None]
    wide = L > 0
    at_zero = np.exp(-((m * L[wide]) ** 2) / (2 * sigma**2)).sum(axis=0)
    at_width = np.exp(-((m * L[wide] - widths[wide]) ** 2) / (2 * sigma**2)).sum(axis=0)
    return float(np.prod(1 + at_zero + at_width) - 1), float(np.prod(1 + 2 * at_zero))


def _frequencies(L: F64, sigma: float, eps: float, min_count: int) -> tuple[F64, F64]:
    """Return (|w_k|, weight of k) in ascending order of |w_k|: at least ``min_count``, or all with positive weight."""
    step = 2 * np.pi / L[L > 0]
    if len(step) == 0:
        return np.zeros(1), np.ones(1)
    reach = min(_lattice_radius(np.sort(step)[:d], min_count) for d in range(1, len(step) + 1))
    reach = min(reach, np.sqrt(2 * np.log(1e4 / eps)) / sigma)
    axes = [s * np.arange(-int(reach / s), int(reach / s) + 1) for s in step]
    square = sum(np.meshgrid(*[a**2 for a in axes], indexing="ij", sparse=True), start=np.zeros(()))
    radius = np.sqrt(np.sort(square[square <= reach**2]))
    height = float(np.prod(np.sqrt(2 * np.pi) * sigma / L[L > 0]))
    return radius, height * np.exp(-((radius * sigma) ** 2) / 2)


def _lattice_radius(step: F64, min_count: int) -> float:
    """Return a radius within which a lattice with these steps has at least ``min_count`` points.

    A ball of the volume of ``min_count`` cells, enlarged by half a cell diagonal, contains that many points.
    """
    d = len(step)
    ball = np.pi ** (d / 2) / gamma(d / 2 + 1)
    return float((min_count * np.prod(step) / ball) ** (1 / d) + np.sqrt((step**2).sum()) / 2)


class Layout(NamedTuple):
    """Real features of a grid: products of three functions, one per dimension (d < 3: the first ones are 1).

    The functions of a dimension are 1, cos t, sin t, cos 2t, sin 2t, ..; functions a and b of the first two
    dimensions are multiplied by the first ``lengths[a, b]`` of the third. ``scales`` are the square roots of the
    features' weights.
    """

    lengths: I64
    scales: F64


def grid_layout(periods: tuple[float, ...], cutoff: float, sigma: float) -> Layout:
    """Return the number of frequencies on each line of the grid, and the scale of each frequency."""
    L = [0.0] * (3 - len(periods)) + list(periods)
    axes = [
        2 * np.pi / length * np.arange(int(cutoff * length / (2 * np.pi)) + 1) if length else np.zeros(1)
        for length in L
    ]
    first, second, third = (axis[(np.arange(2 * len(axis) - 1) + 1) // 2] for axis in axes)
    square = first[:, None, None] ** 2 + second[:, None] ** 2 + third**2
    inside = square <= cutoff**2
    height = float(np.prod([np.sqrt(2 * np.pi) * sigma / length for length in L if length]))
    two = [np.where(axis > 0, 2.0, 1.0) for axis in (first, second, third)]  # weight 2 for k and -k together
    pairs = two[0][:, None, None] * two[1][:, None] * two[2]
    weights = height * pairs * np.exp(-square * sigma**2 / 2)
    return Layout(inside.sum(axis=2), np.sqrt(weights[inside]))
