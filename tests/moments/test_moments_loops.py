"""Means and covariances compared with NumPy in float64, near and far from the origin."""

from fractions import Fraction

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


def exact_moments(x, weights, centre):
    """Return the mean relative to the centre and the covariance as fractions, without rounding."""
    X = [
        [Fraction(float(value)) - Fraction(float(c)) for value, c in zip(row, centre, strict=True)]
        for row in x
    ]
    w = [Fraction(float(value)) for value in weights]
    mean = [sum(a * row[j] for a, row in zip(w, X, strict=True)) / sum(w) for j in range(len(centre))]
    covariance = [
        sum(a * (row[j] - mean[j]) * (row[k] - mean[k]) for a, row in zip(w, X, strict=True)) / sum(w)
        for j in range(len(centre))
        for k in range(j, len(centre))
    ]
    return np.array(mean, float), np.array(covariance, float)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 2, 7, 200, 700])
@pytest.mark.parametrize("distance", [0.0, 31.0, 33.0, 1e6])
def test_moments_match_exact_arithmetic_at_any_distance_from_the_centre(d, weighted, n, distance):
    """One pass up to a distance of about 32 standard deviations, then two.

    One pass rounds once to float32. The second pass has products of two float32 factors with a rounded fraction, and
    sums of up to 256 / 8 of them per lane, in float32.
    """
    rng = np.random.default_rng(n)
    x = (rng.normal(size=(n, d)) @ [[1.0, 0.3][:d], [0.0, 1.0][:d]][:d] + distance).astype(np.float32)
    weights = rng.random(n).astype(np.float32) if weighted else None
    centre, scale = np.linspace(0.1, 0.2, d), np.array([1.5, 0.7])[:d]
    row = moments(x, np.array([0, n]), weights, centre, scale, 2)[0]
    np.testing.assert_array_equal(moments(x, np.array([0, n]), weights, centre, scale, 1)[0], row[:d])
    mean, covariance = exact_moments(x, np.ones(n) if weights is None else weights, centre)
    np.testing.assert_allclose(row[:d], mean / scale, rtol=2.0**-23)
    j, k = np.triu_indices(d)
    covariance *= np.where(j == k, 1, np.sqrt(2)) / (scale[j] * scale[k])
    sizes = np.sqrt(covariance[j == k])
    one_pass = d <= 2 and (mean**2 <= 2**10 * (sizes * scale) ** 2).all()
    error = 2.0**-23 if one_pass else 36 * 2.0**-24
    rounded_mean = 8 * (2.0**-52 * (distance + 3)) ** 2  # square of the float64 error of the mean, in units
    assert (np.abs(row[d:] - covariance) <= error * np.sqrt(2) * sizes[j] * sizes[k] + rounded_mean).all()


def test_a_constant_column_has_variance_zero_at_any_distance():
    x = np.column_stack([np.full(100, 1e4 / 3), np.arange(100.0)]).astype(np.float32)
    row = moments(x, np.array([0, 100]), None, np.zeros(2), np.ones(2), 2)[0]
    np.testing.assert_allclose(row[2:4], 0, atol=1e-6)
    assert row[4] == np.float32((100**2 - 1) / 12)


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
