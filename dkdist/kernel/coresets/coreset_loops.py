"""Few points for many: coresets whose mean embedding is near that of all (P3, section 4, and kernel thinning).

    D^2(P, S) = |mu - w sum_j phi(x_j)|^2,   mu = sum_i p_i phi(x_i)

Points are put in an order in which neighbours are near each other (halves of the widest side, again and again), so that
a stratum of the order is a region. One point of each stratum is a start; halving keeps one point of every pair of
neighbours so that the signed sum of what is kept and dropped stays small; swaps then replace points by better ones.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.compile import SUM, loop


def spatial_order(x: F32, leaf: int = 1) -> I64:
    """Positions of points (n, d) in an order in which neighbours are near, down to regions of ``leaf`` points."""
    order = np.arange(len(x))
    _halve_regions(x.copy(), order, max(1, leaf))
    return order


@loop()
def _halve_regions(x, order, leaf):  # type: ignore[no-untyped-def]
    """Put the lower half along the widest side of a region first, then go on with both halves."""
    stack, top, d = np.empty((128, 2), np.int64), 1, x.shape[1]
    stack[0, 0], stack[0, 1] = 0, len(x)
    while top:
        top -= 1
        a, b = stack[top, 0], stack[top, 1]
        if b - a <= leaf:
            continue
        widest, width = 0, np.float32(-1)
        for j in range(d):
            low = high = x[a, j]
            for i in range(a + 1, b):
                low, high = min(low, x[i, j]), max(high, x[i, j])
            if high - low > width:
                widest, width = j, high - low
        middle = a + (b - a) // 2
        _select(x, order, a, b - 1, middle, widest)
        stack[top, 0], stack[top, 1], stack[top + 1, 0], stack[top + 1, 1] = a, middle, middle, b
        top += 2


@loop()
def _select(x, order, low, high, k, j):  # type: ignore[no-untyped-def]
    """Rows low..high such that none before row k is larger in column j, and none after it smaller (Hoare 1961)."""
    while low < high:
        p, q, r = x[low, j], x[(low + high) // 2, j], x[high, j]
        pivot = max(min(p, q), min(max(p, q), r))
        first, last = low, high
        while first <= last:
            while x[first, j] < pivot:
                first += 1
            while pivot < x[last, j]:
                last -= 1
            if first <= last:
                for c in range(x.shape[1]):
                    x[first, c], x[last, c] = x[last, c], x[first, c]
                order[first], order[last] = order[last], order[first]
                first, last = first + 1, last - 1
        if last < k:
            low = first
        if k < first:
            high = last


def strata(shares: F64, size: int, u: F64) -> I64:
    """One position of each of ``size`` strata of equal weight, for weights in order and u in [0, 1); distinct."""
    ends = np.cumsum(shares) / shares.sum()
    chosen = np.searchsorted(ends, (np.arange(size) + u) / size, side="right")
    for j in range(1, size):  # a point that holds parts of two strata: its neighbour stands in for it
        chosen[j] = max(chosen[j], chosen[j - 1] + 1)
    last = len(shares) - 1
    for j in range(size - 1, -1, -1):
        chosen[j] = min(chosen[j], last - (size - 1 - j))
    return np.asarray(chosen, np.int64)


@loop(SUM)
def halve(phi, chosen, first):  # type: ignore[no-untyped-def]
    """One of every two neighbours of ``chosen`` (even length), such that what is kept balances what is dropped.

    Both halves are as near to the whole. Which of the ``first`` two is kept says which half: drawn, what is kept is
    the whole in the mean.
    """
    m = phi.shape[1]
    kept, balance = np.empty(len(chosen) // 2, np.int64), np.zeros(m, np.float32)
    for i in range(len(kept)):
        a, b = phi[chosen[2 * i]], phi[chosen[2 * i + 1]]
        lean = np.float32(0)
        for j in range(m):
            lean += balance[j] * (a[j] - b[j])
        sign = np.float32(1) if lean <= 0 else np.float32(-1)
        for j in range(m):
            balance[j] += sign * (a[j] - b[j])
        kept[i] = chosen[2 * i] if (sign > 0) == first else chosen[2 * i + 1]
    return kept


@loop(SUM)
def swap(phi, squares, target, chosen, turns, pool, bounds):  # type: ignore[no-untyped-def]
    """Replace points of ``chosen``, in the order of ``turns``, by the one that brings their sum nearest to ``target``.

    ``phi`` (n, m) features with squared lengths ``squares``; candidates for point c are its stratum
    bounds[c]:bounds[c + 1] and the ``pool``. Each point is taken once.
    """
    m = phi.shape[1]
    total, rest = np.zeros(m, np.float32), np.empty(m, np.float32)
    taken = np.zeros(len(phi), np.bool_)
    for c in chosen:
        taken[c] = True
        for j in range(m):
            total[j] += phi[c, j]
    for turn in range(len(turns)):
        c = turns[turn]
        old = chosen[c]
        taken[old] = False
        for j in range(m):
            rest[j] = target[j] - total[j] + phi[old, j]
        best, least = old, np.float32(np.inf)
        n_own = bounds[c + 1] - bounds[c]
        for k in range(n_own + len(pool)):
            p = bounds[c] + k if k < n_own else pool[k - n_own]
            if taken[p]:
                continue
            dot = np.float32(0)
            for j in range(m):
                dot += rest[j] * phi[p, j]
            value = squares[p] - 2 * dot
            if value < least:
                best, least = p, value
        chosen[c] = best
        taken[best] = True
        for j in range(m):
            total[j] += phi[best, j] - phi[old, j]
