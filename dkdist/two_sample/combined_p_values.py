"""The weighted harmonic mean of p-values of several statistics, for all labellings of a permutation test.

The p-value of a statistic T_b of labelling b is the upper tail of a Pearson distribution of type III with the mean, the
variance and the skewness of all other labellings. It is the same function for the observed and for permuted labellings,
so the rank of the combined statistic among all labellings gives a test of exact level. Tails resolve p-values below the
reciprocal of the number of permutations, which matters for statistics with small weights.

Good: Significance tests in parallel and in series (1958) and Wilson: The harmonic mean p-value (2019), for the
combination. Minas, Montana: Distance-based analysis of variance: approximate inference (2014), for the tails.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import logsumexp
from scipy.stats import pearson3

from dkdist._numba.arrays import F64
from dkdist.two_sample._tuning import MIN_RELATIVE_DEVIATION

# keeps logarithms finite; the smallest normal float64 is 2.2e-308 (IEEE 754-2019)
MIN_P_VALUE = 1e-300


def log_p_values(statistics: F64) -> F64:
    """Return log p-values (b,) of all labellings for a statistic (b,) that is large for different groups."""
    z, n = standardize(statistics), len(statistics) - 1
    if n < 3 or not z.any():
        return np.zeros(len(z))
    first, second, third = (((z**k).sum() - z**k) / n for k in (1, 2, 3))
    variance = second - first**2
    if variance.min() <= 0:  # all other labellings have equal statistics
        return np.minimum(-z, 0.0)
    skewness = (third - 3 * first * second + 2 * first**3) / variance**1.5
    tails = pearson3.sf((z - first) / np.sqrt(variance), skewness)
    return np.asarray(np.log(np.clip(tails, MIN_P_VALUE, 1.0)))


def standardize(statistics: F64) -> F64:
    """Centre and scale statistics (b,) by their mean and standard deviation; zeros if all are equal."""
    deviation = statistics.std()
    if deviation <= MIN_RELATIVE_DEVIATION * np.abs(statistics).max():
        return np.zeros(len(statistics))
    return np.asarray((statistics - statistics.mean()) / deviation)


def combine_p_values(log_p: Mapping[str, F64], weights: Mapping[str, float]) -> F64:
    """Return minus the decimal logarithm of the weighted harmonic mean p-value of each labelling (b,)."""
    w = np.array([weights[name] for name in log_p])
    exponents = -np.stack(list(log_p.values()))
    return np.asarray(logsumexp(exponents, axis=0, b=(w / w.sum())[:, None]) / np.log(10))
