"""Compiled steps of stochastic gradient descent on linear models.

    w <- max(0, 1 - eta alpha) w - eta c l'(w.x + b, y) x,     b <- b - eta c l'(w.x + b, y)      c: the row's weight
    W_n = W_{n-1} + 2/(n+1) (w_n - W_{n-1})                  every ``every`` rows

The shrinking factor is stored separately, w = s v, so a row costs one product and one addition of its length. Several
functions (one per class or penalty) share each row while it is in the cache. Four rows are processed at a time:

    v_i = v_0 + sum_(j < i) c_j x_j,    v_i . x_i = v_0 . x_i + sum_(j < i) c_j x_j . x_i

v is read once per four products and written once per four steps, because the L1 cache is too small for both v and the
rows. The cost is six more products of two rows. Only the last bits differ from single steps. `tile_steps` is called
by compiled functions that compute rows a tile at a time, without returning to Python, which would require the GIL.
"""

from __future__ import annotations

from math import exp, log1p
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64, borrowed
from dkdist._numba.compilation import FMA_REASSOC, inline_jit, jit
from dkdist._numba.elementary import maximum, minimum
from dkdist._numba.products import all_products, products

F = NDArray[Any]
"""float32 or float64, C order."""

LOG, HINGE, SQUARED_HINGE, MODIFIED_HUBER, SQUARED_ERROR, HUBER = range(6)
MIN_SCALE = 1e-6  # smaller scales are multiplied into v, to keep float32 digits (tests/linear/test_sgd.py)
# maximum slope of the loss, as in scikit-learn's SGD: https://github.com/scikit-learn/scikit-learn
MAX_SLOPE = 1e12
# maximum product of two rows in a group of four; larger ones overflow in float32 (tests/linear/test_sgd.py)
MAX_PRODUCT = 1e38


@inline_jit(early=False)
def loss_value(loss, p, y, epsilon):  # type: ignore[no-untyped-def]
    """Return the loss l(p, y); y = -1 or +1 for classes."""
    if loss == LOG:
        z = p * y
        return maximum(0.0, -z) + log1p(exp(-abs(z)))
    if loss == HINGE:
        return maximum(0.0, 1.0 - p * y)
    if loss == SQUARED_HINGE:
        return maximum(0.0, 1.0 - p * y) ** 2
    if loss == MODIFIED_HUBER:
        z = p * y
        return maximum(0.0, 1.0 - z) ** 2 if z >= -1.0 else -4.0 * z
    r = abs(p - y)
    if loss == HUBER and r > epsilon:
        return epsilon * (r - 0.5 * epsilon)
    return 0.5 * r * r


@inline_jit(early=False)
def loss_slope(loss: int, p: float, y: float, epsilon: float) -> float:
    """Return the derivative l'(p, y); y = -1 or +1 for classes."""
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


class SGDParams(NamedTuple):
    """Parameters of the steps over n rows, in order.

    ``targets`` (n, K) and ``weights`` (n,) of the rows; ``eta`` (K,) and ``decay`` (K,), max(0, 1 - eta alpha), of the
    functions. The mean is updated after every ``every`` rows, and after the last.
    """

    targets: F64
    weights: F64
    loss: int
    epsilon: float
    eta: F64
    decay: F64
    every: int


class SGDState(NamedTuple):
    """State of K linear functions, updated in place: w = s v with v = ``W`` (K, D), and the means of w and b (K,).

    Between two calls s (K,) is 1.
    """

    W: F
    b: F64
    mean_W: F
    mean_b: F64
    s: F64


class LossMonitor(NamedTuple):
    """Losses measured during the steps.

    ``sums`` (2,) are the weighted losses of the model W, b and the weights, summed over rows with ``probed`` (n,) True,
    before their steps. ``last`` (l, K) are the scores of the last l rows by the final iterate.
    """

    probed: NDArray[np.bool_]
    W: F
    b: F64
    sums: F64
    last: F64


@inline_jit(FMA_REASSOC, early=False)
def _score(x, w):  # type: ignore[no-untyped-def]
    total = x.dtype.type(0.0)
    for j in range(len(w)):
        total += x[j] * w[j]
    return total


