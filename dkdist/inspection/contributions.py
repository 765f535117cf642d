"""What each point of a set adds to a prediction, and what a point at another place would.

    c_i = u_i (f(P) - reference + G . IF_row(x_i)),    sum_i c_i = f(P) - reference

with u the weights of the points over their sum, IF_row the influence of a point on the row (`dkdist._base.influence`):
how fast the row moves when the point counts more and all others less, and G the gradient of f by the row, averaged over
the path to the row of P from a mean row r_0 of background sets (`dkdist.inspection.set_function`). Where rows are
means over points, c_i = u_i (f(r_0) - reference + G . (row(x_i) - r_0)); where f is linear in them too,
c_i = u_i coef . row(x_i) with the intercept as reference, whatever the background. Elsewhere rows are of first order in
the points.

Which dimensions are kept together, and how values of such coalitions make a Shapley value for each dimension.

    phi_j = sum over S without j of |S|! (d - |S| - 1)! / d! (v(S and j) - v(S)),    sum_j phi_j = v(all) - v(none)

Up to six dimensions every coalition is looked at. Beyond, dimensions join one by one in a random order and in its
reverse: the mean over orders is phi, and the sum is exact for every single order. (Shapley 1953; Strumbelj, Kononenko:
Explaining prediction models and individual predictions with feature contributions (2014); Mitchell et al.: Sampling
permutations for Shapley value estimation (2022), for orders and their reverses.)

What each dimension of a set adds to a prediction, against sets that it is compared with.

    v(S) = mean over background sets R of f(points with the columns S of P and the other columns of R)

and each dimension's contribution is its Shapley value of the game v (`dkdist.inspection.contributions`): they sum to
f(P) less the mean prediction of the background, R being drawn to as many points as P has. A dimension that f does not
look at gets zero, two that f treats alike get the same, and contributions to a sum of functions add up. Nothing is
differentiated: all embeddings are taken as they are. Points of P and R are paired at random, so that columns of
different sets are independent of each other; series keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from dkdist._base.influence import weight_fractions
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist.inspection.set_function import PathBackground, SetFunction
from dkdist.sets import SampleSets

MOST_EXACT = 6  # dimensions, of which all 2^d coalitions are looked at


@dataclass(frozen=True)
class Coalitions:
    """``kept`` (q, d): which dimensions each coalition keeps; the dimensions' values are ``weights`` (d, q) @ v."""

    kept: NDArray[np.bool_]
    weights: F64


def coalitions(n_dims: int, rng: np.random.Generator) -> Coalitions:
    """All of them for few dimensions, else those of a random order and its reverse."""
    return _every(n_dims) if n_dims <= MOST_EXACT else _of_order(rng.permutation(n_dims))


def _every(d: int) -> Coalitions:
    kept = np.array([[bool(code >> j & 1) for j in range(d)] for code in range(2**d)])
    size = kept.sum(axis=1)
    share = np.array([factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)])
    joins, lacks = share[np.maximum(size - 1, 0)], share[np.minimum(size, d - 1)]
    return Coalitions(kept, np.where(kept, joins[:, None], -lacks[:, None]).T)


def _of_order(order: NDArray[np.integer]) -> Coalitions:
    d = len(order)
    walks = [np.arange(d) < k for k in range(d + 1)]
    kept = np.zeros((2 * (d + 1), d), np.bool_)
    weights = np.zeros((d, len(kept)))
    for walk, path in enumerate((order, order[::-1])):
        start = walk * (d + 1)
        kept[start : start + d + 1, path] = walks
        weights[path, start + np.arange(1, d + 1)] = 0.5
        weights[path, start + np.arange(d)] = -0.5
    return Coalitions(kept, weights)


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
        rng = np.random.default_rng([seed, RngStream.COALITIONS, i])
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
    upto = np.cumsum(weight_fractions(one)[order])
    chosen = np.searchsorted(upto, (np.arange(n) + 0.5) / n * upto[-1])
    points: F32 = one.relative[order[np.minimum(chosen, one.n_points - 1)]]
    return points


def point_contributions(
    function: SetFunction, reference: F64, background: PathBackground | None, sets: SampleSets, first: int
) -> list[F64]:
    """(n_i, k) of every set, which sum to its values less the ``reference`` (k,); ``first`` is set 0's position."""
    function.require(sets, first)
    return [
        np.asarray(weight_fractions(one)[:, None] * (value - reference + influence))
        for one, value, influence in function.path_influences(sets, background)
    ]


def influence_at(function: SetFunction, at: F32, sets: SampleSets, first: int) -> list[F64]:
    """(q, k) of every set: how fast its values would rise if points came in at places ``at`` (q, d).

    The weighted mean over a set's own points is zero. Raises ValueError where no derivative is known.
    """
    function.require(sets, first)
    return list(function.local_influences(sets, at))
