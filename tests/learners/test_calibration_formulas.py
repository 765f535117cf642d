"""Calibrated probabilities compared with formulas, a grid search and hand calculations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from dkdist.linear.calibration import (
    INITIAL_CALIBRATION,
    MIN_SHRINKAGE,
    class_prior,
    fit_calibration,
    label_probabilities,
    probabilities_of,
    shrinkage,
)

RNG = np.random.default_rng(0)


def log_probabilities_by_formula(values: np.ndarray, s: float, r: float) -> np.ndarray:
    """Return the logarithms of p_k = q_k^s / sum_j q_j^s with q_k = log(1 + exp((1 + f_k) / (2 r)))."""
    values = np.column_stack([-values, values]) if values.shape[1] == 1 else values
    log_q = s * np.log(np.logaddexp(0, (1 + values) / (2 * r)))
    return np.asarray(log_q - logsumexp(log_q, axis=1, keepdims=True))


def probabilities_by_formula(values: np.ndarray, s: float, r: float) -> np.ndarray:
    return np.exp(log_probabilities_by_formula(values, s, r))


@pytest.mark.parametrize("n_columns", [1, 3])
def test_probabilities_match_the_formula(n_columns: int) -> None:
    values = RNG.normal(size=(6, n_columns))
    result = probabilities_of(values, np.array([1.5, 0.4]))
    np.testing.assert_allclose(result, probabilities_by_formula(values, 1.5, 0.4), rtol=1e-12)


def test_multilabel_probabilities_are_calibrated_separately() -> None:
    values, calibration = RNG.normal(size=(6, 2)), np.array([[1.5, 0.4], [0.7, 2.0]])
    result = label_probabilities(values, calibration)
    for k, (s, r) in enumerate(calibration):
        np.testing.assert_allclose(
            result[:, k], probabilities_by_formula(values[:, k : k + 1], s, r)[:, 1], rtol=1e-12
        )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fit_calibration_minimises_smoothed_cross_entropy(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    n = 80
    classes = rng.integers(0, n_classes, n)
    values = rng.normal(size=(n, 1 if n_classes == 2 else n_classes))
    if n_classes == 2:
        values[:, 0] += 0.8 * (2 * classes - 1)
    else:
        values[np.arange(n), classes] += 1
    weights = rng.uniform(0.5, 2, n)
    targets = np.full((n, n_classes), 1 / (n + 2) / (n_classes - 1))
    targets[np.arange(n), classes] = 1 - 1 / (n + 2)

    def cross_entropy(s: float, r: float) -> float:
        rows = (targets * log_probabilities_by_formula(values, s, r)).sum(axis=1)
        return -float(weights @ rows) / float(weights.sum())

    s, r = fit_calibration(values, classes, n_classes, weights)
    minimum = cross_entropy(s, r)
    near_pairs = [
        (s * a, min(r * b, 20.0)) for a in np.linspace(0.9, 1.1, 9) for b in np.linspace(0.9, 1.1, 9)
    ]
    assert minimum <= min(cross_entropy(*pair) for pair in near_pairs) + 1e-9
    coarse_grid = [(a, b) for a in np.geomspace(0.05, 50, 20) for b in np.geomspace(0.05, 20, 20)]
    # there is one minimum for these seeds
    assert minimum <= min(cross_entropy(*pair) for pair in coarse_grid) + 1e-9
    assert minimum < cross_entropy(*INITIAL_CALIBRATION) - 1e-3


def test_fit_calibration_without_rows_returns_the_initial_one() -> None:
    np.testing.assert_array_equal(
        fit_calibration(np.empty((0, 1)), np.empty(0, np.int64), 2, np.empty(0)), INITIAL_CALIBRATION
    )


def test_class_prior_adds_one_row_per_class() -> None:
    """Weights (1, 1, 4) are (0.5, 0.5, 2) with mean 1: sums (1, 2, 0), plus 1 each, over 6."""
    result = class_prior(np.array([0, 0, 1]), 3, np.array([1.0, 1.0, 4.0]))
    np.testing.assert_allclose(result, [2 / 6, 3 / 6, 1 / 6])


def test_shrinkage_matches_the_likelihood_ratio() -> None:
    """chi2 = 2 (2 log 2 + 4 log 3) / factor, (chi2 - 1) / chi2."""
    p, prior, weights = np.array([0.8, 0.9]), np.array([0.4, 0.3]), np.array([2.0, 4.0])
    chi2 = 2 * (2 * np.log(2) + 4 * np.log(3))
    assert shrinkage(p, prior, weights, 1.0) == pytest.approx(1 - 1 / chi2)
    assert shrinkage(p, prior, weights, 2.5) == pytest.approx(1 - 2.5 / chi2)
    assert shrinkage(prior, p, weights, 1.0) == MIN_SHRINKAGE
    assert shrinkage(prior, prior, weights, 1.0) == MIN_SHRINKAGE
