"""Union of the coresets of parts, and its thinning by exact kernel sums.

Thinning replaces the mean mu = sum_i w_i phi(x_i) by a mean of fewer points x_j with weights v. It needs only

    b_j = <mu, phi(x_j)> = sum_i w_i k(x_i, x_j),   |mu|^2 = w.b,   D^2 = w.b - 2 v.b + v.K v
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist.coresets._coreset_numba import certain_points, sample_strata, spatial_order
from dkdist.coresets._tuning import MAX_EXTRA_MERGE_POINTS, MERGE_SIZE_RATIO
from dkdist.coresets.selection import ROUNDING_RATIO, optimize_weights, quadratic_objective
from dkdist.kernels.kernel_sums import summed_matrix, summed_sums


class CoresetUnion(NamedTuple):
    """Weighted points (m, d) that represent ``n_points`` points: signed weights and a bound on the kernel distance.

    ``selection_weights`` >= 0 are the weights of the selection, before optimal weights of both signs. ``total`` is the
    total weight of the represented points, None for points without weights.
    """

    indices: I64
    weights: F64
    distance: float
    points: F64
    selection_weights: F64
    n_points: int
    total: float | None


def concatenate_unions(parts: list[CoresetUnion]) -> CoresetUnion:
    """Concatenate parts, each weighted by its total weight or its number of points."""
    n = [part.n_points for part in parts]
    firsts = np.cumsum([0, *n[:-1]])
    scales = [1.0 if part.total is not None else part.n_points / sum(n) for part in parts]
    scaled_parts = list(zip(scales, parts, strict=True))
    totals = [part.total for part in parts if part.total is not None]
    return CoresetUnion(
        np.concatenate([part.indices + first for part, first in zip(parts, firsts, strict=True)]),
        np.concatenate([scale * part.weights for scale, part in scaled_parts]),
        float(sum(scale * part.distance for scale, part in scaled_parts)),
        np.concatenate([part.points for part in parts]),
        np.concatenate([scale * part.selection_weights for scale, part in scaled_parts]),
        sum(n),
        sum(totals) if totals else None,
    )


def merge_size(size: int) -> int:
    """Return the size of an intermediate coreset for a final ``size``."""
    return min(MERGE_SIZE_RATIO * size, size + MAX_EXTRA_MERGE_POINTS)


def reduce_unions(
    parts: list[CoresetUnion], size: int, sigmas: tuple[float, ...], kernel: str
) -> CoresetUnion:
    """Concatenate parts, thinning them in a tree if they exceed twice the intermediate size for ``size``."""
    max_points, union = merge_size(size), concatenate_unions(parts)
    if len(union.weights) <= 2 * max_points:
        return union
    if len(parts) == 1:
        return thin_union(union, max_points, sigmas, kernel, optimal=True)
    half = len(parts) // 2
    halves = [reduce_unions(part, size, sigmas, kernel) for part in (parts[:half], parts[half:])]
    return concatenate_unions(
        [
            part
            if len(part.weights) <= max_points
            else thin_union(part, max_points, sigmas, kernel, optimal=True)
            for part in halves
        ]
    )


def thin_union(
    union: CoresetUnion,
    size: int,
    sigmas: tuple[float, ...],
    kernel: str,
    *,
    optimal: bool,
    rounds: int = 0,
    seed: int = 0,
) -> CoresetUnion:
    """Choose ``size`` points of a union, with ``rounds`` of swaps, and equal or ``optimal`` signed weights.

    By the triangle inequality, the distance to the whole set is at most the sum of the distances set - union and
    union - result.
    """
    x, w = union.points - union.points.mean(axis=0), union.weights
    overlaps = summed_sums(x, x, w, sigmas, kernel)
    space = _KernelSpace(x / max(sigmas), tuple(sigma / max(sigmas) for sigma in sigmas), kernel)
    chosen, selection_weights = _choose_points(space, union.selection_weights, overlaps, size, rounds, seed)
    K, b = summed_matrix(x[chosen], x[chosen], sigmas, kernel), overlaps[chosen]
    weights = optimize_weights(K, b, selection_weights) if optimal else selection_weights
    squared_distance = max(0.0, float(w @ overlaps) + quadratic_objective(K, b, weights))
    rounding = ROUNDING_RATIO * float(np.abs(w).sum() + np.abs(weights).sum()) ** 2
    distance = union.distance + float(np.sqrt(squared_distance + rounding))
    return CoresetUnion(
        union.indices[chosen],
        weights,
        distance,
        union.points[chosen],
        selection_weights,
        union.n_points,
        union.total,
    )


class _KernelSpace(NamedTuple):
    """Points (n, d) and bandwidths in units of the largest bandwidth, and the kernel."""

    x: F64
    sigmas: tuple[float, ...]
    kernel: str

    def sums(self, rows: I64, w: F64) -> F64:
        """Return sum_i w_i k(x_l, x_i) of some points at all points: (n,)."""
        return summed_sums(self.x, self.x[rows], w, self.sigmas, self.kernel)

    def column(self, j: int) -> F64:
        """Return k(x_i, x_j), (n,)."""
        return summed_matrix(self.x, self.x[j : j + 1], self.sigmas, self.kernel)[:, 0]


def _choose_points(
    space: _KernelSpace, weights: F64, b: F64, size: int, rounds: int, seed: int
) -> tuple[I64, F64]:
    """Return (positions, weights): heavy points with their weight; one point per region, swapped, with equal weights.

    With n points of weight W / n each and t_j their sum of k(., x_j), replacing one point by p changes D^2 by
    2 (W / n)^2 (t_p - n b_p / W) plus terms that do not depend on p.
    """
    heavy = certain_points(weights, size)
    light, n = np.delete(np.arange(len(space.x)), heavy), size - len(heavy)
    y, light_weights = space.x[light], weights[light]
    order, W = spatial_order(y.astype(np.float32)), float(light_weights.sum())
    chosen = order[sample_strata(light_weights[order], n, np.full(n, 0.5))]
    if rounds:
        target = (n / W) * (b - space.sums(heavy, weights[heavy]))[light]
        rng = np.random.default_rng([seed, RngStream.CORESET])
        _swap_points(space._replace(x=y), target, chosen, rounds, rng)
    return np.concatenate([heavy, light[chosen]]), np.concatenate([weights[heavy], np.full(n, W / n)])


def _swap_points(
    space: _KernelSpace, target: F64, chosen: I64, rounds: int, rng: np.random.Generator
) -> None:
    """Replace points of ``chosen`` in place by points whose kernel sums come nearest to ``target`` (n,)."""
    excess = space.sums(chosen, np.ones(len(chosen))) - target
    penalty = np.zeros(len(space.x))
    penalty[chosen] = np.inf
    for _ in range(rounds):
        before = chosen.copy()
        for c in rng.permutation(len(chosen)):
            excess -= space.column(chosen[c])
            penalty[chosen[c]] = 0
            chosen[c] = np.argmin(excess + penalty)
            penalty[chosen[c]] = np.inf
            excess += space.column(chosen[c])
        if (chosen == before).all():
            break
