"""Means and covariances compared with NumPy in float64, near and far from the origin."""

import numpy as np
import pytest

from dkdist._numba.points import TILE_POINTS
from dkdist.embeddings._moments_numba import moments


@pytest.mark.parametrize("d", [1, 2, 5, 40])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_moments_match_numpy(d, weighted, offset):
    rng = np.random.default_rng(d)
    sizes = np.array([1, 2, TILE_POINTS - 1, TILE_POINTS, TILE_POINTS + 1, 1000])
    offsets = np.append(0, np.cumsum(sizes))
    mix = rng.normal(size=(d, d))
    x = (offset + 3 * rng.normal(size=(offsets[-1], d)) @ mix).astype(np.float32)
    weights = rng.random(len(x)).astype(np.float32) if weighted else None
    centre, scale = np.full(d, offset + 1.0), rng.uniform(1, 3, d)
    result = moments(x, offsets, weights, centre, scale, 2)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(moments(x, offsets, weights, centre, scale, 1), result[:, :d])
    for i, row in enumerate(result):
        part = slice(offsets[i], offsets[i + 1])
        y = (x[part].astype(np.float64) - centre) / scale
        w = weights[part].astype(np.float64) if weighted else np.ones(len(y))
        mean = np.average(y, axis=0, weights=w)
        covariance = (y - mean).T @ ((y - mean) * (w / w.sum())[:, None])
        size = np.abs(covariance).max() + np.abs(y).max()
        np.testing.assert_allclose(row[:d], mean, atol=3e-6 * size)
        upper = np.triu_indices(d)
        expected = covariance[upper] * np.where(upper[0] == upper[1], 1, np.sqrt(2))
        np.testing.assert_allclose(row[d:], expected, atol=3e-6 * size)


def test_covariance_of_a_set_far_from_the_common_centre():
    x = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32) + np.float32(1000)
    row = moments(x, np.array([0, 400]), None, np.zeros(2), np.ones(2), 2)[0]
    C = np.cov(x.astype(np.float64).T, bias=True)
    np.testing.assert_allclose(
        row, [*x.astype(np.float64).mean(axis=0), C[0, 0], np.sqrt(2) * C[0, 1], C[1, 1]], rtol=1e-6
    )


def test_row_distance_matches_means_and_covariances():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    rows = moments(x, np.array([0, 25, 60]), None, np.zeros(4), np.ones(4), 2).astype(np.float64)
    a, b = (part.astype(np.float64) for part in (x[:25], x[25:]))
    matrices = np.cov(a.T, bias=True) - np.cov(b.T, bias=True)
    expected = ((a.mean(axis=0) - b.mean(axis=0)) ** 2).sum() + np.linalg.norm(matrices, "fro") ** 2
    np.testing.assert_allclose(((rows[0] - rows[1]) ** 2).sum(), expected, rtol=1e-5)
