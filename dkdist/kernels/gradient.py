"""Derivatives of the squared kernel distance by points, weights and bandwidths.

    f(u) = sum_i z_i k(x_i, u),   dD^2/dz_i = 2 f(x_i),   dD^2/dx_i = 2 z_i grad f(x_i),
    dD^2/dsigma = -1/sigma sum_i x_i . dD^2/dx_i,   dD^2/dS = -S^(-T) sum_i dD^2/du_i u_i',   u = S^(-1) x

for all points of P and Q, z = (w_P, -w_Q). The last line holds because k depends on (x - y) / sigma only.

f and its gradients are sums over all pairs, or fields on a mesh (`dkdist.kernels._mesh_numba`) whose errors of k and
sigma k' are at most eps / W^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F64
from dkdist.kernels._mesh_numba import Mesh, kernel_mesh, mesh_field
from dkdist.kernels._sorted_numba import line_sums
from dkdist.kernels._tuning import (
    MAX_DIRECT_POINTS,
    MAX_KERNEL_TOL,
    MAX_MODES,
    MESH_FIELD_RATIO,
    PAIR_GRADIENT_NS,
)
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS
from dkdist.kernels.inputs import Bandwidths
from dkdist.kernels.kernel_sums import scaled, sums_and_gradients
from dkdist.kernels.mmd_problem import MMDProblem, refine_precision
from dkdist.kernels.registry import get_kernel


class KernelGradient(NamedTuple):
    """Derivatives of a kernel distance by points, weights and bandwidth.

    ``P`` (n, d) and ``Q`` (m, d) are derivatives by the points, ``weights`` by the weights of both, a pair (n,), (m,).
    ``sigma`` is a float, an array for several bandwidths, or (d, d) for a matrix of scales.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> P, Q = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])
    >>> D2, slopes = dk.kernel_distance(P, Q, sigma=5.0, squared=True, gradient=True)
    >>> slopes.P.round(3)  # descent moves P towards Q
    array([[-0.146, -0.194]])
    """

    P: F64
    Q: F64
    weights: tuple[F64, F64]
    sigma: float | F64

    def of_the_root(self, square: float) -> tuple[float, KernelGradient]:
        """Return D and its derivatives, from D^2 and these derivatives of D^2."""
        if square <= 0:
            raise ValueError(
                f"D^2 must be positive for derivatives of D; got {square:.3g}. Pass squared=True."
            )
        D = float(np.sqrt(square))
        p, q = self.weights
        half = 1 / (2 * D)
        return D, KernelGradient(self.P * half, self.Q * half, (p * half, q * half), self.sigma * half)


def squared_with_gradient(
    problems: Sequence[MMDProblem], bandwidths: Bandwidths, method: str
) -> tuple[float, KernelGradient]:
    """Return D^2, summed over bandwidths, and its derivatives; ``method`` is "exact", "fourier" or "auto"."""
    total, widths, (x, z) = 0.0, [], bandwidths.pair.points.arrays()
    values, slopes = np.zeros(len(x)), np.zeros(x.shape)
    for problem, width in zip(problems, bandwidths.sigmas, strict=True):
        square, f, g = _fields(problem, method)
        point_gradient = 2 * problem.sigma / width * z * g
        total += square
        values += 2 * f
        slopes += point_gradient
        widths.append(-float((point_gradient * x).sum()) / width)
    sigma_gradient: float | F64 = widths[0] if bandwidths.is_single else np.array(widths)
    if bandwidths.inverse is not None:
        sigma_gradient = -bandwidths.inverse.T @ (slopes.T @ x)
        slopes = slopes @ bandwidths.inverse
    n = bandwidths.pair.n
    return total, KernelGradient(slopes[:n], slopes[n:], (values[:n], -values[n:]), sigma_gradient)


def _fields(problem: MMDProblem, method: str) -> tuple[float, F64, F64]:
    """Return (E, f, gradients of f) at the points of a problem, in its unit of length."""
    mesh, (x, Z) = _choose_mesh(problem, method), problem.points.arrays()
    z = Z[:, 0]
    if mesh is not None:
        f, g = mesh_field(x, z, problem.sigma, mesh)
        return float(z @ f), f, g
    f, g = _self_sums(scaled(x, problem.sigma, problem.kernel), z, problem.kernel)
    return refine_precision(float(z @ f), problem), f, get_kernel(problem.kernel).unit / problem.sigma * g


def _choose_mesh(problem: MMDProblem, method: str) -> Mesh | None:
    """Return the mesh for "fourier", or for "auto" if it is expected to be faster than all pairs; else None."""
    n, d = len(problem.points), problem.points.d
    if method == "exact" or (
        method == "auto" and (n <= MAX_DIRECT_POINTS or d > MAX_GRID_DIMS or problem.kernel != "gaussian")
    ):
        return None
    if problem.kernel != "gaussian" or d > MAX_GRID_DIMS:
        raise ValueError(
            f"method='fourier' requires kernel='gaussian' and at most {MAX_GRID_DIMS} dimensions; got "
            f"kernel={problem.kernel!r} and {d}. Use 'exact'."
        )
    mesh = kernel_mesh(
        problem.points.widths, problem.sigma, min(problem.kernel_tol, MAX_KERNEL_TOL), n, slopes=True
    )
    is_small = mesh is not None and mesh.n_cells <= MAX_MODES
    if method == "auto":
        return (
            mesh
            if is_small and mesh is not None and MESH_FIELD_RATIO * mesh.nanoseconds < PAIR_GRADIENT_NS * n**2
            else None
        )
    if not is_small:
        raise ValueError(
            f"method='fourier' has no mesh of at most {MAX_MODES:,} cells with an error of {problem.eps:.2g}, which is "
            f"{problem.kernel_tol:.2g} of the squared total weight. Use 'exact', or a larger eps or bandwidth."
        )
    return mesh


def _self_sums(x: F64, z: F64, kernel: str) -> tuple[F64, F64]:
    """Return f and its gradients at the scaled points; on a line by sorting if the kernel supports it."""
    line = get_kernel(kernel).line
    if line is None or x.shape[1] > 1 or len(x) <= MAX_DIRECT_POINTS:
        return sums_and_gradients(x, x, z, kernel)
    f, slopes = line_sums(x[:, 0], z[:, None], *line)
    return f[:, 0], slopes
