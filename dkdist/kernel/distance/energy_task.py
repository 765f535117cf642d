"""What a kernel energy is found of, and the sum over all pairs.

E(x, z) = sum_ij k(x_i, x_j) <z_i, z_j>,   D_K^2(P, Q) = E of all points of P and Q, with z = (w_P, -w_Q)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist.base.parameter_checks import draw_seed
from dkdist.kernel.kinds.kernel_sums import energy, scaled, sorted_energy
from dkdist.kernel.kinds.registry import get_kernel
from dkdist.kernel.sums.exact_loops import DIRECT_ROUNDING, MOST_ROUNDING, rounding
from dkdist.loops.array_types import F64
from dkdist.loops.tiles.weighted_points import WeightedPoints

SMALL = 2000  # points up to which all pairs take some 2 ms
TWOFOLD = 4000  # points up to which all pairs in twice the digits take less than a second
TRUSTED = 1e4  # a sum so many times its rounding, or more, has four digits


class Task(NamedTuple):
    """An energy to be found: weighted points about the origin, bandwidth, error allowed, seed.

    Points and bandwidth are in the unit of `make_task`, so that squares of both are numbers.
    """

    points: WeightedPoints
    sigma: float
    eps: float
    kernel: str
    seed: int

    @property
    def middle(self) -> F64:
        """The middle of the box of the points: the origin, unless these are a part of the points."""
        low, high = self.points.bounds
        return (low + high) / 2

    @property
    def share(self) -> float:
        """The error of k that eps allows."""
        return self.eps / max(self.points.mass**2, 1e-300)


def make_task(
    points: WeightedPoints, sigma: float, eps: float, kernel: str = "gaussian", random_state: object = 0
) -> Task:
    """A task with the seed that a random_state stands for; lengths over the power of two near sigma: exact."""
    fraction, exponent = np.frexp(sigma)
    unit = float(np.ldexp(1.0, -exponent))
    return Task(points.over(unit), float(fraction), eps, kernel, draw_seed(random_state))


def all_pairs(task: Task) -> float:
    """All pairs, or what sorting gives of them: exact either way."""
    points = task.points
    if len(points) > SMALL and get_kernel(task.kernel).is_sorted(points.d):
        x, z = points.arrays()
        return resolved(sorted_energy(scaled(x, task.sigma, task.kernel), z, task.kernel), task)
    return resolved(energy(points, task.sigma, task.kernel), task)


def resolved(total: float, task: Task) -> float:
    """An energy of points; in twice the digits where those of few points cancel, as of nearly equal sets."""
    square, profile = task.points.mass**2, get_kernel(task.kernel).profile
    plenty = task.kernel != "energy" and abs(total) >= TRUSTED * (DIRECT_ROUNDING + MOST_ROUNDING) * square
    if len(task.points) > TWOFOLD or plenty or profile is None:
        return total
    x, z = task.points.arrays()
    x = scaled(x, task.sigma, task.kernel)
    if abs(total) < TRUSTED * rounding(x, profile) * square:
        from dkdist.kernel.sums.twofold_loops import twofold_energy  # for nearly equal sets alone

        return twofold_energy(x, z, profile)
    return total
