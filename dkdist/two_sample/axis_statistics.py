"""The largest moderated F statistic of columns between groups, such as the means of sets along each axis.

    F_j = between_j / (G - 1) / ((d0 s0^2 + total_j - between_j) / (d0 + f)),   between_j = sum_g n_g m_gj^2

for the group means m_gj of columns that are centred in each stratum, and f residual degrees of freedom. The prior d0,
s0^2 is that of limma: fitted to the variances total_j of all columns, which permutations do not change. A column
alone has no prior: F as it is.

Smyth: Linear models and empirical Bayes methods for assessing differential expression (2004), for the prior.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from dkdist.loops.array_types import F32, F64, I64
from dkdist.two_sample.permutations import within_strata

MIN_RELATIVE_VARIANCE = 1e-16  # of a column's largest square: below, its values differ by rounding alone
MAX_PRIOR_DEGREES = 1e6  # of freedom, where variances differ by no more than chance


def largest_f(columns: F32 | F64, strata: I64, n_groups: int) -> Callable[[F64], F64]:
    """A function of indicators of groups (n, b, G), divided by root sizes: the largest F of b labellings (b,)."""
    columns = columns.astype(np.float64)
    X = within_strata(columns, strata)
    total = (X**2).sum(axis=0)
    varies = total > MIN_RELATIVE_VARIANCE * len(X) * (columns**2).max(axis=0)
    X, total = X[:, varies], total[varies]
    n_free = len(X) - len(np.unique(strata))
    n_residual = max(n_free - n_groups + 1, 1)
    prior_degrees, prior_variance = fitted_prior(total / n_free, n_free)

    def largest(shares: F64) -> F64:
        n, n_labellings, _ = shares.shape
        if not len(total):
            return np.zeros(n_labellings)
        sums = X.T @ shares.reshape(n, -1)
        between = (sums.reshape(len(total), n_labellings, n_groups) ** 2).sum(axis=2)
        rest = prior_degrees * prior_variance + np.maximum(total[:, None] - between, 0)
        smallest = MIN_RELATIVE_VARIANCE * total[:, None]  # columns that groups explain wholly
        F = between / (n_groups - 1) / np.maximum(rest, smallest) * (prior_degrees + n_residual)
        return np.asarray(F.max(axis=0))

    return largest


def fitted_prior(variances: F64, n_free: int) -> tuple[float, float]:
    """Degrees of freedom d0 and variance s0^2 of the prior that variances (k,) on ``n_free`` degrees seem to have."""
    if len(variances) < 2:
        return 0.0, 0.0
    logs = np.log(variances) - digamma(n_free / 2) + np.log(n_free / 2)
    excess = logs.var(ddof=1) - polygamma(1, n_free / 2)
    if excess <= polygamma(1, MAX_PRIOR_DEGREES / 2):
        return MAX_PRIOR_DEGREES, float(np.exp(logs.mean()))
    half = float(np.exp(brentq(lambda x: polygamma(1, np.exp(x)) - excess, -50, np.log(MAX_PRIOR_DEGREES))))
    return 2 * half, float(np.exp(logs.mean() + digamma(half) - np.log(half)))
