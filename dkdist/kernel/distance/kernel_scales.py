"""Bandwidths as kernels have them: one, several whose kernels are added, or a matrix of scales."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dkdist.kernel.distance.kernel_inputs import Pair, bandwidth
from dkdist.loops.array_types import F64
from dkdist.plain.real_arrays import real_array

MOST_CONDITION = 1e12  # of a matrix of scales


class Scales(NamedTuple):
    """The points that kernels see, their bandwidths, what mapped them, if anything, and if one kernel was meant."""

    pair: Pair
    widths: list[float]
    inverse: F64 | None
    single: bool


def read_scales(pair: Pair, sigma: Any, h: Any, gamma: Any, kernel: str, seed: int = 0) -> Scales:
    """What ``sigma``, ``h`` or ``gamma`` say of a pair of sets."""
    if kernel == "energy" and sigma is None and h is None and gamma is None:
        return Scales(pair, [1.0], None, single=True)
    if not isinstance(sigma, (list, tuple, np.ndarray)) or np.ndim(sigma) == 0:
        return Scales(pair, [bandwidth(pair, sigma, h, gamma, kernel, seed)], None, single=True)
    values = real_array("sigma", sigma)
    if values.ndim == 2:
        mapped, inverse = _mapped(pair, values.astype(np.float64))
        return Scales(mapped, [bandwidth(mapped, 1.0, h, gamma, kernel, seed)], inverse, single=True)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            "sigma must be a positive number, several (their kernels are added), or a matrix (d, d) of scales; found "
            f"an array of shape {values.shape}"
        )
    widths = [bandwidth(pair, value, h, gamma, kernel, seed) for value in values.tolist()]
    return Scales(pair, widths, None, single=False)


def _mapped(pair: Pair, S: F64) -> tuple[Pair, F64]:
    d = pair.points.d
    if S.shape != (d, d) or not np.isfinite(S).all() or not np.linalg.cond(S) <= MOST_CONDITION:
        raise ValueError(
            f"a matrix of scales must be ({d}, {d}), finite and invertible (with a condition number of at most "
            f"{MOST_CONDITION:g}); found shape {S.shape}: for one scale a dimension give np.diag(scales)"
        )
    inverse = np.asarray(np.linalg.inv(S), np.float64)
    points = pair.points.elsewhere(inverse=inverse)
    return replace(pair, points=points, widths=points.widths), inverse
