"""Mean embeddings compared with exact mean kernels: distances, error bounds, convergence of random frequencies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import dkdist as dk
from dkdist.kernels.mean_embedding import METHODS
from dkdist.kernels.registry import NORMAL_SAMPLERS

N_SETS = 12
PAIRS = np.triu_indices(N_SETS, 1)


def sets_of(d, seed=0, weighted=False):
    """Return sets of 1 to 300 points in the unit cube, each with its own distribution."""
    rng = np.random.default_rng(seed)
    sizes = [1, 2, 300, *rng.integers(20, 60, N_SETS - 3)]
    arrays = [rng.beta(*rng.uniform(0.5, 5, 2), (n, d)).astype(np.float32) for n in sizes]
    return dk.SampleSets.from_arrays(arrays, [rng.random(n) for n in sizes] if weighted else None)


def mean_kernels(sets, sigmas):
    """Return exact mean kernels (n_sets, n_sets) in float64."""
    x = sets.points.astype(np.float64)
    k = np.mean([rbf_kernel(x, x, 1 / (2 * s**2)) for s in np.atleast_1d(sigmas)], axis=0)
    w = np.zeros((len(sets), len(x)))
    for i, (a, b) in enumerate(itertools.pairwise(sets.offsets)):
        w[i, a:b] = 1 if sets.weights is None else sets.weights[a:b]
    w /= w.sum(axis=1, keepdims=True)
    return w @ k @ w.T


def mmd2(kernels):
    return (np.diag(kernels)[:, None] + np.diag(kernels) - 2 * kernels)[PAIRS]


def products(rows):
    rows = rows.astype(np.float64)
    return rows @ rows.T


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(("n_components", "sigma"), [(30, 0.3), (100, 0.3), (1000, 0.5), (401, [0.2, 1.0])])
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_kernels_are_within_error_bound(d, n_components, sigma, weighted):
    sets = sets_of(d, weighted=weighted)
    embedding = dk.MeanEmbedding(n_components, sigma, "fourier")
    is_inaccurate = d == 3 and n_components == 30
    if is_inaccurate:
        with pytest.warns(UserWarning, match="kernel error of method='fourier' .*n_components=30"):
            embedding.fit(sets)
    else:
        embedding.fit(sets)
    rows, exact = embedding.transform(sets), mean_kernels(sets, sigma)
    assert rows.shape[1] <= n_components
    assert np.abs(products(rows) - exact).max() <= embedding.error_bound_
    assert np.abs(mmd2(products(rows)) - mmd2(exact)).max() <= 4 * embedding.error_bound_
    assert (embedding.error_bound_ > 0.1) == is_inaccurate


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("sigma", [0.03, 0.3, 3.0])
def test_pairs_of_points_are_within_error_bound(d, sigma):
    """Points at and near the boundary of the data, where images are nearest, and in the margin outside."""
    rng = np.random.default_rng(0)
    data = rng.random((1, 50, d)).astype(np.float32) + 100
    embedding = dk.MeanEmbedding(1000, sigma, "fourier")
    if (d, sigma) == (3, 0.03):
        with pytest.warns(UserWarning, match="Increase n_components"):
            embedding.fit(data)
    else:
        embedding.fit(data)
    low, high = (side.astype(np.float64) for side in embedding.spec_.domain.arrays)
    near = np.round(rng.random((300, d))) + rng.choice([-0.02, 0, 0.02], (300, d))
    points = np.concatenate([rng.random((300, d)), near, 0.5 + 0.01 * rng.standard_normal((100, d))])
    points = np.clip(low + (high - low) * points, *embedding.spec_.domain.arrays).astype(np.float32)
    z = products(embedding.transform(points[:, None]))
    x = points.astype(np.float64) - low
    assert np.abs(z - rbf_kernel(x, x, 1 / (2 * sigma**2))).max() <= embedding.error_bound_


@pytest.mark.parametrize("method", NORMAL_SAMPLERS)
@pytest.mark.parametrize(("d", "weighted"), [(1, False), (2, True), (8, True)])
def test_random_frequencies_are_unbiased(method, d, weighted):
    sets, sigma = sets_of(d, weighted=weighted), [0.25, 0.8]
    exact = mean_kernels(sets, sigma)
    result = [dk.MeanEmbedding(64, sigma, method, seed).fit_transform(sets) for seed in range(40)]
    errors = np.array([products(rows) - exact for rows in result])
    spread = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    assert (np.abs(errors.mean(axis=0)) < 6 * spread + 1e-6).all()
    assert np.sqrt((errors**2).mean()) < 1 / np.sqrt(64)


def test_error_of_independent_frequencies_decreases_as_inverse_root():
    sets, sizes = sets_of(2), np.array([64, 256, 1024, 4096])
    exact = mmd2(mean_kernels(sets, 0.2))
    rms = [
        np.sqrt(
            np.mean([(mmd2(products(rows)) - exact) ** 2 for rows in rows_by_seed(sets, D, 0.2, "iid", 25)])
        )
        for D in sizes
    ]
    assert np.polyfit(np.log(sizes), np.log(rms), 1)[0] == pytest.approx(-0.5, abs=0.1)


def rows_by_seed(sets, n_components, sigma, method, n):
    for seed in range(n):
        yield dk.MeanEmbedding(n_components, sigma, method, seed).fit_transform(sets)


@pytest.mark.parametrize(
    ("method", "d", "gain"),
    [("sobol", 2, 3), ("sobol", 8, 1.2), ("orthogonal", 2, 1), ("orthogonal", 8, 1.2)],
)
def test_sobol_and_orthogonal_are_at_least_as_good_as_independent(method, d, gain):
    sets, sigma = sets_of(d), 0.3 * np.sqrt(d)
    exact = mmd2(mean_kernels(sets, sigma))
    rms = {
        m: np.sqrt(
            np.mean([(mmd2(products(rows)) - exact) ** 2 for rows in rows_by_seed(sets, 256, sigma, m, 30)])
        )
        for m in (method, "iid")
    }
    assert gain * rms[method] < 1.05 * rms["iid"]


@pytest.mark.parametrize(
    ("method", "d"), [(m, d) for m in METHODS for d in (1, 2, 3, 8) if m != "fourier" or d < 4]
)
def test_distances_do_not_depend_on_an_offset(method, d):
    """With an offset of 1024, float32 represents these points exactly."""
    points = np.random.default_rng(0).integers(0, 1024, (6, 60, d)) / np.float32(1024)
    embedding = dk.MeanEmbedding(500, 0.4, method, random_state=0)
    near, shifted = (
        mmd2_of(embedding.fit_transform(points + offset)) for offset in (np.float32(0), np.float32(1024))
    )
    np.testing.assert_allclose(near, shifted, rtol=0, atol=3e-6)


def mmd2_of(rows):
    k = products(rows)
    return np.diag(k)[:, None] + np.diag(k) - 2 * k


def test_several_bandwidths_average_their_kernels():
    sets = sets_of(2)
    embedding = dk.MeanEmbedding(900, [0.3, 0.6, 1.2], "sobol", random_state=0).fit(sets)
    np.testing.assert_array_equal(embedding.sigma_, [0.3, 0.6, 1.2])
    assert embedding.transform(sets).shape == (N_SETS, 900)
    assert np.abs(products(embedding.transform(sets)) - mean_kernels(sets, [0.3, 0.6, 1.2])).max() < 0.03
