"""What a kappa(x, y) must satisfy before it can have a spectral measure.

It works elementwise on arrays and is, for all x, y >= 0: finite, symmetric, zero for x = y, non-negative, and
homogeneous of degree one, kappa(c x, c y) = c kappa(x, y). Each law is checked on a fixed grid, each has its
message.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dkdist.loops.array_types import F64

Kappa = Callable[[F64, F64], F64]

_LAW_TOLERANCE = 1e-9  # relative to x + y


def evaluate(kappa: Kappa, x: F64, y: F64) -> F64:
    """kappa(x, y) as float64, silent about 0/0; kappa(0, 0) = 0 by homogeneity, whatever a formula says there."""
    with np.errstate(all="ignore"):
        values = np.asarray(kappa(x, y), dtype=np.float64)
    return np.where((x == 0) & (y == 0), 0.0, values) if values.shape == np.shape(x) else values


def check_laws(kappa: Kappa) -> None:
    """Raise a ValueError for the first law that kappa breaks on a grid of x, y in {0} and [1e-6, 1e3]."""
    levels = np.concatenate([[0.0], np.geomspace(1e-6, 1e3, 28)])
    x, y = (a.copy() for a in np.meshgrid(levels, levels, indexing="ij"))
    values = _check_vectorised(kappa, x, y)
    _check_finite(kappa, x, y, values)

    def refuse(wrong: NDArray[np.bool_], law: str, other: F64) -> None:
        if np.any(wrong):
            i = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            raise ValueError(
                f"kappa is not {law}: kappa({x[i]:.6g}, {y[i]:.6g}) = {values[i]:.10g}, expected "
                f"{other[i]:.10g}."
            )

    slack = _LAW_TOLERANCE * (x + y)
    swapped = evaluate(kappa, y, x)
    refuse(np.abs(values - swapped) > slack, "symmetric, kappa(x, y) = kappa(y, x)", swapped)
    zeros = np.zeros_like(x)
    refuse((x == y) & (np.abs(values) > slack), "zero on the diagonal, kappa(x, x) = 0", zeros)
    refuse(values < -slack, "non-negative, kappa(x, y) >= 0", zeros)
    scaled = evaluate(kappa, 3.0 * x, 3.0 * y) / 3.0
    refuse(np.abs(values - scaled) > slack, "homogeneous of degree 1, kappa(3x, 3y)/3 = kappa(x, y)", scaled)


def _check_vectorised(kappa: Kappa, x: F64, y: F64) -> F64:
    hint = "kappa(x, y) must work elementwise on float64 arrays of one shape; write it with numpy functions"
    try:
        values = evaluate(kappa, x, y)
    except (TypeError, ValueError) as error:
        raise ValueError(f"kappa failed on arrays of shape {x.shape}: {error}. {hint}.") from error
    if values.shape != x.shape:
        raise ValueError(f"kappa of arrays of shape {x.shape} has shape {values.shape}. {hint}.")
    part = evaluate(kappa, x[3:5, 7:9], y[3:5, 7:9])
    if not np.allclose(part, values[3:5, 7:9], rtol=1e-12, atol=0.0, equal_nan=True):
        raise ValueError(
            f"kappa gives {part[0, 0]:g} in a part and {values[3, 7]:g} in the whole array. {hint}."
        )
    return values


def _check_finite(kappa: Kappa, x: F64, y: F64, values: F64) -> None:
    at_zero = float(evaluate(kappa, np.array([1.0]), np.array([0.0]))[0])
    if not np.isfinite(at_zero):
        raise ValueError(
            f"kappa(1, 0) = {at_zero}: expected a finite number, it is the total mass Z of the spectral "
            "measure. Where 0 log 0 arises, write scipy.special.xlogy; a divergence infinite at 0 "
            "(Jeffreys) has no such embedding."
        )
    if not np.all(np.isfinite(values)):
        i = np.unravel_index(int(np.argmax(~np.isfinite(values))), values.shape)
        raise ValueError(
            f"kappa({x[i]:.6g}, {y[i]:.6g}) = {values[i]}: expected a finite number for all x, y >= 0."
        )
