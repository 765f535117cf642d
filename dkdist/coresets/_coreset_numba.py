"""A number of points of unequal weights, distinct, that stand for all: certain ones, and pivotal sampling of the rest.

    tau:   sum_i min(1, p_i / tau) = size

Points of weight tau and more are certain and keep their weight; of the others ``size`` - h are taken, each with
probability p_i / tau, and weigh tau. So the weight of every point is right in the mean, and the total weight exactly.

Pivotal sampling (Deville, Tille 1998) lets a point fight with the next in an order: it takes over the other's share,
or is full and taken while the other keeps what is left. Along a spatial order this takes one point of every region.

The law: with V = W^2 - kappa(P, P), the mean of D^2 is at most V / size. For pivotal sampling is at least as good as
independent draws (Chauvet, Ruiz-Gazen 2017), V' / (size - h) for the weight W' and the V' of the rest; and a certain
point p >= tau loses nothing: V >= V' + 2 p (W' - sqrt(kappa')) and V' = (W' - sqrt(kappa')) (W' + sqrt(kappa')), so
V (size - 1) >= V' size if p (size - 1) >= W'. Two outcomes of a fight can be coupled so that samples differ by one
point in another's place, which changes D by at most sqrt(2) W / size for a kernel in [0, 1]: McDiarmid's inequality
holds as for independent draws, with 2 W / size.

Few points for many: coresets whose mean embedding is near that of all (P3, section 4, and kernel thinning).

    D^2(P, S) = |mu - w sum_j phi(x_j)|^2,   mu = sum_i p_i phi(x_i)

Points are put in an order in which neighbours are near each other (halves of the widest side, again and again), so that
a stratum of the order is a region. One point of each stratum is a start; halving keeps one point of every pair of
neighbours so that the signed sum of what is kept and dropped stays small; swaps then replace points by better ones.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FINITE_REASSOC, jit


def spatial_order(x: F32, leaf: int = 1) -> I64:
    """Positions of points (n, d) in an order in which neighbours are near, down to regions of ``leaf`` points."""
    order = np.arange(len(x))
    _halve_regions(x.copy(), order, max(1, leaf))
    return order


@jit()
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


@jit()
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


def sample_strata(shares: F64, size: int, u: F64) -> I64:
    """One position of each of ``size`` strata of equal weight, for weights in order and u in [0, 1); distinct."""
    ends = np.cumsum(shares) / shares.sum()
    chosen = np.searchsorted(ends, (np.arange(size) + u) / size, side="right")
    for j in range(1, size):  # a point that holds parts of two strata: its neighbour stands in for it
        chosen[j] = max(chosen[j], chosen[j - 1] + 1)
    last = len(shares) - 1
    for j in range(size - 1, -1, -1):
        chosen[j] = min(chosen[j], last - (size - 1 - j))
    return np.asarray(chosen, np.int64)


@jit(FINITE_REASSOC)
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


@jit(FINITE_REASSOC)
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


def certain_points(weights: F64, size: int) -> I64:
    """Positions of the points that weigh at least tau, for more than ``size`` points of positive weight; sorted."""
    first = np.argpartition(weights, len(weights) - size)
    top = first[len(weights) - size :]
    top = top[np.argsort(-weights[top], kind="stable")]
    others = float(weights[first[: len(weights) - size]].sum())
    return np.sort(top[: _n_certain(weights[top], others, size)])


def inclusion_threshold(heaviest: F64, others: float, size: int) -> float:
    """tau, from points among which are all that are certain, and the weight of all others."""
    falling = np.sort(heaviest)[::-1]
    top, others = falling[:size], others + float(falling[size:][::-1].sum())
    h = _n_certain(top, others, size)
    return (others + float(top[h:][::-1].sum())) / (size - h)


def _n_certain(top: F64, others: float, size: int) -> int:
    """How many of the heaviest points, at most ``size``, weigh as much as they and all after them do for a place."""
    rest = others + np.cumsum(top[::-1])[::-1]
    heavy = top * (size - np.arange(len(top))) >= rest
    first_light = int(np.argmin(np.append(heavy, False)))
    return min(first_light, size - 1)  # the last place is for all that are left


def sample_pivotal(shares: F64, size: int, u: F64) -> I64:
    """Positions of ``size`` points, each with probability size p_i / sum p <= 1; u (n,) in [0, 1). Sorted."""
    taken, last, left = pivotal(shares * (size / shares.sum()), u)
    taken[last] |= left > 0.5  # 0 or 1, but for rounding
    return np.asarray(np.flatnonzero(taken), np.int64)


@jit()
def pivotal(shares, u):  # type: ignore[no-untyped-def]
    """(which are taken, the point that is left, its share) after fights in order; shares (n,) in (0, 1]."""
    taken, last, left = np.zeros(len(shares), np.bool_), 0, min(shares[0], 1.0)
    for i in range(1, len(shares)):
        share = min(shares[i], 1.0)
        if left + share <= 1:
            if u[i] * (left + share) >= left:
                last = i
            left += share
        else:
            if u[i] * (2 - left - share) < 1 - share:
                taken[last] = True
                last = i
            else:
                taken[i] = True
            left += share - 1
    return taken, last, left


def sample_weighted(shares: F64, size: int, u: F64) -> tuple[I64, F64]:
    """(positions, weights) of ``size`` points that stand for all, the certain ones and one of each region."""
    if size >= len(shares):
        return np.arange(len(shares)), shares
    heavy = certain_points(shares, size)
    rest = np.delete(np.arange(len(shares)), heavy)
    light = rest[sample_pivotal(shares[rest], size - len(heavy), u[rest])]
    chosen = np.sort(np.concatenate([heavy, light]))
    return chosen, np.maximum(shares[chosen], shares[rest].sum() / len(light))


def halve_unequal(phi: F32, weights: F64, size: int) -> I64:
    """Positions of ``size`` points, from numbers of them that halve: fights whose winners balance what is lost."""
    kept, weights = np.arange(len(phi)), weights.astype(np.float64)
    balance = np.zeros(phi.shape[1], np.float32)
    for level in range(int(np.log2(len(phi) / size)), -1, -1):
        count = size << level
        if count >= len(kept):
            continue
        heavy = certain_points(weights, count)
        rest = np.delete(np.arange(len(kept)), heavy)
        tau = weights[rest].sum() / (count - len(heavy))
        taken, last, left = _balanced_pivotal(
            phi, kept[rest], weights[rest] / tau, tau * size / weights.sum(), balance
        )
        taken[last] |= left > 0.5
        places = np.sort(np.concatenate([heavy, rest[taken]]))
        kept, weights = kept[places], np.maximum(weights[places], tau)
    return kept


@jit(FINITE_REASSOC)
def _balanced_pivotal(phi, points, shares, unit, balance):  # type: ignore[no-untyped-def]
    """As `pivotal`, but won so that ``balance``, the sum of what is kept less that of all, stays small."""
    m = phi.shape[1]
    taken, last, left = np.zeros(len(points), np.bool_), 0, min(shares[0], 1.0)
    for i in range(1, len(points)):
        share = min(shares[i], 1.0)
        whole = left + share <= 1
        gain, loss = (share, left) if whole else (1 - left, 1 - share)  # of the first, if it wins or loses
        a, b = phi[points[last]], phi[points[i]]
        lean, square = np.float32(0), np.float32(0)
        for j in range(m):
            d = a[j] - b[j]
            lean += balance[j] * d
            square += d * d
        wins = 2 * lean + np.float32(unit * (gain - loss)) * square <= 0
        step = np.float32(unit * gain if wins else -unit * loss)
        for j in range(m):
            balance[j] += step * (a[j] - b[j])
        if whole:
            last, left = (last if wins else i), left + share
        else:
            taken[last if wins else i] = True
            last, left = (i if wins else last), left + share - 1
    return taken, last, left
