"""Stochastic gradient descent on linear models, row after row: the inner loops, compiled.

    w <- max(0, 1 - eta alpha) w - eta c l'(w.x + b, y) x,     b <- b - eta c l'(w.x + b, y)      c: the row's weight
    W_n = W_{n-1} + 2/(n+1) (w_n - W_{n-1})                  every ``every`` rows

The shrinking factor is kept apart, w = s v, so that a row costs one product and one addition of its length. Several
functions (one a class, or one a penalty) share each row while it is in the cache.

Rows that are made when a step comes to them are made a tile at a time by the loop that takes the steps (`tile_steps`),
so that nothing is asked of Python between two tiles: with two threads at work each of these questions would have to
wait until the other thread lets go of the interpreter. The bits are those of rows that were there before.
"""

from __future__ import annotations

from math import exp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist.loops.array_types import F64, I64
from dkdist.loops.compile import LANES, inlined, loop
from dkdist.loops.elementary import larger, smaller

F = NDArray[Any]
"""float32 or float64, C order."""

LOG, HINGE, SQUARED_HINGE, MODIFIED_HUBER, SQUARED_ERROR, HUBER = range(6)
SMALLEST_SCALE = 1e-6
LARGEST_SLOPE = 1e12


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


class Steps(NamedTuple):
    """How n rows are learned from, in the order in which they come.

    ``targets`` (n, K) and ``weights`` (n,) of the rows; ``eta`` (K,) and ``decay`` (K,), max(0, 1 - eta alpha), of the
    functions. The mean takes in an iterate after every ``every`` rows, and after the last.
    """

    targets: F64
    weights: F64
    loss: int
    epsilon: float
    eta: F64
    decay: F64
    every: int


class Iterate(NamedTuple):
    """K functions on their way, changed in place: w = s v with ``W`` (K, D) the v, and the means of w and b (K,).

    Between two calls s (K,) is 1.
    """

    W: F
    b: F64
    mean_W: F
    mean_b: F64
    s: F64


class Looks(NamedTuple):
    """What is measured on the way: ``seen`` (m, K), scores by W and b of the m rows that are ``probed`` (n,), before
    they are used; and ``last`` (l, K), those of the last l rows by the iterate that they lead to."""

    probed: NDArray[np.bool_]
    W: F
    b: F64
    seen: F64
    last: F64


@inlined(LANES)
def _score(x, W, b, out):  # type: ignore[no-untyped-def]
    for k in range(len(W)):
        w, total = W[k], x.dtype.type(0.0)
        for j in range(len(w)):
            total += x[j] * w[j]
        out[k] = total + b[k]


@inlined(LANES)
def _step(x, t, steps, iterate):  # type: ignore[no-untyped-def]
    """One step of every function by the row x, the t-th."""
    b, s = iterate.b, iterate.s
    for k in range(len(b)):
        v, shrunk = iterate.W[k], s[k] * steps.decay[k]
        fold = shrunk < SMALLEST_SCALE
        total = x.dtype.type(0.0)
        for j in range(len(v)):
            total += x[j] * v[j]
        g = slope(steps.loss, s[k] * total + b[k], steps.targets[t, k], steps.epsilon)
        g = steps.weights[t] * smaller(larger(g, -LARGEST_SLOPE), LARGEST_SLOPE)
        if fold:
            for j in range(len(v)):
                v[j] *= shrunk
        if g != 0.0:
            c = x.dtype.type(-steps.eta[k] * g / (1.0 if fold else shrunk))
            for j in range(len(v)):
                v[j] += c * x[j]
            b[k] -= steps.eta[k] * g
        s[k] = 1.0 if fold else shrunk


@inlined(LANES)
def _averaged(t, steps, iterate, m):  # type: ignore[no-untyped-def]
    """How many iterates the means hold after row t, if there were m; whenever one is added, s is 1 again."""
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


@loop(LANES)
def descend(X: F, order: I64, steps: Steps, iterate: Iterate, n_averaged: int) -> int:
    """Take one step for each of n rows X[order].

    The means take in the iterate with weight 2 / (m + 1) for the m-th; ``n_averaged`` counts those before, the count
    after is returned. 4 n K D operations; X is read once.
    """
    for t in range(len(order)):
        _step(X[order[t]], t, steps, iterate)
        n_averaged = _averaged(t, steps, iterate, n_averaged)
    return n_averaged


@loop(LANES)
def fill_scores(X: F, rows: I64, W: F, b: F64, out: F64) -> None:
    """out[t, k] = W[k] . X[rows[t]] + b[k]: the bits of a row depend on no other."""
    for t in range(len(rows)):
        _score(X[rows[t]], W, b, out[t])


@inlined(LANES)
def tile_steps(X, start, stop, steps, iterate, looks, n_seen, n_averaged):  # type: ignore[no-untyped-def]
    """The steps from row ``start`` to ``stop`` - 1, of which X is made, and what is measured of them.

    Returns how many rows were looked at, and how many iterates the means hold, in all.
    """
    for t in range(start, stop):
        if looks.probed[t]:
            _score(X[t - start], looks.W, looks.b, looks.seen[n_seen])
            n_seen += 1
    for t in range(start, stop):
        _step(X[t - start], t, steps, iterate)
        n_averaged = _averaged(t, steps, iterate, n_averaged)
    if stop == len(steps.targets):
        left = stop - start - len(looks.last)
        for i in range(len(looks.last)):
            _score(X[left + i], iterate.W, iterate.b, looks.last[i])
    return n_seen, n_averaged
