"""Calibration: class probabilities from least-squares decision values, fitted on held-out rows.

The least-squares value f for targets -1 and +1 estimates 2 p - 1, so u = (1 + f) / 2 is nearly a probability, except
for values outside [0, 1] and a slope reduced by the penalty:

    p_k(x) = q_k^s / sum_j q_j^s,     q_k = log(1 + exp(u_k / r))

For small r, q is proportional to max(u, 0) and p to its power s. For large r, log q is linear in u and p is a softmax
with one temperature. s and r minimise the cross entropy. p increases with f, so the largest value has the most probable
class. With two classes the other value is -f. Targets are smoothed as by Platt: in each of n rows the K - 1 other
classes have a total probability of 1 / (n + 2). (Smoothing each class by (K - 1) / (N_k + K) would reduce the
confidence for 30 separated classes of 8 rows to 0.23.)

Platt (1999), Probabilistic outputs for support vector machines. Guo, Pleiss, Sun & Weinberger (2017), On calibration of
modern neural networks (one temperature for all classes).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

from dkdist._numba.arrays import F64, I64

INITIAL_CALIBRATION = (1.0, 0.1)
LBFGS_OPTIONS = {"ftol": 1e-14, "gtol": 1e-9}
# These limits keep logarithms finite and preserve the order of values (tests/learners/test_calibration.py).
MIN_PROBABILITY, MIN_SHRINKAGE = 1e-300, 1e-6
# For u below this, log(log(1 + e^u)) = u with an error of e^-30 / 2 < 5e-14
# (tests/learners/test_calibration_formulas.py).
MIN_SOFTPLUS_ARGUMENT = -30.0
POWER_BOUNDS = (1e-3, 1e2)  # limits of the power in `fit_power`
EXPONENT_BOUNDS, ROUNDING_BOUNDS = (1e-6, 1e3), (0.02, 20.0)  # limits of s and r; s = 0 would lose the order


def fit_calibration(values: F64, classes: I64, n_classes: int, weights: F64) -> F64:
    """Return (s, r) for decision values (m, 1) of two classes, or (m, n_classes); without rows the initial values."""
    if len(values) == 0:
        return np.array(INITIAL_CALIBRATION)
    targets, fractions = _smoothed_targets(classes, n_classes), weights / weights.sum()

    def cross_entropy(calibration: F64) -> tuple[float, F64]:
        logs, slopes = _log_q(values, calibration[1])
        result = log_softmax(calibration[0] * logs, axis=1)
        residuals = fractions[:, None] * (np.exp(result) - targets)
        gradient = [(residuals * logs).sum(), calibration[0] * (residuals * slopes).sum()]
        return -float(fractions @ (targets * result).sum(axis=1)), np.array(gradient)

    result = scipy.optimize.minimize(
        cross_entropy,
        INITIAL_CALIBRATION,
        jac=True,
        bounds=[EXPONENT_BOUNDS, ROUNDING_BOUNDS],
        method="L-BFGS-B",
        options=LBFGS_OPTIONS,
    )
    return np.asarray(result.x, np.float64)


def class_prior(classes: I64, n_classes: int, weights: F64) -> F64:
    """Return weighted class frequencies (n_classes,) with Laplace smoothing (one more row per class)."""
    sums = np.bincount(classes, weights * (len(classes) / weights.sum()), n_classes) + 1.0
    return np.asarray(sums / sums.sum())


def shrinkage(p: F64, prior: F64, weights: F64, variance_factor: float) -> float:
    """Return the exponent c of p^c prior^(1 - c), the shrunk probability for new rows.

    ``p`` and ``prior`` (n,) are probabilities of the true classes of held-out rows. With chi2 = 2 sum log(p / prior)
    the heuristic shrinkage of one fitted slope is (chi2 - 1) / chi2 (van Houwelingen, le Cessie: Predictive value of
    statistical models, 1990); ``variance_factor`` > 1 reduces the effective number of rows if their models share
    training data.
    """
    chi2 = 2.0 * float(weights @ np.log(np.maximum(p, MIN_PROBABILITY) / prior)) / variance_factor
    return float(np.clip(1.0 - 1.0 / chi2 if chi2 > 0 else 0.0, MIN_SHRINKAGE, 1.0))


def probabilities_of(values: NDArray[Any], calibration: F64) -> NDArray[Any]:
    """Return probabilities (n, n_classes) for decision values (n,) or (n, n_classes); rows sum to 1."""
    values = values.astype(np.float64).reshape(len(values), -1)
    return np.asarray(softmax(calibration[0] * _log_q(values, calibration[1])[0], axis=1))


def log_probabilities(values: NDArray[Any], calibration: F64) -> F64:
    """Return finite logarithms (n, n_classes) of `probabilities_of`."""
    return np.asarray(np.log(np.maximum(probabilities_of(values, calibration), MIN_PROBABILITY)))


def fit_power(logits: F64, classes: I64, weights: F64) -> float:
    """Return the exponent with the smallest cross entropy for log probabilities ``logits`` (m, n_classes).

    The softmax of ``power * logits`` has one temperature, 1 / power (Guo et al. 2017); cross entropy is convex in
    power.
    """
    targets, fractions = _smoothed_targets(classes, logits.shape[1]), weights / weights.sum()

    def cross_entropy(log_power: float) -> float:
        return -float(fractions @ (targets * log_softmax(np.exp(log_power) * logits, axis=1)).sum(axis=1))

    result = scipy.optimize.minimize_scalar(cross_entropy, bounds=np.log(POWER_BOUNDS), method="bounded")
    return float(np.exp(result.x))


def label_probabilities(values: NDArray[Any], calibration: F64) -> NDArray[Any]:
    """Return probabilities (n, k) for multilabel targets; ``calibration`` (k, 2) has one row per label."""
    pairs = zip(values.T, calibration, strict=True)
    return np.stack(
        [
            probabilities_of(label_values, label_calibration)[:, 1]
            for label_values, label_calibration in pairs
        ],
        axis=1,
    )


def _log_q(values: F64, rounding: float) -> tuple[F64, F64]:
    """Return log q of all classes and its derivative with respect to r; log q is u / r for very negative u / r."""
    values = np.column_stack([-values, values]) if values.shape[1] == 1 else values
    u = (1.0 + values) / (2.0 * rounding)
    clipped = np.maximum(u, MIN_SOFTPLUS_ARGUMENT)
    q = np.logaddexp(0.0, clipped)
    logs = np.where(u < MIN_SOFTPLUS_ARGUMENT, u, np.log(q))
    return logs, -u / rounding * np.where(u < MIN_SOFTPLUS_ARGUMENT, 1.0, expit(clipped) / q)


def _smoothed_targets(classes: I64, n_classes: int) -> F64:
    other_weight = 1.0 / (len(classes) + 2)
    targets = np.full((len(classes), n_classes), other_weight / (n_classes - 1))
    targets[np.arange(len(classes)), classes] = 1.0 - other_weight
    return targets
