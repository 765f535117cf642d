"""Energy distance of weighted sets (Szekely and Rizzo 2013), exact.

    D^2 = 2 E|X - Y| - E|X - X'| - E|Y - Y'| >= 0,    expectations over all pairs of points (V-statistic)

In one dimension D^2 = 2 int (F - G)^2, F and G the distribution functions, from sorted points. Point distances are
float32, bitwise identical in every block, and sums float64, so equal sets have distance 0 up to rounding of the sums.
Negative results of rounding are set to 0. Cost: n m d multiply-adds and n m square roots per pair, and n^2 per object;
in one dimension n + m steps per pair and n log n per object.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FMA, inline_jit, jit
from dkdist._numba.elementary import (
    LANDMARK_BATCH_SIZE,
    TILE_POINTS,
    PackedLandmarks,
    f32,
    load_tile,
    pack_landmarks,
    squared_distances,
)
from dkdist._numba.points import set_arrays, total_weight
from dkdist._numba.simd import (
    SIMD_WIDTH,
    full,
    fused,
    load,
    plus,
    square_roots,
    store,
    times,
    widened,
)
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.wasserstein import SortedSets, sort_sets


@dataclass(frozen=True)
class PackedEnergy(PackedLandmarks):
    """Packed landmarks, and E|Y - Y'| (R,) of each landmark."""

    self_distances: F64


