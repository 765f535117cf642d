"""Decision values of least squares to probabilities, fitted on values of rows that were not learned from.

Least squares on targets -1 and +1 estimates 2 p - 1, so that u = (1 + f) / 2 is nearly a probability already, but for
values outside [0, 1] and for a slope that the penalty has made too small:

    p_k(x) = q_k^s / sum_j q_j^s,     q_k = log(1 + exp(u_k / r))

For a small r, q is u (where that is positive) and p the estimate itself, to the power s; for a large one log q is
linear and p is the softmax with one temperature. Both are fitted, by the cross entropy. p grows with f, so that the
class of the largest value is always the most probable one. Of two classes the other has the value -f.

Targets are smoothed as by Platt, so that a few rows which are separated by chance do not give certainty: each of n rows
has 1 / (n + 2) in all for the K - 1 other classes, in equal parts, and the rest for its own. (Smoothing every class by
itself, with a total of (K - 1) / (N_k + K), leaves 30 separated classes of 8 rows with a confidence of 0.23.)

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

START = (1.0, 0.1)
EXACT = {"ftol": 1e-14, "gtol": 1e-9}
TINY, MIN_SHRINKAGE = 1e-300, 1e-6  # probabilities have logarithms; no shrinkage loses their order
LEAST = -30.0  # of u / r, below which log(log(1 + e^u)) is u
TEMPERATURE_POWERS = (1e-3, 1e2)  # powers of probabilities that were calibrated once
POWERS, ROUNDINGS = (1e-6, 1e3), (0.02, 20.0)  # a power of 0 would lose the order of values


def calibrated(values: F64, classes: I64, n_classes: int, weights: F64) -> F64:
    """(s, r) for decision values (m, 1) of two classes, or (m, n_classes), of rows of known class.

    Without rows the estimates are taken as they are.
    """
    if len(values) == 0:
        return np.array(START)
    targets, shares = _smoothed(classes, n_classes), weights / weights.sum()

    def cross_entropy(calibration: F64) -> tuple[float, F64]:
        logs, slopes = _log_q(values, calibration[1])
        found = log_softmax(calibration[0] * logs, axis=1)
        missed = shares[:, None] * (np.exp(found) - targets)
        gradient = [(missed * logs).sum(), calibration[0] * (missed * slopes).sum()]
        return -float(shares @ (targets * found).sum(axis=1)), np.array(gradient)

    found = scipy.optimize.minimize(
        cross_entropy, START, jac=True, bounds=[POWERS, ROUNDINGS], method="L-BFGS-B", options=EXACT
    )
    return np.asarray(found.x, np.float64)


def class_prior(classes: I64, n_classes: int, weights: F64) -> F64:
    """Weighted frequencies (n_classes,) of the classes, each with one more observation (Laplace)."""
    sums = np.bincount(classes, weights * (len(classes) / weights.sum()), n_classes) + 1.0
    return np.asarray(sums / sums.sum())


def shrinkage(p: F64, prior: F64, weights: F64, variance_factor: float) -> float:
    """The exponent of probabilities, and one less that of the prior, for fresh rows.

    ``p`` and ``prior`` (n,) are probabilities of the true classes of held-out rows. With chi2 = 2 sum log(p / prior)
    the heuristic shrinkage of one fitted slope is (chi2 - 1) / chi2 (van Houwelingen, le Cessie: Predictive value of
    statistical models, 1990); rows whose models share training data are worth 1 / ``variance_factor`` of their number.
    """
    chi2 = 2.0 * float(weights @ np.log(np.maximum(p, TINY) / prior)) / variance_factor
    return float(np.clip(1.0 - 1.0 / chi2 if chi2 > 0 else 0.0, MIN_SHRINKAGE, 1.0))


def probabilities_of(values: NDArray[Any], calibration: F64) -> NDArray[Any]:
    """Probabilities (n, n_classes) of decision values (n,) or (n, n_classes); rows sum to one."""
    values = values.astype(np.float64).reshape(len(values), -1)
    return np.asarray(softmax(calibration[0] * _log_q(values, calibration[1])[0], axis=1))


def log_probabilities(values: NDArray[Any], calibration: F64) -> F64:
    """Finite logarithms (n, n_classes) of `probabilities_of`."""
    return np.asarray(np.log(np.maximum(probabilities_of(values, calibration), TINY)))


def calibrated_power(logits: F64, classes: I64, weights: F64) -> float:
    """The power of probabilities, given as logarithms (m, n_classes), that has the least cross entropy.

    The softmax of ``power * logits`` has one temperature (Guo et al. 2017); cross entropy is convex in its inverse.
    """
    targets, shares = _smoothed(classes, logits.shape[1]), weights / weights.sum()

    def cross_entropy(log_power: float) -> float:
        return -float(shares @ (targets * log_softmax(np.exp(log_power) * logits, axis=1)).sum(axis=1))

    found = scipy.optimize.minimize_scalar(cross_entropy, bounds=np.log(TEMPERATURE_POWERS), method="bounded")
    return float(np.exp(found.x))


def label_probabilities(values: NDArray[Any], calibration: F64) -> NDArray[Any]:
    """Probabilities (n, k) of labels that do not exclude each other; ``calibration`` (k, 2) has a row for each."""
    each = zip(values.T, calibration, strict=True)
    return np.stack([probabilities_of(of_label, own)[:, 1] for of_label, own in each], axis=1)


def _log_q(values: F64, rounding: float) -> tuple[F64, F64]:
    """log q of all classes, and how it grows with r; it is u / r where q is small."""
    values = np.column_stack([-values, values]) if values.shape[1] == 1 else values
    u = (1.0 + values) / (2.0 * rounding)
    above = np.maximum(u, LEAST)
    q = np.logaddexp(0.0, above)
    logs = np.where(u < LEAST, u, np.log(q))
    return logs, -u / rounding * np.where(u < LEAST, 1.0, expit(above) / q)


def _smoothed(classes: I64, n_classes: int) -> F64:
    """Smoothed targets (m, n_classes)."""
    others = 1.0 / (len(classes) + 2)
    targets = np.full((len(classes), n_classes), others / (n_classes - 1))
    targets[np.arange(len(classes)), classes] = 1.0 - others
    return targets
