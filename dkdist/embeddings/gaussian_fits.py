"""Means and shrunk covariances of sets: the Gaussian distributions fitted to them.

With weights w of sum 1, mean m and covariance S = sum_i w_i (x_i - m) (x_i - m)', the shrunk covariance of Ledoit and
Wolf (A well-conditioned estimator for large-dimensional covariance matrices, 2004) is

    (1 - a) S + a mu I,    mu = tr S / d,    a = min(1, b / |S - mu I|^2),    b = (sum_i w_i |x_i - m|^4 - |S|^2) / n,

with Frobenius norms. b estimates the mean squared error of S, and n is the effective sample size 1 / sum_i w_i^2, so
that equal weights give the estimate of scikit-learn. The shrunk covariance is singular only if all points are equal,
or a = 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64, I64, Array
from dkdist.embeddings._tuning import MAX_COLUMNWISE_DIMS, POINTS_PER_GAUSSIAN_BATCH
from dkdist.sets import SampleSets

LEDOIT_WOLF = "ledoit-wolf"


def check_shrinkage(shrinkage: Any) -> float | None:
    """Return the fraction of mu I, or None for that of Ledoit and Wolf."""
    if isinstance(shrinkage, str) and shrinkage == LEDOIT_WOLF:
        return None
    if not isinstance(shrinkage, bool) and isinstance(shrinkage, Real) and 0 <= shrinkage <= 1:  # type: ignore[operator]
        return float(shrinkage)
    raise ValueError(f"shrinkage must be {LEDOIT_WOLF!r} or a number from 0 to 1; got {shrinkage!r:.200}")


def fit_gaussians(sets: SampleSets, shrinkage: float | None, centre: F64, scale: F64) -> tuple[F64, F64]:
    """Return means (n_sets, d) and shrunk covariances (n_sets, d, d) of (x - centre) / scale.

    ``centre`` is relative to the origin. ``shrinkage`` is the fraction a, or None for that of Ledoit and Wolf. Values
    depend only on the set, bit for bit. Sets whose points of positive weight are equal have a covariance of exactly 0.
    """
    n, d = len(sets), sets.n_dims
    mean, covariance = np.empty((n, d)), np.empty((n, d, d))
    for batch, rows in _batches(sets.offsets):
        starts = sets.offsets[batch.start : batch.stop] - rows.start
        weights = None if sets.weights is None else sets.weights.reshape(-1)[rows].astype(np.float64)
        m, S = _fit_batch(sets.relative[rows], starts, weights, centre, scale, shrinkage)
        mean[batch], covariance[batch] = m, S
    return mean, covariance


def _batches(offsets: I64) -> Iterator[tuple[slice, slice]]:
    """Yield (sets, points) of batches of whole sets with about `POINTS_PER_GAUSSIAN_BATCH` points."""
    batch = offsets[:-1] // POINTS_PER_GAUSSIAN_BATCH
    edges = [*np.flatnonzero(np.diff(batch, prepend=-1)), len(batch)]
    for first, last in itertools.pairwise(edges):
        yield slice(first, last), slice(offsets[first], offsets[last])


def _fit_batch(
    points: Array, starts: I64, weights: F64 | None, centre: F64, scale: F64, shrinkage: float | None
) -> tuple[F64, F64]:
    n_points, d = points.shape
    sizes = np.diff(starts, append=n_points)
    if weights is None:
        total, concentration, reference = sizes.astype(np.float64), 1 / sizes, points[starts]
    else:  # the first point of positive weight, so that equal points have a covariance of 0
        positive = np.flatnonzero(weights > 0)
        reference = points[positive[np.searchsorted(positive, starts)]]
        total = np.add.reduceat(weights, starts)
        concentration = np.add.reduceat(weights * weights, starts) / total**2

    def means(values: F64) -> F64:
        return np.asarray(
            np.add.reduceat(values if weights is None else weights * values, starts, axis=-1) / total
        )

    shift = reference.astype(np.float64)
    y = np.ascontiguousarray(points.T, np.float64)
    y -= np.repeat(shift.T, sizes, axis=1)
    mean = means(y)
    y -= np.repeat(mean, sizes, axis=1)
    y /= scale[:, None]
    S = _covariances(y if weights is None else y * np.sqrt(weights), starts) / total[:, None, None]
    mu = np.einsum("kii->k", S) / d
    target = mu[:, None, None] * np.eye(d)
    deviation = S - target
    if shrinkage is None:
        square_norms = np.einsum("ij,ij->j", y, y)
        error = np.maximum(means(square_norms**2) - _square_norm(S), 0) * concentration
        spread = _square_norm(deviation)
        fraction = np.divide(np.minimum(error, spread), spread, out=np.zeros_like(mu), where=spread > 0)
    else:
        fraction = np.full(len(mu), shrinkage)
    S = (1 - fraction)[:, None, None] * deviation + target
    return (shift - centre + mean.T) / scale, S


def _covariances(z: F64, starts: I64) -> F64:
    """Return sums (k, d, d) of z z' over the columns of z (d, n) from each start to the next."""
    d = len(z)
    S = np.empty((len(starts), d, d))
    if d <= MAX_COLUMNWISE_DIMS:
        for i in range(d):
            for j in range(i + 1):
                S[:, i, j] = S[:, j, i] = np.add.reduceat(z[i] * z[j], starts)
        return S
    for k, (first, last) in enumerate(zip(starts, [*starts[1:], z.shape[1]], strict=True)):
        part = np.ascontiguousarray(z[:, first:last])  # the bits of products depend on the memory layout
        S[k] = part @ part.T
    return S


def _square_norm(matrices: F64) -> F64:
    return np.asarray(np.einsum("kij,kij->k", matrices, matrices))
