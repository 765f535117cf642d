"""Features of densities compared with complex powers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdist.embeddings._density_numba import MIN_DENSITY, homogeneous_features, n_parts


def features(p, v, lam, w):
    out = np.full((len(p), n_parts(lam) * p.shape[1]), np.nan, np.float32)
    homogeneous_features(p.astype(np.float32), v, lam, w, out)
    return out


@pytest.mark.parametrize(
    ("lam", "parts"), [([0.0], 1), ([1.5], 2), ([0.0, 2.0, 0.3], 5), ([2.0, 0.0, 0.3], 5), ([0.1] * 4, 8)]
)
def test_n_parts(lam, parts):
    assert n_parts(np.array(lam)) == parts


@pytest.mark.parametrize("lam", [[0.0], [0.7], [0.0, 0.3, 2.0], [1.1, 0.0, 11.0]])
@given(seed=st.integers(0, 2**31))
def test_distances_match_complex_powers(lam, seed):
    rng = np.random.default_rng(seed)
    p, q = np.exp(rng.uniform(-13, 5, (2, 30))).astype(np.float32).astype(np.float64)
    v, w, lam = rng.random(30), rng.random(len(lam)), np.array(lam)
    rows = features(np.stack([p, q]), v, lam, w).astype(np.float64)
    powers = [np.maximum(x, MIN_DENSITY)[:, None] ** (0.5 + 1j * lam) for x in (p, q)]
    expected = v @ np.abs(powers[0] - powers[1]) ** 2 @ w
    scale = v @ (p + q) * w.sum()
    assert ((rows[0] - rows[1]) ** 2).sum() == pytest.approx(expected, rel=1e-4, abs=2e-6 * scale)
    assert (rows[0] ** 2).sum() == pytest.approx(v @ np.maximum(p, MIN_DENSITY) * w.sum(), rel=1e-5)


def test_columns_are_cosines_then_sines_per_frequency():
    p, v = np.array([[0.2, 1.0, 3.0]]), np.array([0.5, 0.3, 0.2])
    lam, w = np.array([2.0, 0.0]), np.array([0.7, 0.1])
    root = np.sqrt(p * v)
    expected = np.concatenate(
        [
            np.sqrt(0.1) * root,
            np.sqrt(0.7) * root * np.cos(2 * np.log(p)),
            np.sqrt(0.7) * root * np.sin(2 * np.log(p)),
        ],
        axis=1,
    )
    np.testing.assert_allclose(features(p, v, lam, w), expected, rtol=0, atol=3e-7)


@pytest.mark.parametrize("low", [0.0, -0.5, 1e-9])
def test_densities_have_a_minimum(low):
    v, lam, w = np.ones(2), np.array([0.0, 1.0]), np.ones(2)
    np.testing.assert_array_equal(
        features(np.array([[low, 1.0]]), v, lam, w), features(np.array([[MIN_DENSITY, 1.0]]), v, lam, w)
    )


def test_only_requested_columns_are_written():
    out = np.full((2, 20), np.nan, np.float32)
    p = np.random.default_rng(0).random((2, 5)).astype(np.float32)
    homogeneous_features(p, np.ones(5), np.array([1.0]), np.ones(1), out, first=4)
    assert np.isfinite(out[:, 4:14]).all()
    assert np.isnan(out[:, :4]).all()
    assert np.isnan(out[:, 14:]).all()