@inline_jit(FMA_REASSOC, early=False)
def _add_loss(x, t, steps, W, b, sums):  # type: ignore[no-untyped-def]
    """Add the weighted loss of the row x with index t over all functions, and its weight, to ``sums``."""
    total = 0.0
    for k in range(len(b)):
        total += loss_value(steps.loss, _score(x, W[k]) + b[k], steps.targets[t, k], steps.epsilon)
    sums[0] += steps.weights[t] * total
    sums[1] += steps.weights[t]


@inline_jit(FMA_REASSOC, early=False)
def _slope(p, t, k, steps):  # type: ignore[no-untyped-def]
    """Return the weighted loss derivative of function k at row t for the decision value p."""
    g = loss_slope(steps.loss, p, steps.targets[t, k], steps.epsilon)
    return steps.weights[t] * minimum(maximum(g, -MAX_SLOPE), MAX_SLOPE)


@inline_jit(FMA_REASSOC, early=False)
def _step(x, t, k, steps, iterate):  # type: ignore[no-untyped-def]
    """Take one step of function k with the row x, which has index t."""
    b, s, v = iterate.b, iterate.s, iterate.W[k]
    shrunk = s[k] * steps.decay[k]
    fold = shrunk < MIN_SCALE
    g = _slope(s[k] * _score(x, v) + b[k], t, k, steps)
    if fold:
        for j in range(len(v)):
            v[j] *= shrunk
    if g != 0.0:
        c = x.dtype.type(-steps.eta[k] * g / (1.0 if fold else shrunk))
        for j in range(len(v)):
            v[j] += c * x[j]
        b[k] -= steps.eta[k] * g
    s[k] = 1.0 if fold else shrunk


@inline_jit(FMA_REASSOC, early=False)
def _steps(X, rows, t, steps, iterate):  # type: ignore[no-untyped-def]
    """Update all linear functions with row t, X[rows[0]], or with rows t to t + 3; return the number of rows.

    Groups of four are aligned to the last row and contain no update of the mean. Single steps are used for functions
    whose scale would be multiplied into v within the group, and for rows whose products may overflow.
    """
    four = (len(steps.targets) - t) % 4 == 0 and t % steps.every <= steps.every - 4
    x0, x1, x2, x3 = X[rows[0]], X[rows[1]], X[rows[2]], X[rows[3]]
    zero, b, s, has_products = x0.dtype.type(0.0), iterate.b, iterate.s, False
    p0 = p1 = p2 = p3 = g01 = g02 = g03 = g12 = g13 = g23 = zero
    for k in range(len(b)):
        single = not four or s[k] * steps.decay[k] ** 4 < MIN_SCALE
        v = iterate.W[k]
        if has_products:
            p0, p1, p2, p3 = products(x0, x1, x2, x3, v)
        elif not single:
            p0, p1, p2, p3, g01, g02, g03, g12, g13, g23 = all_products(x0, x1, x2, x3, v)
            has_products = True
        product_sum = abs(g01) + abs(g02) + abs(g03) + abs(g12) + abs(g13) + abs(g23)
        if single or not (product_sum <= MAX_PRODUCT):  # also True for NaN
            for i in range(4 if four else 1):
                _step(X[rows[i]], t + i, k, steps, iterate)
            continue
        c0 = x0.dtype.type(_coefficient(p0, t, k, steps, b, s))
        c1 = x0.dtype.type(_coefficient(p1 + c0 * g01, t + 1, k, steps, b, s))
        c2 = x0.dtype.type(_coefficient(p2 + c0 * g02 + c1 * g12, t + 2, k, steps, b, s))
        c3 = x0.dtype.type(_coefficient(p3 + c0 * g03 + c1 * g13 + c2 * g23, t + 3, k, steps, b, s))
        if c0 != 0.0 or c1 != 0.0 or c2 != 0.0 or c3 != 0.0:
            for j in range(len(v)):
                v[j] += c0 * x0[j] + c1 * x1[j] + c2 * x2[j] + c3 * x3[j]
    return 4 if four else 1


