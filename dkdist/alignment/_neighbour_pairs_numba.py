"""The kernel distance of two point sets before and after a rigid motion, exactly, from the pairs that are near.

    D^2 = kappa(P, P) + kappa(Q, Q) - 2 kappa(P, RQ + t)

Motions leave the first two as they are. All of it is float64.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._numba.compilation import SUM, inlined, loop
from dkdist.kernels._profiles_numba import GAUSSIAN_UNIT, exp2

CUTOFF_RADIUS = (
    7.5  # where the kernel is 2^(-r^2): points farther away along the first axis weigh below 2^-56
)


def squared_distances(x: F64, p: F64, y: F64, q: F64, motions: list[tuple[F64, F64]]) -> list[float]:
    """D^2 of points x (n, d) with weights p and R y + t with weights q, for motions (R, t).

    Points are in units of sigma.
    """
    a = _columns(x, p)
    same = sum(_self_energy(*v) for v in (a, _columns(y, q)))
    return [same - 2 * _cross_energy(*_columns(y @ R.T + t, q), *a) for R, t in motions]


def _columns(x: F64, p: F64) -> F64:
    """(4, n): points in the order of the first coordinate, in units in which the kernel is 2^(-r^2), and weights."""
    columns, order = np.zeros((4, len(x))), np.argsort(x[:, 0], kind="stable")
    columns[: x.shape[1]], columns[3] = GAUSSIAN_UNIT * x[order].T, p[order]
    return columns


@inlined(SUM)
def _sum(x, y, z, p, a, b, c):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(x)):
        e, f, g = x[i] - a, y[i] - b, z[i] - c
        total += p[i] * exp2(-(e * e + f * f + g * g))
    return total


@loop()
def _self_energy(x, y, z, p):  # type: ignore[no-untyped-def]
    """The kernel of all pairs of one set."""
    total = 0.0
    for j in range(len(x)):
        after = slice(j + 1, np.searchsorted(x, x[j] + CUTOFF_RADIUS))
        others = _sum(x[after], y[after], z[after], p[after], x[j], y[j], z[j])
        total += p[j] * (p[j] + 2 * others)
    return total


@loop()
def _cross_energy(u, v, w, q, x, y, z, p):  # type: ignore[no-untyped-def]
    """The kernel of all pairs of two sets."""
    total = 0.0
    for j in range(len(u)):
        near = slice(np.searchsorted(x, u[j] - CUTOFF_RADIUS), np.searchsorted(x, u[j] + CUTOFF_RADIUS))
        total += q[j] * _sum(x[near], y[near], z[near], p[near], u[j], v[j], w[j])
    return total
