"""Coresets of parts taken together, and thinned: by exact sums, for there are few points.

What is thinned is a mean mu = sum_i w_i phi(x_i), of which

    b_j = <mu, phi(x_j)> = sum_i w_i k(x_i, x_j),   |mu|^2 = w.b

are all that a choice of points x_j, its weights v and its distance have to know: D^2 = w.b - 2 v.b + v.K v.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist.coresets._coreset_numba import certain_points, sample_strata, spatial_order
from dkdist.coresets.selection import ROUNDING_RATIO, optimize_weights, quadratic_objective
from dkdist.kernels.kernel_sums import kernel_matrix, scaled, sums

MERGE_SIZE_RATIO = (
    8  # times the size wanted in the end: points that stand for some parts while they are merged with others
)
MAX_EXTRA_MERGE_POINTS = 1024  # than that size: points beyond, at most
MAX_SWAP_ROUNDS = 8  # of swaps, if each of them gains something


class CoresetUnion(NamedTuple):
    """Points (m, d) that stand for ``n_points`` together: signed weights, and how far their mean is at most.

    ``shares`` >= 0 say how much of the whole each point was chosen for, where weights of both signs do not.
    ``total`` is the sum of all weights, None for points that have none.
    """

    indices: I64
    weights: F64
    distance: float
    points: F64
    shares: F64
    n_points: int
    total: float | None


def concatenate_unions(parts: list[CoresetUnion]) -> CoresetUnion:
    """All parts, one after the other, as one."""
    n = [part.n_points for part in parts]
    firsts = np.cumsum([0, *n[:-1]])
    scales = [1.0 if part.total is not None else part.n_points / sum(n) for part in parts]
    each = list(zip(scales, parts, strict=True))
    totals = [part.total for part in parts if part.total is not None]
    return CoresetUnion(
        np.concatenate([part.indices + first for part, first in zip(parts, firsts, strict=True)]),
        np.concatenate([scale * part.weights for scale, part in each]),
        float(sum(scale * part.distance for scale, part in each)),
        np.concatenate([part.points for part in parts]),
        np.concatenate([scale * part.shares for scale, part in each]),
        sum(n),
        sum(totals) if totals else None,
    )


def merge_size(size: int) -> int:
    """How many points stand for a part, for a ``size`` wanted in the end."""
    return min(MERGE_SIZE_RATIO * size, size + MAX_EXTRA_MERGE_POINTS)


def reduce_unions(parts: list[CoresetUnion], size: int, sigma: float, kernel: str) -> CoresetUnion:
    """All parts together; thinned in a tree where they are more than twice what a ``size`` to come asks for."""
    kept, union = merge_size(size), concatenate_unions(parts)
    if len(union.weights) <= 2 * kept:
        return union
    if len(parts) == 1:
        return thin_union(union, kept, sigma, kernel, optimal=True)
    half = len(parts) // 2
    sides = [reduce_unions(side, size, sigma, kernel) for side in (parts[:half], parts[half:])]
    return concatenate_unions(
        [
            side if len(side.weights) <= kept else thin_union(side, kept, sigma, kernel, optimal=True)
            for side in sides
        ]
    )


def thin_union(
    union: CoresetUnion,
    size: int,
    sigma: float,
    kernel: str,
    *,
    optimal: bool,
    rounds: int = 0,
    seed: int = 0,
) -> CoresetUnion:
    """``size`` of the points of a union after ``rounds`` of swaps, of equal weights or the ``optimal`` signed ones.

    The kernel distance is a norm: that to the whole is at most the union's own and the one to the union.
    """
    x, w = union.points - union.points.mean(axis=0), union.weights
    u = scaled(x, sigma, kernel)
    overlaps = sums(u, u, w[:, None], kernel)[:, 0]
    chosen, shares = _choose_points(x / sigma, kernel, union.shares, overlaps, size, rounds, seed)
    K, b = kernel_matrix(x[chosen], x[chosen], sigma, kernel), overlaps[chosen]
    weights = optimize_weights(K, b, shares) if optimal else shares
    moved = max(0.0, float(w @ overlaps) + quadratic_objective(K, b, weights))
    rounding = ROUNDING_RATIO * float(np.abs(w).sum() + np.abs(weights).sum()) ** 2
    distance = union.distance + float(np.sqrt(moved + rounding))
    few = union.indices[chosen], weights, distance, union.points[chosen], shares
    return CoresetUnion(*few, union.n_points, union.total)


def _choose_points(
    x: F64, kernel: str, shares: F64, b: F64, size: int, rounds: int, seed: int
) -> tuple[I64, F64]:
    """(positions, shares) of heavy points as they are, and of others of equal shares: one of each region, swapped.

    x are in units of sigma. With n of weight W / n each, and t_j their sum of k(., x_j), taking p for one of them
    leaves 2 (W / n)^2 (t_p - n b_p / W), but for what does not depend on p.
    """
    heavy = certain_points(shares, size)
    light, n = np.delete(np.arange(len(x)), heavy), size - len(heavy)
    y, own = x[light], shares[light]
    order, W = spatial_order(y.astype(np.float32)), float(own.sum())
    few = order[sample_strata(own[order], n, np.full(n, 0.5))]
    if rounds:
        aim = (n / W) * (b[light] - _sums(y, x[heavy], shares[heavy], kernel))
        _swap_points(y, kernel, aim, few, rounds, np.random.default_rng([seed, RngStream.CORESET]))
    return np.concatenate([heavy, light[few]]), np.concatenate([shares[heavy], np.full(n, W / n)])


def _swap_points(y: F64, kernel: str, aim: F64, chosen: I64, rounds: int, rng: np.random.Generator) -> None:
    """Replace points (n, d) of ``chosen`` by those that bring their sums of the kernel nearest to ``aim`` (n,)."""
    excess = _sums(y, y[chosen], np.ones(len(chosen)), kernel) - aim
    taken = np.zeros(len(y))
    taken[chosen] = np.inf
    for _ in range(rounds):
        before = chosen.copy()
        for c in rng.permutation(len(chosen)):
            excess -= _kernel_column(y, chosen[c], kernel)
            taken[chosen[c]] = 0
            chosen[c] = np.argmin(excess + taken)
            taken[chosen[c]] = np.inf
            excess += _kernel_column(y, chosen[c], kernel)
        if (chosen == before).all():
            break


def _sums(y: F64, x: F64, w: F64, kernel: str) -> F64:
    """sum_i w_i k(y_l, x_i) of points in units of sigma: (m,)."""
    return sums(scaled(y, 1.0, kernel), scaled(x, 1.0, kernel), w[:, None], kernel)[:, 0]


def _kernel_column(y: F64, j: int, kernel: str) -> F64:
    """k(y_i, y_j) of points in units of sigma: (n,)."""
    return kernel_matrix(y, y[j : j + 1], 1.0, kernel)[:, 0]
