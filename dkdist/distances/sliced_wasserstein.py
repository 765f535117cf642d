"""Sliced Wasserstein distance of weighted sets over fixed directions, exact on each direction.

    SW_p = (mean over directions u of W_p^p(u.X, u.Y))^(1/p),    W_p^p = int_0^1 |F^-1(t) - G^-1(t)|^p dt

On a line the optimal plan matches quantiles (Bonneel, Rabin, Peyre and Pfister 2015). Without weights, the plan for n
and m points matches the same ranks for every direction, so directions are processed together in SIMD lanes. With
weights, the levels of both distribution functions are merged separately for each direction. Projections and sums are
float64. Cost for L directions: L (n + m) steps per pair, and L n log n per object.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FMA, jit
from dkdist._numba.elementary import Frozen, RaggedLandmarks, f32
from dkdist._numba.points import set_arrays, total_weight
from dkdist._utils.serialization import serializable
from dkdist.distances.base import CostModel, Distance

UNIT_LENGTH_TOL = 1e-5  # allows for normalization in float32 (tests/distances/test_sliced.py)


@dataclass(frozen=True)
class SortedProjections(RaggedLandmarks, Frozen):
    """Sorted projections (T, L) of each set, and the levels of F: (T, L), or (0, L) for the levels i / n."""

    projections: F64
    levels: F64
    offsets: I64


@serializable("SlicedWasserstein")
@dataclass(frozen=True, eq=False)
class SlicedWasserstein(Distance):
    """Sliced Wasserstein distance of order p = 1 or 2 over ``directions`` (L, d), unit vectors.

    In one dimension, with the single direction 1, it is the Wasserstein distance.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> sets = [np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[3.0, 4.0]])]
    >>> D = dk.distance_matrix(sets, distance=dk.SlicedWasserstein(np.eye(2), p=1))
    >>> float(D[0, 1])
    3.25
    """

    directions: F64
    p: int = 2
    takes_weights = True

    def __post_init__(self) -> None:
        if not isinstance(self.p, (int, float, np.number)) or self.p not in (1, 2):
            raise ValueError(f"p must be 1 or 2; got {self.p!r}.")
        kind = getattr(getattr(self.directions, "dtype", None), "kind", "")
        if not isinstance(self.directions, np.ndarray) or kind not in "fiu":
            actual = f"an array of {kind!r}" if kind else repr(self.directions)
            raise ValueError(
                f"directions must be an array (L, d) of unit vectors; got {actual}. Draw "
                "u = rng.standard_normal((50, d)) and pass u / np.linalg.norm(u, axis=1, keepdims=True), or use the "
                "distance 'sliced-wasserstein', which draws 50 directions."
            )
        if self.directions.ndim != 2 or not len(self.directions):
            raise ValueError(
                f"directions must be an array (L, d) with L > 0; got shape {self.directions.shape}."
            )
        lengths = np.sqrt((np.asarray(self.directions, np.float64) ** 2).sum(axis=1))
        is_invalid = ~(np.abs(lengths - 1) <= UNIT_LENGTH_TOL)
        if is_invalid.any():
            k = int(np.argmax(is_invalid))
            raise ValueError(
                f"directions must be unit vectors; got length {lengths[k]:.6g} for direction {k}. Normalize them."
            )

    def __eq__(self, other: object) -> bool:
        same_kind = isinstance(other, SlicedWasserstein) and self.p == other.p
        return same_kind and np.array_equal(self.directions, other.directions)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.p, self.directions.shape, self.directions.tobytes()))

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs: pairs are compared one by one, and preparing sorts projections."""
        return CostModel(1, 60)

    def prepare(self, points: F32, offsets: I64, weights: F32 | None) -> SortedProjections:
        """Project and sort the landmarks."""
        U = np.ascontiguousarray(self.directions, np.float64)
        if U.shape[1] != points.shape[1]:
            raise ValueError(
                f"directions must have {points.shape[1]} dimensions, like the points; got {U.shape[1]}."
            )
        projections = np.empty((len(points), len(U)))
        levels = np.empty((0 if weights is None else len(points), len(U)))
        _project(*set_arrays(points, offsets, weights), U, projections, levels)
        return SortedProjections(projections, levels, offsets.copy())

    def fill(
        self, packed: SortedProjections, points: F32, offsets: I64, weights: F32 | None, out: F32
    ) -> None:
        """Compute out[i, j], the distance of set i to landmark j."""
        rows = self.prepare(points, offsets, weights)
        x, y = rows.projections, packed.projections
        if weights is None and not len(packed.levels):
            _match_ranks(x, rows.offsets, y, packed.offsets, self.p, out)
        else:
            F, G = _levels(rows), _levels(packed)
            _match_levels(x, F, rows.offsets, y, G, packed.offsets, self.p, out)


