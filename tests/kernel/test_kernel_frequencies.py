"""Random frequencies of all kernels: mean cosines and inner products of features match the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.kernels.random_fourier_params import FourierSpec
from dkdist.kernels.registry import MAX_FREQUENCY, NORMAL_SAMPLERS, get_kernel, names_with

from .kernel_profiles import kernel_matrix

# "triangle" has frequencies on a line only (test_plain_kernels.py).
OTHERS = sorted(set(names_with("sample_frequencies")) - {"gaussian", "triangle"})


def matrix(x, y, sigma, kernel):
    return kernel_matrix(x / sigma, y / sigma, kernel)


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("draw", sorted(NORMAL_SAMPLERS))
def test_mean_cosines_match_the_kernel(kernel, draw):
    """Means of F independent cosines have the standard deviation (1 + k(2 t) - 2 k(t)^2)^(1/2) / (2 F)^(1/2)."""
    rng, F, d = np.random.default_rng(0), 2**12, 3
    w = get_kernel(kernel).frequencies(rng, NORMAL_SAMPLERS[draw](rng, F, d))
    t = np.array([[0.1, 0, 0], [1, -1, 0.5], [0, 3, 0], [2, 2, 2.0]])
    assert np.sqrt((w**2).sum(axis=1)).max() <= MAX_FREQUENCY * d**0.5 * (1 + 1e-12)
    expected = matrix(t, np.zeros((1, d)), 1.0, kernel)[:, 0]
    assert np.abs(np.cos(w @ t.T).mean(axis=0) - expected).max() < 4.5 / np.sqrt(2 * F) + 7e-5 * d


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("m", [4, 70])
def test_inner_products_of_features_match_the_kernel(kernel, m):
    X = np.random.default_rng(0).standard_normal((12, m)).astype(np.float32)
    sigma, D = 2.0 * (m if kernel == "laplace" else m**0.5), 4000
    result = dk.RandomFourierFeatures(D, sigma, random_state=0, kernel=kernel).fit(X)
    assert result.spec_.method == ("structured" if m > 64 and kernel != "laplace" else "orthogonal")
    z = result.transform(X).astype(np.float64)
    X64 = X.astype(np.float64)
    assert np.abs(z @ z.T - matrix(X64, X64, result.sigma_, kernel)).max() < 6 / np.sqrt(D)
    np.testing.assert_allclose(np.diag(z @ z.T), 1, atol=1e-5)


@pytest.mark.parametrize("kernel", OTHERS)
def test_distances_of_mean_embeddings_match_kernel_distance(kernel):
    rng = np.random.default_rng(1)
    sets = [rng.normal(0, 1, (80, 2)), rng.normal(0.7, 1, (60, 2))]
    model = dk.MeanEmbedding(4000, sigma=[0.5, 2.0], random_state=0, kernel=kernel)
    rows = model.fit_transform(sets).astype(np.float64)
    D2 = dk.kernel_distance(*sets, sigma=[0.5, 2.0], kernel=kernel, squared=True) / 2
    assert ((rows[0] - rows[1]) ** 2).sum() == pytest.approx(D2, abs=0.1 * D2)
    assert model.error_bound_ is None
    assert dk.kernel_error(model, sets, n_pairs=4, random_state=0).rms < 0.02


def test_derivatives_of_features_match_differences():
    for method in ("orthogonal", "structured"):
        parameters = FourierSpec(5, 64, 1.5, method, 0, "matern32").materialize()
        x, g = np.linspace(-1, 1, 5), np.random.default_rng(0).standard_normal((64, 1))
        result = parameters.pull_back(x.astype(np.float32), g)[:, 0]
        ends = [
            [parameters.transform((x + h * e)[None].astype(np.float32))[0] for h in (1e-2, -1e-2)]
            for e in np.eye(5)
        ]
        expected = [(a.astype(float) - b) @ g[:, 0] / 2e-2 for a, b in ends]
        np.testing.assert_allclose(result, expected, atol=2e-2)


def test_kernel_error_of_other_kernels():
    sets = [np.random.default_rng(i).random((30, 1)) ** (1 + i / 4) for i in range(6)]
    features = dk.RandomFourierFeatures(2000, sigma=0.3, kernel="matern52", random_state=0)
    both = make_pipeline(dk.L2Embedding(5, 0.1, domain="unit"), features).fit(sets)
    assert dk.kernel_error(both, sets, n_pairs=20, random_state=0).rms < 3 / np.sqrt(2000)
    laplace = make_pipeline(
        dk.L2Embedding(5, 0.1, domain="unit"), dk.RandomFourierFeatures(20, kernel="laplace")
    )
    with pytest.raises(ValueError, match="must have a kernel of the Euclidean distance"):
        dk.kernel_error(laplace.fit(sets), sets)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            dk.RandomFourierFeatures(8, kernel="energy"),
            "kernel must be one of 'gaussian', .*'rational-quadratic', 'triangle'; got 'energy'",
        ),
        (
            dk.RandomFourierFeatures(8, method="structured", kernel="laplace"),
            "does not support kernel='laplace'",
        ),
        (dk.MeanEmbedding(8, kernel="epanechnikov"), "kernel must be one of"),
        (
            dk.MeanEmbedding(8, method="fourier", kernel="matern32"),
            "requires kernel='gaussian'; got 'matern32'",
        ),
    ],
)
def test_kernels_without_frequencies_raise(model, message):
    X = np.random.default_rng(0).random((6, 3))
    with pytest.raises(ValueError, match=message):
        model.fit([X, X + 1] if isinstance(model, dk.MeanEmbedding) else X)
