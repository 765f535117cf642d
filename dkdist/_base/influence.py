"""Influence of points on the row of a set: derivatives of predictions with respect to weights of points.

A set is the distribution P = sum_i u_i delta_(x_i) with weights u of sum 1. For a function f of its row

    IF(x) = d/dt f(row of (1 - t) P + t delta_x) at t = 0,    sum_i u_i IF(x_i) = 0,

the influence function of robust statistics (Hampel 1974). Fitted parameters with a known derivative have a method
`influence`; for others each point is left out in turn, as in the jackknife (Tukey 1958; Efron, Stein 1981):

    IF(x_i) ~ (f(P) - f(P without x_i)) (1 - u_i) / u_i,   exact if rows are means of rows of points.

After maps that depend on the set, such as a rotation to its axes, other points are added with the mean weight, which
gives the sensitivity curve (Tukey 1977; Hampel et al., Robust statistics, 1986):

    IF(x) ~ (n + 1) (f(P with x) - f(P)).

Distances of sequences depend little on a single symbol, so windows W of several lengths are left out as well
(occlusion; Zeiler, Fergus 2014). The influence is the least-squares solution of

    sum_(i in W) u_i IF(x_i) = (f(P) - f(P without W)) (1 - sum_(i in W) u_i)   for all W.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dkdist._base._tuning import POINTS_PER_BATCH
from dkdist._numba.arrays import F32, F64, I64
from dkdist.sets import SampleSets

WINDOW_LENGTHS = 1, 2, 4, 8  # powers of two, because the length of the relevant pattern is unknown


class LinearInfluence:
    """Mixin of fitted parameters whose rows are means over points; computes influences from rows of points."""

    def influence(self: Any, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Return the exact influence (q, k) of points ``at`` (q, d), up to an additive constant per column."""
        rows: F32 = self.embed(as_singletons(one, at))
        return rows.astype(np.float64) @ gradient


def as_singletons(one: SampleSets, at: F32) -> SampleSets:
    """Return sets of one point each."""
    return SampleSets._trusted(at, np.arange(len(at) + 1), None, None, one.origin)


def weight_fractions(one: SampleSets) -> F64:
    """Return the weights (n,) of the points of a single set, divided by their sum."""
    weights = one.weights_of(0)
    w = np.ones(one.n_points) if weights is None else weights.reshape(-1).astype(np.float64)
    return np.asarray(w / w.sum())


def point_influences(parameters: Any, one: SampleSets, gradient: F64, at: F32 | None = None) -> F64:
    """Return the influence (n, k) of the points of a single set, or of points ``at`` (n, d).

    ``gradient`` (m, k) is the derivative of k functions with respect to the row; ``at`` is relative to the origin of
    ``one``. The weighted mean over the points of the set is zero. A method ``influence(one, at, gradient)`` of the
    fitted parameters returns these values up to an additive constant per column; without it, ``at`` raises ValueError
    unless the parameters have ``adds_points``.
    """
    if hasattr(parameters, "influence"):
        of_points = parameters.influence(one, one.relative, gradient)
        result = of_points if at is None else parameters.influence(one, at, gradient)
        return np.asarray(result - weight_fractions(one) @ of_points)
    if at is not None and getattr(parameters, "adds_points", False):
        own = _sensitivity_curve(parameters, one, gradient, one.relative)
        return _sensitivity_curve(parameters, one, gradient, at) - weight_fractions(one) @ own
    if at is not None:
        raise ValueError(
            f"{type(parameters.spec).__name__} has no known derivative, which is required for points outside the set. "
            "Omit at, or use an embedding of densities, means, moments or quantiles."
        )
    result = _leave_out_influences(parameters, one, gradient)
    return result - weight_fractions(one) @ result


def _leave_out_influences(parameters: Any, one: SampleSets, gradient: F64) -> F64:
    u, n = weight_fractions(one), one.n_points
    lengths = WINDOW_LENGTHS if getattr(parameters.spec, "ordered", False) else WINDOW_LENGTHS[:1]
    starts, ends = _windows(n, lengths)
    total = np.concatenate([[0.0], np.cumsum(u)])
    weight = total[ends] - total[starts]
    is_proper = (weight > 0) & (weight < 1)  # windows of weight 0 or 1 have no influence
    starts, ends, weight = starts[is_proper], ends[is_proper], weight[is_proper]
    changes = np.empty((len(starts), gradient.shape[1]))
    full_row = parameters.embed(one).astype(np.float64)
    step = max(1, POINTS_PER_BATCH // n)
    for first in range(0, len(starts), step):
        batch = slice(first, first + step)
        rows = parameters.embed(_omit(one, starts[batch], ends[batch])).astype(np.float64)
        changes[batch] = (full_row - rows) @ gradient * (1 - weight[batch])[:, None]
    influence = np.zeros((n, gradient.shape[1]))
    positive = np.flatnonzero(u > 0)
    if len(lengths) > 1 and len(starts):
        inside = (starts[:, None] <= positive) & (positive < ends[:, None])
        influence[positive] = np.linalg.lstsq(inside.astype(float), changes)[0] / u[positive, None]
    else:
        influence[starts] = changes / u[starts, None]
    return influence


def _sensitivity_curve(parameters: Any, one: SampleSets, gradient: F64, at: F32) -> F64:
    """Return n + 1 times the change (q, k) of the functions if a point of mean weight is added at each place."""
    n, row = one.n_points, parameters.embed(one).astype(np.float64)
    weights = None if one.weights is None else one.weights.reshape(-1)
    changes = []
    step = max(1, POINTS_PER_BATCH // n)
    for first in range(0, len(at), step):
        places = at[first : first + step]
        points = np.empty((len(places), n + 1, at.shape[1]), np.float32)
        points[:, :n], points[:, n] = one.relative, places
        new_weights = None
        if weights is not None:
            new_weights = np.tile(np.append(weights, weights.mean(dtype=np.float64)), len(places))
            new_weights = new_weights.astype(np.float32)
        offsets = np.arange(len(places) + 1) * (n + 1)
        sets = SampleSets._trusted(points.reshape(-1, at.shape[1]), offsets, new_weights, None, one.origin)
        changes.append((parameters.embed(sets) - row) @ gradient)
    return (n + 1) * np.concatenate(changes)


def _windows(n: int, lengths: Sequence[int]) -> tuple[I64, I64]:
    """Return starts and ends of all windows of these lengths that are shorter than n."""
    shorter = [length for length in lengths if length < n]
    starts = [np.arange(n - length + 1) for length in shorter]
    if not shorter:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(starts), np.concatenate([s + m for s, m in zip(starts, shorter, strict=True)])


def _omit(one: SampleSets, starts: I64, ends: I64) -> SampleSets:
    """Return the set without the points of each window."""
    n = one.n_points
    rows = [np.concatenate([np.arange(i), np.arange(j, n)]) for i, j in zip(starts, ends, strict=True)]
    return one._of_rows(np.concatenate(rows), np.concatenate([[0], np.cumsum(n - (ends - starts))]))
