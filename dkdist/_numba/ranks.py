"""Nearest-neighbour distances and counts of sets of points, and ranks of points.

Distances are Euclidean, in float64. The closed ball around a point has the distance to its k-th neighbour as radius,
enlarged by a factor of 1 + 1e-9, so that it contains ties despite rounding errors.

Ranks are the mid-distribution function (Parzen 2004), F(x) = P(X < x) + P(X = x) / 2: equal values share a rank.
Between knots (values with the weight below and up to each) F is linear. Points with weight 0 are ignored; in an empty
set, ranks are 1.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from dkdist._numba.arrays import F64
from dkdist._numba.compilation import inline_jit, jit


@inline_jit()
def sorted_column(points, j, start, stop, weights, weighted):  # type: ignore[no-untyped-def]
    """Return sorted values of one column and their cumulative weights, without values of weight 0."""
    x, w = np.empty(stop - start), np.empty(stop - start)
    n = 0
    for i in range(start, stop):
        x[n] = points[i, j]
        w[n] = weights[i] if weighted else 1.0
        n += w[n] > 0
    order = np.argsort(x[:n], kind="mergesort")
    return x[:n][order], np.cumsum(w[:n][order])


@inline_jit()
def _knots(x, cumulative):  # type: ignore[no-untyped-def]
    """Return unique values of sorted values, and the fractions of weight below and up to each."""
    values, below, up_to = np.empty(len(x)), np.empty(len(x)), np.empty(len(x))
    k, previous = -1, 0.0
    for i in range(len(x)):
        if i == 0 or x[i] > x[i - 1]:
            k += 1
            values[k], below[k] = x[i], previous / cumulative[-1]
        previous = cumulative[i]
        up_to[k] = previous / cumulative[-1]
    return values[: k + 1], below[: k + 1], up_to[: k + 1]


@inline_jit()
def _rank(v, values, below, up_to):  # type: ignore[no-untyped-def]
    """Return the mid-distribution function at v: linear between knots, 0 before the first and 1 after the last."""
    k = np.searchsorted(values, v)
    if k == len(values):
        return 1.0
    if values[k] == v:
        return (below[k] + up_to[k]) / 2
    if k == 0:
        return 0.0
    fraction = (v - values[k - 1]) / (values[k] - values[k - 1])
    return up_to[k - 1] + fraction * (below[k] - up_to[k - 1])


@jit()
def column_knots(points, j, weights, weighted):  # type: ignore[no-untyped-def]
    """Return the knots of one column of all points."""
    x, cumulative = sorted_column(points, j, 0, len(points), weights, weighted)
    return _knots(x, cumulative)


@jit()
def rank_column(points, j, values, below, up_to, out):  # type: ignore[no-untyped-def]
    """Set out[:, j] = ranks of one column among knots."""
    for i in range(len(points)):
        out[i, j] = _rank(float(points[i, j]), values, below, up_to)


@jit()
def rank_sets(points, offsets, sample, sample_offsets, weights, weighted, out):  # type: ignore[no-untyped-def]
    """Set out = ranks of each point within the sample of its set."""
    for s in range(len(offsets) - 1):
        for j in range(points.shape[1]):
            x, cumulative = sorted_column(
                sample, j, sample_offsets[s], sample_offsets[s + 1], weights, weighted
            )
            values, below, up_to = _knots(x, cumulative)
            for i in range(offsets[s], offsets[s + 1]):
                out[i, j] = _rank(float(points[i, j]), values, below, up_to)


# enlarges radii to contain ties despite rounding (tests/pairs/test_nearest_neighbour_estimators.py)
TIE_FACTOR = 1 + 1e-9


class NeighbourTree:
    """Set of n points with its k-d tree; distances within the set are cached for each k."""

    def __init__(self, points: NDArray[np.generic]) -> None:
        self.points = np.ascontiguousarray(points, np.float64)
        self.tree = cKDTree(self.points)
        self._distances: dict[int, F64] = {}
        self._counts: dict[int, F64] = {}

    def __len__(self) -> int:
        return len(self.points)

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return int(self.points.shape[1])

    def own_distances(self, k: int) -> F64:
        """Return the distance of each point to its k-th neighbour among the n - 1 others: (n,)."""
        if k not in self._distances:
            self._distances[k] = self.tree.query(self.points, [k + 1])[0][:, 0]
        return self._distances[k]

    def own_counts(self, k: int) -> F64:
        """Return the number of other points in each point's ball: k, or more with ties."""
        if k not in self._counts:
            self._counts[k] = self.counts(self, k) - 1.0
        return self._counts[k]

    def distances(self, other: NeighbourTree, k: int) -> F64:
        """Return the distance of each point to its k-th neighbour in another set: (n,)."""
        return np.asarray(other.tree.query(self.points, [k])[0][:, 0])

    def counts(self, other: NeighbourTree, k: int) -> F64:
        """Return the number of points of ``other`` in each point's ball, with radius `own_distances`: (n,)."""
        result = other.tree.query_ball_point(
            self.points, self.own_distances(k) * TIE_FACTOR, return_length=True
        )
        return np.asarray(result, np.float64)

    @cached_property
    def least_distance(self) -> float:
        """Smallest distance between different points; 0 if all points coincide."""
        unique_points = np.unique(self.points, axis=0)
        return (
            float(cKDTree(unique_points).query(unique_points, [2])[0].min())
            if len(unique_points) > 1
            else 0.0
        )
