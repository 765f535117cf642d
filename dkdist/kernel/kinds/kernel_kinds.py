"""What is known of each kernel: its values, whether D^2 can be negative, and the form that makes its sums fast.

r = |x - y| / sigma:

    name                k(x, y)                                      on a line
    gaussian            exp(-r^2 / 2)
    laplace             exp(-|x - y|_1 / sigma)                      exact in n log n, in the plane too
    matern12            exp(-r)                                      exact in n log n
    matern32            (1 + 3^(1/2) r) exp(-3^(1/2) r)              exact in n log n
    matern52            (1 + 5^(1/2) r + 5/3 r^2) exp(-5^(1/2) r)    exact in n log n
    rational-quadratic  1 / (1 + r^2 / 2)
    energy              -r, conditionally positive definite          exact in n log n
    epanechnikov        max(0, 1 - r^2), not positive definite

"laplacian", the name of old for "matern12", is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist.kernel.sums.profiles_loops import KERNELS, UNITS
from dkdist.loops.array_types import F64

_C = float(np.log(2))  # in the units of `profiles_loops`, where exponentials are powers of two


class Line(NamedTuple):
    """(a_0 + a_1 u + a_2 u^2) exp(-decay u) of scaled distances u on a line: see `line_loops`."""

    decay: float
    polynomial: tuple[float, float, float]


class Kind(NamedTuple):
    """A kernel: ``definite`` says for which weights D^2 >= 0, ``at_zero`` is k(x, x)."""

    definite: str = "always"
    at_zero: float = 1.0
    line: Line | None = None


_MATERN12 = Kind(line=Line(_C, (1, 0, 0)))
KINDS = {
    "gaussian": Kind(),
    "laplace": _MATERN12,
    "matern12": _MATERN12,
    "matern32": Kind(line=Line(_C, (1, _C, 0))),
    "matern52": Kind(line=Line(_C, (1, _C, _C**2 / 3))),
    "rational-quadratic": Kind(),
    "energy": Kind(definite="equal totals", at_zero=0.0, line=Line(0, (0, -1, 0))),
    "epanechnikov": Kind(definite="not"),
    "laplacian": _MATERN12,
}


def can_be_sorted(d: int, kernel: str) -> bool:
    """Whether sums of a kernel in d dimensions are those of sorted points: see `sorted_energy`."""
    return (d == 1 and KINDS[kernel].line is not None) or (d == 2 and kernel == "laplace")


def kernel_values(apart: F64, kernel: str) -> F64:
    """k at squared distances in units of sigma, of "laplace" at distances by city blocks; not for "epanechnikov"."""
    line = KINDS[kernel].line
    if line is None:
        return np.asarray(np.exp(-0.5 * apart) if kernel == "gaussian" else 1 / (1 + 0.5 * apart))
    u, (a, b, c) = (
        UNITS[KERNELS[kernel]] * (apart if kernel == "laplace" else np.sqrt(apart)),
        line.polynomial,
    )
    return np.asarray((a + b * u + c * u**2) * np.exp(-line.decay * u))