def _levels(sets: SortedProjections) -> F64:
    """Return the levels of the distribution functions; for sets without weights they are computed."""
    if len(sets.levels):
        return sets.levels
    sizes = np.repeat(np.diff(sets.offsets), np.diff(sets.offsets))
    rank = np.arange(1, len(sizes) + 1) - np.repeat(sets.offsets[:-1], np.diff(sets.offsets))
    return np.repeat((rank / sizes)[:, None], sets.projections.shape[1], axis=1)


@jit(FMA)
def _project(points, offsets, weights, weighted, U, projections, levels):  # type: ignore[no-untyped-def]
    for s in range(len(offsets) - 1):
        start, stop = offsets[s], offsets[s + 1]
        total, line = total_weight(weights, weighted, start, stop), np.empty(stop - start)
        for u in range(len(U)):
            for i in range(start, stop):
                line[i - start] = 0.0
                for k in range(points.shape[1]):
                    line[i - start] += U[u, k] * np.float64(points[i, k])
            order = np.argsort(line, kind="mergesort")
            cumulative = 0.0
            for i in range(stop - start):
                projections[start + i, u] = line[order[i]]
                if weighted:
                    cumulative += weights[start + order[i]]
                    levels[start + i, u] = cumulative / total
            if weighted:
                levels[stop - 1, u] = 1.0


@jit(FMA)
def _match_ranks(x, offsets, y, landmark_offsets, p, out):  # type: ignore[no-untyped-def]
    """Match ranks of X and Y: each interval between multiples of 1 / n and 1 / m in [0, 1] has one rank of each."""
    L = x.shape[1]
    sums = np.empty(L)
    for s in range(len(out)):
        for j in range(out.shape[1]):
            n, m = offsets[s + 1] - offsets[s], landmark_offsets[j + 1] - landmark_offsets[j]
            i, k, previous = 0, 0, 0
            sums[:] = 0.0
            while i < n:  # levels are integers in units of 1 / (n m)
                level = min((i + 1) * m, (k + 1) * n)
                weight = np.float64(level - previous)
                a, b = x[offsets[s] + i], y[landmark_offsets[j] + k]
                if p == 1:
                    for u in range(L):
                        sums[u] += weight * abs(a[u] - b[u])
                else:
                    for u in range(L):
                        sums[u] += weight * ((a[u] - b[u]) * (a[u] - b[u]))
                previous = level
                i += level == (i + 1) * m
                k += level == (k + 1) * n
            total = 0.0
            for u in range(L):
                total += sums[u]
            mean = total / (np.float64(n * m) * L)
            out[s, j] = f32(mean if p == 1 else np.sqrt(mean))


@jit(FMA)
def _match_levels(x, F, offsets, y, G, landmark_offsets, p, out):  # type: ignore[no-untyped-def]
    """Match the levels of both distribution functions, separately on each direction."""
    L = x.shape[1]
    for s in range(len(out)):
        for j in range(out.shape[1]):
            total = 0.0
            for u in range(L):
                i, k, previous = offsets[s], landmark_offsets[j], 0.0
                while i < offsets[s + 1] and k < landmark_offsets[j + 1]:
                    f, g = F[i, u], G[k, u]
                    level = min(f, g)
                    gap = abs(x[i, u] - y[k, u])
                    total += (level - previous) * (gap if p == 1 else gap * gap)
                    previous = level
                    i += f == level
                    k += g == level
            out[s, j] = f32(total / L if p == 1 else np.sqrt(total / L))
