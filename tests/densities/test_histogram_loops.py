"""Histograms compared with numpy.histogramdd: points on edges and outside, weights, sets of any size."""

import numpy as np
import pytest

from dkdist._numba.points import TILE_POINTS
from dkdist.embeddings._histogram_numba import histograms


def spans_of(sizes):
    ends = np.cumsum(sizes)
    return np.stack([ends - sizes, ends], axis=1)


def expected(x, low, high, n_bins, weights=None):
    edges = [np.linspace(a, b, n_bins + 1) for a, b in zip(low, high, strict=True)]
    mass, _ = np.histogramdd(x.astype(np.float64), edges, weights=weights)
    return (mass / mass.sum() * mass.size).ravel()


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("n_bins", [1, 2, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_match_numpy(d, n_bins, weighted):
    rng = np.random.default_rng(d)
    sizes = np.array([1, 2, TILE_POINTS - 1, TILE_POINTS, TILE_POINTS + 1, 1000])
    x = rng.normal(3, 2, (sizes.sum(), d)).astype(np.float32)
    weights = rng.random(len(x)).astype(np.float32) if weighted else None
    low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
    result = histograms(x, spans_of(sizes), weights, low, high - low, n_bins, d)
    assert result.dtype == np.float32
    for row, (a, b) in zip(result, spans_of(sizes), strict=True):
        w = weights[a:b].astype(np.float64) if weighted else None
        np.testing.assert_allclose(row, expected(x[a:b], low, high, n_bins, w), rtol=1e-6)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 2.0), (0.0, 256.0), (0.0, 490.0)])
@pytest.mark.parametrize("n_bins", [2, 3, 4, 8, 10, 16])
def test_points_on_edges_count_in_the_upper_bin(low, high, n_bins):
    edges = np.linspace(low, high, n_bins + 1)
    exact = edges[edges == edges.astype(np.float32)].astype(np.float32)[:, None]
    result = histograms(exact, spans_of([1] * len(exact)), None, *np.array([[low], [high - low]]), n_bins, 1)
    for row, x in zip(result, exact, strict=True):
        np.testing.assert_array_equal(row, expected(x[None], [low], [high], n_bins))


def test_points_outside_are_clipped_and_constant_dimensions_use_the_first_bin():
    x = np.array([[-5, 2], [0.5, 2], [9, 2], [1e30, 2]], np.float32)
    row = histograms(x, spans_of([4]), None, np.array([0.0, 2.0]), np.array([1.0, 0.0]), 4, 2)[0]
    np.testing.assert_array_equal(row.reshape(4, 4)[:, 0], 4 * np.array([1, 0, 1, 2]))
    assert row.reshape(4, 4)[:, 1:].sum() == 0


def test_histograms_of_codes_and_single_columns():
    codes = np.random.default_rng(0).integers(0, 256, (500, 1), np.uint8)
    row = histograms(codes, spans_of([500]), None, np.zeros(1), np.array([256.0]), 256, 1)[0]
    np.testing.assert_allclose(row, np.bincount(codes.ravel(), minlength=256) * 256 / 500)
    x = np.random.default_rng(1).random((50, 3)).astype(np.float32)
    single_column = histograms(x[:, 1:2].copy(), spans_of([50]), None, np.zeros(1), np.ones(1), 5, 1)
    np.testing.assert_array_equal(
        histograms(x, spans_of([50]), None, np.zeros(3), np.ones(3), 5, 1, 1), single_column
    )
