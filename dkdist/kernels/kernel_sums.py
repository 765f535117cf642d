"""Exact sums of kernels over all pairs: compiled, by sorting, or from the NumPy values of a registered kernel.

    E(x, z) = sum_ij k(x_i, x_j) <z_i, z_j>,   f(y) = sum_i z_i k(x_i, y)

Points are `scaled`: in units of sigma, times the unit of the kernel's form in compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._numba.weighted_points import WeightedPoints
from dkdist.kernels import _exact_numba as exact_sums
from dkdist.kernels._tuning import MIN_DISTANCE, PAIRS_PER_BATCH
from dkdist.kernels.registry import Kernel, get_kernel


def scaled(x: F64, sigma: float, kernel: str = "gaussian") -> F64:
    """Return points (n, d) in the unit of compiled sums; centred points have the smallest rounding errors."""
    return np.asarray(x * (get_kernel(kernel).unit / sigma))


def kernel_matrix(x: F64, y: F64, sigma: float, kernel: str) -> F64:
    """Return k for all pairs of points (n, d) and (m, d), as (n, m)."""
    record = get_kernel(kernel)
    return np.asarray(record.value(_distances(x / sigma, y / sigma, record)))


def sums(y: F64, x: F64, z: F64, kernel: str = "gaussian") -> F64:
    """Return f (m, C) at scaled points y (m, d), for scaled points x (n, d) with weights z (n, C)."""
    record = get_kernel(kernel)
    if record.profile is not None:
        return exact_sums.sums(y, x, z, record.profile)
    return np.concatenate([record.value(_distances(batch, x, record)) @ z for batch in _batches(y, x)])


def summed_matrix(x: F64, y: F64, sigmas: Sequence[float], kernel: str) -> F64:
    """Return `kernel_matrix` summed over bandwidths: (n, m)."""
    return np.asarray(reduce(np.add, (kernel_matrix(x, y, sigma, kernel) for sigma in sigmas)))


def summed_sums(y: F64, x: F64, w: F64, sigmas: Sequence[float], kernel: str) -> F64:
    """Return sum_i w_i k(y_l, x_i), summed over bandwidths, for points (m, d) and (n, d): (m,)."""
    z = w[:, None]
    fields = (sums(scaled(y, sigma, kernel), scaled(x, sigma, kernel), z, kernel) for sigma in sigmas)
    return np.asarray(reduce(np.add, fields)[:, 0])


def energy(points: WeightedPoints, sigma: float, kernel: str = "gaussian") -> float:
    """Return E of points, with memory for a few tiles; kernels without a compiled form copy the points."""
    record = get_kernel(kernel)
    if record.profile is not None:
        return exact_sums.energy_in_tiles(points, record.unit / sigma, record.profile)
    x, z = points.arrays()
    return float((z * sums(x / sigma, x / sigma, z, kernel)).sum())


def sorted_energy(x: F64, z: F64, kernel: str) -> float:
    """Return E of scaled points (n, d) exactly in n log n time, for a kernel with `Kernel.is_sorted`."""
    from dkdist.kernels._sorted_numba import (  # imported lazily: only large sets need it
        line_sums,
        plane_energy,
    )

    line = get_kernel(kernel).line
    if line is not None and x.shape[1] == 1:
        return float((z * line_sums(x[:, 0], z, *line)[0]).sum())
    return plane_energy(np.log(2) * x, z)


def sums_and_gradients(y: F64, x: F64, z: F64, kernel: str) -> tuple[F64, F64]:
    """Return (f (m,), gradients (m, d)) at scaled points y (m, d), for scaled points x (n, d) with weights z (n,)."""
    record = get_kernel(kernel)
    if record.profile is not None:
        return exact_sums.sums_and_gradients(y, x, z, record.profile)
    if record.dvalue is None:
        raise ValueError(
            f"dvalue of kernel={kernel!r} must be a function for gradients; got None. Register the kernel with dvalue."
        )
    parts = [_values_and_gradients(batch, x, z, record) for batch in _batches(y, x)]
    return np.concatenate([f for f, _ in parts]), np.concatenate([g for _, g in parts])


def _values_and_gradients(y: F64, x: F64, z: F64, kernel: Kernel) -> tuple[F64, F64]:
    r = _distances(y, x, kernel)
    slope: Any = kernel.dvalue and kernel.dvalue(r)
    gradients = np.empty(y.shape)
    for j in range(y.shape[1]):
        difference = y[:, j, None] - x[:, j]
        is_cityblock = kernel.metric == "cityblock"
        direction = np.sign(difference) if is_cityblock else difference / np.maximum(r, MIN_DISTANCE)
        gradients[:, j] = (slope * direction) @ z
    return np.asarray(kernel.value(r) @ z), gradients


def _distances(y: F64, x: F64, kernel: Kernel) -> F64:
    from scipy.spatial.distance import cdist  # imported lazily: compiled sums do not need it

    return np.asarray(cdist(y, x, kernel.metric))


def _batches(y: F64, x: F64) -> list[F64]:
    return np.array_split(y, -(-len(y) * len(x) // PAIRS_PER_BATCH))
