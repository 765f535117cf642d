"""Kernels as sums of a few Gaussian ones, with a certified error: so all that is fast for these is fast for those.

    k(r) = int exp(-r^2 e^t) m(t) dt ~ c + q r^2 + sum_i w_i exp(-r^2 / (2 s_i^2)),   r in units of sigma, r <= R

is the trapezoidal rule with step h. Three things are left out, and bounded without estimates:

- *aliases.* m(t) exp(-r^2 e^t) is analytic for |Im t| < pi/2, so that the rule is off by at most
  2 sum_j e^(-2 pi y j / h) cos(y)^(-p) for every y < pi/2 and all r (p = nu for Matern, 1 for the rational quadratic
  kernel). For r itself the error is known: r times a sum of |Gamma(-1/2 + 2 pi i j / h)|.
- *narrow Gaussians*, by the sum of their weights.
- *wide ones*, by a line in r^2: exp(-a) is 1 - a but for a^2 / 2 at most.

    matern, nu          m = (nu e^-t / 2)^nu exp(-nu e^-t / 2) / Gamma(nu)
    rational-quadratic  m = 2 e^t exp(-2 e^t)
    energy              -r = int (exp(-r^2 e^t) - 1) e^(-t/2) dt / (2 pi^(1/2))

Narrow ones are the many: the rougher a kernel is, the more weight they have. For an error of 1e-5 it takes 12 Gaussians
for Matern 5/2, 16 for 3/2 and 41 for 1/2. (Schoenberg 1938: kernels positive definite in all dimensions are mixtures.)
"""

from __future__ import annotations

from collections.abc import Callable
from math import gamma
from typing import NamedTuple

import numpy as np

from dkdist.loops.array_types import F64

STEPS = np.geomspace(1.5, 0.15, 60)
REACH = 80.0  # nodes from e^-80 to e^80: what is beyond weighs nothing that could be asked for
LEAST = 1e-10  # error that is certified; below, nodes would be too many
ROUNDING = 1e-15  # of all that is added
SLOPES = np.linspace(0.05, 1.565, 200)  # y


class GaussianMixture(NamedTuple):
    """A kernel as c + q r^2 + sum_i w_i exp(-r^2 / (2 s_i^2)): widths s_i and weights w_i (n,), and an error bound.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> two = dk.GaussianMixture(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    >>> two.constant, two.quadratic, two.error
    (0.0, 0.0, 0.0)
    """

    sigmas: F64
    weights: F64
    constant: float = 0.0
    quadratic: float = 0.0
    error: float = 0.0


class Measure(NamedTuple):
    """The density m(t), p of its aliases (None: those of r), and whether 1 is taken from each exponential."""

    density: Callable[[F64], F64]
    power: float | None
    less_one: bool = False


def matern_measure(nu: float) -> Measure:
    """Of the Matern kernel of smoothness nu."""
    return Measure(lambda t: (nu / 2 * np.exp(-t)) ** nu * np.exp(-nu / 2 * np.exp(-t)) / gamma(nu), nu)


DISTANCE_MEASURE = Measure(lambda t: np.exp(-t / 2) / (2 * np.sqrt(np.pi)), None, less_one=True)
"""Of -r."""


def mixture(measure: Measure, R: float, error: float) -> GaussianMixture | None:
    """The mixture of fewest Gaussians found that is within ``error`` of the kernel for r <= R; None if none is."""
    steps = [h for h in STEPS if _aliases(measure, h, R) <= error / 4]
    if not steps or error < LEAST:
        return None
    h = steps[0]
    t = h * np.arange(-int(REACH / h), int(REACH / h) + 1)
    weights, a = h * measure.density(t), R**2 * np.exp(t)
    flat = a <= 1  # nearly a line in r^2; others are left out
    least = weights * np.where(flat, a**2 / 2, 1.0)
    narrow = np.cumsum(weights[::-1])[::-1] <= error / 4
    wide = (np.cumsum(least) <= error / 4) & ~narrow
    kept, line = ~narrow & ~wide, wide & flat
    whole = float(weights[line].sum())
    constant = -float(weights[kept].sum()) if measure.less_one else whole
    quadratic = -float((weights[line] * np.exp(t[line])).sum())
    lost = _aliases(measure, h, R) + float(weights[narrow].sum() + least[wide].sum())
    lost += ROUNDING * float(weights[kept].sum() + abs(constant) + R**2 * abs(quadratic))
    if not lost <= error:
        return None
    return GaussianMixture(np.sqrt(0.5) * np.exp(-t[kept] / 2), weights[kept], constant, quadratic, lost)


def _aliases(measure: Measure, h: float, R: float) -> float:
    """What the trapezoidal rule with step h adds, for r <= R."""
    j = np.arange(1, 6)
    if measure.power is None:
        w = 2 * np.pi * j / h
        sizes = np.sqrt(np.pi / (np.cosh(np.minimum(np.pi * w, 700)) * (0.25 + w**2)))
        return float(R / np.sqrt(np.pi) * sizes.sum()) * 1.01
    each = 2 / np.expm1(2 * np.pi * SLOPES / h) * np.cos(SLOPES) ** -measure.power
    return float(each.min())
