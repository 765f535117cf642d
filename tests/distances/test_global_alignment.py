"""Global alignment kernel against the sum over all alignments and a float64 table, and its properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk

# Values are sums of at most n + m float32 logarithms, each with a few roundings relative to max(1, value).
REL_TOL = 64 * 2.0**-24


def walks(lengths, d=2, seed=0, step=1.0):
    rng = np.random.default_rng(seed)
    return [step * np.cumsum(rng.standard_normal((n, d)), axis=0).astype("f4") for n in lengths]


def alignments(n, m):
    """Return all lists of cells from (0, 0) to (n - 1, m - 1) with steps (1, 0), (0, 1) and (1, 1)."""
    if n == m == 1:
        return [[(0, 0)]]
    before = [(n - 1, m - 1), (n - 1, m), (n, m - 1)]
    return [[*path, (n - 1, m - 1)] for i, j in before if i and j for path in alignments(i, j)]


def local_kernels(x, y, sigma, order):
    """Return kappa(x_i, y_j), with triangular weights if ``order`` is not None."""
    square = ((x[:, None].astype("f8") - y) ** 2).sum(axis=2)
    gap = np.abs(np.arange(len(x))[:, None] - np.arange(len(y)))
    weight = 1.0 if order is None else np.maximum(0, 1 - gap / order)
    g = weight * np.exp(-square / (2 * sigma**2))
    return g / (2 - g)


def kernel_of_all_alignments(x, y, sigma, order):
    kappa = local_kernels(x, y, sigma, order)
    return sum(np.prod([kappa[cell] for cell in path]) for path in alignments(len(x), len(y)))


def log_kernel(x, y, sigma, order=None):
    """Return log K by a table of logarithms in float64."""
    with np.errstate(divide="ignore"):
        cost = np.log(local_kernels(x, y, sigma, order))
    T = np.full((len(x) + 1, len(y) + 1), -np.inf)
    T[0, 0] = 0
    for i, j in np.ndindex(cost.shape):
        T[i + 1, j + 1] = cost[i, j] + np.logaddexp(np.logaddexp(T[i, j], T[i, j + 1]), T[i + 1, j])
    return T[-1, -1]


def log_distances(log_kernel_matrix):
    diagonal = np.diag(log_kernel_matrix)
    return (diagonal[:, None] + diagonal) / 2 - log_kernel_matrix


def table_distances(sets, sigma, order=None):
    return log_distances(np.array([[log_kernel(x, y, sigma, order) for y in sets] for x in sets]))


@pytest.mark.parametrize("order", [None, 4])
@pytest.mark.parametrize("sigma", [0.5, 3.0])
def test_equals_the_sum_over_all_alignments(sigma, order):
    sets = walks([1, 2, 3, 4, 4])
    K = np.array([[kernel_of_all_alignments(x, y, sigma, order) for y in sets] for x in sets])
    expected = log_distances(np.log(K))
    D = dk.distance_matrix(sets, distance=dk.GlobalAlignment(sigma, order))
    assert np.all(np.abs(D - expected) <= REL_TOL * np.maximum(1, expected))
    k = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    D = dk.distance_matrix(sets, distance=dk.GlobalAlignment(sigma, order, metric=True))
    np.testing.assert_allclose(D**2, 2 - 2 * k, rtol=0, atol=2 * REL_TOL)


@pytest.mark.parametrize("order", [None, 12])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 30.0])
def test_equals_a_table_in_float64(sigma, order):
    sets = walks([33, 40, 41], d=5, step=0.2)
    expected = table_distances(sets, sigma, order)
    D = dk.distance_matrix(sets, distance=dk.GlobalAlignment(sigma, order))
    assert np.all(np.abs(D - expected) <= REL_TOL * np.maximum(1, expected))


def test_kernel_with_gaussian_local_kernels_is_the_exponential_of_soft_dtw():
    x, y = walks([4, 3])
    kappa = np.exp(-((x[:, None].astype("f8") - y) ** 2).sum(axis=2))
    K = sum(np.prod([kappa[cell] for cell in path]) for path in alignments(4, 3))
    assert np.exp(-dk.SoftDTW(1.0, divergence=False)(x, y)) == pytest.approx(K, rel=REL_TOL)


def test_long_series_do_not_underflow_and_equal_ones_have_distance_zero():
    """K is far outside of the range of float32 for both sigma."""
    x, y = walks([400, 390], step=0.1)
    for sigma in (0.3, 100.0):
        expected = table_distances([x, y], sigma)[0, 1]
        D = dk.distance_matrix([x, y, x], distance=dk.GlobalAlignment(sigma))
        assert abs(D[0, 1] - expected) <= 2 * REL_TOL * max(1, expected) * np.sqrt(10)
        assert D[0, 2] == D[0, 0] == 0


@settings(deadline=None, max_examples=20)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=5, max_size=9),
    seed=st.integers(0, 1000),
    sigma=st.sampled_from([0.3, 1.0, 5.0]),
    order=st.sampled_from([None, 2, 6]),
)
def test_kernel_is_positive_definite_and_its_distance_a_metric(lengths, seed, sigma, order):
    sets = walks(lengths, d=1, seed=seed)
    D = dk.distance_matrix(sets, distance=dk.GlobalAlignment(sigma, order, metric=True))
    k = 1 - D**2 / 2
    assert np.linalg.eigvalsh(k).min() >= -len(k) * REL_TOL
    assert np.all(D[~np.eye(len(D), dtype=bool)] > 0)
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + 1e-6).all()
    assert D.max() <= np.float32(np.sqrt(2))


def test_logarithmic_distance_is_not_a_metric():
    D = dk.distance_matrix([np.array([[v]]) for v in (0.0, 2.0, 4.0)], distance="global-alignment")
    assert D[0, 2] > D[0, 1] + D[1, 2]


def test_pairs_without_alignments_are_refused_by_name_or_have_the_maximum_distance():
    sets = walks([9, 4, 5])
    message = "the distance of set 0 to set 1 is infinite: lengths 9 and 4 .* Increase triangular"
    with pytest.raises(dk.SampleSetError, match=message):
        dk.distance_matrix(sets, distance=dk.GlobalAlignment(triangular=5))
    D = dk.distance_matrix(sets, distance=dk.GlobalAlignment(triangular=5, metric=True))
    assert D[0, 1] == np.float32(np.sqrt(2))


def test_embedding_of_a_store_equals_that_of_sets_in_memory(tmp_path):
    sets = walks(range(10, 40))
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    embedding = dk.DistanceEmbedding("global-alignment", n_components=8, random_state=0).fit(sets)
    rows = embedding.transform(sets)
    assert np.isfinite(rows).all()
    np.testing.assert_array_equal(embedding.transform(store).compute(), rows)
    np.testing.assert_array_equal(embedding.transform(sets[3:4]), rows[3:4])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sigma": 0}, "sigma must be a positive number"),
        ({"triangular": 0}, "triangular must be an integer >= 1"),
        ({"triangular": 2.5}, "triangular must be an integer >= 1"),
    ],
)
def test_invalid_options_are_refused_by_name(params, message):
    with pytest.raises(ValueError, match=message):
        dk.GlobalAlignment(**params)
