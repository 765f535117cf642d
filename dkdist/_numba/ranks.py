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

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.elementary import minimum

# rows of a workspace: sorted values, cumulative weights, two buffers of the sort, and three of `_fill_knots`
# (tests/scaling/test_set_scaler.py)
N_WORKSPACE_ROWS = 7


def sort_workspace(offsets: I64) -> F64:
    """Return buffers for `sorted_column` for the largest set; numba compiles faster without allocations."""
    return np.empty((N_WORKSPACE_ROWS, int(np.diff(offsets).max(initial=0))))


@inline_jit(early=False)
def sort_with_weights(x, w, n, x_buffer, w_buffer):  # type: ignore[no-untyped-def]
    """Sort x[:n] and w[:n] by x, stable (merge sort); `np.argsort` takes 1.5 s to compile."""
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = minimum(start + width, n), minimum(start + 2 * width, n)
            i, k = start, middle
            for target in range(start, stop):
                if i < middle and (k >= stop or x[i] <= x[k]):
                    x_buffer[target], w_buffer[target] = x[i], w[i]
                    i += 1
                else:
                    x_buffer[target], w_buffer[target] = x[k], w[k]
                    k += 1
        for i in range(n):
            x[i], w[i] = x_buffer[i], w_buffer[i]
        width *= 2


@inline_jit(early=False)
def count_below(x, n, limit):  # type: ignore[no-untyped-def]
    """Return how many of the sorted values x[:n] are below a limit."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if x[middle] < limit:
            low = middle + 1
        else:
            high = middle
    return low


@inline_jit(early=False)
def sorted_column(points, j, start, stop, weights, weighted, workspace):  # type: ignore[no-untyped-def]
    """Fill workspace[0] with sorted values of one column, workspace[1] with cumulative weights; return their number.

    Values of weight 0 are omitted.
    """
    x, w = workspace[0], workspace[1]
    n = 0
    for i in range(start, stop):
        x[n] = points[i, j]
        w[n] = weights[i] if weighted else 1.0
        n += w[n] > 0
    sort_with_weights(x, w, n, workspace[2], workspace[3])
    for i in range(1, n):
        w[i] += w[i - 1]
    return n


@inline_jit(early=False)
def _fill_knots(points, j, start, stop, weights, weighted, workspace):  # type: ignore[no-untyped-def]
    """Fill workspace[4:7] with unique values and the fractions of weight below and up to each; return their number."""
    n = sorted_column(points, j, start, stop, weights, weighted, workspace)
    x, cumulative = workspace[0], workspace[1]
    values, below, up_to = workspace[4], workspace[5], workspace[6]
    k, previous = -1, 0.0
    for i in range(n):
        if i == 0 or x[i] > x[i - 1]:
            k += 1
            values[k], below[k] = x[i], previous / cumulative[n - 1]
        previous = cumulative[i]
        up_to[k] = previous / cumulative[n - 1]
    return k + 1


@inline_jit(early=False)
def _rank(v, values, below, up_to, n):  # type: ignore[no-untyped-def]
    """Return the mid-distribution function at v: linear between knots, 0 before the first and 1 after the last."""
    k = count_below(values, n, v)
    if k == n:
        return 1.0
    if values[k] == v:
        return (below[k] + up_to[k]) / 2
    if k == 0:
        return 0.0
    fraction = (v - values[k - 1]) / (values[k] - values[k - 1])
    return up_to[k - 1] + fraction * (below[k] - up_to[k - 1])


def column_knots(points: F32, j: int, weights: F32, weighted: bool) -> F64:
    """Return the knots of one column of all points: (3, n) values, fractions of weight below and up to each."""
    workspace = sort_workspace(np.array([0, len(points)]))
    n = _column_knots(points, j, weights, weighted, workspace)
    return workspace[4:, :n]


@jit()
def _column_knots(points, j, weights, weighted, workspace):  # type: ignore[no-untyped-def]
    return _fill_knots(points, j, 0, len(points), weights, weighted, workspace)


@jit()
def rank_column(points, j, values, below, up_to, out):  # type: ignore[no-untyped-def]
    """Set out[:, j] = ranks of one column among knots."""
    for i in range(len(points)):
        out[i, j] = _rank(float(points[i, j]), values, below, up_to, len(values))


def rank_sets(
    points: F32, offsets: I64, sample: F32, sample_offsets: I64, weights: F32, weighted: bool, out: F32 | F64
) -> None:
    """Set out = ranks of each point within the sample of its set."""
    arrays = points, offsets, sample, sample_offsets, weights, weighted
    _rank_sets(*arrays, sort_workspace(sample_offsets), out)


@jit()
def _rank_sets(points, offsets, sample, sample_offsets, weights, weighted, workspace, out):  # type: ignore[no-untyped-def]
    for s in range(len(offsets) - 1):
        start, stop = sample_offsets[s], sample_offsets[s + 1]
        for j in range(points.shape[1]):
            n = _fill_knots(sample, j, start, stop, weights, weighted, workspace)
            for i in range(offsets[s], offsets[s + 1]):
                out[i, j] = _rank(float(points[i, j]), workspace[4], workspace[5], workspace[6], n)


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
