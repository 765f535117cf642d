"""Kernel energies from a tree of boxes, with a guaranteed error: dual tree and well-separated pairs.

    E(x, z) = sum_ij k(x_i, x_j) <z_i, z_j>,   Z_A = sum of z_i in the box A,   W = sum |z_i|

*Dual tree*: a pair of boxes contributes (k_min + k_max) / 2 <Z_A, Z_B> if k varies by at most 2 eps / W^2 between them;
other boxes are split, down to leaves, whose pairs are summed. It is fast for small bandwidths.

*Well-separated pairs* (Callahan, Kosaraju 1995; Joshi et al. 2011): the diagonal, plus twice the unordered pairs of
boxes with radii r_A + r_B <= delta |c_A - c_B|, each counted as k(|c_A - c_B|) <Z_A, Z_B>. The relative error of
distances is at most delta. Since |r k'(r)| <= 2/e, the error of k is at most -(2/e) ln(1 - delta), so
delta = 1 - exp(-e eps / 2 W^2). Boxes with k <= 2 eps / W^2 count as k = eps / W^2, for any radii.

Points are scaled so that k = 2^(-r^2) (`kernel_sums.scaled`). Both errors are at most eps, for any signed weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F64, I64
from dkdist._numba.compilation import FINITE_FMA, FINITE_REASSOC, inline_jit, jit
from dkdist.kernels._profiles_numba import exp2

# points per leaf: small leaves prune more pairs, large ones vectorise better (python benchmarks/kernel.py growth)
LEAF_POINTS = 64


class Tree(NamedTuple):
    """Boxes of sorted points: columns (d, n), weights (n, C), and for each node its span of points and first child.

    The second child follows the first; child 0 marks a leaf. ``low`` and ``high`` (n_nodes, d) are corners, ``sums``
    (n_nodes, C) are sums of weights.
    """

    columns: F64
    weights: F64
    first: I64
    last: I64
    child: I64
    low: F64
    high: F64
    sums: F64


def box_tree(x: F64, z: F64, leaf: int) -> Tree:
    """Build a fair-split tree by halving boxes of more than ``leaf`` points that are not all equal."""
    n, d = x.shape
    order, max_nodes = np.arange(n), 2 * n - 1
    first, last, child = (np.zeros(max_nodes, np.int64) for _ in range(3))
    low, high = np.empty((max_nodes, d)), np.empty((max_nodes, d))
    count = _build(x, order, leaf, first, last, child, low, high)
    columns, weights = np.ascontiguousarray(x[order].T), np.ascontiguousarray(z[order])
    totals = np.concatenate([np.zeros((1, z.shape[1])), np.cumsum(weights, axis=0)])
    nodes = (first[:count], last[:count], child[:count], low[:count], high[:count])
    return Tree(columns, weights, *nodes, totals[last[:count]] - totals[first[:count]])


def tree_energy(tree: Tree, eps: float) -> float:
    """Return E with an error of at most ``eps`` W^2 from the dual tree."""
    return float(_dual_tree_energy(tree, eps))


def separated_energy(tree: Tree, eps: float) -> float:
    """Return E with an error of at most ``eps`` W^2 from well-separated pairs; leaves must be single points.

    The number of pairs is about n / delta^d, linear in n, but at most n^2 / 2. For the default error delta is 3.4e-5:
    the number is quadratic up to n = 3e4 on a line and 1e9 in the plane. Time grows as n^e (uniform points, n from
    1,000 to 16,000 or more, one core of an AMD EPYC; sigma is in units of the width, eps the error of
    `kernel_distance`):

        d  sigma  eps   e     last step       seconds for 16,000 points
        1  0.1    1e-2  1.13  1.03            0.25
        1  0.1    1e-4  1.85  1.73            4.0
        2  0.1    1e-1  1.61  1.49            0.53
        2  0.1    1e-2  1.91  1.93            2.0
        2  0.1    1e-4  1.95  2.01            3.5
        2  0.01   1e-4  1.59  1.80            0.08
        3  0.1    1e-2  1.83  1.90            1.1

    Exact sums of 8,000 points take 0.05 s, well-separated pairs 0.88 s (d = 2, sigma 0.1, eps 1e-4).
    """
    delta = -np.expm1(-math.e * eps / 2)
    return float(_separated_energy(tree, delta, 2 * eps))


@jit()
def _build(x, order, leaf, first, last, child, low, high):  # type: ignore[no-untyped-def]
    last[0], count, node = len(x), 1, 0
    while node < count:
        a, b = first[node], last[node]
        low[node] = x[order[a]]
        high[node] = x[order[a]]
        for i in range(a + 1, b):
            for j in range(x.shape[1]):
                low[node, j] = min(low[node, j], x[order[i], j])
                high[node, j] = max(high[node, j], x[order[i], j])
        widest = np.argmax(high[node] - low[node])
        middle = low[node, widest] + (high[node, widest] - low[node, widest]) / 2
        if b - a > leaf and high[node, widest] > low[node, widest]:
            i, j = a, b - 1
            while i <= j:  # the lowest point stays on the left, the highest on the right
                if x[order[i], widest] <= middle and x[order[i], widest] < high[node, widest]:
                    i += 1
                else:
                    order[i], order[j] = order[j], order[i]
                    j -= 1
            child[node] = count
            first[count], last[count], first[count + 1], last[count + 1] = a, i, i, b
            count += 2
        node += 1
    return count


@jit()
def _push(stack, top, a, b):  # type: ignore[no-untyped-def]
    if top == len(stack):
        stack = np.concatenate((stack, np.empty_like(stack)))
    stack[top, 0], stack[top, 1] = a, b
    return stack, top + 1


@inline_jit()
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for c in range(len(a)):
        total += a[c] * b[c]
    return total


@inline_jit()
def _square_diagonal(low, high):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(low)):
        total += (high[j] - low[j]) ** 2
    return total


@inline_jit()
def _square_gap(low, high, other_low, other_high):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(low)):
        total += max(0.0, low[j] - other_high[j], other_low[j] - high[j]) ** 2
    return total


@inline_jit(FINITE_REASSOC)
def _weighted_sum(k, w, first, m):  # type: ignore[no-untyped-def]
    total = 0.0
    for n in range(m):
        total += k[n] * w[first + n]
    return total


@inline_jit(FINITE_FMA)
def _leaf_energy(columns, weights, a, a_end, b, b_end, k):  # type: ignore[no-untyped-def]
    """Return the sum over all pairs of two spans of points."""
    total, m = 0.0, b_end - b
    for i in range(a, a_end):
        for n in range(m):
            k[n] = 0.0
        for j in range(len(columns)):
            x, y = columns[j, i], columns[j, b:b_end]
            for n in range(m):
                k[n] -= (x - y[n]) ** 2
        for n in range(m):
            k[n] = exp2(k[n])
        for c in range(weights.shape[1]):
            total += weights[i, c] * _weighted_sum(k, weights[:, c], b, m)
    return total


@jit()
def _dual_tree_energy(tree, eps):  # type: ignore[no-untyped-def]
    columns, weights, first, last, child, low, high, sums = tree
    stack, top, total = np.zeros((1024, 2), np.int64), 1, 0.0
    max_leaf_size = 0
    for node in range(len(child)):
        if child[node] == 0:
            max_leaf_size = max(max_leaf_size, last[node] - first[node])
    k = np.empty(max_leaf_size)
    while top > 0:
        top -= 1
        A, B = stack[top, 0], stack[top, 1]
        max_sqdist = 0.0
        for j in range(low.shape[1]):
            max_sqdist += max(high[A, j] - low[B, j], high[B, j] - low[A, j]) ** 2
        k_max, k_min = exp2(-_square_gap(low[A], high[A], low[B], high[B])), exp2(-max_sqdist)
        factor = 1.0 if A == B else 2.0
        if k_max - k_min <= 2 * eps:
            total += factor * (k_max + k_min) / 2 * _dot(sums[A], sums[B])
        elif child[A] == 0 and child[B] == 0:
            total += factor * _leaf_energy(columns, weights, first[A], last[A], first[B], last[B], k)
        elif A == B:
            first_child = child[A]
            stack, top = _push(stack, top, first_child, first_child)
            stack, top = _push(stack, top, first_child, first_child + 1)
            stack, top = _push(stack, top, first_child + 1, first_child + 1)
        else:
            if child[A] == 0 or (
                child[B] and _square_diagonal(low[B], high[B]) > _square_diagonal(low[A], high[A])
            ):
                A, B = B, A
            stack, top = _push(stack, top, child[A], B)
            stack, top = _push(stack, top, child[A] + 1, B)
    return total


@jit()
def _separated_energy(tree, delta, min_kernel):  # type: ignore[no-untyped-def]
    child, low, high, sums = tree.child, tree.low, tree.high, tree.sums
    total, radius, centre = 0.0, np.empty(len(child)), (low + high) / 2
    for node in range(len(child)):
        radius[node] = np.sqrt(_square_diagonal(low[node], high[node])) / 2
    stack, top = np.empty((1024, 2), np.int64), 0
    for node in range(len(child)):
        if child[node]:
            stack, top = _push(stack, top, child[node], child[node] + 1)
        else:
            total += _dot(sums[node], sums[node])  # pairs i = j and pairs of equal points
    while top > 0:
        top -= 1
        A, B = stack[top, 0], stack[top, 1]
        square = _square_diagonal(centre[A], centre[B])
        if radius[A] + radius[B] <= delta * np.sqrt(square):
            total += 2 * exp2(-square) * _dot(sums[A], sums[B])
            continue
        k_max = exp2(-_square_gap(low[A], high[A], low[B], high[B]))
        if k_max <= min_kernel:
            total += k_max * _dot(sums[A], sums[B])
            continue
        larger, smaller = (B, A) if radius[B] > radius[A] else (A, B)
        stack, top = _push(stack, top, child[larger], smaller)
        stack, top = _push(stack, top, child[larger] + 1, smaller)
    return total
