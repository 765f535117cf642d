"""Densities from cosine coefficients compared with a brute-force reflected Gaussian estimate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import coefficients, reflected_density

from dkdist.embeddings._density_numba import (
    TRUNCATION_DAMPING,
    ball_terms,
    basis_table,
    degree_for,
    tensor_coefficients,
    tensor_density,
    term_table,
)


def density(points, bandwidth, grid, weights=None):
    """Return the density of one set at the tensor grid."""
    d = len(bandwidth)
    degrees = tuple(degree_for(h) for h in bandwidth)
    spans, box = np.array([[0, len(points)]]), (np.zeros(d, np.float32), np.ones(d, np.float32))
    C = tensor_coefficients(points.astype(np.float32), spans, weights, *box, degrees)
    return tensor_density(C, [basis_table(grid, K, h) for K, h in zip(degrees, bandwidth, strict=True)])[0]


def tensor_points(grid, d):
    return np.stack(np.meshgrid(*[grid] * d, indexing="ij"), axis=-1).reshape(-1, d)


@pytest.mark.parametrize("bandwidth", [(0.05,), (0.2,), (0.1, 0.1), (0.07, 0.3), (0.1, 0.2, 0.12)])
@pytest.mark.parametrize("weighted", [False, True])
def test_density_matches_reflected_gaussian_estimate(bandwidth, weighted):
    rng = np.random.default_rng(len(bandwidth))
    d, grid = len(bandwidth), np.linspace(0, 1, 9)
    points = rng.beta(0.7, 1.5, (200, d)).astype(np.float32)  # concentrated at a boundary
    weights = rng.random(200).astype(np.float32) if weighted else None
    expected = reflected_density(points, bandwidth, tensor_points(grid, d), weights)
    np.testing.assert_allclose(density(points, bandwidth, grid, weights), expected, rtol=0, atol=1e-3)


def test_truncation_error_of_a_single_point():
    grid, h = np.linspace(0, 1, 101), 0.1
    point = np.array([[0.37]])
    error = density(point, (h,), grid) - reflected_density(point, (h,), grid[:, None])
    assert np.abs(error).max() < 2e-3  # the peak is 4


@given(n=st.integers(1, 400), d=st.integers(1, 3), seed=st.integers(0, 2**31), h=st.floats(0.06, 0.6))
def test_density_integrates_to_one(n, d, seed, h):
    points = np.random.default_rng(seed).random((n, d))
    grid = (np.arange(40) + 0.5) / 40  # midpoints integrate every cosine of degree below 80
    assert density(points, (h,) * d, grid).astype(np.float64).mean() == pytest.approx(1, abs=1e-5)


def test_weights_match_repeated_points():
    rng = np.random.default_rng(0)
    points, counts = rng.random((100, 2)), rng.integers(1, 5, 100)
    grid = np.linspace(0, 1, 11)
    weighted = density(points, (0.1, 0.1), grid, counts.astype(np.float32))
    np.testing.assert_allclose(
        weighted, density(np.repeat(points, counts, axis=0), (0.1, 0.1), grid), atol=2e-5
    )


@given(n=st.integers(1, 1000), seed=st.integers(0, 2**31))
def test_order_of_points_changes_rounding_only(n, seed):
    rng = np.random.default_rng(seed)
    points, grid = rng.random((n, 2)), np.linspace(0, 1, 11)
    shuffled = points[rng.permutation(n)]
    np.testing.assert_allclose(
        density(points, (0.1, 0.1), grid), density(shuffled, (0.1, 0.1), grid), rtol=0, atol=5e-5
    )


@given(h=st.floats(0.005, 3.0))
def test_degree_for_reaches_the_truncation_damping(h):
    K = degree_for(h)
    assert K >= 4
    assert K % 4 == 0
    assert np.exp(-((np.pi * K * h) ** 2) / 2) <= TRUNCATION_DAMPING * (1 + 1e-9)
    assert K == 4 or np.exp(-((np.pi * (K - 4) * h) ** 2) / 2) > TRUNCATION_DAMPING


def test_last_dimension_varies_fastest():
    rng = np.random.default_rng(0)
    C = rng.standard_normal((3, 4 * 8 * 12)).astype(np.float32)
    grids = [np.linspace(0, 1, n) for n in (5, 6, 7)]
    tables = [basis_table(g, K, 0.1) for g, K in zip(grids, (4, 8, 12), strict=True)]
    expected = np.einsum(
        "sabc,xa,yb,zc->sxyz", C.reshape(3, 4, 8, 12), *(t.astype(np.float64) for t in tables), optimize=True
    )
    np.testing.assert_allclose(tensor_density(C, tables), expected.reshape(3, -1), rtol=0, atol=2e-4)


def test_term_table_matches_the_tensor():
    rng = np.random.default_rng(0)
    points, h = rng.random((50, 2)), np.array([0.3, 0.2])
    exponents, _ = ball_terms((7.0, 7.0))
    at = rng.random((20, 2))
    full = coefficients(points, (8, 8))[exponents[:, 0], exponents[:, 1]]
    expected = np.zeros(20)
    for (a, b), c in zip(exponents, full, strict=True):
        damping = (
            np.exp(-(np.pi**2) * ((a * h[0]) ** 2 + (b * h[1]) ** 2) / 2) * (2 if a else 1) * (2 if b else 1)
        )
        expected += c * damping * np.cos(np.pi * a * at[:, 0]) * np.cos(np.pi * b * at[:, 1])
    np.testing.assert_allclose(full @ term_table(at, exponents, h), expected, rtol=0, atol=1e-5)
