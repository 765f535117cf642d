"""The largest moderated F statistic of columns, such as the means of sets along each axis:

    F_j = between_j / (G - 1) / ((d0 s0^2 + total_j - between_j) / (d0 + f)),   between_j = sum_g n_g m_gj^2

for group means m_gj of columns, centred within each stratum, and f residual degrees of freedom. The prior d0,
s0^2 is fitted to the variances total_j of all columns, which permutations do not change (limma, Smyth 2004). A single
column has no prior.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from dkdist._numba.arrays import F32, F64, I64
from dkdist.two_sample._tuning import MAX_PRIOR_DEGREES, MIN_RELATIVE_VARIANCE
from dkdist.two_sample.permutations import residuals


def max_f_statistic(
    columns: F32 | F64, strata: I64, n_contrasts: int, nuisance: F64 | None = None
) -> Callable[[F64], F64]:
    """Return a function that maps group indicators (n, b, G) / sqrt(group size) to the largest F (b,).

    ``n_contrasts`` are the degrees of freedom of groups. With nuisance columns (n, q), columns are residuals.
    """
    columns = columns.astype(np.float64)
    X, q = residuals(columns, strata, nuisance), 0 if nuisance is None else nuisance.shape[1]
    total = (X**2).sum(axis=0)
    varies = total > MIN_RELATIVE_VARIANCE * len(X) * (columns**2).max(axis=0)
    X, total = X[:, varies], total[varies]
    n_free = len(X) - len(np.unique(strata)) - q
    n_residual = max(n_free - n_contrasts, 1)
    prior_degrees, prior_variance = fit_prior(total / n_free, n_free)

    def statistic(weights: F64) -> F64:
        n, n_labellings, n_groups = weights.shape
        if not len(total):
            return np.zeros(n_labellings)
        sums = X.T @ weights.reshape(n, -1)
        between = (sums.reshape(len(total), n_labellings, n_groups) ** 2).sum(axis=2)
        residual = prior_degrees * prior_variance + np.maximum(total[:, None] - between, 0)
        # for columns whose variance the groups explain completely
        min_residual = MIN_RELATIVE_VARIANCE * total[:, None]
        F = between / n_contrasts / np.maximum(residual, min_residual) * (prior_degrees + n_residual)
        return np.asarray(F.max(axis=0))

    return statistic


def fit_prior(variances: F64, n_free: int) -> tuple[float, float]:
    """Fit the degrees of freedom d0 and variance s0^2 of a prior to variances (k,) with ``n_free`` degrees each."""
    if len(variances) < 2:
        return 0.0, 0.0
    logs = np.log(variances) - digamma(n_free / 2) + np.log(n_free / 2)
    excess = logs.var(ddof=1) - polygamma(1, n_free / 2)
    if excess <= polygamma(1, MAX_PRIOR_DEGREES / 2):
        return MAX_PRIOR_DEGREES, float(np.exp(logs.mean()))
    half = float(np.exp(brentq(lambda x: polygamma(1, np.exp(x)) - excess, -50, np.log(MAX_PRIOR_DEGREES))))
    return 2 * half, float(np.exp(logs.mean() + digamma(half) - np.log(half)))
