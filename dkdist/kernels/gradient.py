"""Derivatives of the squared kernel distance by points, weights and bandwidths.

    f(u) = sum_i z_i k(x_i, u),   dD^2/dz_i = 2 f(x_i),   dD^2/dx_i = 2 z_i grad f(x_i),
    dD^2/dsigma = -1/sigma sum_i x_i . dD^2/dx_i,   dD^2/dS = -S^(-T) sum_i dD^2/du_i u_i',   u = S^(-1) x

for all points of P and Q, z = (w_P, -w_Q). The last line holds as k knows (x - y) / sigma alone.

f and its gradients are sums over all pairs, or fields on a mesh (`dkdist.kernels._mesh_numba`), of an error of k and
sigma k' of at most eps / W^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F64
from dkdist.kernels._mesh_numba import Mesh, kernel_mesh, mesh_field
from dkdist.kernels._sorted_numba import line_sums
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS
from dkdist.kernels.inputs import Bandwidths
from dkdist.kernels.kernel_distance import MAX_DIRECT_POINTS, MMDProblem, refine_precision
from dkdist.kernels.kernel_sums import scaled, sums_and_gradients
from dkdist.kernels.methods import MAX_KERNEL_TOL, MAX_MODES
from dkdist.kernels.registry import get_kernel

MESH_FIELD_RATIO = 3.0  # the time of an energy's mesh: two transforms, and splines with their slopes
PAIR_GRADIENT_NS = 1.4  # that one core takes for the kernel of a pair and its gradient, as measured


class KernelGradient(NamedTuple):
    """Derivatives of a kernel distance: by the points ``P`` (n, d) and ``Q`` (m, d), by the ``weights`` of both (a pair
    (n,), (m,)), and by ``sigma``: a float, one for each of several, or (d, d) for a matrix of scales.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> P, Q = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])
    >>> D2, slopes = dk.kernel_distance(P, Q, sigma=5.0, squared=True, gradient=True)
    >>> slopes.P.round(3)  # away from Q
    array([[-0.146, -0.194]])
    """

    P: F64
    Q: F64
    weights: tuple[F64, F64]
    sigma: float | F64

    def of_the_root(self, square: float) -> tuple[float, KernelGradient]:
        """D and its derivatives, from D^2 and these of it: over 2 D."""
        if square <= 0:
            raise ValueError(
                f"D^2 = {square:.3g}: D has no derivative at equal sets. Take that of D^2 by squared=True"
            )
        D = float(np.sqrt(square))
        p, q = self.weights
        half = 1 / (2 * D)
        return D, KernelGradient(self.P * half, self.Q * half, (p * half, q * half), self.sigma * half)


def squared_with_gradient(
    tasks: Sequence[MMDProblem], scales: Bandwidths, method: str
) -> tuple[float, KernelGradient]:
    """D^2, a sum over the tasks of its bandwidths, and its derivatives; by "exact", "fourier" or "auto"."""
    total, widths, (x, z) = 0.0, [], scales.pair.points.arrays()
    values, slopes = np.zeros(len(x)), np.zeros(x.shape)
    for task, width in zip(tasks, scales.widths, strict=True):
        square, f, g = _fields(task, method)
        by_point = 2 * task.sigma / width * z * g
        total += square
        values += 2 * f
        slopes += by_point
        widths.append(-float((by_point * x).sum()) / width)
    by_sigma: float | F64 = widths[0] if scales.single else np.array(widths)
    if scales.inverse is not None:
        by_sigma = -scales.inverse.T @ (slopes.T @ x)
        slopes = slopes @ scales.inverse
    n = scales.pair.n
    return total, KernelGradient(slopes[:n], slopes[n:], (values[:n], -values[n:]), by_sigma)


def _fields(task: MMDProblem, method: str) -> tuple[float, F64, F64]:
    """(E, f, its gradients) at the points of a task, in its unit of length."""
    mesh, (x, Z) = _choose_mesh(task, method), task.points.arrays()
    z = Z[:, 0]
    if mesh is not None:
        f, g = mesh_field(x, z, task.sigma, mesh)
        return float(z @ f), f, g
    f, g = _self_sums(scaled(x, task.sigma, task.kernel), z, task.kernel)
    return refine_precision(float(z @ f), task), f, get_kernel(task.kernel).unit / task.sigma * g


def _choose_mesh(task: MMDProblem, method: str) -> Mesh | None:
    """The mesh that is asked for, or that "auto" expects to take less than all pairs; else None."""
    n, d = len(task.points), task.points.d
    if method == "exact" or (
        method == "auto" and (n <= MAX_DIRECT_POINTS or d > MAX_GRID_DIMS or task.kernel != "gaussian")
    ):
        return None
    if task.kernel != "gaussian" or d > MAX_GRID_DIMS:
        raise ValueError(
            f"method='fourier' is for kernel='gaussian' in up to {MAX_GRID_DIMS} dimensions; found kernel={task.kernel!r} "
            f"and {d}: use 'exact'"
        )
    mesh = kernel_mesh(task.points.widths, task.sigma, min(task.share, MAX_KERNEL_TOL), n, slopes=True)
    fits = mesh is not None and mesh.n_cells <= MAX_MODES
    if method == "auto":
        return (
            mesh
            if fits and mesh is not None and MESH_FIELD_RATIO * mesh.nanoseconds < PAIR_GRADIENT_NS * n**2
            else None
        )
    if not fits:
        raise ValueError(
            f"method='fourier' has no mesh with an error of {task.eps:.2g}, that is {task.share:.2g} of the square of "
            f"the total weight, and at most {MAX_MODES:,} cells: use 'exact', or a larger eps or bandwidth"
        )
    return mesh


def _self_sums(x: F64, z: F64, kernel: str) -> tuple[F64, F64]:
    """f and its gradients at the scaled points themselves; on a line by sorting where the kernel allows it."""
    line = get_kernel(kernel).line
    if line is None or x.shape[1] > 1 or len(x) <= MAX_DIRECT_POINTS:
        return sums_and_gradients(x, x, z, kernel)
    f, slopes = line_sums(x[:, 0], z[:, None], *line)
    return f[:, 0], slopes
