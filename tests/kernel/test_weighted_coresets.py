"""Weighted coresets follow the law E D^2 <= (W^2 - kappa) / size; optimal weights are never worse."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import dkdist as dk

METHODS = ("random", "stratified", "halving", "swap")
N, SIGMA = 512, 0.5
P = np.random.default_rng(0).normal(size=(N, 2))
K = np.exp(-cdist(P, P, "sqeuclidean") / (2 * SIGMA**2))


def weights_of(kind):
    rng = np.random.default_rng(1)
    return {
        "one heavy": np.r_[2000.0, np.ones(N - 1)],
        "lognormal": np.exp(rng.normal(0, 2, N)),
        "few heavy": np.where(rng.random(N) < 0.05, 50.0, 1.0),
        "mild": 1 + rng.random(N),
        "falling": 0.7 ** np.arange(N) + 1e-9,
        "nested": np.r_[1e12, 1e6, 1e3, np.ones(N - 3)],
    }[kind]


def square(w, coreset):
    """Return D^2 from all pairs in float64."""
    residual = w.copy()
    np.subtract.at(residual, coreset.indices, coreset.weights)
    return max(0.0, residual @ K @ residual)


@pytest.mark.parametrize("kind", ["one heavy", "lognormal", "few heavy", "mild", "falling", "nested"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("streamed", [False, True])
def test_methods_follow_the_law(kind, method, streamed):
    w, size = weights_of(kind), 64  # 512 = 64 * 2^3
    points = da.from_array(P, chunks=(200, 2)) if streamed else P
    result = []
    for seed in range(4 if streamed else 20):
        coreset = dk.coreset(points, size, sigma=SIGMA, weights=w, method=method, random_state=seed)
        assert len(coreset.indices) == len(coreset.weights) == size == len(set(coreset.indices.tolist()))
        assert coreset.weights.sum() == pytest.approx(w.sum(), rel=1e-12)
        assert (coreset.weights > 0).all()
        result.append(square(w, coreset))
    assert np.mean(result) <= (w.sum() ** 2 - w @ K @ w) / size


@pytest.mark.parametrize("size", [1, 2])
def test_few_points_of_nearly_equal_weights_follow_the_law(size):
    """Without random draws, the selection would be the same for all seeds."""
    x, w = np.array([[0.0, 1], [0, 0], [-1, 1], [-1, 2]]), np.array([1.001, 1.005, 1.001, 1.005])
    k = np.exp(-cdist(x, x, "sqeuclidean") / 2)
    result = []
    for seed in range(150):
        coreset = dk.coreset(x, size, sigma=1.0, weights=w, method="halving", random_state=seed)
        z = w.copy()
        np.subtract.at(z, coreset.indices, coreset.weights)
        result.append(z @ k @ z)
    assert np.mean(result) <= (w.sum() ** 2 - w @ k @ w) / size


def test_random_selection_is_proportional_to_weights():
    w, x = np.r_[8.0, 1 + np.arange(11.0) % 3], np.arange(12.0)[:, None]
    for points, n in ((x, 600), (da.from_array(x, chunks=(5, 1)), 100)):
        mean = np.zeros(12)
        for seed in range(n):
            coreset = dk.coreset(points, 4, sigma=1.0, weights=w, method="random", random_state=seed)
            mean[coreset.indices] += coreset.weights
        tau = (w.sum() - 8) / 3  # the heavy point is always selected
        np.testing.assert_allclose(mean / n, w, atol=4 * tau / 2 / np.sqrt(n))
        assert mean[0] / n == 8


def test_coreset_size_reaches_eps_with_a_heavy_point():
    w = np.r_[2000.0, np.ones(1999)]
    points = np.random.default_rng(2).normal(size=(2000, 2))
    m = dk.coreset_size(0.2)
    for method in METHODS:
        is_beyond = [
            dk.coreset(points, m, sigma=0.5, weights=w, method=method, random_state=s).distance
            > 0.2 * w.sum()
            for s in range(100 if method == "random" else 5)
        ]
        assert np.mean(is_beyond) <= 0.05


def test_heavy_points_keep_their_weight():
    w = weights_of("one heavy")
    for method in METHODS:
        coreset = dk.coreset(P, 20, sigma=SIGMA, weights=w, method=method, random_state=0)
        assert coreset.weights[coreset.indices == 0] == [2000.0]
        assert np.delete(coreset.weights, np.flatnonzero(coreset.indices == 0)) == pytest.approx(
            np.full(19, (N - 1) / 19)
        )
    line = np.random.default_rng(0).normal(size=(100, 1))
    coreset = dk.coreset(line, 10, sigma=0.5, weights=w[:100], method="every")
    assert coreset.weights.max() == 2000


def test_repeated_coresets_keep_heavy_points():
    w = weights_of("few heavy")
    first = dk.coreset(P, 100, sigma=SIGMA, weights=w, random_state=0)
    second = dk.coreset(P[first.indices], 60, sigma=SIGMA, weights=first.weights, random_state=0)
    indices = first.indices[second.indices]
    distance = np.sqrt(square(w, dk.Coreset(indices, second.weights, 0.0)))
    assert distance <= first.distance + second.distance + 1e-3 * w.sum()
    assert set(np.flatnonzero(w == 50.0).tolist()) <= set(indices.tolist())
    sets = dk.SampleSets.from_arrays([P, P[::-1]], [weights_of("one heavy"), weights_of("one heavy")[::-1]])
    thin = dk.CoresetThinning(16, sigma=SIGMA, random_state=0).fit_transform(sets)
    for i in range(2):
        assert thin.weights_of(i).max() == 2000
        assert thin.weights_of(i).sum() == pytest.approx(2000 + N - 1)


def test_size_above_number_of_weighted_points():
    w = weights_of("lognormal") * (np.arange(N) < 30)
    for method in METHODS:
        for points in (P, da.from_array(P, chunks=(100, 2))):
            coreset = dk.coreset(points, 40, sigma=SIGMA, weights=w, method=method, random_state=0)
            assert sorted(coreset.indices.tolist()) == list(range(30))
            assert coreset.distance < 1e-3 * w.sum()


@pytest.mark.parametrize(("d", "size", "sigma"), [(1, 200, 0.3), (2, 200, 0.2), (1, 40, 2.0)])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("unit", [1e6])
def test_optimal_weights_are_optimal(d, size, sigma, streamed, unit):
    x = np.random.default_rng(1).normal(size=(1000, d))
    w = np.full(1000, unit / 1000)
    points = da.from_array(x, chunks=(400, d)) if streamed else x
    options = {"sigma": sigma, "random_state": 0, "weights": w}
    equal, optimal = (
        dk.coreset(points, size, **options),
        dk.coreset(points, size, optimal_weights=True, **options),
    )
    np.testing.assert_array_equal(optimal.indices, equal.indices)
    big = np.longdouble
    kernel = np.exp(-cdist(x, x, "sqeuclidean").astype(big) / (2 * big(sigma) ** 2))
    self_kernel, overlaps = kernel[np.ix_(equal.indices, equal.indices)], kernel[equal.indices].mean(axis=1)
    whole, v = kernel.mean(), optimal.weights / big(unit)
    result = float(whole - 2 * v @ overlaps + v @ self_kernel @ v)
    u = equal.weights / big(unit)
    assert result <= float(whole - 2 * u @ overlaps + u @ self_kernel @ u)
    # minimum over the resolvable eigenvectors: an upper bound
    values, vectors = np.linalg.eigh(self_kernel.astype(float))
    part = (vectors.T @ overlaps.astype(float))[values > 1e-10]
    minimum = float(whole) - float((part**2 / values[values > 1e-10]).sum())
    assert result <= 1.1 * max(minimum, 0) + 1e-8
    assert optimal.distance / unit == pytest.approx(np.sqrt(max(result, 0)), abs=1.5e-4)


def test_optimal_weights_are_never_worse():
    w = weights_of("few heavy")
    repeated = np.concatenate([P[:200], P[:200]])
    for points, weights in ((P, w), (repeated, None), (da.from_array(P, chunks=(100, 2)), w)):
        for method in METHODS:
            options = {"sigma": 5.0, "method": method, "weights": weights, "random_state": 0}
            equal, optimal = (
                dk.coreset(points, 150, **options),
                dk.coreset(points, 150, optimal_weights=True, **options),
            )
            total = equal.weights.sum()
            assert optimal.distance**2 <= equal.distance**2 + 2e-8 * total**2


def test_too_small_delta_raises():
    for delta in (1e-320, 1e-310):
        with pytest.raises(ValueError, match="delta must be a probability from 1e-300"):
            dk.coreset_size(1.5, delta=delta)
    assert dk.coreset_size(1.5, delta=1e-300) == 648
