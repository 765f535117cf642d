"""Omegas side by side, one in each lane of a vector register: what loops over all pairs of points are made of.

    Y[t, k, lane] = coordinate k of the t-th point of the lane's omega

Omegas are sorted by length and taken 64 at a time, so that one loop over lanes meets 64 omegas; shorter ones repeat
their last point, with weight zero. Squared distances are sums of squared differences, not |x|^2 + |y|^2 - 2 x.y: no
digit is lost where points nearly coincide or lie far from the origin, and equal points are at distance zero. A product
would save a third of the time at d = 128 and nothing below four dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.compile import FUSED, inlined
from dkdist.loops.elementary import f32

LANES = 64  # omegas at a time: distances of four points to them stay in registers or the first-level cache
TILE = 32  # points of an object at a time, met by one point of each omega after the other
ZERO = f32(0.0)


@dataclass(frozen=True)
class Frozen:
    """A record whose arrays are read-only, also after it was pickled."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


class Runs:
    """Of omegas one after the other, between ``offsets`` (R + 1,)."""

    offsets: I64

    @property
    def n_omegas(self) -> int:
        """Number of omegas."""
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Lanes(Frozen):
    """Packed omegas: block b has the steps ``starts[b]`` to ``starts[b + 1]``, as many as its longest omega has points.

    ``Y`` (steps, d padded to fours, 64) and ``weights`` (steps, 64), zero for repeated points; for each block and lane
    ``columns`` (blocks, 64), the omega's place or -1 for none, and ``totals``, its sum of weights.
    """

    Y: F32
    weights: F64
    starts: I64
    columns: I64
    totals: F64
    n_omegas: int


def pack(points: F32, offsets: I64, weights: F32 | None) -> Lanes:
    """Omegas given as points (T, d), offsets (R + 1,) and weights (T,) or None, each with at least one point."""
    points, offsets, weights = without_zero_weights(points, offsets, weights)
    sizes, R, d = np.diff(offsets), len(offsets) - 1, points.shape[1]
    order = np.argsort(sizes, kind="stable")
    columns = np.full((-(-R // LANES), LANES), -1, np.int64)
    columns.flat[:R] = order
    omega = np.where(columns >= 0, columns, order[-1])
    starts = np.concatenate([[0], np.cumsum(sizes[omega].max(axis=1))]).astype(np.int64)
    Y = np.zeros((starts[-1], d + -d % 4, LANES), np.float32)
    w = np.zeros((starts[-1], LANES))
    for b, lanes in enumerate(omega):
        t = np.arange(starts[b + 1] - starts[b])[:, None]
        row = offsets[lanes] + np.minimum(t, sizes[lanes] - 1)  # (steps, 64)
        Y[starts[b] : starts[b + 1], :d] = points[row].transpose(0, 2, 1)
        w[starts[b] : starts[b + 1]] = (t < sizes[lanes]) * (1.0 if weights is None else weights[row])
    totals = np.add.reduceat(w, starts[:-1], axis=0)
    return Lanes(Y, w, starts, columns, totals, R)


def without_zero_weights(points: F32, offsets: I64, weights: F32 | None) -> tuple[F32, I64, F32 | None]:
    """Points of weight zero are none: they are nobody's nearest point."""
    if weights is None or weights.all():
        return points, offsets, weights
    kept = weights > 0
    before = np.concatenate([[0], np.cumsum(kept)])
    return points[kept], before[offsets], weights[kept]


@inlined()
def longest(offsets):  # type: ignore[no-untyped-def]
    """The most points from one offset to the next."""
    most = 0
    for s in range(len(offsets) - 1):
        most = max(most, offsets[s + 1] - offsets[s])
    return most


@inlined()
def load_tile(points, first, m, X):  # type: ignore[no-untyped-def]
    """Copy m points to X, and its last one until their number is a multiple of four, which is returned."""
    n = m + (-m) % 4
    for i in range(n):
        row = first + min(i, m - 1)
        for k in range(points.shape[1]):
            X[i, k] = points[row, k]
    return n


@inlined(FUSED)
def _square(x):  # type: ignore[no-untyped-def]
    return x * x


@inlined(FUSED)
def squared_distances(X, i, Y, d0, d1, d2, d3):  # type: ignore[no-untyped-def]
    """d_r[lane] = |x_{i + r} - y_lane|^2 of four points, summed over four dimensions at a time."""
    for k in range(0, Y.shape[0], 4):
        Ya, Yb, Yc, Yd = Y[k], Y[k + 1], Y[k + 2], Y[k + 3]
        a0, b0, c0, e0 = X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3]
        a1, b1, c1, e1 = X[i + 1, k], X[i + 1, k + 1], X[i + 1, k + 2], X[i + 1, k + 3]
        a2, b2, c2, e2 = X[i + 2, k], X[i + 2, k + 1], X[i + 2, k + 2], X[i + 2, k + 3]
        a3, b3, c3, e3 = X[i + 3, k], X[i + 3, k + 1], X[i + 3, k + 2], X[i + 3, k + 3]
        for j in range(LANES):
            ya, yb, yc, ye = Ya[j], Yb[j], Yc[j], Yd[j]
            s0, s1 = d0[j] if k else ZERO, d1[j] if k else ZERO
            s2, s3 = d2[j] if k else ZERO, d3[j] if k else ZERO
            d0[j] = s0 + _square(a0 - ya) + _square(b0 - yb) + _square(c0 - yc) + _square(e0 - ye)
            d1[j] = s1 + _square(a1 - ya) + _square(b1 - yb) + _square(c1 - yc) + _square(e1 - ye)
            d2[j] = s2 + _square(a2 - ya) + _square(b2 - yb) + _square(c2 - yc) + _square(e2 - ye)
            d3[j] = s3 + _square(a3 - ya) + _square(b3 - yb) + _square(c3 - yc) + _square(e3 - ye)
