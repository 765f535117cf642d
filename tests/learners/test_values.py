"""Decision values compared with float64, and their reproducibility."""

import numpy as np
import pytest

from dkdist.linear.rows import decision_values


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [None, 1, 3, 40])
@pytest.mark.parametrize("D", [1, 17, 1000])
def test_decision_values_are_accurate_and_reproducible(dtype, k, D):
    rng = np.random.default_rng(D)
    X = rng.standard_normal((300, D)).astype(dtype)
    W = rng.standard_normal(D if k is None else (k, D)).astype(dtype)
    b = 0.5 if k is None else rng.standard_normal(k).astype(dtype)
    result = decision_values(X, W, b)
    assert result.shape == ((300,) if k is None else (300, k))
    np.testing.assert_allclose(
        result, X.astype(np.float64) @ W.T + b, atol=1e-3 if dtype == np.float32 else 1e-11
    )
    parts = [decision_values(X[rows], W, b) for rows in (slice(0, 1), slice(1, 130), slice(130, None))]
    np.testing.assert_array_equal(np.concatenate(parts), result)
    np.testing.assert_array_equal(decision_values(X[::-1], W, b)[::-1], result)
