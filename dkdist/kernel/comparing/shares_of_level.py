"""Many kernels, one statistic: the harmonic mean of their p-values, each with its share of the level.

    S = -Phi^-1(p),   1 / p = sum_k w_k / p_k,   p_k = Phi(-t_k),   sum_k w_k = 1

where t_k is the k-th squared kernel distance, made nearly standard normal by those of the permutations. A kernel alone
rejects where its p_k is near to w_k times the level; those that agree help each other. (Wilson 2019: The harmonic mean
p-value; Good 1958.) That p_k are not exact does not matter, as S is compared with the S of permutations.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from dkdist.loops.array_types import F64

ROUNDED = 1e-4  # of the mean of a statistic: less may be rounding of float32, whose cube root is not small
RESOLVED = 1e-5  # of the mean of a statistic: its standard deviation over permutations, if it is no rounding


def standardised(T: F64) -> F64:
    """Each row of statistics (K, B + 1) as if it were normal: cube roots, from their mean, over their deviation.

    A squared kernel distance is under permutations nearly a sum of squares of normal numbers, whose cube root is nearly
    normal (Wilson, Hilferty 1931): so that wide and narrow kernels are compared on one scale. Zeros for a row that
    does not vary.
    """
    least = ROUNDED * np.abs(T.mean(axis=1, keepdims=True))
    roots = np.cbrt(np.where(least < T, T, 0))
    mean, deviation = roots.mean(axis=1, keepdims=True), roots.std(axis=1, keepdims=True)
    return np.where(deviation > RESOLVED * mean, (roots - mean) / np.where(deviation > 0, deviation, 1), 0.0)


def evidence(t: F64, shares: F64) -> F64:
    """log(w_k / p_k) of standardised distances (K, B + 1) with shares (K,); -inf where there is no share."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(shares)[:, None] - log_ndtr(-t))


def combined(evidence: F64) -> F64:
    """The statistics S (B + 1,) of evidence (K, B + 1)."""
    return np.asarray(-ndtri_exp(np.minimum(-logsumexp(evidence, axis=0), -1e-300)))
