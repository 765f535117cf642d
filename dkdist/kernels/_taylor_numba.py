"""Kernel energies by a Taylor series around one centre (fast Gauss transform), for wide kernels in any d.

    k(x, y) = e^(-|u|^2/2) e^(-|v|^2/2) e^(u.v) = sum_alpha phi_alpha(x) phi_alpha(y),   u = (x - c) / sigma,
    phi_alpha(x) = e^(-|u|^2/2) prod_j u_j^alpha_j / (alpha_j!)^(1/2)

truncated to |alpha| < tau. The remainder is at most, with |u|, |v| <= Delta,

    sum_(n >= tau) (|u| |v|)^n / n! e^(-(|u|^2 + |v|^2) / 2) <= P(Poisson(Delta^2) >= tau),

which is attained at u = v, |u| = Delta. (Joshi et al. 2011 bound it by tau ln(tau / (2 e Delta^2)) >= ln(1/eps),
here with the exponent corrected to the inner product; the exact Poisson tail gives lower orders.) Cost per point:
binomial(tau - 1 + d, d) multiply-adds, in float64.
"""

from __future__ import annotations

from math import comb

import numpy as np
from scipy.special import pdtrc

from dkdist._numba.arrays import F64, I64
from dkdist._numba.compilation import FINITE_REASSOC, jit
from dkdist._numba.weighted_points import WeightedPoints

TILE_POINTS = 128  # points per loop; a term of a tile takes 1 KiB (tests/kernel/test_kernel_bounds.py)
# largest order to try; it has far more terms than allowed (tests/kernel/test_kernel_bounds.py)
MAX_ORDER = 10_000


def taylor_order(delta: float, eps: float) -> tuple[int, float]:
    """Return (smallest order tau for ``eps``, error of k) for points within ``delta`` bandwidths of the centre.

    If no order up to 10,000 suffices, the error is above ``eps``.
    """
    orders = np.arange(1, MAX_ORDER + 1)
    errors = pdtrc(orders - 1, delta**2) if delta > 0 else np.zeros(len(orders))
    index = int(np.argmax(errors <= eps)) if errors[-1] <= eps else len(orders) - 1
    return int(orders[index]), float(errors[index])


def n_terms(d: int, order: int) -> int:
    """Return the number of features, monomials of degree below the order."""
    return comb(order - 1 + d, d)


def taylor_energy(points: WeightedPoints, centre: F64, sigma: float, order: int) -> float:
    """Return sum_alpha |sum_i z_i phi_alpha(x_i)|^2."""
    parents, dimensions, factors = _terms(points.d, order)
    S = np.zeros((points.channels, len(parents)))
    for x, z in points.tiles():
        u = x - centre
        u /= sigma
        _moments(u, z, parents, dimensions, factors, S)
    return float((S**2).sum())


def _terms(d: int, order: int) -> tuple[I64, I64, F64]:
    """Return, for each monomial, the earlier monomial, coordinate and factor whose product it is."""
    parents, dimensions, powers = [0], [0], [0]
    first = 0
    for _ in range(1, order):
        last = len(parents)
        for t in range(first, last):
            for j in range(dimensions[t], d):
                parents.append(t)
                powers.append(powers[t] + 1 if j == dimensions[t] else 1)
                dimensions.append(j)
        first = last
    return np.array(parents), np.array(dimensions), 1 / np.sqrt(np.maximum(powers, 1))


@jit(FINITE_REASSOC)
def _moments(u, z, parents, dimensions, factors, S):  # type: ignore[no-untyped-def]
    n, d = u.shape
    rows, columns = np.empty((len(parents), TILE_POINTS)), np.zeros((d, TILE_POINTS))
    weights = np.empty((z.shape[1], TILE_POINTS))
    for first in range(0, n, TILE_POINTS):
        m = min(TILE_POINTS, n - first)
        weights[:] = 0.0
        for i in range(m):
            square = 0.0
            for j in range(d):
                columns[j, i] = u[first + i, j]
                square += u[first + i, j] ** 2
            scale = np.exp(-square / 2)
            for c in range(z.shape[1]):
                weights[c, i] = z[first + i, c] * scale
        rows[0] = 1.0
        for t in range(1, len(parents)):
            row, parent, column, factor = rows[t], rows[parents[t]], columns[dimensions[t]], factors[t]
            for i in range(TILE_POINTS):
                row[i] = factor * parent[i] * column[i]
        for c in range(z.shape[1]):
            w = weights[c]
            for t in range(len(parents)):
                row, total = rows[t], 0.0
                for i in range(TILE_POINTS):
                    total += w[i] * row[i]
                S[c, t] += total
