"""One statistic of several: the weighted harmonic mean of their p-values, as permutations have them.

The p-value of a statistic T_b of labelling b is the upper tail of a Pearson distribution of type III with the mean, the
variance and the skewness of all other labellings. So the p-value of each labelling is the same function of the rest,
whichever was observed: the rank of a combination of them among those of all labellings has an exact level. Tails
resolve p-values below one over the number of permutations, which counts where small weights are combined.

Good: Significance tests in parallel and in series (1958) and Wilson: The harmonic mean p-value (2019), for the
combination. Minas, Montana: Distance-based analysis of variance: approximate inference (2014), for the tails.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import logsumexp
from scipy.stats import pearson3

from dkdist._numba.arrays import F64

MIN_P_VALUE = 1e-300
MIN_RELATIVE_DEVIATION = 1e-8  # of a statistic over labellings: below, it is rounding


def log_p_values(statistics: F64) -> F64:
    """Logarithms of the p-values of all labellings (b,) by a statistic that is large where groups differ."""
    z, n = standardized(statistics), len(statistics) - 1
    if n < 3 or not z.any():
        return np.zeros(len(z))
    first, second, third = (((z**k).sum() - z**k) / n for k in (1, 2, 3))
    variance = second - first**2
    if variance.min() <= 0:  # all others are equal
        return np.minimum(-z, 0.0)
    skewness = (third - 3 * first * second + 2 * first**3) / variance**1.5
    tails = pearson3.sf((z - first) / np.sqrt(variance), skewness)
    return np.asarray(np.log(np.clip(tails, MIN_P_VALUE, 1.0)))


def standardized(statistics: F64) -> F64:
    """Statistics (b,) from their mean in units of their standard deviation; zeros where all are equal."""
    deviation = statistics.std()
    if deviation <= MIN_RELATIVE_DEVIATION * np.abs(statistics).max():
        return np.zeros(len(statistics))
    return np.asarray((statistics - statistics.mean()) / deviation)


def combined(log_p: Mapping[str, F64], weights: Mapping[str, float]) -> F64:
    """Minus the decimal logarithm of the weighted harmonic mean p-value of each labelling (b,)."""
    shares = np.array([weights[name] for name in log_p])
    exponents = -np.stack(list(log_p.values()))
    return np.asarray(logsumexp(exponents, axis=0, b=(shares / shares.sum())[:, None]) / np.log(10))
