"""Exact kernel distance of two point sets after rigid motions, from near pairs, in float64.

    D^2 = kappa(P, P) + kappa(Q, Q) - 2 kappa(P, RQ + t)

Motions do not change the first two terms.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._numba.compilation import FINITE_REASSOC, inline_jit, jit
from dkdist.kernels._profiles_numba import GAUSSIAN_UNIT, exp2

# Pairs farther apart along the first axis are ignored: 2^(-7.5^2) < 2^-56 (tests/kernel/test_alignment.py).
CUTOFF_RADIUS = 7.5


def squared_distances(x: F64, p: F64, y: F64, q: F64, motions: list[tuple[F64, F64]]) -> list[float]:
    """Return D^2 of points x (n, d) with weights p and R y + t with weights q, for each motion (R, t).

    Points are in units of sigma.
    """
    a = _columns(x, p)
    constant = sum(_self_energy(*v) for v in (a, _columns(y, q)))
    return [constant - 2 * _cross_energy(*_columns(y @ R.T + t, q), *a) for R, t in motions]


def _columns(x: F64, p: F64) -> F64:
    """Return (4, n): points sorted by the first coordinate, scaled so that the kernel is 2^(-r^2), and weights."""
    columns, order = np.zeros((4, len(x))), np.argsort(x[:, 0], kind="stable")
    columns[: x.shape[1]], columns[3] = GAUSSIAN_UNIT * x[order].T, p[order]
    return columns


@inline_jit(FINITE_REASSOC)
def _sum(x, y, z, p, a, b, c):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(x)):
        e, f, g = x[i] - a, y[i] - b, z[i] - c
        total += p[i] * exp2(-(e * e + f * f + g * g))
    return total


@jit()
def _self_energy(x, y, z, p):  # type: ignore[no-untyped-def]
    """Sum the kernel over all pairs of one set."""
    total = 0.0
    for j in range(len(x)):
        later_points = slice(j + 1, np.searchsorted(x, x[j] + CUTOFF_RADIUS))
        others = _sum(x[later_points], y[later_points], z[later_points], p[later_points], x[j], y[j], z[j])
        total += p[j] * (p[j] + 2 * others)
    return total


@jit()
def _cross_energy(u, v, w, q, x, y, z, p):  # type: ignore[no-untyped-def]
    """Sum the kernel over all pairs of two sets."""
    total = 0.0
    for j in range(len(u)):
        near_points = slice(
            np.searchsorted(x, u[j] - CUTOFF_RADIUS), np.searchsorted(x, u[j] + CUTOFF_RADIUS)
        )
        total += q[j] * _sum(x[near_points], y[near_points], z[near_points], p[near_points], u[j], v[j], w[j])
    return total
