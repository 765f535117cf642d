"""Stochastic gradient descent on linear models, row after row: the inner loop, compiled.

    w <- max(0, 1 - eta alpha) w - eta l'(w.x + b, y) x,     b <- b - eta l'(w.x + b, y)
    W_n = W_{n-1} + 2/(n+1) (w_n - W_{n-1})                  every ``every`` rows

The shrinking factor is kept apart, w = s v, so that a row costs one product and one addition of its length; several
functions (one a class, or one a penalty) share each row while it is in the cache.
"""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

F = NDArray[Any]
"""float32 or float64, C order."""

LOSSES = ("log_loss", "hinge", "squared_hinge", "modified_huber", "squared_error", "huber")
"""Losses by number: the position in this tuple."""

SMALLEST_SCALE = 1e-6
LARGEST_SLOPE = 1e12

_SUMS = {"reassoc", "contract", "nsz", "arcp"}  # sums in lanes; NaN and infinity keep their meaning


@njit(forceinline=True)
def _slope(loss: int, p: float, y: float, epsilon: float) -> float:
    """l'(p, y), y = -1 or +1 for the first four losses."""
    if loss == 0:
        z = p * y
        if z > 18.0:
            return -y * exp(-z)
        if z < -18.0:
            return -y
        return -y / (1.0 + exp(z))
    if loss == 1:
        return -y if p * y <= 1.0 else 0.0
    if loss == 2:
        return -2.0 * y * (1.0 - p * y) if p * y < 1.0 else 0.0
    if loss == 3:
        z = p * y
        if z >= 1.0:
            return 0.0
        return -2.0 * y * (1.0 - z) if z >= -1.0 else -4.0 * y
    r = p - y
    if loss == 5 and abs(r) > epsilon:
        return epsilon if r > 0.0 else -epsilon
    return r


@njit(nogil=True, cache=True, fastmath=_SUMS)
def descend(
    X: F,
    order: NDArray[np.int64],
    Y: NDArray[np.float64],
    loss: int,
    epsilon: float,
    eta: NDArray[np.float64],
    alpha: NDArray[np.float64],
    W: F,
    b: NDArray[np.float64],
    mean_W: F,
    mean_b: NDArray[np.float64],
    n_averaged: int,
    every: int,
) -> int:
    """Take one step for each row of X (n, D) that ``order`` lists, with its targets in Y (n, K).

    Function k has its own step eta[k] and penalty alpha[k]; W (K, D) and b (K,) are changed in place. After every
    ``every`` rows, and after the last, mean_W and mean_b take in the iterate with weight 2 / (m + 1) for the m-th;
    ``n_averaged`` counts those before, the count after is returned. 4 n K D operations; X is read once.
    """
    n, K, D = len(order), W.shape[0], W.shape[1]
    decay, s, m = np.maximum(0.0, 1.0 - eta * alpha), np.ones(K), n_averaged
    for t in range(n):
        i = order[t]
        x = X[i]
        for k in range(K):
            v, shrunk = W[k], s[k] * decay[k]
            fold = shrunk < SMALLEST_SCALE
            total = x.dtype.type(0.0)
            for j in range(D):
                total += x[j] * v[j]
            g = _slope(loss, s[k] * total + b[k], Y[i, k], epsilon)
            g = min(max(g, -LARGEST_SLOPE), LARGEST_SLOPE)
            if fold:
                for j in range(D):
                    v[j] *= shrunk
            if g != 0.0:
                c = x.dtype.type(-eta[k] * g / (1.0 if fold else shrunk))
                for j in range(D):
                    v[j] += c * x[j]
                b[k] -= eta[k] * g
            s[k] = 1.0 if fold else shrunk
        if (t + 1) % every == 0 or t + 1 == n:
            m += 1
            rate = 2.0 / (m + 1.0)
            r = x.dtype.type(rate)
            for k in range(K):
                v, mean, scale = W[k], mean_W[k], x.dtype.type(s[k])
                for j in range(D):
                    v[j] *= scale
                    mean[j] += r * (v[j] - mean[j])
                mean_b[k] += rate * (b[k] - mean_b[k])
                s[k] = 1.0
    return m
