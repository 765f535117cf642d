"""What a kernel energy is found of, and by what: the sum over all pairs, or a method that does less.

E(x, z) = sum_ij k(x_i, x_j) <z_i, z_j>,   D_K^2(P, Q) = E of all points of P and Q, with z = (w_P, -w_Q)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist.base.parameter_checks import draw_seed
from dkdist.kernel.sums.exact_loops import by_products, energy, energy_by_products, mass, rounding, scaled
from dkdist.kernel.sums.twofold_loops import twofold_energy
from dkdist.loops.array_types import F64
from dkdist.loops.points import column_bounds

METHODS = ("auto", "exact", "fourier", "rff", "taylor", "tree", "wspd")
SMALL = 2000  # points up to which all pairs take some 2 ms
TWOFOLD = 4000  # points up to which all pairs in twice the digits take less than a second
TRUSTED = 1e4  # a sum so many times its rounding, or more, has four digits


class Task(NamedTuple):
    """An energy to be found: points (n, d) about the origin, weights (n, C), bandwidth, error allowed, seed.

    Points and bandwidth are in the unit of `make_task`, so that squares of both are numbers.
    """

    x: F64
    z: F64
    sigma: float
    eps: float
    kernel: str
    seed: int

    @property
    def widths(self) -> F64:
        """Sides of the box of the points."""
        low, high = column_bounds(self.x)
        return high - low

    @property
    def middle(self) -> F64:
        """The middle of that box: the origin, unless these are a part of the points."""
        low, high = column_bounds(self.x)
        return (low + high) / 2

    @property
    def share(self) -> float:
        """The error of k that eps allows."""
        return self.eps / max(mass(self.z) ** 2, 1e-300)


def make_task(
    x: F64,
    z: F64,
    sigma: float,
    eps: float,
    kernel: str = "gaussian",
    random_state: object = 0,
    *,
    in_place: bool = False,
) -> Task:
    """A task with the seed that a random_state stands for; lengths over the power of two near sigma: exact.

    ``in_place``: nobody needs the points as they are.
    """
    fraction, exponent = np.frexp(sigma)
    return Task(
        np.ldexp(x, -exponent, out=x if in_place else None),
        z,
        float(fraction),
        eps,
        kernel,
        draw_seed(random_state),
    )


def all_pairs(task: Task) -> float:
    """All pairs, or what sorting gives of them: exact either way."""
    if by_products(task.x, task.sigma, task.kernel):
        found = energy_by_products(task.x, task.z, task.sigma)
        few = len(task.x) <= TWOFOLD  # others are as they are, and need no scaled copy
        return resolved(found, scaled(task.x, task.sigma), task) if few else found
    x, total = scaled(task.x, task.sigma, task.kernel), None
    if len(x) > SMALL and x.shape[1] <= 2:
        from dkdist.kernel.kinds.sorted_energy import sorted_energy  # for many points alone

        total = sorted_energy(x, task.z, task.kernel)
    return resolved(energy(x, task.z, task.kernel) if total is None else total, x, task)


def resolved(total: float, x: F64, task: Task) -> float:
    """An energy of scaled points; in twice the digits where those of few points cancel, as of nearly equal sets."""
    lost = rounding(x, task.kernel) * mass(task.z) ** 2
    if abs(total) < TRUSTED * lost and len(x) <= TWOFOLD:
        return twofold_energy(x, task.z, task.kernel)
    return total


def energy_by(task: Task, method: str) -> float:
    """sum_ij k(x_i, x_j) <z_i, z_j>; what does less than all pairs is loaded when it is asked for."""
    if method == "exact" or (method == "auto" and len(task.x) <= SMALL):
        return all_pairs(task)
    if task.kernel != "gaussian" and method == "auto":
        from dkdist.kernel.distance.mixture_energy import mixed_energy

        return mixed_energy(task)
    if task.kernel != "gaussian":
        raise ValueError(
            f"method={method!r} is for kernel='gaussian': use 'exact' for kernel={task.kernel!r}"
        )
    from dkdist.kernel.distance.kernel_methods import BY_NAME

    return BY_NAME[method](task)
