"""Frequencies and weights fitted to a kappa by least squares.

With t = log(x / y), the sum sum_j w_j (2 cosh(t/2) - 2 cos(lam_j t)) should equal kappa(e^(t/2), e^(-t/2))
for t up to log(ratio). A smooth kappa is fitted in relative error at points t. One with a kink at t = 0
cannot be: the sum goes like t^2 there. It is fitted on average over t ~ N(0, s^2) for a range of spreads s
instead, in relative error again; that is what the integral of kappa over two densities sees. The weights are
solved by non-negative least squares inside the search over lam (variable projection; Golub, Pereyra 1973;
Jacobian of Kaufman 1975).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import least_squares, nnls

from dkdist.densities.measures.divergences import Divergence
from dkdist.densities.measures.quadrature import gauss
from dkdist.loops.array_types import F64

Basis = Callable[[F64], tuple[F64, F64]]

# Typical spreads of log(p/q) that the rule of a non-smooth kappa serves: densities 5 % apart and more.
_LEAST_SPREAD = 0.05
# Ridge of the inner least squares: nearly equal frequencies would make it singular.
_DAMPING = 1e-6


@lru_cache(maxsize=64)
def kappa_problem(divergence: Divergence, ratio: float, size: int) -> tuple[Basis, F64]:
    """(lam -> basis, its derivative in lam), each (size, n), and the target (size,) it should sum to."""
    return (
        _pointwise(divergence, ratio, size) if divergence.smooth else _averaged(divergence, ratio, size // 4)
    )


def _pointwise(divergence: Divergence, ratio: float, size: int) -> tuple[Basis, F64]:
    """Basis 2 cosh(t/2) - 2 cos(lam t), target kappa(e^(t/2), e^(-t/2)), at Chebyshev points t."""
    t = np.log(ratio) * np.sin(np.pi / 2 * np.arange(1, size + 1) / size) ** 2
    t = np.maximum(t, min(0.01, t[-1]))  # below, rounding in a user's kappa shows
    target = np.exp(t / 2) * divergence.kappa(np.ones(size), np.exp(-t))
    growth = 4 * np.sinh(t / 4)[:, None] ** 2

    def basis(lam: F64) -> tuple[F64, F64]:
        angle = np.outer(t, lam)
        return growth + 4 * np.sin(angle / 2) ** 2, 2 * t[:, None] * np.sin(angle)

    return basis, target


def _averaged(divergence: Divergence, ratio: float, size: int) -> tuple[Basis, F64]:
    """The same averaged over t ~ N(0, s^2) for spreads s: basis 2 e^(s^2/8) - 2 e^(-lam^2 s^2/2)."""
    widest = max(np.log(ratio) / 2, 2 * _LEAST_SPREAD)
    s = np.geomspace(_LEAST_SPREAD, widest, size)[:, None]
    nodes, weights = np.polynomial.legendre.leggauss(200)
    end = 9 + s / 2  # in standard deviations: kappa grows like e^(t/2)
    z = end * (nodes + 1) / 2
    t = s * z
    profile = divergence.kappa(np.ones_like(t), np.exp(-t))
    # exp(t/2 - z^2/2) in one piece: no overflow
    target = np.sum(end * weights * profile * np.exp(t / 2 - z * z / 2), axis=1) / np.sqrt(2 * np.pi)

    def basis(lam: F64) -> tuple[F64, F64]:
        decay = np.exp(-((lam * s) ** 2) / 2)
        return 2 * np.expm1(s * s / 8) + 2 * (1 - decay), 2 * lam * s * s * decay

    return basis, target


def _starts(divergence: Divergence, n: int, ratio: float) -> list[F64]:
    """Where the fit of n free frequencies starts: Gauss or, for a kink, geometric; and n - 1 fitted ones.

    From the second start, one frequency more is never worse.
    """
    spread = np.geomspace(2.0 / np.log(ratio), 1.5 / _LEAST_SPREAD, n)
    start = gauss(divergence, n)[0] if divergence.smooth else spread
    if n == 1:
        return [start]
    fixed = 1 if divergence.atom > 0 else 0
    fewer = fit(divergence, n - 1 + fixed, ratio)[0][fixed:]
    return [start, np.append(fewer, 1.6 * fewer[-1])]


@lru_cache(maxsize=256)
def fit(divergence: Divergence, n: int, ratio: float) -> tuple[F64, F64]:
    """Increasing lam (n,) and w (n,) >= 0 of least squared relative error; lam[0] = 0 if mu has an atom."""
    basis, target = kappa_problem(divergence, ratio, 201)
    fixed = np.zeros(1 if divergence.atom > 0 else 0)
    ones = np.ones(len(target))

    def solve(log_lam: F64) -> tuple[F64, F64, F64]:
        columns, slopes = (a / target[:, None] for a in basis(np.append(fixed, np.exp(log_lam))))
        scale = np.linalg.norm(columns, axis=0)
        damped = np.vstack([columns / scale, _DAMPING * np.eye(len(scale))])
        return columns, slopes, nnls(damped, np.append(ones, np.zeros(len(scale))))[0] / scale

    def residual(log_lam: F64) -> F64:
        columns, _, w = solve(log_lam)
        return columns @ w - ones

    def jacobian(log_lam: F64) -> F64:
        """Kaufman's: the part of each column's change that the weights cannot undo."""
        columns, slopes, w = solve(log_lam)
        q = np.linalg.qr(columns[:, w > 0])[0]
        change = (slopes * w)[:, len(fixed) :] * np.exp(log_lam)
        return change - q @ (q.T @ change)

    bounds = np.log(1e-3), np.log(1e3)
    found = [
        least_squares(
            residual, np.clip(np.log(start), *bounds), jacobian, bounds, max_nfev=100, xtol=1e-10, ftol=1e-10
        )
        for start in _starts(divergence, n - len(fixed), ratio)
    ]
    best = min(found, key=lambda result: float(result.cost)).x
    lam = np.append(fixed, np.exp(best))
    order = np.argsort(lam)
    return lam[order], solve(best)[2][order]
