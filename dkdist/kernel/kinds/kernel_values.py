"""Kernels of a few points that are there at once, by differences in float64: right but for the last digits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import cdist

from dkdist.loops.array_types import F64


def _matern(nu2: int, square: float) -> Callable[[F64], F64]:
    """(1 + u + ``square`` u^2) exp(-u), u = nu2^(1/2) r; the polynomial of Matern 1/2 is 1."""

    def values(s: F64) -> F64:
        u = np.sqrt(nu2 * s)
        return np.asarray((1 + (nu2 > 1) * u + square * nu2 * s) * np.exp(-u))

    return values


PROFILES: dict[str, Callable[[F64], F64]] = {
    "gaussian": lambda s: np.asarray(np.exp(-0.5 * s)),
    "laplace": lambda s: np.asarray(np.exp(-s)),
    "matern12": _matern(1, 0.0),
    "matern32": _matern(3, 0.0),
    "matern52": _matern(5, 1 / 3),
    "rational-quadratic": lambda s: np.asarray(1 / (1 + 0.5 * s)),
}
"""By kernel: its values at squared distances in units of sigma, "laplace" at distances by city blocks."""


def kernel_matrix(s: F64, sigma: float, kernel: str) -> F64:
    """k(s_j, s_l) of points (m, d)."""
    u = s / sigma
    return PROFILES[kernel](cdist(u, u, "cityblock" if kernel == "laplace" else "sqeuclidean"))


def kernel_column(x: F64, j: int, kernel: str) -> F64:
    """k(x_i, x_j) of points (n, d) in units of sigma with one of them: (n,)."""
    apart = x - x[j]
    return PROFILES[kernel]((np.abs(apart) if kernel == "laplace" else apart**2).sum(axis=1))
