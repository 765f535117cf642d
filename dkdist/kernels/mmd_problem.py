"""The problem that methods of the kernel distance solve, and its solution by all pairs of points.

E(x, z) = sum_ij k(x_i, x_j) <z_i, z_j>
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist._base.parameter_checks import draw_seed
from dkdist._numba.arrays import F64
from dkdist._numba.weighted_points import WeightedPoints
from dkdist.kernels._exact_numba import DIRECT_ROUNDING, MAX_PRODUCT_ROUNDING, rounding
from dkdist.kernels._tuning import (
    MAX_DIRECT_POINTS,
    MAX_DOUBLE_DOUBLE_POINTS,
    MIN_SUM_PER_ROUNDING,
)
from dkdist.kernels.kernel_sums import energy, scaled, sorted_energy
from dkdist.kernels.registry import get_kernel


class MMDProblem(NamedTuple):
    """Energy to compute: weighted points around the origin, bandwidth, allowed error of E, kernel and seed.

    Points and bandwidth are in the unit of `make_problem`, so that their squares do not overflow.
    """

    points: WeightedPoints
    sigma: float
    eps: float
    kernel: str
    seed: int

    @property
    def middle(self) -> F64:
        """Centre of the bounding box of the points; not the origin if they are one component of a set."""
        low, high = self.points.bounds
        return (low + high) / 2

    @property
    def kernel_tol(self) -> float:
        """Error of k allowed by eps."""
        return self.eps / max(self.points.mass**2, 1e-300)


def make_problem(
    points: WeightedPoints, sigma: float, eps: float, kernel: str = "gaussian", random_state: object = 0
) -> MMDProblem:
    """Build a problem, with lengths divided by the power of two near sigma, which is exact."""
    fraction, exponent = np.frexp(sigma)
    unit = float(np.ldexp(1.0, -exponent))
    return MMDProblem(points.scale_by(unit), float(fraction), eps, kernel, draw_seed(random_state))


def direct_energy(problem: MMDProblem) -> float:
    """Return E from all pairs or by sorting, exact up to rounding."""
    points = problem.points
    if len(points) > MAX_DIRECT_POINTS and get_kernel(problem.kernel).is_sorted(points.d):
        x, z = points.arrays()
        return refine_precision(
            sorted_energy(scaled(x, problem.sigma, problem.kernel), z, problem.kernel), problem
        )
    return refine_precision(energy(points, problem.sigma, problem.kernel), problem)


def refine_precision(total: float, problem: MMDProblem) -> float:
    """Return the energy ``total``; recompute it in double-double if terms cancel and there are few points."""
    square, profile = problem.points.mass**2, get_kernel(problem.kernel).profile
    is_accurate = (
        problem.kernel != "energy"
        and abs(total) >= MIN_SUM_PER_ROUNDING * (DIRECT_ROUNDING + MAX_PRODUCT_ROUNDING) * square
    )
    if len(problem.points) > MAX_DOUBLE_DOUBLE_POINTS or is_accurate or profile is None:
        return total
    x, z = problem.points.arrays()
    x = scaled(x, problem.sigma, problem.kernel)
    if abs(total) < MIN_SUM_PER_ROUNDING * rounding(x, profile) * square:
        # Imported lazily: only nearly equal sets need it.
        from dkdist.kernels._double_double_numba import double_double_energy

        return double_double_energy(x, z, profile)
    return total
