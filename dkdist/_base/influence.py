"""How a set's row moves when one of its points counts a little more: what explains a prediction point by point.

A set is the distribution P = sum_i u_i delta_(x_i), u its weights over their sum. For a function f of its row

    IF(x) = d/dt f(row of (1 - t) P + t delta_x) at t = 0,    sum_i u_i IF(x_i) = 0,

the influence function of robust statistics (Hampel 1974). Tables that know their derivative say so by `influence`; for
others every point is left out once, as the jackknife does (Tukey 1958; Efron, Stein 1981):

    IF(x_i) ~ (f(P) - f(P without x_i)) (1 - u_i) / u_i,   exact where rows are means of rows of points.

Of sequences, pieces W of several lengths are left out as well (occlusion; Zeiler, Fergus 2014), since a distance hardly
feels a single symbol. The influence is the least-squares solution of

    sum_(i in W) u_i IF(x_i) = (f(P) - f(P without W)) (1 - sum_(i in W) u_i)   for all W.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist.sets import SampleSets

PIECE_LENGTHS = 1, 2, 4, 8  # of sequences; the length of what decides is unknown
POINTS_AT_ONCE = 2**18  # of sets that lack a point


class LinearInfluence:
    """Mixin of tables whose rows are means over points: their influence is that of the points' own rows."""

    def influence(self: Any, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d), up to a constant of each column: exact."""
        rows: F32 = self.embed(each_alone(one, at))
        return rows.astype(np.float64) @ gradient


def each_alone(one: SampleSets, at: F32) -> SampleSets:
    """Sets of one point each."""
    return SampleSets._trusted(at, np.arange(len(at) + 1), None, None, one.origin)


def weight_fractions(one: SampleSets) -> F64:
    """(n,) weights of the points of the one set, over their sum."""
    given = one.weights_of(0)
    w = np.ones(one.n_points) if given is None else given.reshape(-1).astype(np.float64)
    return np.asarray(w / w.sum())


def influences(parameters: Any, one: SampleSets, gradient: F64, at: F32 | None = None) -> F64:
    """(n, k) influence of each point of the one set, or of points ``at`` (n, d); of mean zero over those of the set.

    ``gradient`` (m, k) is the derivative of k functions by the row. Tables whose rows have a derivative by the weights
    of points have a method ``influence(one, at, gradient)`` that returns these numbers up to a constant of each column;
    places ``at`` are relative to the origin of ``one``. Raises ValueError for ``at`` where no derivative is known.
    """
    if hasattr(parameters, "influence"):
        own = parameters.influence(one, one.relative, gradient)
        there = own if at is None else parameters.influence(one, at, gradient)
        return np.asarray(there - weight_fractions(one) @ own)
    if at is not None:
        raise ValueError(
            f"{type(parameters.spec).__name__} has no known derivative: points of a set are left out in turn, and "
            "nothing is known of other points. Take an embedding by densities, means, moments or quantiles"
        )
    found = _left_out(parameters, one, gradient)
    return found - weight_fractions(one) @ found


def _left_out(parameters: Any, one: SampleSets, gradient: F64) -> F64:
    """By leaving out points: each by itself, and pieces of sequences, whose single points change little."""
    u, n = weight_fractions(one), one.n_points
    lengths = PIECE_LENGTHS if getattr(parameters.spec, "ordered", False) else PIECE_LENGTHS[:1]
    starts, ends = _pieces(n, lengths)
    total = np.concatenate([[0.0], np.cumsum(u)])
    weight = total[ends] - total[starts]
    kept = (weight > 0) & (weight < 1)  # what weighs nothing, or all, cannot be left out
    starts, ends, weight = starts[kept], ends[kept], weight[kept]
    changes = np.empty((len(starts), gradient.shape[1]))
    own = parameters.embed(one).astype(np.float64)
    step = max(1, POINTS_AT_ONCE // n)
    for first in range(0, len(starts), step):
        some = slice(first, first + step)
        rows = parameters.embed(_without(one, starts[some], ends[some])).astype(np.float64)
        changes[some] = (own - rows) @ gradient * (1 - weight[some])[:, None]
    found = np.zeros((n, gradient.shape[1]))
    positive = np.flatnonzero(u > 0)
    if len(lengths) > 1 and len(starts):
        inside = (starts[:, None] <= positive) & (positive < ends[:, None])
        found[positive] = np.linalg.lstsq(inside.astype(float), changes)[0] / u[positive, None]
    else:
        found[starts] = changes / u[starts, None]
    return found


def _pieces(n: int, lengths: Sequence[int]) -> tuple[I64, I64]:
    """Starts and ends of all pieces of so many points in a row, shorter than the whole."""
    own = [length for length in lengths if length < n]
    starts = [np.arange(n - length + 1) for length in own]
    if not own:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(starts), np.concatenate([s + m for s, m in zip(starts, own, strict=True)])


def _without(one: SampleSets, starts: I64, ends: I64) -> SampleSets:
    """The set without the points of each piece."""
    n = one.n_points
    chosen = [np.concatenate([np.arange(i), np.arange(j, n)]) for i, j in zip(starts, ends, strict=True)]
    points = np.concatenate(chosen)
    return one._of_rows(points, np.concatenate([[0], np.cumsum(n - (ends - starts))]))
