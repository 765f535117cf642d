"""Losses of linear models: their values, default steps and probabilities; slopes are in `descent_loops`.

Values follow scikit-learn's SGD: l(p, y) with y = -1, +1 for classes, half the squared error for numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dkdist.learners.descent.descent_loops import (
    HINGE,
    HUBER,
    LOG,
    MODIFIED_HUBER,
    SQUARED_ERROR,
    SQUARED_HINGE,
)
from dkdist.loops.array_types import F64


@dataclass(frozen=True)
class Loss:
    """The ``number`` that `slope` knows it by, ``value(scores, targets, epsilon)`` element by element, and the ``step``
    that times 1/R^2 is the default one."""

    number: int
    value: Callable[[F64, F64, float], F64]
    step: float


def _log(p: F64, y: F64, epsilon: float) -> F64:
    return np.logaddexp(0.0, -y * p)


def _hinge(p: F64, y: F64, epsilon: float) -> F64:
    return np.maximum(0.0, 1.0 - y * p)


def _squared_hinge(p: F64, y: F64, epsilon: float) -> F64:
    return np.asarray(np.maximum(0.0, 1.0 - y * p) ** 2)


def _modified_huber(p: F64, y: F64, epsilon: float) -> F64:
    z = y * p
    return np.where(z < -1.0, -4.0 * z, np.maximum(0.0, 1.0 - z) ** 2)


def _squared_error(p: F64, y: F64, epsilon: float) -> F64:
    return np.asarray(0.5 * (p - y) ** 2)


def _huber(p: F64, y: F64, epsilon: float) -> F64:
    r = np.abs(p - y)
    return np.where(r <= epsilon, 0.5 * r**2, epsilon * (r - 0.5 * epsilon))


LOSSES = {
    "log_loss": Loss(LOG, _log, 8.0),
    "hinge": Loss(HINGE, _hinge, 1.0),
    "squared_hinge": Loss(SQUARED_HINGE, _squared_hinge, 0.5),
    "modified_huber": Loss(MODIFIED_HUBER, _modified_huber, 0.5),
    "squared_error": Loss(SQUARED_ERROR, _squared_error, 1.0),
    "huber": Loss(HUBER, _huber, 1.0),
}
CLASSIFIER_LOSSES = ("log_loss", "hinge", "squared_hinge", "modified_huber")
REGRESSOR_LOSSES = ("squared_error", "huber")
PROBABILITY_LOSSES = ("log_loss", "modified_huber")


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
