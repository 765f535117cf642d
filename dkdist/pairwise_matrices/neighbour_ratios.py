"""Divergences from ratios of k-NN densities at the points of p.

    log q/p (x) = d log(rho / nu) + log((n - 1) / m),   rho, nu: distance to the k-th neighbour in the n - 1 other
                                                        points of p, in the m points of q
    KL(p || q)            = -E_p log q/p                                        (Wang, Kulkarni, Verdu 2009)
    int p^a q^(1-a)       = B(k, a) E_p (q/p)^(1-a),   B = Gamma(k)^2 / (Gamma(k - a + 1) Gamma(k + a - 1))
    Renyi                 = log(int p^a q^(1-a)) / (a - 1)                      (Poczos, Xiong, Schneider 2011)

For fixed k, density ratios and their moments are biased; the errors of log rho and log nu cancel in KL, and B corrects
the moments. No such correction is known for Jensen-Shannon, total variation and chi2.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from dkdist._numba.arrays import F64


def log_ratios(rho: F64, nu: F64, d: int, m: int) -> F64:
    """Return log q/p (n,) at the points of p, from positive distances."""
    return np.asarray(d * np.log(rho / nu) + np.log((len(rho) - 1) / m))


def kullback_leibler(log_ratio: F64) -> float:
    """Return KL(p || q) in nats."""
    return -float(np.mean(log_ratio))


def log_alpha_integral(log_ratio: F64, alpha: float, k: int) -> float:
    """Return log of int p^alpha q^(1 - alpha), for |alpha - 1| < k."""
    log_b = 2 * gammaln(k) - gammaln(k - alpha + 1) - gammaln(k + alpha - 1)
    exponent = (1 - alpha) * log_ratio
    largest = exponent.max()
    return float(log_b + largest + np.log(np.mean(np.exp(exponent - largest))))


def renyi(log_ratio: F64, alpha: float, k: int) -> float:
    """Return the Renyi divergence of order alpha != 1 in nats."""
    return log_alpha_integral(log_ratio, alpha, k) / (alpha - 1)


def hellinger(log_ratio: F64, k: int) -> float:
    """Return 1 - int sqrt(p q) = int (sqrt p - sqrt q)^2 / 2."""
    return 1 - float(np.exp(log_alpha_integral(log_ratio, 0.5, k)))
