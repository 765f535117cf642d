"""Gradients of a function of a row, averaged along the straight path from a start to the row.

    G = int_0^1 f'(start + t (row - start)) dt,    G . (row - start) = f(row) - f(start)

These are integrated gradients (Sundararajan, Taly, Yan 2017), the Aumann-Shapley values of the path. Where classes are
far apart, f is flat at the row and its derivative there is noise; the average keeps the slope between start and row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dkdist.inspection._tuning import N_PATH_NODES
from dkdist.learners.kernel_ridge import squared_distances
from dkdist.loops.array_types import F64


def gaussian_path_gradient(
    start: ArrayLike, row: ArrayLike, centres: ArrayLike, coef: F64, sigma: float
) -> F64:
    """Average the gradient of sum_j exp(-|x - y_j|^2 / (2 sigma^2)) coef_j from start to row (m,): (m, k).

    ``centres`` (n, m) are the y_j, ``coef`` is (n, k). Distances from points of the path follow from those of its
    ends, so that the cost is that of the two ends and n exponentials for each node.
    """
    ends = np.stack([start, row]).astype(np.float64)
    Y = np.asarray(centres)
    d2, step = squared_distances(ends, Y.astype(np.float64)), ends[1] - ends[0]
    nodes, node_weights = np.polynomial.legendre.leggauss(N_PATH_NODES)
    t, w = (nodes[:, None] + 1) / 2, node_weights / 2
    path_d2 = (1 - t) * d2[0] + t * d2[1] - t * (1 - t) * (step @ step)
    kernel = np.exp(path_d2 / (-2 * sigma**2))
    mean, mean_t = w @ kernel, (w * t[:, 0]) @ kernel  # of k and of t k over the path
    gradient = Y.T @ (mean[:, None] * coef) - np.outer(ends[0], mean @ coef) - np.outer(step, mean_t @ coef)
    first, last = np.exp(d2 / (-2 * sigma**2)) @ coef
    return as_secant(gradient / sigma**2, step, last - first)


def as_secant(gradient: F64, step: F64, rise: F64) -> F64:
    """Return the gradient (m, k) nearest to the given one whose product with the step (m,) is the rise (k,)."""
    length2 = float(step @ step)
    if length2 == 0:
        return gradient
    return np.asarray(gradient + np.outer(step, (rise - step @ gradient) / length2))
