"""Averaged gradients compared with numerical integrals, and their secant property."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad_vec
from sklearn.preprocessing import StandardScaler

import dkdist as dk
from dkdist.inspection.fitted_pipeline import LinearTerm
from dkdist.inspection.set_function import contrast_weights, gaussian_path_gradient, match_rises

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("sigma_ratio", [1 / 6, 0.5, 3.0])
def test_gaussian_path_gradients_match_integrals(sigma_ratio: float) -> None:
    starts, row = RNG.normal(size=(2, 5)), RNG.normal(size=5)
    centres = row + RNG.random((30, 1)) * (starts[0] - row) + 0.3 * RNG.normal(size=(30, 5))
    coef = RNG.normal(size=(30, 2))
    sigma = sigma_ratio * float(np.linalg.norm(row - starts, axis=1).max())
    result = gaussian_path_gradient(starts, row, centres, coef, sigma)
    for j, start in enumerate(starts):

        def gradient(t: float, start: np.ndarray = start, j: int = j) -> np.ndarray:
            differences = start + t * (row - start) - centres
            kernel = np.exp((differences**2).sum(axis=1) / (-2 * sigma**2))
            return -(kernel * coef[:, j]) @ differences / sigma**2

        expected = quad_vec(gradient, 0, 1, epsabs=1e-12)[0]
        np.testing.assert_allclose(result[:, j], expected, atol=1e-9 * np.abs(expected).max())


def test_gradient_of_a_path_of_length_zero_is_the_derivative() -> None:
    row, centres, coef, h = RNG.normal(size=3), RNG.normal(size=(9, 3)), RNG.normal(size=(9, 1)), 1e-5

    def value(x: np.ndarray) -> float:
        return float(np.exp(((x - centres) ** 2).sum(axis=1) / -2) @ coef[:, 0])

    expected = [(value(row + h * e) - value(row - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(
        gaussian_path_gradient(row[None], row, centres, coef, 1.0)[:, 0], expected, atol=1e-8
    )


def test_match_rises_returns_the_nearest_gradient() -> None:
    gradient, steps, rises = RNG.normal(size=(4, 2)), RNG.normal(size=(2, 4)), RNG.normal(size=2)
    result = match_rises(gradient, steps, rises)
    np.testing.assert_allclose(np.einsum("km,mk->k", steps, result), rises, rtol=1e-12)
    change = result - gradient
    for j in range(2):  # only along the step: other corrections are longer
        assert abs(change[:, j] @ steps[j]) == pytest.approx(
            np.linalg.norm(change[:, j]) * np.linalg.norm(steps[j])
        )
    np.testing.assert_array_equal(match_rises(gradient, np.zeros((2, 4)), rises), gradient)


@pytest.mark.parametrize("n_maps", [0, 1, 2])
def test_path_gradients_of_pipelines_match_rises(n_maps: int) -> None:
    rows = RNG.normal(size=(40, 6)).astype(np.float32)
    maps, passed = [StandardScaler().fit(rows)], rows
    for seed in range(n_maps):
        passed = maps[-1].transform(passed).astype(np.float32)
        maps.append(dk.RandomFourierFeatures(64, sigma=1.5, random_state=seed).fit(passed))
    width = 64 if n_maps else 6
    term = LinearTerm(None, tuple(maps), RNG.normal(size=(3, width)))
    starts, row = rows[:3], rows[10]
    gradient = term.gradient(row, starts)
    rises = term.values(row[None])[0] - np.diag(term.values(starts))
    result = np.einsum("km,mk->k", (row - starts).astype(np.float64), gradient)
    np.testing.assert_allclose(result, rises, atol=1e-5)  # features are float32


def test_averaged_fourier_gradients_match_integrals() -> None:
    features = (
        dk.RandomFourierFeatures(32, sigma=0.5, random_state=0)
        .fit(RNG.normal(size=(9, 4)))
        .spec_.materialize()
    )
    start, row, coef = RNG.normal(size=4), RNG.normal(size=4), RNG.normal(size=(32, 1))
    expected = quad_vec(lambda t: features.pull_back(start + t * (row - start), coef), 0, 1)[0]
    np.testing.assert_allclose(features.pull_back(row, coef, start[None]), expected, atol=1e-7)


def test_contrast_weights_prefer_different_predictions() -> None:
    weights = contrast_weights(np.array([1.0, 0.0]), np.array([[1.0, 0.0], [-1, 0], [0, 0]]))
    np.testing.assert_allclose(weights, [[0, 2 / 3, 1 / 3], [1 / 3, 1 / 3, 1 / 3]])
