"""How many features make an approximate kernel good, by bounds that hold with probability 1 - delta.

A mean of F independent terms with values in [a, b] is off by more than t with probability at most
2 exp(-2 F t^2 / (b - a)^2) (Hoeffding); a union over the pairs, or over the points of a net, gives every bound here.
Constants are those of the proofs written beside the functions, not asymptotic ones.
"""

from __future__ import annotations

import math
from math import ceil

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64

SHARES = np.linspace(
    0.02, 0.98, 49
)  # of eps, for the points of a net; the rest is for what lies between them
KERNEL_SLOPE = float(np.exp(-0.5))  # the largest slope of exp(-r^2 / 2)


def frequencies_for_points(eps: float, delta: float, n: int) -> int:
    """Independent frequencies F for which k is off by at most eps for all pairs of n points.

    k~ - k is a mean of cos(w . (x - y)) in [-1, 1]; it is 0 for x = y, so that there are n (n - 1) / 2 pairs.
    """
    return ceil(2 * float(np.log(max(2.0, n * (n - 1.0)) / delta)) / eps**2)


def frequencies_for_ball(eps: float, delta: float, d: int, reach: float) -> int:
    """Independent frequencies F for which k is off by at most eps for all x, y of a ball of diameter ``reach`` sigma.

    f(t) = k~ - k, t = x - y, is below theta eps on the points of an r-net of |t| <= reach, at most (1 + 2 reach / r)^d,
    with probability 1 - delta / 2. Its slope is at most that of k, e^(-1/2), plus the mean of |w_f|, which is at most
    (d + 2 (d u / F)^(1/2) + 2 u / F)^(1/2), u = ln(2 / delta), with probability 1 - delta / 2 (Cauchy, Schwarz; the
    tail of chi-square by Laurent, Massart). Between the points f adds slope r = (1 - theta) eps.
    """
    u = np.log(2 / delta)

    def needed(slope: float) -> float:
        log_net = d * np.log1p(2 * reach * slope / ((1 - SHARES) * eps))
        return float(np.min(2 * (np.log(4 / delta) + log_net) / (SHARES * eps) ** 2))

    first = needed(np.sqrt(d) + KERNEL_SLOPE)  # too few: but then the slope falls with their number
    return ceil(needed(np.sqrt(d + 2 * np.sqrt(d * u / first) + 2 * u / first) + KERNEL_SLOPE))


def objects_for_points(eps: float, delta: float, n: int) -> int:
    """Random objects R for which the kernel of P2 is off by at most eps for all pairs of n objects.

    It is a mean of exp(-gamma (d(x, omega) + d(y, omega))) in [0, 1], over n (n + 1) / 2 pairs.
    """
    return ceil(float(np.log(n * (n + 1.0) / delta)) / (2 * eps**2))


def objects_for_space(eps: float, delta: float, dimension: float, reach: float) -> int:
    """The same for a whole metric space of diameter ``reach`` / gamma that (2 diameter / r)^dimension balls cover.

    By the triangle inequality the kernel and its estimate change by at most 2 gamma r within a pair of balls: their
    difference by 4 gamma r = (1 - theta) eps.
    """
    log_net = dimension * np.log(np.maximum(1, 8 * reach / ((1 - SHARES) * eps)))
    pairs = log_net + np.logaddexp(0, log_net)  # ln N (N + 1)
    return ceil(float(np.min((pairs - np.log(delta)) / (2 * (SHARES * eps) ** 2))))


def series_order(eps: float, delta: float) -> int:
    """The least tau with tau ln(tau / (e delta^2)) >= ln(1 / eps), for points within ``delta`` sigma of the centre.

    P3's condition tau ln(tau / (2 e Delta^2)), its Delta counted in h^(1/2) = 2^(1/2) sigma. It suffices: the error is
    P(Poisson(delta^2) >= tau) <= (e delta^2 / tau)^tau (Chernoff).
    """

    def holds(tau: F64) -> NDArray[np.bool_]:
        return np.asarray(tau * (np.log(tau) - 2 * np.log(delta) - 1) >= -np.log(eps))

    high = 1.0
    while not holds(np.array([high]))[0] or high < math.e * delta**2:
        high *= 2
    low = high / 2
    while high - low > 1:  # beyond e delta^2 the left side rises
        middle = np.floor((low + high) / 2)
        low, high = (low, middle) if holds(np.array([middle]))[0] else (middle, high)
    return int(high)
