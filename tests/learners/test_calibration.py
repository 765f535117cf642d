"""Calibrated probabilities: separated classes, smoothed targets, priors and shrinkage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2 as chi2_distribution

from dkdist.linear.calibration import (
    class_prior,
    fit_calibration,
    fit_power,
    log_probabilities,
    probabilities_of,
    shrinkage,
)


@pytest.mark.parametrize(("n_classes", "size"), [(2, 20), (5, 8), (30, 8), (100, 3)])
def test_confidence_of_separated_classes_depends_on_n_rows(n_classes: int, size: int) -> None:
    """For n correctly classified rows the smoothed confidence is 1 - 1 / (n + 2), for any number of classes."""
    classes = np.repeat(np.arange(n_classes), size)
    values = np.where(np.arange(n_classes) == classes[:, None], 1.0, -1.0)
    values = values[:, 1:] if n_classes == 2 else values
    n = len(classes)
    calibration = fit_calibration(values, classes, n_classes, np.ones(n))
    p = probabilities_of(values, calibration)
    np.testing.assert_allclose(p[np.arange(n), classes], 1 - 1 / (n + 2), atol=1e-4)
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_values_without_information_keep_their_order() -> None:
    rng = np.random.default_rng(0)
    values, classes = rng.normal(size=(400, 1)), np.arange(400) % 2
    calibration = fit_calibration(-np.sign(classes - 0.5)[:, None] + 0.01 * values, classes, 2, np.ones(400))
    p = probabilities_of(np.array([[-1.0], [0.0], [1.0]]), calibration)[:, 1]
    assert (np.diff(p) > 0).all()
    np.testing.assert_allclose(p, 0.5, atol=1e-3)


@pytest.mark.parametrize("temperature", [4, 0.25])
def test_fit_power_inverts_a_temperature(temperature: float) -> None:
    """Classes are drawn from softmax(z): the power of softmax(z / T) is T, within 3 standard errors."""
    rng = np.random.default_rng(3)
    z = 2 * rng.normal(size=(20000, 5))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    classes = (p.cumsum(axis=1) < rng.random((len(z), 1))).sum(axis=1)
    tempered = z / temperature - np.log(np.exp(z / temperature).sum(axis=1, keepdims=True))
    # Fisher information of a power is the variance of the exponents under p
    information = (p * tempered**2).sum(axis=1) - (p * tempered).sum(axis=1) ** 2
    error = 1 / np.sqrt(information.sum())
    assert fit_power(tempered, classes, np.ones(len(z))) == pytest.approx(temperature, abs=3 * error)
    assert np.isfinite(log_probabilities(1e4 * z, np.array([1e3, 0.02]))).all()


def test_class_prior_is_laplace_smoothed() -> None:
    np.testing.assert_allclose(class_prior(np.array([0, 0, 0, 2]), 3, np.ones(4)), [4 / 7, 1 / 7, 2 / 7])
    np.testing.assert_allclose(class_prior(np.array([0, 1]), 2, np.array([3.0, 1.0])), [2.5 / 4, 1.5 / 4])


def test_shrinkage_formula() -> None:
    p, prior, weights = np.array([0.9, 0.8, 0.6]), np.array([0.5, 0.4, 0.5]), np.array([1.0, 2.0, 3.0])
    chi2 = 2 * (np.log(1.8) + 2 * np.log(2) + 3 * np.log(1.2))
    assert shrinkage(p, prior, weights, 1.0) == pytest.approx(1 - 1 / chi2)
    assert shrinkage(p, prior, weights, 2.0) == pytest.approx(1 - 2 / chi2)
    for p_without_gain in (prior, prior / 2, np.zeros(3)):
        assert shrinkage(p_without_gain, prior, weights, 1.0) == 1e-6


def test_shrinkage_reduces_loss_on_new_rows() -> None:
    """Shrinkage halves the excess log loss of noise, 1 / (2 n) for one fitted slope."""
    rng = np.random.default_rng(1)
    n, excess = 40, {"fitted": [], "shrunk": []}
    for _ in range(2000):
        slope = rng.normal() * 2 / np.sqrt(n)  # logistic model of standard normal values, to first order
        chi2 = n * slope**2 / 4
        factor = max(0.0, 1 - 1 / chi2)
        for name, slope_of_model in (("fitted", slope), ("shrunk", factor * slope)):
            excess[name].append(slope_of_model**2 / 8)  # expected log loss of new rows, to second order
    assert np.mean(excess["fitted"]) == pytest.approx(chi2_distribution(1).mean() / (2 * n), rel=0.1)
    assert np.mean(excess["shrunk"]) < np.mean(excess["fitted"]) / 2
