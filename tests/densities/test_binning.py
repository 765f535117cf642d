"""Cosine coefficients from a grid compared with the direct sum, within the aliasing bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import coefficients

from dkdist.embeddings._binning_numba import POINTS_PER_BATCH, binned_coefficients
from dkdist.embeddings._density_numba import basis_table, tensor_density

DEGREES = {2: (12, 16), 3: (8, 12, 4)}
ROUNDING = 3e-5


def binned(points, degrees, weights=None, low=None, scale=None):
    d = points.shape[1]
    low, scale = (
        np.zeros(d, np.float32) if low is None else low,
        np.ones(d, np.float32) if scale is None else scale,
    )
    return binned_coefficients(points, np.array([[0, len(points)]]), weights, low, scale, degrees)[0]


def aliasing_bound(degrees):
    """Return prod_j 1 / sinc^2(a_j / 2G_j) - 1, for G = 2K."""
    bound = np.ones(())
    for K in degrees:
        bound = np.multiply.outer(bound, np.sinc(np.arange(K) / (4 * K)) ** -2)
    return bound - 1


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@given(n=st.integers(1, 2000), width=st.sampled_from([0.0, 0.01, 0.1, 1.0]), seed=st.integers(0, 2**31))
def test_error_is_within_the_aliasing_bound(d, weighted, n, width, seed):
    rng = np.random.default_rng(seed)
    points = np.clip(rng.random(d) + width * rng.standard_normal((n, d)), 0, 1).astype(np.float32)
    weights = rng.random(n).astype(np.float32) + 0.01 if weighted else None
    error = binned(points, DEGREES[d], weights).reshape(DEGREES[d]) - coefficients(
        points, DEGREES[d], weights
    )
    assert (np.abs(error) <= aliasing_bound(DEGREES[d]) + ROUNDING).all()


def test_aliasing_bound_is_as_documented_and_attained():
    bound = aliasing_bound((16,))
    assert bound[4] == pytest.approx(0.013, abs=5e-4)
    assert bound[8] == pytest.approx(0.053, abs=5e-4)
    at_a_node, error = np.full((1, 2), 10 / 32, np.float32), 0.0  # all aliases are in phase at a node
    error = binned(at_a_node, (16, 16)).reshape(16, 16) - coefficients(at_a_node, (16, 16))
    assert np.abs(error).max() > 0.5 * aliasing_bound((16, 16)).max()


@pytest.mark.parametrize(("d", "n"), [(2, 1024), (3, 256)])
@pytest.mark.parametrize("spread", [0.01, 0.05, 0.2])
def test_density_error_is_below_one_percent_of_the_peak(d, n, spread):
    rng = np.random.default_rng(d)
    degrees, h = (16,) * d, 0.1
    tables = [basis_table((np.arange(10) + 0.5) / 10, 16, h)] * d
    for _ in range(5):
        points = np.clip(rng.random(d) + spread * rng.standard_normal((n, d)), 0, 1).astype(np.float32)
        exact = coefficients(points, degrees).astype(np.float32).reshape(1, -1)
        p, q = (tensor_density(C, tables) for C in (exact, binned(points, degrees)[None]))
        assert np.abs(p - q).max() < 0.01 * p.max()


@pytest.mark.parametrize("d", [2, 3])
def test_points_on_and_outside_the_boundary(d):
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * d)).reshape(d, -1).T.astype(np.float32)
    inside = binned(corners, DEGREES[d])
    outside = binned(np.where(corners > 0, 9.0, -3.0).astype(np.float32), DEGREES[d])
    np.testing.assert_array_equal(inside, outside)
    error = inside.reshape(DEGREES[d]) - coefficients(corners, DEGREES[d])
    assert (np.abs(error) <= aliasing_bound(DEGREES[d]) + ROUNDING).all()


def test_domain_is_scaled_to_the_unit_cube():
    rng = np.random.default_rng(0)
    points = (rng.random((3000, 2)) * [4, 50] - [1, 7]).astype(np.float32)
    low, width = np.array([-1, -7], np.float32), np.array([4, 50], np.float32)
    result = binned(points, (8, 8), low=low, scale=1 / width).reshape(8, 8)
    expected = coefficients((points.astype(np.float64) - low) / width, (8, 8))
    assert (np.abs(result - expected) <= aliasing_bound((8, 8)) + ROUNDING).all()


def test_large_sets_count_all_points():
    points = np.random.default_rng(0).random((2 * POINTS_PER_BATCH + 77, 2)).astype(np.float32) ** 2
    error = binned(points, (8, 8)).reshape(8, 8) - coefficients(points, (8, 8))
    assert (np.abs(error) <= aliasing_bound((8, 8)) / 4 + ROUNDING).all()
    assert abs(error[0, 0]) < 5e-6
    in_one_cell = np.full((POINTS_PER_BATCH, 2), 0.3, np.float32)
    assert abs(binned(in_one_cell, (8, 8))[0] - 1) < 1e-3


@given(sizes=st.lists(st.integers(1, 400), min_size=2, max_size=5), seed=st.integers(0, 2**31))
def test_set_does_not_depend_on_other_sets(sizes, seed):
    ends = np.cumsum(sizes)
    spans = np.stack([ends - sizes, ends], axis=1)
    points = np.random.default_rng(seed).random((ends[-1], 3)).astype(np.float32)
    low, scale = np.zeros(3, np.float32), np.ones(3, np.float32)
    joint = binned_coefficients(points, spans, None, low, scale, DEGREES[3])
    for row, (a, b) in zip(joint, spans, strict=True):
        np.testing.assert_array_equal(row, binned(points[a:b].copy(), DEGREES[3]))
