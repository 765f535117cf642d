"""Contributions of points and of dimensions to a prediction, and the influence of points at places.

Points: with the weights u of the points, normalised to sum 1, IF_row the influence of a point on the row
(`dkdist._base.influence`), and G the gradient of f with respect to the row, averaged along the path from a mean
background row r_0 (`dkdist.inspection.set_function`),

    c_i = u_i (f(P) - reference + G . IF_row(x_i)),    sum_i c_i = f(P) - reference

If rows are means over points, c_i = u_i (f(r_0) - reference + G . (row(x_i) - r_0)); if f is also linear in them,
c_i = u_i coef . row(x_i) with the intercept as reference, for any background. Other rows are linearised in the points.

Dimensions: Shapley values of v(S) = mean over background sets R of f(points with columns S of P, others of R), with
R resampled to the number of points of P,

    phi_j = sum over S without j of |S|! (d - |S| - 1)! / d! (v(S and j) - v(S)),    sum_j phi_j = v(all) - v(none)

For up to six dimensions all coalitions are evaluated, otherwise those of a random order and its reverse. The sum over
j is exact for every order (Shapley 1953; Strumbelj, Kononenko 2014; Mitchell et al. 2022). No derivative is needed.
Points of P and R are paired at random, so columns of different sets are independent; series keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from dkdist._base.influence import weight_fractions
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64
from dkdist.inspection._tuning import MAX_EXACT_DIMS, POINTS_PER_BATCH
from dkdist.inspection.set_function import PathBackground, SetFunction
from dkdist.sets import SampleSets


@dataclass(frozen=True)
class Coalitions:
    """Columns (q, d) that each coalition takes from P; Shapley values are ``weights`` (d, q) @ v."""

    columns: NDArray[np.bool_]
    weights: F64


def draw_coalitions(n_dims: int, rng: np.random.Generator) -> Coalitions:
    """Return all coalitions of up to six dimensions, else those of a random order and its reverse."""
    return (
        _all_coalitions(n_dims) if n_dims <= MAX_EXACT_DIMS else _coalitions_of_order(rng.permutation(n_dims))
    )


def _all_coalitions(d: int) -> Coalitions:
    columns = np.array([[bool(code >> j & 1) for j in range(d)] for code in range(2**d)])
    size = columns.sum(axis=1)
    factors = np.array([factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)])
    joins, lacks = factors[np.maximum(size - 1, 0)], factors[np.minimum(size, d - 1)]
    return Coalitions(columns, np.where(columns, joins[:, None], -lacks[:, None]).T)


def _coalitions_of_order(order: NDArray[np.integer]) -> Coalitions:
    d = len(order)
    prefixes = [np.arange(d) < k for k in range(d + 1)]
    columns = np.zeros((2 * (d + 1), d), np.bool_)
    weights = np.zeros((d, len(columns)))
    for i, path in enumerate((order, order[::-1])):
        start = i * (d + 1)
        columns[start : start + d + 1, path] = prefixes
        weights[path, start + np.arange(1, d + 1)] = 0.5
        weights[path, start + np.arange(d)] = -0.5
    return Coalitions(columns, weights)


def dimension_contributions(
    function: SetFunction, background: SampleSets, seed: int, sets: SampleSets, first: int
) -> list[F64]:
    """Return contributions (d, k) of every set; ``first`` is the position of set 0."""
    function.require(sets, first)
    return [
        _contributions_of_set(function.at_set(first + i), background, seed, sets[i : i + 1])
        for i in range(len(sets))
    ]


def _contributions_of_set(
    function: SetFunction, background: SampleSets, seed: int, sample_set: SampleSets
) -> F64:
    total = np.zeros((sample_set.n_dims, len(function.constant)))
    for i in range(len(background)):
        rng = np.random.default_rng([seed, RngStream.COALITIONS, i])
        coalitions = draw_coalitions(sample_set.n_dims, rng)
        other_points = _resample_points(
            background[i : i + 1], sample_set.n_points, None if function.ordered else rng
        )
        total += coalitions.weights @ _coalition_values(
            function, sample_set, other_points, coalitions.columns
        )
    return total / len(background)


def _coalition_values(
    function: SetFunction, sample_set: SampleSets, other_points: F32, columns: NDArray[np.bool_]
) -> F64:
    """Return values (q, k) of the set with the columns of each coalition, and other columns of ``others``."""
    step = max(1, POINTS_PER_BATCH // sample_set.n_points)
    parts = [
        function.values(_mix_columns(sample_set, other_points, columns[start : start + step]))
        for start in range(0, len(columns), step)
    ]
    return np.concatenate(parts)


def _mix_columns(sample_set: SampleSets, other_points: F32, columns: NDArray[np.bool_]) -> SampleSets:
    points = np.where(columns[:, None, :], sample_set.relative, other_points).reshape(-1, sample_set.n_dims)
    weights = (
        None
        if sample_set.weights is None
        else np.tile(sample_set.weights, (len(columns), *[1] * (sample_set.weights.ndim - 1)))
    )
    offsets = np.arange(len(columns) + 1) * sample_set.n_points
    return SampleSets._trusted(points, offsets, weights, None, sample_set.origin)


def _resample_points(sample_set: SampleSets, n: int, rng: np.random.Generator | None) -> F32:
    """Return n points at even steps of the weight, in random order or, without ``rng``, in their order."""
    order: I64 = np.arange(sample_set.n_points) if rng is None else rng.permutation(sample_set.n_points)
    cumulative_weights = np.cumsum(weight_fractions(sample_set)[order])
    indices = np.searchsorted(cumulative_weights, (np.arange(n) + 0.5) / n * cumulative_weights[-1])
    points: F32 = sample_set.relative[order[np.minimum(indices, sample_set.n_points - 1)]]
    return points


def point_contributions(
    function: SetFunction, reference: F64, background: PathBackground | None, sets: SampleSets, first: int
) -> list[F64]:
    """Return contributions (n_i, k) of every set, which sum to its values minus ``reference`` (k,)."""
    function.require(sets, first)
    return [
        np.asarray(weight_fractions(sample_set)[:, None] * (value - reference + influence))
        for i in range(len(sets))
        for sample_set, value, influence in function.at_set(first + i).path_influences(
            sets[i : i + 1], background
        )
    ]


def influence_at(function: SetFunction, at: F32, sets: SampleSets, first: int) -> list[F64]:
    """Return influences (q, k) on every set: derivatives with respect to weights of new points at places ``at`` (q, d).

    Their weighted mean over the points of the set is 0. Raises ValueError without a known derivative.
    """
    function.require(sets, first)
    return [
        influence
        for i in range(len(sets))
        for influence in function.at_set(first + i).local_influences(sets[i : i + 1], at)
    ]
