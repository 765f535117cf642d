"""Bandwidths for collections: one Gaussian width for every set, and one kernel width for every pair.

    Scott's rule, set by set:   h_j = median_i(std of set i along j) * median_i(n_i)^(-1 / (d + 4))
    median heuristic:           sigma = median |x - y| over pairs of rows

An effective sample size (sum w)^2 / sum w^2 stands in for n_i where points are weighted. (Scott 1992;
Garreau et al. 2017.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

ROUNDING = 1e-14  # of squared distances in float64; rows that differ in float32 are further apart


def moments(points: F32, offsets: I64, weights: F32 | None) -> tuple[F64, F64, F64]:
    """Mean and variance of each set along each dimension, (n_sets, d) both, and effective sizes (n_sets,)."""
    w = np.ones(len(points)) if weights is None else weights.astype(np.float64).reshape(-1)
    starts = offsets[:-1]
    total = np.add.reduceat(w, starts)
    x = points.astype(np.float64)
    mean = np.add.reduceat(w[:, None] * x, starts) / total[:, None]
    centred = x - np.repeat(mean, np.diff(offsets), axis=0)
    variance = np.add.reduceat(w[:, None] * centred**2, starts) / total[:, None]
    return mean, variance, total**2 / np.add.reduceat(w**2, starts)


def spreads(points: F32, offsets: I64, weights: F32 | None) -> tuple[F64, F64]:
    """Standard deviation of each set along each dimension (n_sets, d), and effective sizes (n_sets,)."""
    _, variance, size = moments(points, offsets, weights)
    return np.sqrt(variance), size


def scott_bandwidth(std: F64, size: F64, dims: int, least: float) -> F64:
    """Scott's rule from the typical set, never below ``least``: (d,). ``dims`` is that of the estimated density."""
    h = np.median(std, axis=0) * float(np.median(size)) ** (-1 / (dims + 4))
    return np.asarray(np.maximum(h, least))


def median_distance(X: NDArray[np.floating]) -> float:
    """Median Euclidean distance between different rows of X; the mean of the non-zero ones if the median is 0."""
    x = X.astype(np.float64)
    unit = 2.0 ** min(1000, max(-1000, int(np.frexp(np.abs(x).max(initial=0.0))[1])))  # changes no digit
    x = x / unit
    x = x - np.median(x, axis=0)  # which outliers do not move
    square = (x**2).sum(axis=1)
    total = square[:, None] + square[None, :]
    d2 = total - 2 * x @ x.T
    d2[d2 < ROUNDING * total] = 0  # equal rows: what is left is rounding
    distances = np.sqrt(d2[np.triu_indices(len(x), 1)])
    median = float(np.median(distances)) if len(distances) else 0.0
    if median > 0:
        return median * unit
    positive = distances[distances > 0]
    return float(positive.mean()) * unit if len(positive) else 0.0
