"""Squared kernel distances in closed form, for kernels without a bandwidth.

    linear    k(x, y) = <x, y>             D^2 = |sum_i z_i x_i|^2, the squared distance of the weighted sums of points
    identity  k(x, y) = 1 if x = y else 0  D^2 = sum over distinct points of |sum of their z|^2

for all points x_i of P and Q, with weights z = (w_P, -w_Q).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist._numba.weighted_points import WeightedPoints
from dkdist.kernels.inputs import read_pair


def linear_energy(points: WeightedPoints) -> float:
    """Return |sum_i z_i x_i|^2; the sum runs over centred points, which have the smallest rounding errors."""
    sums = sum(x.T @ z for x, z in points.tiles())
    middle = np.zeros(points.d) if points.middle is None else points.middle
    return float(np.square(sums + np.outer(middle, points.total)).sum())


def identity_energy(points: WeightedPoints) -> float:
    """Return the sum of |sum of z|^2 over distinct points, after sorting; coordinates are compared without rounding."""
    x, z = points.with_transform(middle=None).arrays()
    order = np.lexsort(x.T)
    x, z = x[order], z[order]
    is_first = np.concatenate([[True], (x[1:] != x[:-1]).any(axis=1)])
    return float(np.square(np.add.reduceat(z, np.flatnonzero(is_first))).sum())


ENERGIES = {"linear": linear_energy, "identity": identity_energy}
# Derivatives of D^2 for the error message.
_SLOPES = {
    "linear": "Its derivative by x_i is 2 w_i times the difference of the weighted sums of P and Q.",
    "identity": "It is piecewise constant. Use kernel='laplace'.",
}


def closed_form_square(
    kernel: str, P: Any, Q: Any, weights: Any, method: str, unsupported: dict[str, Any]
) -> float:
    """Return D^2 by a kernel of `ENERGIES`; ``unsupported`` parameters must be None or False."""
    for name, value in unsupported.items():
        if value is None or value is False:
            continue
        if name == "gradient":
            raise ValueError(f"gradient must be False for kernel={kernel!r}; got True. {_SLOPES[kernel]}")
        reason = "has no U-statistic" if name == "unbiased" else "has no bandwidth"
        raise ValueError(
            f"{name} must be {None if value is not True else False} for kernel={kernel!r}, which {reason}; got "
            f"{value!r:.80}. Omit {name}."
        )
    if method not in ("auto", "exact"):
        raise ValueError(
            f"method must be 'auto' or 'exact' for kernel={kernel!r}; got {method!r}, which requires 'gaussian'."
        )
    return ENERGIES[kernel](read_pair(P, Q, weights).points)