@serializable("Energy")
@dataclass(frozen=True)
class Energy(Distance):
    """Energy distance of sets: the metric D, or D^2 with ``squared=True`` (Szekely and Rizzo 2013).

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> sets = [np.array([[0.0], [1.0]]), np.array([[3.0]])]
    >>> round(float(dk.distance_matrix(sets, distance=dk.Energy(squared=True))[0, 1]), 4)
    4.5
    """

    squared: bool = False
    takes_weights = squares_coordinates = True

    def __post_init__(self) -> None:
        check_bool("squared", self.squared)

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs of comparisons."""
        return CostModel(1, 2) if n_dims == 1 else CostModel(LANDMARK_BATCH_SIZE, 1 + 120 / sizes.mean())

    def prepare(self, points: F32, offsets: I64, weights: F32 | None) -> PackedEnergy | SortedSets:
        """Pack the landmarks, with the mean distance within each; in one dimension, sort them."""
        if points.shape[1] == 1:
            return sort_sets(points, offsets, weights)
        self_distances = np.empty(len(offsets) - 1)
        _fill_self_distances(*set_arrays(points, offsets, weights), self_distances)
        return PackedEnergy(**vars(pack_landmarks(points, offsets, weights)), self_distances=self_distances)

    def fill(
        self, packed: PackedEnergy | SortedSets, points: F32, offsets: I64, weights: F32 | None, out: F32
    ) -> None:
        """Compute out[i, j], the distance of set i to landmark j."""
        if isinstance(packed, SortedSets):
            _fill_sorted(*sort_sets(points, offsets, weights).arrays, *packed.arrays, self.squared, out)
            return
        self_distances, L = np.empty(len(out)), packed
        _fill_self_distances(*set_arrays(points, offsets, weights), self_distances)
        omegas = L.Y, L.weights, L.starts, L.columns, L.totals, packed.self_distances
        _energy(*set_arrays(points, offsets, weights), self_distances, *omegas, self.squared, out)


@inline_jit()
def _add_distances(X, n, w, Y, j, d, sums):  # type: ignore[no-untyped-def]
    """Add sum_i w_i |x_i - y_lane| of n points to sums[lane]; coordinates of the lanes begin at Y[j]."""
    for lane in range(0, LANDMARK_BATCH_SIZE, SIMD_WIDTH):
        total = load(sums, lane, 0, 1, SIMD_WIDTH)
        for i in range(0, n, 4):
            s0, s1, s2, s3 = squared_distances(X, i * d, d, 1, Y, j + lane, LANDMARK_BATCH_SIZE, d)
            r0, r1 = widened(square_roots(s0)), widened(square_roots(s1))
            r2, r3 = widened(square_roots(s2)), widened(square_roots(s3))
            first = fused(r1, w[i + 1], times(r0, full(w[i], 1, SIMD_WIDTH)))
            second = fused(r3, w[i + 3], times(r2, full(w[i + 2], 1, SIMD_WIDTH)))
            total = plus(total, plus(first, second))
        store(total, sums, lane, 0)


@inline_jit()
def _load_weights(weights, weighted, first, m, n, w):  # type: ignore[no-untyped-def]
    for i in range(m):
        w[i] = weights[first + i] if weighted else 1.0
    w[m:n] = 0.0


@jit(FMA)
def _energy(  # type: ignore[no-untyped-def]
    points,
    offsets,
    weights,
    weighted,
    self_distances,
    Y,
    landmark_weights,
    starts,
    columns,
    totals,
    landmark_self_distances,
    squared,
    out,
):
    d = points.shape[1]
    X, w = np.empty((TILE_POINTS, d), f32), np.empty(TILE_POINTS)
    column, between = np.empty(LANDMARK_BATCH_SIZE), np.empty(LANDMARK_BATCH_SIZE)
    for b in range(len(columns)):
        for s in range(len(out)):
            start, stop = offsets[s], offsets[s + 1]
            total = total_weight(weights, weighted, start, stop)
            between[:] = 0.0
            for first in range(start, stop, TILE_POINTS):
                m = min(TILE_POINTS, stop - first)
                n = load_tile(points, first, m, X)
                _load_weights(weights, weighted, first, m, n, w)
                for t in range(starts[b], starts[b + 1]):
                    column[:] = 0.0
                    _add_distances(X, n, w, Y, t * d * LANDMARK_BATCH_SIZE, d, column)
                    v = landmark_weights[t]
                    for lane in range(LANDMARK_BATCH_SIZE):
                        between[lane] += v[lane] * column[lane]
            for lane in range(LANDMARK_BATCH_SIZE):
                j = columns[b, lane]
                if j >= 0:
                    D2 = (
                        2.0 * between[lane] / (total * totals[b, lane])
                        - self_distances[s]
                        - landmark_self_distances[j]
                    )
                    D2 = max(D2, 0.0)
                    out[s, j] = f32(D2 if squared else np.sqrt(D2))


@jit(FMA)
def _fill_self_distances(points, offsets, weights, weighted, out):  # type: ignore[no-untyped-def]
    """Set out[s] = E|X - X'| of each set, with 64 points at a time in SIMD lanes."""
    d = points.shape[1]
    X, w = np.empty((TILE_POINTS, d), f32), np.empty(TILE_POINTS)
    Y, sums = np.empty((d, LANDMARK_BATCH_SIZE), f32), np.empty(LANDMARK_BATCH_SIZE)
    for s in range(len(out)):
        start, stop = offsets[s], offsets[s + 1]
        total = total_weight(weights, weighted, start, stop)
        out[s] = 0.0
        for first_lane in range(start, stop, LANDMARK_BATCH_SIZE):
            width = min(LANDMARK_BATCH_SIZE, stop - first_lane)
            for lane in range(LANDMARK_BATCH_SIZE):
                for k in range(d):
                    Y[k, lane] = points[first_lane + min(lane, width - 1), k]
            sums[:] = 0.0
            for first in range(start, stop, TILE_POINTS):
                m = min(TILE_POINTS, stop - first)
                n = load_tile(points, first, m, X)
                _load_weights(weights, weighted, first, m, n, w)
                _add_distances(X, n, w, Y, 0, d, sums)
            for lane in range(width):
                out[s] += (weights[first_lane + lane] if weighted else 1.0) * sums[lane]
        out[s] /= total * total


@jit()
def _fill_sorted(x, F, offsets, y, G, landmark_offsets, squared, out):  # type: ignore[no-untyped-def]
    """Set out = sqrt(2 int (F - G)^2), or its square, by merging the sorted points of both sets."""
    for s in range(len(out)):
        for j in range(out.shape[1]):
            i, stop, k, stop_y = offsets[s], offsets[s + 1], landmark_offsets[j], landmark_offsets[j + 1]
            f, g, total = 0.0, 0.0, 0.0
            previous = np.float64(min(x[i], y[k]))
            while i < stop or k < stop_y:
                from_x = k == stop_y or (i < stop and x[i] <= y[k])
                value = np.float64(x[i]) if from_x else np.float64(y[k])
                total += (f - g) * (f - g) * (value - previous)
                previous = value
                if from_x:
                    f, i = F[i], i + 1
                else:
                    g, k = G[k], k + 1
            out[s, j] = f32(2.0 * total if squared else np.sqrt(2.0 * total))
