"""Averaged random features compared with float64 NumPy, and quasi-random normal numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dkdist.kernels._random_numba import mean_features, waves_of
from dkdist.kernels.registry import sobol_normals


def means(points, offsets, weights, centre, W):
    out = np.empty((len(offsets) - 1, 2 * len(W)), np.float32)
    mean_features(points, offsets, weights, waves_of(W, np.asarray(centre, np.float64)), out)
    return out


def expected(points, offsets, weights, centre, W):
    w = np.ones(len(points)) if weights is None else weights.astype(np.float64).ravel()
    rows = []
    for a, b in itertools.pairwise(offsets):
        phases = (points[a:b].astype(np.float64) - centre) @ W.T
        rows.append(w[a:b] @ np.concatenate([np.sin(phases), np.cos(phases)], axis=1) / w[a:b].sum())
    return np.array(rows) / np.sqrt(len(W))


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 33])
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_features_match_float64(d, weighted):
    rng = np.random.default_rng(d)
    offsets = np.cumsum([0, 1, 2, 255, 256, 257, 600])
    points = (1000 + rng.random((offsets[-1], d))).astype(np.float32)
    weights = (1e-20 * rng.random((offsets[-1], 1))).astype(np.float32) if weighted else None
    for count in (1, 63, 64, 150):
        W = rng.standard_normal((count, d)) * 4
        arguments = points, offsets, weights, np.full(d, 1000.5), W
        error = np.abs(means(*arguments) - expected(*arguments)) * np.sqrt(count)
        assert error.max() < 6e-7 * np.sqrt(d) * 4


def test_row_does_not_depend_on_other_sets():
    rng = np.random.default_rng(0)
    points, offsets = rng.random((900, 3)).astype(np.float32), np.array([0, 300, 301, 900])
    W, weights = rng.standard_normal((70, 3)), rng.random(900).astype(np.float32)
    rows = means(points, offsets, weights, np.zeros(3), W)
    for i in range(3):
        span = slice(offsets[i], offsets[i + 1])
        single = means(points[span], np.array([0, span.stop - span.start]), weights[span], np.zeros(3), W)
        np.testing.assert_array_equal(single[0], rows[i])


def test_sums_of_many_points_are_accurate():
    rng = np.random.default_rng(0)
    points, W = rng.random((300_000, 1)).astype(np.float32), rng.standard_normal((20, 1))
    arguments = points, np.array([0, len(points)]), None, [0.5], W
    np.testing.assert_allclose(means(*arguments), expected(*arguments), rtol=0, atol=5e-8)


def test_features_of_huge_points_are_finite():
    points = np.array([[3e38, -3e38], [-3e38, 1e30], [1e10, 0]], np.float32)
    rows = means(points, np.arange(4), None, [0, 0], np.random.default_rng(0).standard_normal((90, 2)) * 1e6)
    np.testing.assert_allclose((rows.astype(np.float64) ** 2).sum(axis=1), 1, atol=1e-5)


def test_sobol_normals_are_normal():
    draws = np.array([sobol_normals(np.random.default_rng(seed), 96, 3) for seed in range(200)])
    assert np.isfinite(draws).all()
    np.testing.assert_array_equal(draws[0], sobol_normals(np.random.default_rng(0), 96, 3))
    second, third = (draws**2).mean(axis=(0, 1)), draws.mean(axis=(0, 1))
    np.testing.assert_allclose(second, 1, atol=0.01)
    np.testing.assert_allclose(third, 0, atol=0.01)
    np.testing.assert_allclose(np.corrcoef(draws.reshape(-1, 3).T), np.eye(3), atol=0.02)
    single_draws = draws[:, 5]  # each of them is normal over the seeds
    assert np.abs(single_draws.mean(axis=0)).max() < 0.3
    assert 0.7 < single_draws.std(axis=0).min() < single_draws.std(axis=0).max() < 1.3
    assert draws.mean(axis=1).std() < 0.3 / np.sqrt(96)  # means vary much less than for independent draws
