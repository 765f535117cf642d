"""Dense random Fourier features compared with float64, and orthogonal frequencies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdist.kernels._dense_features_numba import (
    TILE_FREQUENCIES,
    TILE_ROWS,
    as_panels,
    dense_features,
    scale_dense,
)
from dkdist.kernels.registry import orthogonal_frequencies


def features(X, Wt):
    outs = np.full((1, len(X), 2 * Wt.shape[1]), np.nan, np.float32)
    dense_features(X, scale_dense(as_panels(Wt), 2 * Wt.shape[1], [1.0]), outs)
    return outs[0]


def random_case(seed, n, m, F):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)).astype(np.float32), rng.standard_normal((m, F)).astype(np.float32)


@given(
    n=st.sampled_from([1, 5, TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 1, 100]),
    m=st.integers(1, 40),
    F=st.sampled_from(
        [
            1,
            15,
            16,
            17,
            70,
            TILE_FREQUENCIES - 1,
            TILE_FREQUENCIES,
            TILE_FREQUENCIES + 1,
            3 * TILE_FREQUENCIES,
        ]
    ),
)
def test_features_are_sines_then_cosines(n, m, F):
    X, Wt = random_case(n, n, m, F)
    phases = X.astype(np.float64) @ Wt
    expected = np.concatenate([np.sin(phases), np.cos(phases)], axis=1) / np.sqrt(F)
    np.testing.assert_allclose(features(X, Wt) * np.sqrt(F), expected * np.sqrt(F), rtol=0, atol=2e-5)


def test_rows_have_unit_norm_for_any_scale():
    X, Wt = random_case(0, 50, 7, 200)
    z = features(X * np.geomspace(1e-6, 1e4, 50)[:, None].astype(np.float32), Wt).astype(np.float64)
    np.testing.assert_allclose((z**2).sum(axis=1), 1, atol=1e-5)
    assert np.abs(features(X * np.float32(1e30), Wt)).max() <= 1 / np.sqrt(200) * (1 + 1e-6)


@given(n=st.integers(1, 400), cut=st.integers(0, 400), m=st.integers(1, 80))
def test_row_does_not_depend_on_other_rows(n, cut, m):
    X, Wt = random_case(m, n, m, 37)
    cut = min(cut, n)
    whole = features(X, Wt)
    np.testing.assert_array_equal(np.concatenate([features(X[:cut], Wt), features(X[cut:], Wt)]), whole)
    np.testing.assert_array_equal(features(X[::-1].copy(), Wt)[::-1], whole)


@pytest.mark.parametrize(("F", "m"), [(7, 7), (20, 7), (3, 7), (5, 1)])
def test_frequencies_are_orthogonal_within_blocks(F, m):
    rng = np.random.default_rng(0)
    norms = rng.random(F) + 0.5
    W = orthogonal_frequencies(rng.standard_normal((-(-F // m), m, m)), norms)
    assert W.shape == (F, m)
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), norms)
    for start in range(0, F, m):
        block = W[start : start + m]
        np.testing.assert_allclose(block @ block.T, np.diag(norms[start : start + m] ** 2), atol=1e-12)


def test_directions_of_frequencies_are_uniform():
    rng = np.random.default_rng(0)
    gaussian, m = rng.standard_normal((4000, 3, 3)), 3
    W = orthogonal_frequencies(gaussian, np.ones(12000)).reshape(4000, m, m)
    np.testing.assert_allclose(W.mean(axis=0), 0, atol=0.04)  # standard error 0.009; 0.5 without random signs
    np.testing.assert_allclose((W**2).mean(axis=0), 1 / 3, atol=0.02)
    assert abs((np.linalg.det(W) > 0).mean() - 0.5) < 0.04
