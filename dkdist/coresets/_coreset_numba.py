"""Sampling and selection of coreset points: heavy points, pivotal sampling, spatial order, halving and swaps.

    tau:  sum_i min(1, p_i / tau) = size,   D^2(P, S) = |mu - w sum_j phi(x_j)|^2,   mu = sum_i p_i phi(x_i)

The h heavy points, of weight >= tau, are always included and keep their weight. Of the others, ``size`` - h are sampled
with probability p_i / tau and get weight tau, so weights are unbiased and the total weight is exact. Pivotal sampling
(Deville, Tille 1998) along a spatial order takes one point of every region. With V = W^2 - kappa(P, P) the mean of D^2
is at most V / size: pivotal sampling is at least as good as independent sampling (Chauvet, Ruiz-Gazen 2017), and heavy
points have no error. Two outcomes of one random decision differ by one point, so McDiarmid's inequality holds with
2 W / size.

Halving keeps one of two neighbours so that the sum of kept minus dropped features stays small (Dwivedi, Mackey 2021:
kernel thinning); swaps replace points by better ones.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FINITE_REASSOC, jit


def spatial_order(x: F32, leaf: int = 1) -> I64:
    """Return an order of points (n, d) by recursive halving, down to regions of ``leaf`` points."""
    order = np.arange(len(x))
    _halve_regions(x.copy(), order, max(1, leaf))
    return order


@jit()
def _halve_regions(x, order, leaf):  # type: ignore[no-untyped-def]
    """Partition each region at the median of its widest side, with a stack instead of recursion."""
    stack, n_stack, d = np.empty((128, 2), np.int64), 1, x.shape[1]
    stack[0, 0], stack[0, 1] = 0, len(x)
    while n_stack:
        n_stack -= 1
        a, b = stack[n_stack, 0], stack[n_stack, 1]
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
        stack[n_stack, 0], stack[n_stack, 1], stack[n_stack + 1, 0], stack[n_stack + 1, 1] = (
            a,
            middle,
            middle,
            b,
        )
        n_stack += 2


@jit()
def _select(x, order, low, high, k, j):  # type: ignore[no-untyped-def]
    """Partition rows low..high around row k by column j: smaller values before, larger after (Hoare 1961)."""
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


def sample_strata(weights: F64, size: int, u: F64) -> I64:
    """Return one distinct position in each of ``size`` consecutive strata of equal weight, for u in [0, 1)."""
    ends = np.cumsum(weights) / weights.sum()
    positions = np.searchsorted(ends, (np.arange(size) + u) / size, side="right")
    for j in range(1, size):  # a point in two strata is used once; the second stratum uses the next point
        positions[j] = max(positions[j], positions[j - 1] + 1)
    last = len(weights) - 1
    for j in range(size - 1, -1, -1):
        positions[j] = min(positions[j], last - (size - 1 - j))
    return np.asarray(positions, np.int64)


@jit(FINITE_REASSOC)
def halve(phi, points, first):  # type: ignore[no-untyped-def]
    """Keep one point of each pair of neighbours in ``points`` (even length), so that kept and dropped features balance.

    ``first`` selects one of the two complementary halves; a random bool makes the result unbiased.
    """
    m = phi.shape[1]
    half, balance = np.empty(len(points) // 2, np.int64), np.zeros(m, np.float32)
    for i in range(len(half)):
        a, b = phi[points[2 * i]], phi[points[2 * i + 1]]
        imbalance = np.float32(0)
        for j in range(m):
            imbalance += balance[j] * (a[j] - b[j])
        sign = np.float32(1) if imbalance <= 0 else np.float32(-1)
        for j in range(m):
            balance[j] += sign * (a[j] - b[j])
        half[i] = points[2 * i] if (sign > 0) == first else points[2 * i + 1]
    return half


@jit(FINITE_REASSOC)
def swap(phi, squares, target, coreset, turns, pool, bounds):  # type: ignore[no-untyped-def]
    """Replace points of ``coreset``, in the order of ``turns``, to bring their feature sum nearest to ``target``.

    ``phi`` (n, m) are features with squared norms ``squares``. Candidates for point c are its stratum
    bounds[c]:bounds[c + 1] and the ``pool``. Points remain distinct.
    """
    m = phi.shape[1]
    total, residual = np.zeros(m, np.float32), np.empty(m, np.float32)
    is_selected = np.zeros(len(phi), np.bool_)
    for c in coreset:
        is_selected[c] = True
        for j in range(m):
            total[j] += phi[c, j]
    for turn in range(len(turns)):
        c = turns[turn]
        old_point = coreset[c]
        is_selected[old_point] = False
        for j in range(m):
            residual[j] = target[j] - total[j] + phi[old_point, j]
        best, best_value = old_point, np.float32(np.inf)
        stratum_size = bounds[c + 1] - bounds[c]
        for k in range(stratum_size + len(pool)):
            p = bounds[c] + k if k < stratum_size else pool[k - stratum_size]
            if is_selected[p]:
                continue
            dot = np.float32(0)
            for j in range(m):
                dot += residual[j] * phi[p, j]
            value = squares[p] - 2 * dot
            if value < best_value:
                best, best_value = p, value
        coreset[c] = best
        is_selected[best] = True
        for j in range(m):
            total[j] += phi[best, j] - phi[old_point, j]


def certain_points(weights: F64, size: int) -> I64:
    """Return sorted positions of heavy points (weight >= tau); more than ``size`` points must have positive weight."""
    order = np.argpartition(weights, len(weights) - size)
    top = order[len(weights) - size :]
    top = top[np.argsort(-weights[top], kind="stable")]
    others = float(weights[order[: len(weights) - size]].sum())
    return np.sort(top[: _n_certain(weights[top], others, size)])


def inclusion_threshold(heaviest: F64, others: float, size: int) -> float:
    """Return tau from the ``heaviest`` weights, which include all heavy points, and the total weight of the others."""
    descending = np.sort(heaviest)[::-1]
    top, others = descending[:size], others + float(descending[size:][::-1].sum())
    h = _n_certain(top, others, size)
    return (others + float(top[h:][::-1].sum())) / (size - h)


def _n_certain(top: F64, others: float, size: int) -> int:
    """Count the points, at most ``size``, that are at least as heavy as the remaining weight per remaining point."""
    remaining_weight = others + np.cumsum(top[::-1])[::-1]
    is_certain = top * (size - np.arange(len(top))) >= remaining_weight
    n_certain = int(np.argmin(np.append(is_certain, False)))
    return min(n_certain, size - 1)  # at least one sampled point must represent the light points


def sample_pivotal(weights: F64, size: int, u: F64) -> I64:
    """Sample sorted positions of ``size`` points with probabilities size p_i / sum p <= 1, from u (n,) in [0, 1)."""
    is_sampled, last, remaining = pivotal(weights * (size / weights.sum()), u)
    is_sampled[last] |= remaining > 0.5  # remaining is 0 or 1 up to rounding
    return np.asarray(np.flatnonzero(is_sampled), np.int64)


@jit()
def pivotal(probabilities, u):  # type: ignore[no-untyped-def]
    """Return (mask of sampled points, last undecided point, its probability) for probabilities (n,) in (0, 1]."""
    is_sampled, last, remaining = np.zeros(len(probabilities), np.bool_), 0, min(probabilities[0], 1.0)
    for i in range(1, len(probabilities)):
        probability = min(probabilities[i], 1.0)
        if remaining + probability <= 1:
            if u[i] * (remaining + probability) >= remaining:
                last = i
            remaining += probability
        else:
            if u[i] * (2 - remaining - probability) < 1 - probability:
                is_sampled[last] = True
                last = i
            else:
                is_sampled[i] = True
            remaining += probability - 1
    return is_sampled, last, remaining


def sample_weighted(weights: F64, size: int, u: F64) -> tuple[I64, F64]:
    """Sample (positions, weights) of ``size`` points: all heavy ones, and one of each region."""
    if size >= len(weights):
        return np.arange(len(weights)), weights
    certain = certain_points(weights, size)
    others = np.delete(np.arange(len(weights)), certain)
    sampled_points = others[sample_pivotal(weights[others], size - len(certain), u[others])]
    positions = np.sort(np.concatenate([certain, sampled_points]))
    return positions, np.maximum(weights[positions], weights[others].sum() / len(sampled_points))


def halve_unequal(phi: F32, weights: F64, size: int) -> I64:
    """Choose ``size`` points by repeated halving with balanced pivotal sampling."""
    points, weights = np.arange(len(phi)), weights.astype(np.float64)
    balance = np.zeros(phi.shape[1], np.float32)
    for level in range(int(np.log2(len(phi) / size)), -1, -1):
        count = size << level
        if count >= len(points):
            continue
        certain = certain_points(weights, count)
        others = np.delete(np.arange(len(points)), certain)
        tau = weights[others].sum() / (count - len(certain))
        is_sampled, last, remaining = _balanced_pivotal(
            phi, points[others], weights[others] / tau, tau * size / weights.sum(), balance
        )
        is_sampled[last] |= remaining > 0.5
        positions = np.sort(np.concatenate([certain, others[is_sampled]]))
        points, weights = points[positions], np.maximum(weights[positions], tau)
    return points


@jit(FINITE_REASSOC)
def _balanced_pivotal(phi, points, probabilities, unit, balance):  # type: ignore[no-untyped-def]
    """Sample like `pivotal`, but keep ``balance`` small: the sum of kept features minus its expectation."""
    m = phi.shape[1]
    is_sampled, last, remaining = np.zeros(len(points), np.bool_), 0, min(probabilities[0], 1.0)
    for i in range(1, len(points)):
        probability = min(probabilities[i], 1.0)
        is_merged = remaining + probability <= 1
        # increase of the first point's probability if it is preferred, and decrease otherwise
        gain, loss = (probability, remaining) if is_merged else (1 - remaining, 1 - probability)
        a, b = phi[points[last]], phi[points[i]]
        imbalance, square = np.float32(0), np.float32(0)
        for j in range(m):
            d = a[j] - b[j]
            imbalance += balance[j] * d
            square += d * d
        wins = 2 * imbalance + np.float32(unit * (gain - loss)) * square <= 0
        step = np.float32(unit * gain if wins else -unit * loss)
        for j in range(m):
            balance[j] += step * (a[j] - b[j])
        if is_merged:
            last, remaining = (last if wins else i), remaining + probability
        else:
            is_sampled[last if wins else i] = True
            last, remaining = (i if wins else last), remaining + probability - 1
    return is_sampled, last, remaining
