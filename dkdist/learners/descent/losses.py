"""Losses of linear models by name: numbers and default steps; and probabilities. Formulas are in `descent_loops`.

They are those of scikit-learn's SGD: l(p, y) with y = -1, +1 for classes, half the squared error for numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from dkdist.learners.descent.descent_loops import (
    HINGE,
    HUBER,
    LOG,
    MODIFIED_HUBER,
    SQUARED_ERROR,
    SQUARED_HINGE,
)


class Loss(NamedTuple):
    """The ``number`` that loops know it by, and the ``step`` that times 1/R^2 is the default one."""

    number: int
    step: float


LOSSES = {
    "log_loss": Loss(LOG, 8.0),
    "hinge": Loss(HINGE, 1.0),
    "squared_hinge": Loss(SQUARED_HINGE, 0.5),
    "modified_huber": Loss(MODIFIED_HUBER, 0.5),
    "squared_error": Loss(SQUARED_ERROR, 1.0),
    "huber": Loss(HUBER, 1.0),
}
CLASSIFIER_LOSSES = ("log_loss", "hinge", "squared_hinge", "modified_huber")
REGRESSOR_LOSSES = ("squared_error", "huber")
PROBABILITY_LOSSES = ("log_loss", "modified_huber")


def constant_loss(
    loss: str, targets: NDArray[Any], weights: NDArray[Any] | None, n_classes: int, epsilon: float
) -> float:
    """Mean loss of the best constant model (of 0 for targets of mean 0), summed over one-against-rest functions."""
    if n_classes == 0:
        size = np.abs(targets)
        if loss == "huber":
            size = np.where(size > epsilon, np.sqrt(2 * epsilon * np.maximum(size - epsilon / 2, 0)), size)
        return float(np.average(size**2 / 2, weights=weights))
    counts = np.bincount(targets, weights, n_classes)
    p = counts[1:] / counts.sum() if n_classes == 2 else counts / counts.sum()
    if loss == "log_loss":
        return float((entr(p) + entr(1 - p)).sum())
    return float((2 * np.minimum(p, 1 - p) if loss == "hinge" else 4 * p * (1 - p)).sum())


def probabilities(loss: str, scores: NDArray[Any]) -> NDArray[Any]:
    """Class probabilities (n, n_classes) from decision values (n,) or (n, n_classes); rows sum to one.

    Log loss: the logistic function; modified Huber: (clip(p, -1, 1) + 1) / 2 (Zhang 2002). With more than two
    classes, each against the rest and then divided by the sum (all equal where every class is refused).
    """
    p = expit(scores) if loss == "log_loss" else (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0
    if p.ndim == 1:
        return np.column_stack([1.0 - p, p])
    total = p.sum(axis=1, keepdims=True)
    none = total <= 0.0
    return np.asarray(np.where(none, 1.0 / p.shape[1], p / np.where(none, 1.0, total)))
