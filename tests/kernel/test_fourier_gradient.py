"""Frequency matrices reproduce the features, and derivatives of features match differences in float64."""

import numpy as np
import pytest

from dkdist.kernels.random_fourier_params import METHODS, FourierSpec, _frequencies


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(5, 64), (37, 50), (3, 200)])
def test_features_and_gradients_match_frequencies(method, shape):
    m, D = shape
    spec, rng = FourierSpec(m, D, 1.7, method, 3), np.random.default_rng(0)
    W, parameters = _frequencies(spec), spec.materialize()
    x, g = rng.normal(size=m), rng.normal(size=(D, 2))

    def features(x):
        return np.concatenate([np.sin(x @ W.T), np.cos(x @ W.T)], axis=-1) / np.sqrt(D / 2)

    X = rng.normal(size=(4, m)).astype("f4")
    np.testing.assert_allclose(parameters.transform(X), features(X), atol=1e-5 / np.sqrt(D))
    h = 1e-6 * np.eye(m)
    x32 = np.float64(np.float32(x))
    expected = (features(x32 + h) - features(x32 - h)) @ g / 2e-6
    np.testing.assert_allclose(parameters.pull_back(np.float32(x), g), expected, atol=1e-6 * np.abs(g).sum())
