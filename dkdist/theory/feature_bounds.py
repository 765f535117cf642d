"""Numbers of features for which kernel errors are at most eps with probability 1 - delta.

A mean of F independent terms with values in [a, b] has an error above t with probability at most
2 exp(-2 F t^2 / (b - a)^2) (Hoeffding). A union bound over the pairs, or over the points of a net, gives the
bounds below. The docstrings prove them with explicit constants.
"""

from __future__ import annotations

import math
from math import ceil

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64

# fractions of eps allowed on the points of the net; the rest is allowed between them
NET_FRACTIONS = np.linspace(0.02, 0.98, 49)
# maximum slope of exp(-r^2 / 2), at r = 1: tests/theory/test_n_features_for.py
MAX_KERNEL_SLOPE = float(np.exp(-0.5))


def frequencies_for_points(eps: float, delta: float, n: int) -> int:
    """Return the number F of independent frequencies for errors of at most eps for all pairs of n points.

    k~ is a mean of cos(w . (x - y)) in [-1, 1]. The error k~ - k is 0 for x = y, so there are n (n - 1) / 2 pairs.
    """
    return ceil(2 * float(np.log(max(2.0, n * (n - 1.0)) / delta)) / eps**2)


def frequencies_for_ball(eps: float, delta: float, d: int, reach: float) -> int:
    """Return the number F of independent frequencies for errors of at most eps in a ball of diameter ``reach`` sigma.

    An r-net of |t| <= reach has at most (1 + 2 reach / r)^d points. On them f(t) = k~ - k, t = x - y, is below
    theta eps with probability 1 - delta / 2. The slope of f is at most that of k, e^(-1/2), plus the mean of |w_f|.
    With probability 1 - delta / 2 this mean is at most (d + 2 (d u / F)^(1/2) + 2 u / F)^(1/2), u = ln(2 / delta), by
    the Cauchy-Schwarz inequality and the tail bound of chi-square of Laurent, Massart. Between the points of the net f
    changes by at most slope r = (1 - theta) eps.
    """
    u = np.log(2 / delta)

    def n_frequencies(slope: float) -> float:
        log_net = d * np.log1p(2 * reach * slope / ((1 - NET_FRACTIONS) * eps))
        return float(np.min(2 * (np.log(4 / delta) + log_net) / (NET_FRACTIONS * eps) ** 2))

    # a lower bound, because the slope decreases with F
    lower_bound = n_frequencies(np.sqrt(d) + MAX_KERNEL_SLOPE)
    return ceil(
        n_frequencies(np.sqrt(d + 2 * np.sqrt(d * u / lower_bound) + 2 * u / lower_bound) + MAX_KERNEL_SLOPE)
    )


def objects_for_points(eps: float, delta: float, n: int) -> int:
    """Return the number R of random objects for D2KE errors of at most eps for all pairs of n objects.

    The kernel is a mean of exp(-gamma (d(x, omega) + d(y, omega))) in [0, 1], over n (n + 1) / 2 pairs.
    """
    return ceil(float(np.log(n * (n + 1.0) / delta)) / (2 * eps**2))


def objects_for_space(eps: float, delta: float, dimension: float, reach: float) -> int:
    """Return the number R of random objects for a metric space of diameter ``reach`` / gamma.

    (2 diameter / r)^dimension balls of radius r cover the space.

    By the triangle inequality the kernel and its estimate change by at most 2 gamma r within a pair of balls, so
    their difference changes by at most 4 gamma r = (1 - theta) eps.
    """
    log_net = dimension * np.log(np.maximum(1, 8 * reach / ((1 - NET_FRACTIONS) * eps)))
    pairs = log_net + np.logaddexp(0, log_net)  # ln N (N + 1)
    return ceil(float(np.min((pairs - np.log(delta)) / (2 * (NET_FRACTIONS * eps) ** 2))))


def series_order(eps: float, delta: float) -> int:
    """Return the smallest tau with tau ln(tau / (e delta^2)) >= ln(1 / eps), for points within ``delta`` sigma.

    This is condition P3 on tau ln(tau / (2 e Delta^2)), with Delta in units of h^(1/2) = 2^(1/2) sigma. It is
    sufficient because the error is P(Poisson(delta^2) >= tau) <= (e delta^2 / tau)^tau (Chernoff).
    """

    def holds(tau: F64) -> NDArray[np.bool_]:
        return np.asarray(tau * (np.log(tau) - 2 * np.log(delta) - 1) >= -np.log(eps))

    high = 1.0
    while not holds(np.array([high]))[0] or high < math.e * delta**2:
        high *= 2
    low = high / 2
    while high - low > 1:  # the left side increases for tau > e delta^2
        middle = np.floor((low + high) / 2)
        low, high = (low, middle) if holds(np.array([middle]))[0] else (middle, high)
    return int(high)
