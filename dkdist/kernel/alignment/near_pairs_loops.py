"""The kernel distance of two point sets before and after a rigid motion, exactly, from the pairs that are near.

    D^2 = kappa(P, P) + kappa(Q, Q) - 2 kappa(P, RQ + t)

Motions leave the first two as they are. All of it is float64.
"""

from __future__ import annotations

import numpy as np

from dkdist.kernel.sums.exact_loops import scaled
from dkdist.kernel.sums.profiles_loops import exp2
from dkdist.loops.array_types import F64
from dkdist.loops.compile import SUM, inlined, loop

REACH = 7.5  # where the kernel is 2^(-r^2): points farther away along the first axis weigh below 2^-56


def squared_distances(x: F64, y: F64, motions: list[tuple[F64, F64]]) -> list[float]:
    """D^2 of points x (n, d) and R y + t for motions (R, t); each point weighs one over their number.

    Points are in units of sigma.
    """
    a = _columns(x)
    same = sum(_own(*v) / v.shape[1] ** 2 for v in (a, _columns(y)))
    return [same - 2 * _across(*_columns(y @ R.T + t), *a) / (len(x) * len(y)) for R, t in motions]


def _columns(x: F64) -> F64:
    """(3, n), in the order of the first coordinate, in units in which the kernel is 2^(-r^2)."""
    columns = np.zeros((3, len(x)))
    columns[: x.shape[1]] = scaled(x[np.argsort(x[:, 0], kind="stable")], 1.0).T
    return columns


@inlined(SUM)
def _sum(x, y, z, a, b, c):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(x)):
        e, f, g = x[i] - a, y[i] - b, z[i] - c
        total += exp2(-(e * e + f * f + g * g))
    return total


@loop()
def _own(x, y, z):  # type: ignore[no-untyped-def]
    """The kernel of all pairs of one set."""
    total = 0.5 * len(x)
    for j in range(len(x)):
        last = np.searchsorted(x, x[j] + REACH)
        total += _sum(x[j + 1 : last], y[j + 1 : last], z[j + 1 : last], x[j], y[j], z[j])
    return 2 * total


@loop()
def _across(u, v, w, x, y, z):  # type: ignore[no-untyped-def]
    """The kernel of all pairs of two sets."""
    total = 0.0
    for j in range(len(u)):
        first, last = np.searchsorted(x, u[j] - REACH), np.searchsorted(x, u[j] + REACH)
        total += _sum(x[first:last], y[first:last], z[first:last], u[j], v[j], w[j])
    return total
