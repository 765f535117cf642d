"""Nearest neighbours of one set of points in itself and in another: what k-NN estimators are made of.

Distances are Euclidean, in float64. A closed ball around a point reaches to its k-th neighbour in its own set; the
radius is widened by one part in 10^9, so that points at equal distances are in it together, whatever is rounded.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from dkdist.loops.array_types import F64

TIE = 1 + 1e-9


class Cloud:
    """A set of n points with its tree; distances within it are found once for each k."""

    def __init__(self, points: NDArray[np.generic]) -> None:
        self.points = np.ascontiguousarray(points, np.float64)
        self.tree = cKDTree(self.points)
        self._distances: dict[int, F64] = {}
        self._counts: dict[int, F64] = {}

    def __len__(self) -> int:
        return len(self.points)

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return int(self.points.shape[1])

    def own_distances(self, k: int) -> F64:
        """Distance of each point to its k-th neighbour among the n - 1 others: (n,)."""
        if k not in self._distances:
            self._distances[k] = self.tree.query(self.points, [k + 1])[0][:, 0]
        return self._distances[k]

    def own_counts(self, k: int) -> F64:
        """Other points in the closed ball that reaches to the k-th neighbour: k, or more where there are ties."""
        if k not in self._counts:
            self._counts[k] = self.counts(self, k) - 1.0
        return self._counts[k]

    def distances(self, to: Cloud, k: int) -> F64:
        """Distance of each point to its k-th neighbour in another set: (n,)."""
        return np.asarray(to.tree.query(self.points, [k])[0][:, 0])

    def counts(self, of: Cloud, k: int) -> F64:
        """Points of another set in each point's ball, which reaches to its k-th neighbour in its own: (n,)."""
        found = of.tree.query_ball_point(self.points, self.own_distances(k) * TIE, return_length=True)
        return np.asarray(found, np.float64)

    @cached_property
    def least_distance(self) -> float:
        """The smallest distance between different points; 0 if all points coincide."""
        different = np.unique(self.points, axis=0)
        return float(cKDTree(different).query(different, [2])[0].min()) if len(different) > 1 else 0.0
