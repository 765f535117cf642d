"""`SlicedWassersteinEmbedding`: rows are quantiles of projections, and their distances sliced Wasserstein distances."""

import numpy as np
import pytest

import dkdist as dk
from dkdist.distances import _sliced_wasserstein_numba
from dkdist.distances.sliced_wasserstein_embedding import random_directions

# of a projection: of points, of the projection and of the quantile times a share, to float32
ROUNDING = 2.0**-22


def project_points(embedding, points):
    """Return the projections (n, L) relative to the centre."""
    return (np.float64(np.float32(points)) - np.array(embedding.spec_.centre)) @ embedding.directions_.T


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_quantiles(d, weighted):
    rng = np.random.default_rng(d)
    arrays = [rng.standard_t(3, (n, d)) for n in (1, 2, 7, 16, 33, 500)]
    weights = [rng.integers(0, 4, len(x)) + (np.arange(len(x)) == 0) for x in arrays] if weighted else None
    embedding = dk.SlicedWassersteinEmbedding(11, 8, random_state=0)
    rows = embedding.fit_transform(dk.SampleSets.from_arrays(arrays, weights))
    L, levels = len(embedding.directions_), (np.arange(8) + 0.5) / 8
    for i, (x, row) in enumerate(zip(arrays, rows, strict=True)):
        own, kind = None if weights is None else weights[i], "inverted_cdf"
        result = np.quantile(project_points(embedding, x), levels, axis=0, method=kind, weights=own)
        expected = result.T.ravel() / np.sqrt(8 * L)
        np.testing.assert_allclose(row, expected, rtol=0, atol=ROUNDING * np.abs(x).max() * np.sqrt(d / L))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 3])
def test_large_sets_have_the_same_bits_by_another_sort(d, weighted, monkeypatch):
    sizes = np.random.default_rng(d).integers(1, 300, 20)
    arrays = [np.random.default_rng(n).normal(size=(n, d)) for n in sizes]
    weights = [np.random.default_rng(n).random(n) for n in sizes] if weighted else None
    sets = dk.SampleSets.from_arrays(arrays, weights)
    embedding = dk.SlicedWassersteinEmbedding(21, 7, random_state=0).fit(sets)
    rows = embedding.transform(sets)
    monkeypatch.setattr(_sliced_wasserstein_numba, "MAX_NETWORK_POINTS", 100)
    np.testing.assert_array_equal(embedding.transform(sets), rows)


@pytest.mark.parametrize("n", [4, 32])
def test_squared_distances_are_sliced_wasserstein(n):
    """Exact if the number of points divides the number of quantiles; against optimal transport on each line."""
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(n)
    arrays = [np.float32(rng.normal(size=(n, 3))) for _ in range(5)]
    embedding = dk.SlicedWassersteinEmbedding(20, 32, random_state=1)
    A = np.float64(embedding.fit_transform(arrays))
    for i in range(5):
        for j in range(i):
            lines = [project_points(embedding, arrays[k]) for k in (i, j)]
            expected = ot.wasserstein_1d(*lines, p=2).mean()
            np.testing.assert_allclose(((A[i] - A[j]) ** 2).sum(), expected, rtol=1e-5)


def test_more_quantiles_reduce_the_error():
    rng = np.random.default_rng(0)
    pair = [rng.normal(size=(400, 2)), rng.gamma(2, size=(300, 2))]
    directions = random_directions(2, 10, 3)
    exact = dk.distance_matrix(pair, distance=dk.SlicedWasserstein(directions))[0, 1]
    errors = []
    for Q in (8, 64, 512):
        A = dk.SlicedWassersteinEmbedding(10, Q, random_state=3).fit_transform(pair)
        errors.append(abs(np.linalg.norm(np.subtract(*np.float64(A))) - exact))
    assert errors[2] < errors[1] < errors[0] < 0.1 * exact


def test_the_distance_of_a_shifted_set_is_the_shift():
    """SW2^2 between a set and its shift by t is the mean of (u . t)^2 over directions: t^2 / d for whole frames."""
    x, t = np.random.default_rng(0).normal(size=(50, 3)), np.array([3.0, -1.0, 2.0])
    A = np.float64(dk.SlicedWassersteinEmbedding(30, 5, random_state=0).fit_transform([x, x + t]))
    np.testing.assert_allclose(((A[0] - A[1]) ** 2).sum(), t @ t / 3, rtol=1e-5)


def test_outliers_move_quantiles_by_few_ranks():
    """3 outliers of 100 points move a quantile by at most three ranks; no quantile is among the outermost ranks."""
    x = np.random.default_rng(0).normal(size=(100, 2))
    spoiled = x.copy()
    spoiled[[3, 50, 77]] = [[1e9, 0], [-1e9, 1e9], [0, -1e9]]
    embedding = dk.SlicedWassersteinEmbedding(16, 10, random_state=0).fit([x])
    clean, other = (embedding.transform([points])[0].reshape(16, 10) for points in (x, spoiled))
    ranks = np.sort(project_points(embedding, x), axis=0)
    at = np.ceil((np.arange(10) + 0.5) * 10).astype(int) - 1
    low, high = ranks[at - 3].T / np.sqrt(160), ranks[at + 3].T / np.sqrt(160)
    assert (low - 1e-6 <= other).all()
    assert (other <= high + 1e-6).all()
    assert (low <= clean).all()
    assert (clean <= high).all()


@pytest.mark.parametrize("d", [2, 3, 7])
def test_directions_are_uniform_in_frames(d):
    """Moments of the sphere: E u = 0 and E u_1^4 = 3 / (d (d + 2)), within five standard errors."""
    U = random_directions(d, 3000 * d, 0)
    frames = U.reshape(-1, d, d)
    np.testing.assert_allclose(
        frames @ frames.transpose(0, 2, 1), np.broadcast_to(np.eye(d), frames.shape), atol=1e-12
    )
    assert (np.abs(U.mean(axis=0)) < 5 / np.sqrt(3000 * d)).all()
    assert (np.abs((U**4).mean(axis=0) - 3 / (d * (d + 2))) < 5 * (U**4).std(axis=0) / np.sqrt(3000)).all()


@pytest.mark.parametrize("name", ["n_directions", "n_quantiles"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "many", None])
def test_counts_are_checked(name, value):
    with pytest.raises((ValueError, TypeError), match=name):
        dk.SlicedWassersteinEmbedding(**{name: value}).fit([np.zeros((3, 2))])


@pytest.mark.parametrize(("d", "expected"), [(1, 1), (2, 64), (32, 64), (40, 80)])
def test_default_directions_are_at_least_two_frames(d, expected):
    sets = [np.random.default_rng(i).normal(size=(5, d)) for i in range(3)]
    assert dk.SlicedWassersteinEmbedding().fit(sets).directions_.shape == (expected, d)
