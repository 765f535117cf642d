"""Decision values to probabilities, fitted on values of rows that the decision functions had not learned from.

    p(x) = sigmoid(s f(x) + c)        two classes, or one label among several
    p(x) = softmax(s f(x) + c)        more classes: one slope, a constant for each

The slope is not negative, so that a larger value is never a smaller probability. Targets are those of Platt: of N_k
rows of class k each says (N_k + 1) / (N_k + K) for its class and 1 / (N_k + K) for the K - 1 others, so that a few rows
that are told apart by chance do not make one certain.

Platt (1999), Probabilistic outputs for support vector machines. Guo, Pleiss, Sun & Weinberger (2017), On calibration of
modern neural networks (one slope for all classes).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

from dkdist.loops.array_types import F64, I64


def calibrated(values: F64, classes: I64, n_classes: int, weights: F64) -> F64:
    """(slope, constants...) of `probabilities_of` for decision values (m, 1) or (m, n_classes) of rows of known class.

    Minimises the weighted cross entropy; without rows the values are taken as they are.
    """
    if len(values) == 0:
        return np.append(1.0, np.zeros(values.shape[1]))
    targets = _smoothed(classes, n_classes, weights)
    scale = float(np.sqrt(np.mean(values**2))) or 1.0
    given = values / scale  # of order one, whatever the values are
    start = np.append(1.0, np.zeros(values.shape[1]))
    bounds = [(0.0, None), *[(None, None)] * values.shape[1]]
    loss = _cross_entropy(given, targets, weights / weights.sum())
    found = scipy.optimize.minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
    return np.append(found.x[0] / scale, found.x[1:])


def probabilities_of(values: NDArray[Any], calibration: F64) -> NDArray[Any]:
    """Probabilities (n, n_classes) of decision values (n,) or (n, n_classes); rows sum to one."""
    scores = _scores(values.astype(np.float64).reshape(len(values), -1), calibration)
    return np.asarray(softmax(scores, axis=1))


def label_probabilities(values: NDArray[Any], calibration: F64) -> NDArray[Any]:
    """Probabilities (n, k) of labels that do not exclude each other; ``calibration`` (k, 2) has a row for each."""
    return np.asarray(expit(values.astype(np.float64) * calibration[:, 0] + calibration[:, 1]))


def _scores(values: F64, calibration: F64) -> F64:
    """Scores of all classes: of two, the first has 0."""
    scores = calibration[0] * values + calibration[1:]
    return np.column_stack([np.zeros(len(scores)), scores]) if scores.shape[1] == 1 else scores


def _smoothed(classes: I64, n_classes: int, weights: F64) -> F64:
    """Platt's targets (m, n_classes)."""
    others = 1.0 / (np.bincount(classes, weights, n_classes) + n_classes)
    targets = np.repeat(others[classes][:, None], n_classes, axis=1)
    targets[np.arange(len(classes)), classes] = 1.0 - (n_classes - 1) * others[classes]
    return targets


def _cross_entropy(values: F64, targets: F64, weights: F64) -> Any:
    """(loss, gradient) as a function of (slope, constants...)."""

    def loss(calibration: F64) -> tuple[float, F64]:
        scores = _scores(values, calibration)
        logs = log_softmax(scores, axis=1)
        slopes = (np.exp(logs) - targets) * weights[:, None]
        slopes = slopes[:, -values.shape[1] :]
        gradient = np.append((slopes * values).sum(), slopes.sum(axis=0))
        return -float(weights @ (targets * logs).sum(axis=1)), gradient

    return loss
