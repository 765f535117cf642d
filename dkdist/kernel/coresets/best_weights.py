"""The weights that bring few points nearest to many: least squares in the space of the kernel.

    D^2(w) = kappa(P, P) - 2 w.b + w.K w,   K_jl = k(s_j, s_l),   b_j = sum_i p_i k(x_i, s_j)

K is singular but for rounding where points are near each other. So w solves (K + ridge I) w = b for falling ridges, and
is the one whose D^2, counted with what rounding may add to it, is least: of large weights of both signs that all but
cancel, float64 cannot tell the sum.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dkdist.loops.array_types import F64

RIDGES = 10.0 ** -np.arange(2, 15)
ROUNDING = 1e-14  # of (sum |w|)^2


def square(K: F64, b: F64, w: F64) -> float:
    """D^2(w) - kappa(P, P)."""
    return float(w @ (K @ w - 2 * b))


def best_weights(K: F64, b: F64, given: F64) -> F64:
    """Signed weights (m,) that bring points nearest to the set; those ``given``, if none are better.

    Cost: m^3 / 3 multiply-adds for each of up to 13 ridges, until smaller ones are of no use.
    """
    unit = float(np.abs(given).sum())
    b, given = b / unit, given / unit

    def doubtful(w: F64) -> float:
        return square(K, b, w) + ROUNDING * float(np.abs(w).sum()) ** 2

    best, least, worse = given, doubtful(given), 0
    for ridge in RIDGES:
        try:
            w = cho_solve(cho_factor(K + ridge * np.eye(len(K)), lower=True), b)
        except LinAlgError:  # pragma: no cover - ridges above rounding are definite
            break
        value = doubtful(w) if np.isfinite(w).all() else np.inf
        worse = 0 if value < least else worse + 1
        if value < least:
            best, least = w, value
        elif worse > 2:
            break
    return np.asarray(best * unit)
