"""Hausdorff and Chamfer distances, based on the distance of each point to the nearest point of the other set.

    h(X, Y) = mean_x min_y |x - y|,    modified Hausdorff = max(h(X, Y), h(Y, X))    (Dubuisson and Jain 1994)

For weighted sets, means are weighted, with weights that sum to one; points of weight zero are ignored. Equation 2 of
the D2KE paper swaps M and N and divides each sum by the size of the other set; here each sum is a mean. Distances are
float32 with a relative error of about (d + 4) 1e-7, even for close points; their sums are float64. Squares exceed the
range of float32 for distances above 1e19 or below 1e-19. Cost: n m d multiply-adds per pair, 64 landmarks at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist._numba.compilation import FMA, inline_jit, jit
from dkdist._numba.elementary import (
    LANDMARK_BATCH_SIZE,
    TILE_POINTS,
    PackedLandmarks,
    drop_zero_weights,
    f32,
    load_tile,
    max_set_size,
    pack_landmarks,
    squared_distances,
)
from dkdist._numba.points import read_only, set_arrays, total_weight
from dkdist._numba.simd import SIMD_WIDTH, full, load, smaller, store
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.distances.base import Distance

INF = f32(np.inf)  # neutral element of the minimum (tests/distances/test_hausdorff.py)


class _MeanDistance(Distance):
    takes_weights = squares_coordinates = True

    def prepare(self, points: F32, offsets: I64, weights: F32 | None) -> PackedLandmarks:
        """Pack the landmarks."""
        return pack_landmarks(points, offsets, weights)


@serializable("ModifiedHausdorff")
@dataclass(frozen=True)
class ModifiedHausdorff(_MeanDistance):
    """Maximum of h(X, Y) and h(Y, X), the mean distances to the nearest point (Dubuisson and Jain 1994).

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> sets = [np.array([[0.0], [1.0]]), np.array([[3.0]])]
    >>> round(float(dk.distance_matrix(sets, distance=dk.ModifiedHausdorff())[0, 1]), 4)
    2.5
    """

    def fill(self, packed: PackedLandmarks, points: F32, offsets: I64, weights: F32 | None, out: F32) -> None:
        """Compute out[i, j], the distance of set i to landmark j."""
        backward = np.empty_like(out)
        _fill_means(packed, points, offsets, weights, False, out, backward)
        np.maximum(out, backward, out=out)


@serializable("DirectedModifiedHausdorff")
@dataclass(frozen=True)
class DirectedModifiedHausdorff(_MeanDistance):
    """Two features, h(X, Y) and h(Y, X): mean distances from the set to the landmark, and from the landmark to the set.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> sets = [np.array([[0.0], [1.0]]), np.array([[3.0]])]
    >>> model = dk.DistanceEmbedding(dk.DirectedModifiedHausdorff(), "object", 2, gamma=0, random_state=0)
    >>> model.fit_transform(sets).shape  # h(set, omega) and h(omega, set) for two landmarks
    (2, 4)
    """

    n_parts = 2

    def fill(self, packed: PackedLandmarks, points: F32, offsets: I64, weights: F32 | None, out: F32) -> None:
        """Compute both directed distances of sets to landmarks: out (n, 2R)."""
        R = packed.n_omegas
        _fill_means(packed, points, offsets, weights, False, out[:, :R], out[:, R:])


@serializable("Chamfer")
@dataclass(frozen=True)
class Chamfer(_MeanDistance):
    """Sum of both mean squared distances to the nearest point, or of both mean distances with ``squared=False``.

    This is the usual definition for point clouds (Fan, Su and Guibas 2017; PyTorch3D's ``chamfer_distance``).

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> sets = [np.array([[0.0], [1.0]]), np.array([[3.0]])]
    >>> round(float(dk.distance_matrix(sets, distance=dk.Chamfer())[0, 1]), 4)
    10.5
    """

    squared: bool = True

    def __post_init__(self) -> None:
        check_bool("squared", self.squared)

    def fill(self, packed: PackedLandmarks, points: F32, offsets: I64, weights: F32 | None, out: F32) -> None:
        """Compute out[i, j], the distance of set i to landmark j."""
        backward = np.empty_like(out)
        _fill_means(packed, points, offsets, weights, self.squared, out, backward)
        out += backward


@serializable("Hausdorff")
@dataclass(frozen=True)
class Hausdorff(Distance):
    """Largest distance of a point to the other set: max(max_x min_y |x - y|, max_y min_x |x - y|).

    Weights raise ValueError, because a single point determines the distance. `ModifiedHausdorff` accepts weights.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> sets = [np.array([[0.0], [1.0]]), np.array([[3.0]])]
    >>> round(float(dk.distance_matrix(sets, distance=dk.Hausdorff())[0, 1]), 4)
    3.0
    """

    squares_coordinates = True

    def prepare(self, points: F32, offsets: I64, weights: F32 | None) -> PackedLandmarks:
        """Pack the landmarks."""
        self.reject_weights(weights)
        return pack_landmarks(points, offsets, None)

    def fill(self, packed: PackedLandmarks, points: F32, offsets: I64, weights: F32 | None, out: F32) -> None:
        """Compute out[i, j], the distance of set i to landmark j."""
        self.reject_weights(weights)
        _fill_largest(read_only(points), read_only(offsets), packed.Y, packed.starts, packed.columns, out)


def _fill_means(
    packed: PackedLandmarks,
    points: F32,
    offsets: I64,
    weights: F32 | None,
    squared: bool,
    forward: F32,
    backward: F32,
) -> None:
    """Set forward = h(X, Y) and backward = h(Y, X), both (n, R)."""
    points, offsets, weights = drop_zero_weights(points, offsets, weights)
    omegas = packed.Y, packed.weights, packed.starts, packed.columns, packed.totals
    _mean_distances(*set_arrays(points, offsets, weights), *omegas, squared, forward, backward)


@inline_jit()
def _update_nearest(X, n, Y, d, sqdist_x, sqdist_y):  # type: ignore[no-untyped-def]
    """Set ``sqdist_x`` to the squared distances of n points to each landmark, and update the reverse ``sqdist_y``."""
    for lane in range(0, LANDMARK_BATCH_SIZE, SIMD_WIDTH):
        for i in range(0, n, 4):
            n0 = n1 = n2 = n3 = full(INF, 1, SIMD_WIDTH)
            for t in range(len(Y)):
                at, y = t * LANDMARK_BATCH_SIZE + lane, t * d * LANDMARK_BATCH_SIZE + lane
                s0, s1, s2, s3 = squared_distances(X, i * d, d, 1, Y, y, LANDMARK_BATCH_SIZE, d)
                n0, n1, n2, n3 = smaller(n0, s0), smaller(n1, s1), smaller(n2, s2), smaller(n3, s3)
                nearest = smaller(smaller(s0, s1), smaller(s2, s3))
                store(smaller(load(sqdist_y, at, 0, 1, SIMD_WIDTH), nearest), sqdist_y, at, 0)
            at = i * LANDMARK_BATCH_SIZE + lane
            store(n0, sqdist_x, at, 0)
            store(n1, sqdist_x, at + LANDMARK_BATCH_SIZE, 0)
            store(n2, sqdist_x, at + 2 * LANDMARK_BATCH_SIZE, 0)
            store(n3, sqdist_x, at + 3 * LANDMARK_BATCH_SIZE, 0)


@inline_jit(FMA)
def _add_weighted(weight, squares, squared, sums):  # type: ignore[no-untyped-def]
    """Add distances times a weight to float64 sums."""
    if squared:
        for lane in range(LANDMARK_BATCH_SIZE):
            sums[lane] += weight * np.float64(squares[lane])
    else:
        for lane in range(LANDMARK_BATCH_SIZE):
            sums[lane] += weight * np.float64(np.sqrt(squares[lane]))


@inline_jit(FMA)
def _add_lane_weighted(weights, squares, squared, sums):  # type: ignore[no-untyped-def]
    """Add distances times each lane's weight to float64 sums."""
    if squared:
        for lane in range(LANDMARK_BATCH_SIZE):
            sums[lane] += weights[lane] * np.float64(squares[lane])
    else:
        for lane in range(LANDMARK_BATCH_SIZE):
            sums[lane] += weights[lane] * np.float64(np.sqrt(squares[lane]))


@jit(FMA)
def _mean_distances(  # type: ignore[no-untyped-def]
    points,
    offsets,
    weights,
    weighted,
    Y,
    landmark_weights,
    starts,
    columns,
    totals,
    squared,
    forward,
    backward,
):
    d = points.shape[1]
    X = np.empty((TILE_POINTS, d), f32)
    sqdist_x, sqdist_y = (
        np.empty((TILE_POINTS, LANDMARK_BATCH_SIZE), f32),
        np.empty((max_set_size(starts), LANDMARK_BATCH_SIZE), f32),
    )
    d_xy, d_yx = np.empty(LANDMARK_BATCH_SIZE), np.empty(LANDMARK_BATCH_SIZE)
    for b in range(len(columns)):
        y, v = Y[starts[b] : starts[b + 1]], landmark_weights[starts[b] : starts[b + 1]]
        for s in range(len(forward)):
            start, stop = offsets[s], offsets[s + 1]
            total = total_weight(weights, weighted, start, stop)
            sqdist_y[:] = INF
            d_xy[:] = 0.0
            d_yx[:] = 0.0
            for first in range(start, stop, TILE_POINTS):
                m = min(TILE_POINTS, stop - first)
                n = load_tile(points, first, m, X)
                _update_nearest(X, n, y, d, sqdist_x, sqdist_y)
                for i in range(m):
                    _add_weighted(weights[first + i] if weighted else 1.0, sqdist_x[i], squared, d_xy)
            for t in range(len(y)):
                _add_lane_weighted(v[t], sqdist_y[t], squared, d_yx)
            for lane in range(LANDMARK_BATCH_SIZE):
                j = columns[b, lane]
                if j >= 0:
                    forward[s, j] = f32(d_xy[lane] / total)
                    backward[s, j] = f32(d_yx[lane] / totals[b, lane])


@jit(FMA)
def _fill_largest(points, offsets, Y, starts, columns, out):  # type: ignore[no-untyped-def]
    d = points.shape[1]
    X = np.empty((TILE_POINTS, d), f32)
    sqdist_x, sqdist_y = (
        np.empty((TILE_POINTS, LANDMARK_BATCH_SIZE), f32),
        np.empty((max_set_size(starts), LANDMARK_BATCH_SIZE), f32),
    )
    largest = np.empty(LANDMARK_BATCH_SIZE, f32)
    for b in range(len(columns)):
        y = Y[starts[b] : starts[b + 1]]
        for s in range(len(out)):
            start, stop = offsets[s], offsets[s + 1]
            sqdist_y[:] = INF
            largest[:] = f32(0.0)
            for first in range(start, stop, TILE_POINTS):
                m = min(TILE_POINTS, stop - first)
                n = load_tile(points, first, m, X)
                _update_nearest(X, n, y, d, sqdist_x, sqdist_y)
                for i in range(m):
                    for lane in range(LANDMARK_BATCH_SIZE):
                        largest[lane] = max(largest[lane], sqdist_x[i, lane])
            for t in range(len(y)):
                for lane in range(LANDMARK_BATCH_SIZE):
                    largest[lane] = max(largest[lane], sqdist_y[t, lane])
            for lane in range(LANDMARK_BATCH_SIZE):
                if columns[b, lane] >= 0:
                    out[s, columns[b, lane]] = np.sqrt(largest[lane])
