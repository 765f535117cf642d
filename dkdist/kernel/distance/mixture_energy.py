"""Energies of kernels that are mixtures of Gaussian ones: of each Gaussian by what is fast for it.

    E = c S^2 + 2 q (S sum_i z_i |x_i|^2 - |sum_i z_i x_i|^2) + sum_m w_m E_m,   S = sum_i z_i

of the mixture c + q r^2 + sum_m w_m exp(-r^2 / (2 s_m^2)). Errors add up: half of what is allowed is the mixture's, and
each Gaussian has an equal part of the rest, so that narrow ones, which weigh little, may be far off.
"""

from __future__ import annotations

import numpy as np

from dkdist.kernel.distance.energy_task import Task, all_pairs
from dkdist.kernel.distance.kernel_methods import BY_NAME, PAIR_NS
from dkdist.kernel.kinds.gaussian_mixtures import MEASURES, Mixture, gaussian_mixture
from dkdist.kernel.kinds.kernel_kinds import KINDS
from dkdist.kernel.sums.fourier_grid import MOST_DIMS
from dkdist.loops.tiles.weighted_points import WeightedPoints

PLAN_NS = 5e6  # to find the way for one Gaussian
WIDE_NS, NARROW_NS = 200.0, 2500.0  # for a point of one Gaussian, as measured
FEW_NUMBERS = 2**20  # of points: so many are copied
WIDE = {1: 1e-5, 2: 1e-3, 3: 1e-2}  # of the width of the points, by dimension: those below are narrow


def mixed_energy(task: Task) -> float:
    """The energy to the error that the task allows, by Gaussians where that is foretold to take less than all pairs."""
    n, d = len(task.points), task.points.d
    if task.kernel not in MEASURES or d > MOST_DIMS or (d == 1 and KINDS[task.kernel].line is not None):
        return all_pairs(task)
    R = float(np.sqrt((task.points.widths**2).sum())) / task.sigma
    mixture = gaussian_mixture(task.kernel, R, task.share / 2)
    if mixture is None:
        return all_pairs(task)
    points = np.where(mixture.sigmas > WIDE[d] * R, WIDE_NS, NARROW_NS)
    if n * points.sum() + PLAN_NS * len(points) > PAIR_NS * n**2 / 2:
        return all_pairs(task)
    return _by_gaussians(task, mixture)


def _by_gaussians(task: Task, mixture: Mixture) -> float:
    if len(task.points) * task.points.d <= FEW_NUMBERS:  # tiles for every Gaussian would be made again
        task = task._replace(points=WeightedPoints.of(*task.points.arrays()))
    S, d, C = task.points.total, task.points.d, task.points.channels
    squares, firsts = np.zeros(C), np.zeros((d, C))
    for x, z in task.points.tiles():
        u = x / task.sigma
        squares += (u**2).sum(axis=1) @ z
        firsts += u.T @ z
    line = S @ squares - np.square(firsts).sum()
    total = mixture.constant * float(S @ S) + 2 * mixture.quadratic * float(line)
    for s, w in zip(mixture.sigmas, mixture.weights, strict=True):
        eps = task.eps / (2 * len(mixture.weights) * w)
        total += w * BY_NAME["auto"](task._replace(sigma=task.sigma * s, kernel="gaussian", eps=eps))
    return float(total)
