"""Differential entropies from samples, and the Jensen-Shannon divergence made of them (nats).

    k-NN (Kozachenko, Leonenko 1987)    H = psi(n) - psi(k) + log V_d + d <log r_k>
    spacings (Vasicek 1976)             H = <log(x_(i+m) - x_(i-m))> + what makes it unbiased for a uniform density
    Jensen-Shannon                      JS = H((p + q) / 2) - (H(p) + H(q)) / 2

Entropies of p and of the mixture that are taken with *the same balls* share their log r, which cancels, and with it
most of the error. What is left are counts: of k others of its own set and c points of the other set in the ball
of each point (for sets of one size Ross 2014, the information that a point holds on where it is from),

    JS = log 2 + <psi(k) - psi(k + c)>.

Wieczorkowski, Grzegorzewski 1999 give the correction of Vasicek's estimate.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from dkdist._numba.arrays import F64
from dkdist._numba.ranks import Cloud


def neighbour_entropy(distances: F64, k: int, d: int) -> float:
    """Entropy from the distance of each of n points to its k-th neighbour: all of them positive."""
    log_ball = d / 2 * np.log(np.pi) - gammaln(d / 2 + 1)
    return float(digamma(len(distances)) - digamma(k) + log_ball + d * np.mean(np.log(distances)))


def spacings(x: F64, m: int) -> F64:
    """x_(i+m) - x_(i-m) of the sorted points, beyond either end the extreme one: (n,)."""
    padded = np.concatenate([np.full(m, x.min()), np.sort(x), np.full(m, x.max())])
    return np.asarray(padded[2 * m :] - padded[: -2 * m])


def spacing_entropy(gaps: F64, m: int) -> float:
    """Entropy from the m-spacings of n > 2 m points: all of them positive; unbiased for a uniform density."""
    n = len(gaps)
    # a gap of s spacings has E log = psi(s) - psi(n + 1): 2 m in the middle, m to 2 m - 1 at the ends
    at_ends = 2 * np.sum(digamma(np.arange(m, 2 * m))) / n
    return float(np.mean(np.log(gaps)) + digamma(n + 1) - (1 - 2 * m / n) * digamma(2 * m) - at_ends)


def matched_jensen_shannon(p: Cloud, q: Cloud, k: int) -> float:
    """Jensen-Shannon divergence from all points of both sets, with the same balls for each set and the mixture.

    At most log 2, which separate sets have; a little below zero is possible where p = q. The larger set's balls
    hold as many more of its own points as it is larger, so that k of the smaller one would be expected in them.
    """
    return float(np.log(2) + (_from_one_side(p, q, k) + _from_one_side(q, p, k)) / 2)


def _from_one_side(p: Cloud, q: Cloud, k: int) -> float:
    ratio = len(p) / len(q)
    k = round(k * max(1.0, ratio))
    own = p.own_counts(k)
    # E psi is the log of a mass for the k-th neighbour's ball, and one count further for a ball that no neighbour
    # has drawn: that of an atom, with more ties than k
    own = own + (own > k)
    return float(np.mean(digamma(own) - digamma(own + ratio * p.counts(q, k))))