@inline_jit(FMA_REASSOC, early=False)
def _coefficient(p, t, k, steps, b, s):  # type: ignore[no-untyped-def]
    """Return the coefficient of row t in the step of v_k, with p = v_k x_t; update b and s."""
    g = _slope(s[k] * p + b[k], t, k, steps)
    s[k] *= steps.decay[k]
    b[k] -= steps.eta[k] * g
    return -steps.eta[k] * g / s[k]


@inline_jit(FMA_REASSOC, early=False)
def _update_average(t, steps, iterate, m):  # type: ignore[no-untyped-def]
    """Update the means after row t if due, and reset s to 1; return the new number m of averaged iterates."""
    if (t + 1) % steps.every != 0 and t + 1 != len(steps.targets):
        return m
    rate = 2.0 / (m + 2.0)
    r = iterate.W.dtype.type(rate)
    for k in range(len(iterate.b)):
        v, mean, scale = iterate.W[k], iterate.mean_W[k], iterate.W.dtype.type(iterate.s[k])
        for j in range(len(v)):
            v[j] *= scale
            mean[j] += r * (v[j] - mean[j])
        iterate.mean_b[k] += rate * (iterate.b[k] - iterate.mean_b[k])
        iterate.s[k] = 1.0
    return m + 1


@jit(FMA_REASSOC)
def descend(X: F, order: I64, steps: SGDParams, iterate: SGDState, n_averaged: int) -> int:
    """Take one step for each of n rows X[order].

    The m-th averaged iterate has weight 2 / (m + 1). ``n_averaged`` is the previous number of averaged
    iterates; returns the new number. Cost: 4 n K D operations, and 3 n D for products of rows; X is read once.
    """
    X, steps, iterate = borrowed(X), borrowed(steps), borrowed(iterate)
    t, last = 0, len(order) - 1
    while t <= last:
        rows = order[t], order[minimum(t + 1, last)], order[minimum(t + 2, last)], order[minimum(t + 3, last)]
        t += _steps(X, rows, t, steps, iterate)
        n_averaged = _update_average(t - 1, steps, iterate, n_averaged)
    return n_averaged


@jit(FMA_REASSOC)
def fill_scores(X: F, rows: I64, W: F, b: F64, out: F64) -> None:
    """Set out[t, k] = W[k] . X[rows[t]] + b[k]; each row is bitwise independent of the other rows."""
    for t in range(len(rows)):
        for k in range(len(b)):
            out[t, k] = _score(X[rows[t]], W[k]) + b[k]


@jit(FMA_REASSOC)
def add_losses(X: F, rows: I64, indices: I64, steps: SGDParams, W: F, b: F64, sums: F64) -> None:
    """Add weighted losses and weights of rows X[rows[t]], row indices[t] of ``steps``, to ``sums`` (2,)."""
    for t in range(len(rows)):
        _add_loss(X[rows[t]], indices[t], steps, W, b, sums)


@inline_jit(FMA_REASSOC, early=False)
def tile_steps(X, start, stop, steps, iterate, monitor, n_averaged):  # type: ignore[no-untyped-def]
    """Take the steps of rows ``start`` to ``stop`` - 1, stored in X, and update the monitor.

    The number of rows after ``stop`` is a multiple of four, so that no group of four rows spans two tiles. Returns the
    number of averaged iterates.
    """
    X, steps, iterate, monitor = borrowed(X), borrowed(steps), borrowed(iterate), borrowed(monitor)
    for t in range(start, stop):
        if monitor.probed[t]:
            _add_loss(X[t - start], t, steps, monitor.W, monitor.b, monitor.sums)
    t, last = start, stop - start - 1
    while t < stop:
        i = t - start
        rows = i, minimum(i + 1, last), minimum(i + 2, last), minimum(i + 3, last)
        t += _steps(X, rows, t, steps, iterate)
        n_averaged = _update_average(t - 1, steps, iterate, n_averaged)
    if stop == len(steps.targets):
        offset = stop - start - len(monitor.last)
        for i in range(len(monitor.last)):
            for k in range(len(iterate.b)):
                monitor.last[i, k] = _score(X[offset + i], iterate.W[k]) + iterate.b[k]
    return n_averaged
