"""Standard deviations, Scott's rule and the median distance compared with NumPy and SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from dkdist._base import sampling
from dkdist._base.sampling import median_distance, moments, scott_bandwidth


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    weighted=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_moments_match_numpy(sizes, weighted, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    points = (1e4 + rng.standard_normal((offsets[-1], 3))).astype(np.float32)
    weights = rng.random((offsets[-1], 1)).astype(np.float32) + 0.1 if weighted else None
    _, variance, size = moments(points, offsets, weights)
    for i in range(len(sizes)):
        rows = slice(offsets[i], offsets[i + 1])
        w = np.ones(sizes[i]) if weights is None else weights[rows, 0].astype(np.float64)
        covariance = np.cov(points[rows].astype(np.float64).T, aweights=w, ddof=0)
        np.testing.assert_allclose(np.sqrt(variance[i]), np.sqrt(np.diag(covariance)), rtol=1e-6, atol=1e-9)
        assert size[i] == pytest.approx(w.sum() ** 2 / (w**2).sum())


def test_effective_size_of_equal_weights_is_the_number_of_points():
    size = moments(np.zeros((5, 1), np.float32), np.array([0, 2, 5]), np.full(5, 3.0, np.float32))[2]
    np.testing.assert_allclose(size, [2, 3])


def test_scott_bandwidth_uses_medians_of_sets():
    std = np.array([[0.1, 1.0], [0.2, 3.0], [0.4, 2.0]])
    size = np.array([50.0, 100.0, 1e6])
    np.testing.assert_allclose(scott_bandwidth(std, size, 2, 0.01), np.array([0.2, 2.0]) * 100 ** (-1 / 6))
    np.testing.assert_allclose(scott_bandwidth(std, size, 1, 0.01), np.array([0.2, 2.0]) * 100 ** (-1 / 5))
    assert scott_bandwidth(std, size, 2, 0.5)[0] == 0.5


@given(
    n=st.integers(2, 60), m=st.integers(1, 50), offset=st.sampled_from([0.0, 1e3]), seed=st.integers(0, 2**31)
)
def test_median_distance_is_the_median_of_all_pairs(n, m, offset, seed):
    X = (offset + np.random.default_rng(seed).standard_normal((n, m))).astype(np.float32)
    assert median_distance(X) == pytest.approx(np.median(pdist(X.astype(np.float64))), rel=1e-6)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e5, -7.7])
@pytest.mark.parametrize("m", [1, 7, 300])
def test_median_distance_of_equal_rows_is_zero(value, m):
    X = np.full((50, m), value, np.float32) * np.linspace(0.3, 1.7, m).astype(np.float32)
    assert median_distance(X) == 0.0
    assert median_distance(X[:1]) == 0.0


@pytest.mark.parametrize(("n", "m"), [(20, 3), (51, 40), (300, 40), (20, 300), (300, 300), (20, 1000)])
def test_median_distance_of_mostly_equal_rows_is_the_mean_of_nonzero_ones(n, m):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((1, m)).astype(np.float32), n, axis=0)
    X[3] += rng.standard_normal(m).astype(np.float32)
    X[7] -= 3
    distances = pdist(X.astype(np.float64))
    assert median_distance(X) == pytest.approx(distances[distances > 0].mean(), rel=1e-6)


def test_median_distance_of_adjacent_floats():
    X = np.ones((9, 1), np.float32)
    X[4:] = np.nextafter(np.float32(1), np.float32(2))
    assert median_distance(X) == pytest.approx(2.0**-23, rel=1e-3)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e180])
def test_median_distance_scales_with_units(scale):
    X = np.random.default_rng(0).standard_normal((20, 3))
    assert median_distance(scale * X) == pytest.approx(scale * median_distance(X), rel=1e-12)


def test_median_distance_is_robust_to_an_outlier():
    x = np.random.default_rng(0).standard_normal((400, 2))
    expected = median_distance(x)
    x[7] = 1e10
    assert median_distance(x) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_do_not_depend_on_the_points_computed_at_a_time(weighted, monkeypatch):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 40, 50))])
    points = rng.normal(5, 1, (offsets[-1], 3)).astype(np.float32)
    weights = rng.random(len(points)).astype(np.float32) if weighted else None
    whole = moments(points, offsets, weights)
    for n_bytes in (1, 1000, 5000):
        monkeypatch.setattr(sampling, "MOMENTS_BYTES", n_bytes)
        for values, expected in zip(moments(points, offsets, weights), whole, strict=True):
            np.testing.assert_array_equal(values, expected)
