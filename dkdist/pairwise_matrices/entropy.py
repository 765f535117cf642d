"""Differential entropies of samples, and their Jensen-Shannon divergence (nats).

    k-NN (Kozachenko, Leonenko 1987)    H = psi(n) - psi(k) + log V_d + d <log r_k>
    spacings (Vasicek 1976)             H = <log(x_(i+m) - x_(i-m))> + a bias correction for a uniform density
    Jensen-Shannon                      JS = H((p + q) / 2) - (H(p) + H(q)) / 2

If the entropies of p and of the mixture use *the same balls*, log r cancels, and with it most of the error. Let the
ball of each point contain k other points of its own set and c points of the other set; then for sets of equal size
(Ross 2014)

    JS = log 2 + <psi(k) - psi(k + c)>.

The bias correction of Vasicek's estimate is from Wieczorkowski, Grzegorzewski 1999.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from dkdist._numba.arrays import F64
from dkdist._numba.ranks import NeighbourTree


def neighbour_entropy(distances: F64, k: int, d: int) -> float:
    """Return the entropy from positive distances (n,) to the k-th neighbours."""
    log_ball = d / 2 * np.log(np.pi) - gammaln(d / 2 + 1)
    return float(digamma(len(distances)) - digamma(k) + log_ball + d * np.mean(np.log(distances)))


def spacings(x: F64, m: int) -> F64:
    """Return x_(i+m) - x_(i-m) of the sorted points (n,), with positions clipped to the first and last point."""
    padded = np.concatenate([np.full(m, x.min()), np.sort(x), np.full(m, x.max())])
    return np.asarray(padded[2 * m :] - padded[: -2 * m])


def spacing_entropy(gaps: F64, m: int) -> float:
    """Return the entropy from the positive m-spacings of n > 2 m points; unbiased for a uniform density."""
    n = len(gaps)
    # for a gap of s spacings, E log = psi(s) - psi(n + 1); s is 2 m in the middle, m to 2 m - 1 at the ends
    at_ends = 2 * np.sum(digamma(np.arange(m, 2 * m))) / n
    return float(np.mean(np.log(gaps)) + digamma(n + 1) - (1 - 2 * m / n) * digamma(2 * m) - at_ends)


def knn_jensen_shannon(p: NeighbourTree, q: NeighbourTree, k: int) -> float:
    """Estimate the Jensen-Shannon divergence from all points, with the same balls for each set and the mixture.

    The value is at most log 2 (disjoint sets) and may be slightly negative for p = q. Balls of the larger set contain
    k n_large / n_small of its points, and thus, for p = q, k points of the smaller set on average.
    """
    return float(np.log(2) + (_mean_digamma_difference(p, q, k) + _mean_digamma_difference(q, p, k)) / 2)


def _mean_digamma_difference(p: NeighbourTree, q: NeighbourTree, k: int) -> float:
    ratio = len(p) / len(q)
    k = round(k * max(1.0, ratio))
    counts = p.own_counts(k)
    # E psi(k) is the expected log mass of a ball up to the k-th neighbour. If more than k points are tied, the ball is
    # not limited by a neighbour, and its log mass is psi(count + 1).
    counts = counts + (counts > k)
    return float(np.mean(digamma(counts) - digamma(counts + ratio * p.counts(q, k))))
