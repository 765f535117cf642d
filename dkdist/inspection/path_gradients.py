"""Gradients of a function of a row, averaged along the straight path from a start to the row.

    G = int_0^1 f'(start + t (row - start)) dt,    G . (row - start) = f(row) - f(start)

These are integrated gradients (Sundararajan, Taly, Yan 2017), the Aumann-Shapley values of the path. Where classes are
far apart, f is flat at the row and its derivative there is noise; the average keeps the slope between start and row.
Each of k functions has a start of its own.
"""

from __future__ import annotations

import numpy as np

from dkdist.inspection._tuning import N_PATH_NODES
from dkdist.learners.kernel_ridge import squared_distances
from dkdist.loops.array_types import F64, Array

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(N_PATH_NODES)  # on [-1, 1]


def contrast_weights(values: F64, background_values: F64) -> F64:
    """Weights (k, r) of r background sets, of sum 1: proportional to the distances of their values from those of a set.

    ``values`` (k,) are those of the set. The mean of the background with these weights is a start at which f differs
    from the set's value. The plain mean may lie in the region of one class, where nothing is left to be explained.
    """
    weights = np.abs(background_values - values).T
    weights[weights.max(axis=1) == 0] = 1.0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def gaussian_path_gradient(starts: Array, row: Array, centres: Array, coef: F64, sigma: float) -> F64:
    """Average the gradient of sum_j exp(-|x - y_j|^2 / (2 sigma^2)) coef_j from starts to a row (m,): (m, k).

    ``centres`` (n, m) are the y_j, ``coef`` (n, k), and ``starts`` (k, m). Squared distances from the points of a path
    follow from those of its ends, so that the cost is that of the ends and k n exponentials for each node.
    """
    ends, Y = np.vstack([starts, row]).astype(np.float64), np.asarray(centres, np.float64)
    d2 = squared_distances(ends, Y)
    steps = ends[-1] - ends[:-1]
    lengths2 = (steps**2).sum(axis=1)[:, None]
    total, total_t = np.zeros(d2[:-1].shape), np.zeros(d2[:-1].shape)  # of k and of t k over the path
    for node, weight in zip(NODES, NODE_WEIGHTS, strict=True):
        t = (node + 1) / 2
        path_d2 = (1 - t) * d2[:-1] + t * d2[-1] - t * (1 - t) * lengths2
        kernel = weight / 2 * np.exp(path_d2 / (-2 * sigma**2))
        total += kernel
        total_t += t * kernel
    mean, mean_t = coef.T * total, coef.T * total_t
    by_start, by_step = mean.sum(axis=1)[:, None], mean_t.sum(axis=1)[:, None]
    gradient = (mean @ Y - by_start * ends[:-1] - by_step * steps).T / sigma**2
    kernel = np.exp(d2 / (-2 * sigma**2))
    rises = kernel[-1] @ coef - np.einsum("kn,nk->k", kernel[:-1], coef)
    return as_secant(gradient, steps, rises)


def as_secant(gradient: F64, steps: F64, rises: F64) -> F64:
    """Return the gradients (m, k) nearest to those given whose products with the steps (k, m) are the rises (k,)."""
    lengths2 = (steps**2).sum(axis=1)
    errors = rises - np.einsum("km,mk->k", steps, gradient)
    return np.asarray(
        gradient + steps.T * np.divide(errors, lengths2, out=np.zeros_like(errors), where=lengths2 > 0)
    )
