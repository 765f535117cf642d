"""What each dimension of a set adds to a prediction, against sets that it is compared with.

    v(S) = mean over background sets R of f(points with the columns S of P and the other columns of R)

and each dimension's contribution is its Shapley value of the game v (`dkdist.explaining.coalitions`): they sum to
f(P) less the mean prediction of the background, R being drawn to as many points as P has. A dimension that f does not
look at gets zero, two that f treats alike get the same, and contributions to a sum of functions add up. Nothing is
differentiated: all embeddings are taken as they are. Points of P and R are paired at random, so that columns of
different sets are independent of each other; series keep their order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dkdist.base.influence import shares
from dkdist.base.roles import Role
from dkdist.explaining.coalitions import coalitions
from dkdist.explaining.set_function import SetFunction
from dkdist.loops.array_types import F32, F64, I64
from dkdist.sets import SampleSets

POINTS_AT_ONCE = 2**20  # of coalitions that are looked at together


def dimension_contributions(
    function: SetFunction, background: SampleSets, seed: int, sets: SampleSets, first: int
) -> list[F64]:
    """(d, k) of every set; ``first`` is the position of set 0."""
    function.require(sets, first)
    return [_of_one(function, background, seed, sets[i : i + 1]) for i in range(len(sets))]


def _of_one(function: SetFunction, background: SampleSets, seed: int, one: SampleSets) -> F64:
    total = np.zeros((one.n_dims, len(function.constant)))
    for i in range(len(background)):
        rng = np.random.default_rng([seed, Role.COALITIONS, i])
        plan = coalitions(one.n_dims, rng)
        others = _drawn(background[i : i + 1], one.n_points, None if function.ordered else rng)
        total += plan.weights @ _values(function, one, others, plan.kept)
    return total / len(background)


def _values(function: SetFunction, one: SampleSets, others: F32, kept: NDArray[np.bool_]) -> F64:
    """(q, k) of the set with the columns that each coalition keeps, and those of the others."""
    step = max(1, POINTS_AT_ONCE // one.n_points)
    parts = [
        function.values(_mixed(one, others, kept[start : start + step]))
        for start in range(0, len(kept), step)
    ]
    return np.concatenate(parts)


def _mixed(one: SampleSets, others: F32, kept: NDArray[np.bool_]) -> SampleSets:
    points = np.where(kept[:, None, :], one.relative, others).reshape(-1, one.n_dims)
    weights = (
        None if one.weights is None else np.tile(one.weights, (len(kept), *[1] * (one.weights.ndim - 1)))
    )
    offsets = np.arange(len(kept) + 1) * one.n_points
    return SampleSets._trusted(points, offsets, weights, None, one.origin)


def _drawn(one: SampleSets, n: int, rng: np.random.Generator | None) -> F32:
    """n of the set's points, at even steps of its weight; in a random order, or without ``rng`` in their own."""
    order: I64 = np.arange(one.n_points) if rng is None else rng.permutation(one.n_points)
    upto = np.cumsum(shares(one)[order])
    chosen = np.searchsorted(upto, (np.arange(n) + 0.5) / n * upto[-1])
    points: F32 = one.relative[order[np.minimum(chosen, one.n_points - 1)]]
    return points
