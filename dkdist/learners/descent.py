"""Stochastic gradient descent on linear models, row after row: their losses, and the inner loop, compiled.

    w <- max(0, 1 - eta alpha) w - eta c l'(w.x + b, y) x,     b <- b - eta c l'(w.x + b, y)      c: the row's weight
    W_n = W_{n-1} + 2/(n+1) (w_n - W_{n-1})                  every ``every`` rows

The shrinking factor is kept apart, w = s v, so that a row costs one product and one addition of its length; a batch may
come in several calls, which hand s on. Several functions (one a class, or one a penalty) share each row while it is in
the cache. Values of losses follow scikit-learn's SGD: l(p, y) with y = -1, +1 for classes, half the squared error for
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dkdist.loops.array_types import F64, I64
from dkdist.loops.compile import LANES, inlined, loop

LOG, HINGE, SQUARED_HINGE, MODIFIED_HUBER, SQUARED_ERROR, HUBER = range(6)


@dataclass(frozen=True)
class Loss:
    """The ``number`` that `slope` knows it by, ``value(scores, targets, epsilon)`` element by element, and the ``step``
    that times 1/R^2 is the default one."""

    number: int
    value: Callable[[F64, F64, float], F64]
    step: float


def _log(p: F64, y: F64, epsilon: float) -> F64:
    return np.logaddexp(0.0, -y * p)


def _hinge(p: F64, y: F64, epsilon: float) -> F64:
    return np.maximum(0.0, 1.0 - y * p)


def _squared_hinge(p: F64, y: F64, epsilon: float) -> F64:
    return np.asarray(np.maximum(0.0, 1.0 - y * p) ** 2)


def _modified_huber(p: F64, y: F64, epsilon: float) -> F64:
    z = y * p
    return np.where(z < -1.0, -4.0 * z, np.maximum(0.0, 1.0 - z) ** 2)


def _squared_error(p: F64, y: F64, epsilon: float) -> F64:
    return np.asarray(0.5 * (p - y) ** 2)


def _huber(p: F64, y: F64, epsilon: float) -> F64:
    r = np.abs(p - y)
    return np.where(r <= epsilon, 0.5 * r**2, epsilon * (r - 0.5 * epsilon))


@inlined()
def slope(loss: int, p: float, y: float, epsilon: float) -> float:
    """l'(p, y) of the loss of that number, y = -1 or +1 for classes."""
    if loss == LOG:
        z = p * y
        if z > 18.0:
            return -y * exp(-z)
        if z < -18.0:
            return -y
        return -y / (1.0 + exp(z))
    if loss == HINGE:
        return -y if p * y <= 1.0 else 0.0
    if loss == SQUARED_HINGE:
        return -2.0 * y * (1.0 - p * y) if p * y < 1.0 else 0.0
    if loss == MODIFIED_HUBER:
        z = p * y
        if z >= 1.0:
            return 0.0
        return -2.0 * y * (1.0 - z) if z >= -1.0 else -4.0 * y
    r = p - y
    if loss == HUBER and abs(r) > epsilon:
        return epsilon if r > 0.0 else -epsilon
    return r


LOSSES = {
    "log_loss": Loss(LOG, _log, 8.0),
    "hinge": Loss(HINGE, _hinge, 1.0),
    "squared_hinge": Loss(SQUARED_HINGE, _squared_hinge, 0.5),
    "modified_huber": Loss(MODIFIED_HUBER, _modified_huber, 0.5),
    "squared_error": Loss(SQUARED_ERROR, _squared_error, 1.0),
    "huber": Loss(HUBER, _huber, 1.0),
}
CLASSIFIER_LOSSES = ("log_loss", "hinge", "squared_hinge", "modified_huber")
REGRESSOR_LOSSES = ("squared_error", "huber")
PROBABILITY_LOSSES = ("log_loss", "modified_huber")


def probabilities(loss: str, scores: NDArray[Any]) -> NDArray[Any]:
    """Class probabilities (n, n_classes) from decision values (n,) or (n, n_classes); rows sum to one.

    Log loss: the logistic function; modified Huber: (clip(p, -1, 1) + 1) / 2 (Zhang 2002). With more than two
    classes, each against the rest and then divided by the sum (all equal where every class is refused).
    """
    p = expit(scores) if loss == "log_loss" else (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0
    if p.ndim == 1:
        return np.column_stack([1.0 - p, p])
    total = p.sum(axis=1, keepdims=True)
    none = total <= 0.0
    return np.asarray(np.where(none, 1.0 / p.shape[1], p / np.where(none, 1.0, total)))


F = NDArray[Any]
"""float32 or float64, C order."""

SMALLEST_SCALE = 1e-6
LARGEST_SLOPE = 1e12


@loop(LANES)
def descend(
    X: F,
    order: I64,
    Y: F64,
    weights: F64,
    loss: int,
    epsilon: float,
    eta: F64,
    alpha: F64,
    W: F,
    b: F64,
    mean_W: F,
    mean_b: F64,
    n_averaged: int,
    every: int,
    s: F64,
    before: int,
    left: int,
) -> int:
    """Take one step for each of n rows X[order], with their targets Y (n, K) and weights (n,) in that order.

    Function k has its own step eta[k] and penalty alpha[k]; W (K, D) and b (K,) are changed in place. After every
    ``every`` rows of a batch, and after its last, mean_W and mean_b take in the iterate with weight 2 / (m + 1) for the
    m-th; ``n_averaged`` counts those before, the count after is returned. The batch had ``before`` rows in earlier
    calls and has ``left`` in later ones; s (K,) is 1 before the first and is handed on, as w = s v.
    4 n K D operations; X is read once.
    """
    n, K, D = len(order), W.shape[0], W.shape[1]
    decay, m = np.maximum(0.0, 1.0 - eta * alpha), n_averaged
    for t in range(n):
        x = X[order[t]]
        for k in range(K):
            v, shrunk = W[k], s[k] * decay[k]
            fold = shrunk < SMALLEST_SCALE
            total = x.dtype.type(0.0)
            for j in range(D):
                total += x[j] * v[j]
            g = slope(loss, s[k] * total + b[k], Y[t, k], epsilon)
            g = weights[t] * min(max(g, -LARGEST_SLOPE), LARGEST_SLOPE)
            if fold:
                for j in range(D):
                    v[j] *= shrunk
            if g != 0.0:
                c = x.dtype.type(-eta[k] * g / (1.0 if fold else shrunk))
                for j in range(D):
                    v[j] += c * x[j]
                b[k] -= eta[k] * g
            s[k] = 1.0 if fold else shrunk
        if (before + t + 1) % every == 0 or t + 1 == n + left:
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


@loop(LANES)
def fill_scores(X: F, rows: I64, W: F, b: F64, out: F64) -> None:
    """out[t, k] = W[k] . X[rows[t]] + b[k]: the bits of a row depend on no other."""
    for t in range(len(rows)):
        x = X[rows[t]]
        for k in range(W.shape[0]):
            w, total = W[k], x.dtype.type(0.0)
            for j in range(W.shape[1]):
                total += x[j] * w[j]
            out[t, k] = total + b[k]
