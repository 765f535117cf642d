"""Ordered classes of `SetClassifier`: scores by rank, and probabilities by the proportional-odds model.

    P(class <= j) = 1 / (1 + exp(slope v - threshold_j)),   j = 0, ..., k - 2

for held-out values v of a regression on mid-ranks (McCullagh: Regression models for ordinal data, 1980). A calibration
(k,) consists of the increasing thresholds and the slope, which is at least 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from dkdist._numba.arrays import F64, I64, Array

MIN_GAP = -20.0  # logarithm of the smallest distance of thresholds, for a class without rows
MAX_SLOPE = 100.0  # per standard deviation of the values, for separated classes
# Each takes 1 ms per leaderboard entry and jackknife block; fewer folds have noisier thresholds.
N_THRESHOLD_FOLDS = 5
MIN_PROBABILITY = 1e-300  # keeps logarithms finite


def ordered_classes(y: Any, classes: Array, index: I64) -> tuple[Array, I64]:
    """Return classes in ascending order and the index of each target; text requires an ordered pandas categorical."""
    dtype: Any = getattr(y, "dtype", None)
    if getattr(dtype, "ordered", False):
        order = [c for c in dtype.categories.tolist() if c in set(classes.tolist())]
        rank = np.array([order.index(c) for c in classes.tolist()])
        return classes[np.argsort(rank)], rank[index]
    if classes.dtype.kind not in "biuf":
        raise ValueError(
            f"y must have an order with ordinal=True; got text, such as {classes.tolist()[0]!r}. Pass numbers, or a "
            "pandas Series of an ordered categorical dtype."
        )
    return classes, index


def mid_ranks(index: I64, weights: F64) -> F64:
    """Return the mean rank of each target's class as a fraction of all weights, with mean 0 and deviation 1: (n, 1)."""
    sizes = np.bincount(index, weights)
    ranks = ((np.cumsum(sizes) - sizes / 2) / sizes.sum())[index]
    ranks -= np.average(ranks, weights=weights)
    return np.asarray(ranks / np.sqrt(np.average(ranks**2, weights=weights)))[:, None]


def fit_proportional_odds(values: F64, index: I64, n_classes: int, weights: F64) -> F64:
    """Return thresholds and slope (n_classes,) of largest likelihood for values (n, 1)."""
    deviation = values.std()
    v = (values[:, 0] - values.mean()) / deviation if deviation > 0 else np.zeros(len(values))
    fractions = weights / weights.sum()
    below = np.cumsum(np.bincount(index, fractions, n_classes))[:-1]
    edges = np.log(np.clip(below, 1e-6, None) / np.clip(1 - below, 1e-6, None))
    gaps = np.log(np.maximum(np.diff(edges), np.exp(MIN_GAP)))

    def negative_log_likelihood(parameters: F64) -> tuple[float, F64]:
        steps = np.exp(parameters[1:-1])
        thresholds = parameters[0] + np.concatenate([[0.0], np.cumsum(steps)])
        upper = np.append(thresholds, np.inf)[index] - parameters[-1] * v
        lower = np.append(-np.inf, thresholds)[index] - parameters[-1] * v
        p = np.maximum(expit(upper) - expit(lower), MIN_PROBABILITY)
        d_upper, d_lower = (np.exp(log_expit(u) + log_expit(-u)) * fractions / p for u in (upper, lower))
        by_threshold = (
            np.bincount(index, d_upper, n_classes)[:-1] - np.bincount(index, d_lower, n_classes)[1:]
        )
        tails = np.cumsum(by_threshold[::-1])[::-1]
        slope = -((d_upper - d_lower) @ v)
        return -float(fractions @ np.log(p)), -np.concatenate([tails[:1], steps * tails[1:], [slope]])

    max_slope = MAX_SLOPE if deviation > 0 else 0.0
    bounds = [(None, None), *[(MIN_GAP, -MIN_GAP)] * len(gaps), (0.0, max_slope)]
    start = np.concatenate([edges[:1], gaps, [min(1.0, max_slope)]])
    result = minimize(negative_log_likelihood, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    slope = result[-1] / deviation if deviation > 0 else 0.0
    thresholds = result[0] + np.concatenate([[0.0], np.cumsum(np.exp(result[1:-1]))])
    return np.append(thresholds + slope * values.mean(), slope)


def ordinal_log_probabilities(values: F64, calibration: F64) -> F64:
    """Return finite log probabilities (n, n_classes) for values (n, 1)."""
    upper = calibration[:-1] - calibration[-1] * values
    cumulative = np.concatenate([np.zeros((len(values), 1)), expit(upper), np.ones((len(values), 1))], axis=1)
    return np.asarray(np.log(np.maximum(np.diff(cumulative, axis=1), MIN_PROBABILITY)))


def ordinal_classes(values: F64, calibration: F64) -> I64:
    """Return the index (n,) of the most probable class."""
    return np.asarray(ordinal_log_probabilities(values, calibration).argmax(axis=1))


def ordinal_score(index: I64, n_classes: int) -> Callable[[F64, I64], float]:
    """Return a function that gives the accuracy of values (n, 1) of selected sets.

    Thresholds of a set are fitted without its fifth of the sets, stratified by class: thresholds that were fitted to
    the same sets would be too optimistic.
    """

    def score(values: F64, rows: I64) -> float:
        truth, part = index[rows], np.empty(len(rows), np.int64)
        part[np.argsort(truth, kind="stable")] = np.arange(len(rows)) % N_THRESHOLD_FOLDS
        predicted = np.empty_like(truth)
        for k in range(N_THRESHOLD_FOLDS):
            train, test = part != k, part == k
            calibration = fit_proportional_odds(values[train], truth[train], n_classes, np.ones(train.sum()))
            predicted[test] = ordinal_classes(values[test], calibration)
        return float((predicted == truth).mean())

    return score


def rank_error_note(truth: I64, predicted: I64) -> str:
    """Return a sentence with the mean absolute error of ranks, next to that of the median class."""
    model_error, constant_error = (np.abs(truth - p).mean() for p in (predicted, np.median(truth)))
    return (
        f"Mean absolute error of ranks: {model_error:.4f}, next to {constant_error:.4f} of the median class."
    )
