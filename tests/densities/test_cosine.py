"""Cosine coefficients compared with a direct sum in float64, and independence of sets."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import coefficients

from dkdist.embeddings._density_numba import ball_terms, tensor_coefficients, term_coefficients

SIZES = st.lists(st.sampled_from([1, 2, 7, 63, 255, 256, 257, 300, 511, 1000]), min_size=1, max_size=5)
DEGREES = {1: (16,), 2: (8, 13), 3: (4, 6, 9)}
UNIT = {d: (np.zeros(d, np.float32), np.ones(d, np.float32)) for d in range(1, 6)}


def spans_of(sizes, gap=0):
    starts = np.cumsum([0, *(s + gap for s in sizes)])[:-1]
    return np.stack([starts, starts + sizes], axis=1).astype(np.int64)


def random_points(seed, n, d):
    return np.random.default_rng(seed).random((n, d)).astype(np.float32)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@given(sizes=SIZES, seed=st.integers(0, 2**31))
def test_tensor_coefficients_match_direct_sum(d, weighted, sizes, seed):
    spans = spans_of(sizes, gap=3)
    points = random_points(seed, spans[-1, 1] + 3, d)
    weights = random_points(seed + 1, len(points), 1).ravel() if weighted else None
    result = tensor_coefficients(points, spans, weights, *UNIT[d], DEGREES[d])
    assert result.dtype == np.float32
    assert result.shape == (len(sizes), np.prod(DEGREES[d]))
    for row, (a, b) in zip(result, spans, strict=True):
        expected = coefficients(points[a:b], DEGREES[d], None if weights is None else weights[a:b])
        np.testing.assert_allclose(row, expected.ravel(), rtol=0, atol=4e-5)


@pytest.mark.parametrize("d", [4, 5])
@pytest.mark.parametrize("weighted", [False, True])
@given(sizes=SIZES, seed=st.integers(0, 2**31))
def test_term_coefficients_match_direct_sum(d, weighted, sizes, seed):
    exponents, terms = ball_terms((4.0, 3.0, 5.5, 2.0, 3.0)[:d])
    spans = spans_of(sizes)
    points = random_points(seed, spans[-1, 1], d)
    weights = random_points(seed + 1, len(points), 1).ravel() if weighted else None
    result = term_coefficients(points, spans, weights, *UNIT[d], terms)
    for row, (a, b) in zip(result, spans, strict=True):
        product = np.cos(np.pi * points[a:b, None, :].astype(np.float64) * exponents).prod(axis=2)
        expected = np.average(product, axis=0, weights=None if weights is None else weights[a:b])
        np.testing.assert_allclose(row, expected, rtol=0, atol=4e-5)


@pytest.mark.parametrize("axes", [(3.0, 3.0, 3.0, 3.0), (4.2, 1.0, 2.5, 0.4), (2.0,) * 5, (2.3,) * 6])
def test_ball_terms_enumerate_the_ball(axes):
    exponents, terms = ball_terms(axes)
    cube = itertools.product(*(range(int(a) + 1) for a in axes))
    inside = {e for e in cube if sum((n / a) ** 2 for n, a in zip(e, axes, strict=True)) <= 1 + 1e-12}
    assert len(exponents) == len(inside)
    assert {tuple(e) for e in exponents.tolist()} == inside
    assert exponents[0].sum() == 0
    for t, (parent, dimension, degree) in enumerate(terms[1:].tolist(), start=1):
        assert parent < t
        step = np.zeros(len(axes), int)
        step[dimension] = degree
        assert (exponents[parent] + step == exponents[t]).all()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_domain_is_scaled_and_points_outside_are_clipped(d):
    rng = np.random.default_rng(d)
    low, high = rng.uniform(-9, 0, d).astype(np.float32), rng.uniform(1, 50, d).astype(np.float32)
    points = (low - 5 + (high - low + 10) * rng.random((400, d))).astype(np.float32)
    result = tensor_coefficients(points, spans_of([400]), None, low, 1 / (high - low), DEGREES[d])[0]
    scaled = np.clip((points.astype(np.float64) - low) / (high - low), 0, 1)
    np.testing.assert_allclose(result, coefficients(scaled, DEGREES[d]).ravel(), rtol=0, atol=4e-5)


def test_coefficients_of_a_single_column():
    points = random_points(0, 300, 5)
    for j in range(5):
        result = tensor_coefficients(points, spans_of([300]), None, *UNIT[5], (12,), column=j)[0]
        np.testing.assert_allclose(result, coefficients(points[:, j : j + 1], (12,)), rtol=0, atol=4e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_integer_codes_match_float_points(dtype):
    codes = np.random.default_rng(0).integers(0, 200, (500, 1)).astype(dtype)
    low, scale = np.array([20], np.float32), np.array([1 / 150], np.float32)
    result = tensor_coefficients(codes, spans_of([500]), None, low, scale, (16,))[0]
    as_floats = tensor_coefficients(codes.astype(np.float32), spans_of([500]), None, low, scale, (16,))[0]
    np.testing.assert_allclose(result, as_floats, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("K", "bound"), [(16, 4e-5), (64, 6e-4), (256, 1e-2)])
def test_rounding_near_the_boundary_is_as_documented(K, bound):
    points = (np.geomspace(1e-6, 0.05, 300)[:, None]).astype(np.float32)
    points = np.concatenate([points, 1 - points])
    result = tensor_coefficients(points, spans_of([1] * 600), None, *UNIT[1], (K,))
    expected = np.cos(np.pi * points.astype(np.float64) * np.arange(K))
    assert np.abs(result - expected).max() < bound


def all_coefficients(points, spans, weights=None):
    """Return coefficients of all structures for points in five dimensions, concatenated."""
    terms = ball_terms((2.0,) * 5)[1]
    tensors = [
        tensor_coefficients(points, spans, weights, *UNIT[5], DEGREES[d], column=d - 1) for d in (1, 2, 3)
    ]
    return np.concatenate([*tensors, term_coefficients(points, spans, weights, *UNIT[5], terms)], axis=1)


@given(sizes=SIZES, seed=st.integers(0, 2**31))
def test_set_does_not_depend_on_other_sets(sizes, seed):
    spans = spans_of(sizes)
    points = random_points(seed, spans[-1, 1], 5)
    weights = random_points(seed + 1, len(points), 1).ravel()
    for w in (None, weights):
        joint = all_coefficients(points, spans, w)
        backwards = all_coefficients(points, spans[::-1], w)[::-1]
        np.testing.assert_array_equal(joint, backwards)
        for row, (a, b) in zip(joint, spans, strict=True):
            single = points[a:b].copy()
            single = all_coefficients(single, spans_of([b - a]), None if w is None else w[a:b].copy())
            np.testing.assert_array_equal(row, single[0])


@given(n=st.integers(2, 900), seed=st.integers(0, 2**31))
def test_order_of_points_changes_rounding_only(n, seed):
    points = random_points(seed, n, 5)
    shuffled = points[np.random.default_rng(seed).permutation(n)]
    np.testing.assert_allclose(
        all_coefficients(points, spans_of([n])), all_coefficients(shuffled, spans_of([n])), rtol=0, atol=2e-6
    )


@given(n=st.integers(1, 300), seed=st.integers(0, 2**31))
def test_integer_weights_match_repeated_points(n, seed):
    rng = np.random.default_rng(seed)
    points, counts = random_points(seed, n, 5), rng.integers(0, 4, n)
    counts[rng.integers(n)] = 3
    repeated = np.repeat(points, counts, axis=0)
    np.testing.assert_allclose(
        all_coefficients(points, spans_of([n]), counts.astype(np.float32)),
        all_coefficients(repeated, spans_of([len(repeated)])),
        rtol=0,
        atol=2e-6,
    )


@pytest.mark.parametrize("scale", [1e-35, 1e-3, 7.0, 1e35])
def test_coefficients_do_not_depend_on_scale_of_weights(scale):
    points, weights = random_points(0, 700, 5), 1 + random_points(1, 700, 1).ravel()
    np.testing.assert_allclose(
        all_coefficients(points, spans_of([700]), (weights * scale).astype(np.float32)),
        all_coefficients(points, spans_of([700]), weights),
        rtol=0,
        atol=1e-6,
    )
