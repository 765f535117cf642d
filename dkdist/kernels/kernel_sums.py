"""Exact sums of kernels over all pairs: compiled, by sorting, or from the values of a kernel that was registered.

    E(x, z) = sum_ij k(x_i, x_j) <z_i, z_j>,   f(y) = sum_i z_i k(x_i, y)

Points are `scaled`: in units of sigma, times the unit of the kernel's form in compiled code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._numba.weighted_points import WeightedPoints
from dkdist.kernels import _exact_numba as exact_loops
from dkdist.kernels.registry import Kernel, get_kernel

PAIRS_PER_BATCH = 2**18  # 2 MiB of distances: they stay in the second-level cache
MIN_DISTANCE = 1e-100  # at equal points the gradient counts as 0


def scaled(x: F64, sigma: float, kernel: str = "gaussian") -> F64:
    """Points (n, d) as sums take them. Centre them first."""
    return np.asarray(x * (get_kernel(kernel).unit / sigma))


def kernel_matrix(x: F64, y: F64, sigma: float, kernel: str) -> F64:
    """k of all pairs of points (n, d) and (m, d): (n, m), by differences."""
    found = get_kernel(kernel)
    return np.asarray(found.value(_distances(x / sigma, y / sigma, found)))


def sums(y: F64, x: F64, z: F64, kernel: str = "gaussian") -> F64:
    """f (m, C) at scaled points y (m, d), of scaled points x (n, d) with weights z (n, C)."""
    found = get_kernel(kernel)
    if found.profile is not None:
        return exact_loops.sums(y, x, z, found.profile)
    return np.concatenate([found.value(_distances(some, x, found)) @ z for some in _batches(y, x)])


def energy(points: WeightedPoints, sigma: float, kernel: str = "gaussian") -> float:
    """E of points, in the memory of some tiles; kernels from outside take copies."""
    found = get_kernel(kernel)
    if found.profile is not None:
        return exact_loops.energy_in_tiles(points, found.unit / sigma, found.profile)
    x, z = points.arrays()
    return float((z * sums(x / sigma, x / sigma, z, kernel)).sum())


def sorted_energy(x: F64, z: F64, kernel: str) -> float:
    """E of scaled points (n, d), exactly in n log n, where `Kernel.is_sorted`."""
    from dkdist.kernels._sorted_numba import line_sums, plane_energy  # for many points alone

    line = get_kernel(kernel).line
    if line is not None and x.shape[1] == 1:
        return float((z * line_sums(x[:, 0], z, *line)[0]).sum())
    return plane_energy(np.log(2) * x, z)


def sums_and_gradients(y: F64, x: F64, z: F64, kernel: str) -> tuple[F64, F64]:
    """(f (m,), its gradients (m, d)) at scaled points y (m, d), of scaled points x (n, d) with weights z (n,)."""
    found = get_kernel(kernel)
    if found.profile is not None:
        return exact_loops.sums_and_gradients(y, x, z, found.profile)
    if found.dvalue is None:
        raise ValueError(f"derivatives need dvalue of kernel={kernel!r}; found None: register it with dvalue")
    parts = [_values_and_gradients(some, x, z, found) for some in _batches(y, x)]
    return np.concatenate([f for f, _ in parts]), np.concatenate([g for _, g in parts])


def _values_and_gradients(y: F64, x: F64, z: F64, kernel: Kernel) -> tuple[F64, F64]:
    r = _distances(y, x, kernel)
    slope: Any = kernel.dvalue and kernel.dvalue(r)
    gradients = np.empty(y.shape)
    for j in range(y.shape[1]):
        apart = y[:, j, None] - x[:, j]
        along = np.sign(apart) if kernel.metric == "cityblock" else apart / np.maximum(r, MIN_DISTANCE)
        gradients[:, j] = (slope * along) @ z
    return np.asarray(kernel.value(r) @ z), gradients


def _distances(y: F64, x: F64, kernel: Kernel) -> F64:
    from scipy.spatial.distance import cdist  # compiled sums do without

    return np.asarray(cdist(y, x, kernel.metric))


def _batches(y: F64, x: F64) -> list[F64]:
    return np.array_split(y, -(-len(y) * len(x) // PAIRS_PER_BATCH))
