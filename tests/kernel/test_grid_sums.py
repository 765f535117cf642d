"""Sums over points of the products of a grid, compared with float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist.kernels._grid_sums_numba import Products, grid_sums, grid_values, weight_fractions
from dkdist.kernels.fourier_grid import fourier_grid, grid_layout

from .test_fourier_grid import features

SIGMA = 0.2


@pytest.fixture(params=[1, 2, 3])
def problem(request):
    """Return (points at an offset of 1000, spans, box, periods, layout): unordered spans of 1 to 1,000 points."""
    d = request.param
    rng = np.random.default_rng(d)
    low, high = np.full(d, 1000, np.float32), np.arange(1001, 1001 + d).astype(np.float32)
    points = rng.uniform(low, high, (3000, d)).astype(np.float32).clip(low, high)
    spans = np.array([[0, 1], [1, 3], [3, 258], [258, 514], [2000, 3000], [600, 800], [3, 258]])
    grid = fourier_grid(high.astype(np.float64) - low, SIGMA, 1e-7, {1: 60, 2: 300, 3: 400}[d])
    return points, spans, (low, high), grid.periods, grid_layout(grid.periods, grid.cutoff, SIGMA)


def expected(problem, weights):
    points, spans, (low, high), periods, layout = problem
    centre = (low.astype(np.float64) + high) / 2
    z = features(points - centre, periods, layout) / layout.scales
    return np.array([weights[a:b].astype(np.float64).T @ z[a:b] for a, b in spans])


def sums(problem, weights, factors, selection=slice(None)):
    points, spans, box, periods, layout = problem
    products = Products(*box, np.array(periods), layout.lengths)
    return grid_sums(points, spans[selection], weights, factors[selection], products)


def mean_weights(weights, spans):
    """Return `weight_fractions` of spans in any order."""
    fractions = [
        weight_fractions(None if weights is None else weights[a:b], np.array([0, b - a])) for a, b in spans
    ]
    return np.empty((0, 1), np.float32) if weights is None else weights[:, None], np.concatenate(
        [f for _, f in fractions]
    )


def test_sums_of_signed_channels(problem):
    weights = np.random.default_rng(0).standard_normal((len(problem[0]), 3)).astype(np.float32)
    result = sums(problem, weights, np.ones(len(problem[1])))
    sizes = np.diff(problem[1], axis=1)[:, :, None]
    assert result.dtype == np.float64
    assert (np.abs(result - expected(problem, weights)) / np.sqrt(sizes)).max() < 3e-6


def test_grid_values_of_points(problem):
    points, _, (low, high), periods, layout = problem
    centre = (low.astype(np.float64) + high) / 2
    result = grid_values(points, Products(low, high, np.array(periods), layout.lengths), layout.scales)
    np.testing.assert_allclose(result, features(points - centre, periods, layout), atol=3e-6)


@pytest.mark.parametrize("scale", [None, 1.0, 1e-30])
def test_means_of_spans(problem, scale):
    points, spans, *_ = problem
    w = None if scale is None else (scale * np.random.default_rng(0).random(len(points))).astype(np.float32)
    result = sums(problem, *mean_weights(w, spans))
    w = np.ones(len(points)) if w is None else w.astype(np.float64)
    truth = expected(problem, w[:, None]) / np.array([w[a:b].sum() for a, b in spans])[:, None, None]
    assert np.abs(result - truth).max() < 1e-6
    np.testing.assert_allclose(result[:, :, 0], 1, atol=1e-6)  # the mean of 1


def test_span_does_not_depend_on_other_spans(problem):
    points, spans, *_ = problem
    weights = np.random.default_rng(0).random((len(points), 2)).astype(np.float32)
    factors = np.ones(len(spans))
    result = sums(problem, weights, factors)
    np.testing.assert_array_equal(result[2], result[6])
    for i in range(len(spans)):
        np.testing.assert_array_equal(sums(problem, weights, factors, [i])[0], result[i])
        single = sums(problem, weights[:, 1:].copy(), factors, [i])[0, 0]
        np.testing.assert_array_equal(single, result[i, 1])


def test_points_outside_are_clipped(problem):
    points, spans, (low, high), *_ = problem
    moved = points.copy()
    moved[:1000] += np.float32(0.7) * np.random.default_rng(0).choice(
        [-3e38, -1, 1, 3e38], moved[:1000].shape
    )
    weights, factors = mean_weights(None, spans)
    clipped = (np.clip(moved, low, high), *problem[1:])
    outside = sums((moved, *problem[1:]), weights, factors)
    np.testing.assert_array_equal(outside, sums(clipped, weights, factors))
    assert (outside != sums(problem, weights, factors)).any()
