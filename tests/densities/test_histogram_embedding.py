"""`HistogramEmbedding`: squared distances match divergences between NumPy histograms."""

import numpy as np
import pytest
from oracles import gaussian_mixtures, rms_errors, squared_distances
from sklearn.kernel_approximation import AdditiveChi2Sampler

import dkdist as dk
from dkdist.embeddings.divergences import divergence

NAMES = ("hellinger", "jensen-shannon", "chi2", "total-variation")


def unit_sets(n_sets, d, n=200, seed=0):
    return [np.clip(x, 0, 1).astype(np.float32) for x in gaussian_mixtures(n_sets, d, n, seed)]


def bin_fractions(x, n_bins, weights=None):
    d = x.shape[1]
    mass, _ = np.histogramdd(x.astype(np.float64), n_bins, [(0, 1)] * d, weights=weights)
    return (mass / mass.sum()).ravel()


def kappas(name, p, i, j):
    return divergence(name).kappa(p[i], p[j]).sum(axis=1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("d", "n_bins"), [(1, 20), (2, 8), (3, 4), (4, 3)])
@pytest.mark.parametrize("name", NAMES)
def test_squared_distance_matches_divergence_of_histograms(name, d, n_bins, weighted):
    arrays, rng = unit_sets(40, d), np.random.default_rng(0)
    weights = [rng.random(len(x)).astype(np.float32) for x in arrays] if weighted else [None] * 40
    sets = dk.SampleSets.from_arrays(arrays, weights if weighted else None)
    rows = dk.HistogramEmbedding(n_bins, name, domain="unit", structure="joint").fit_transform(sets)
    p = np.array([bin_fractions(x, n_bins, w) for x, w in zip(arrays, weights, strict=True)])
    i, j = np.triu_indices(40, 1)
    error, _ = rms_errors(squared_distances(rows, i, j), kappas(name, p, i, j))
    assert error < {"hellinger": 1e-5, "total-variation": 0.05}.get(name, 2.5e-3)


def test_intersection_is_the_inner_product_of_rows():
    arrays = unit_sets(40, 2)
    rows = dk.HistogramEmbedding(8, "intersection", domain="unit").fit_transform(arrays)
    total_variation_rows = dk.HistogramEmbedding(8, "total-variation", domain="unit").fit_transform(arrays)
    np.testing.assert_array_equal(rows, total_variation_rows)
    p = np.array([bin_fractions(x, 8) for x in arrays])
    i, j = np.triu_indices(40, 1)
    inner = (rows[i].astype(np.float64) * rows[j]).sum(axis=1)
    exact = np.minimum(p[i], p[j]).sum(axis=1)
    assert np.sqrt(np.mean((inner - exact) ** 2)) < 0.02
    np.testing.assert_allclose((rows.astype(np.float64) ** 2).sum(axis=1), 1, rtol=2e-2)


def test_chi2_matches_scikit_learn():
    arrays = unit_sets(30, 2)
    p = np.array([bin_fractions(x, 8) for x in arrays])
    i, j = np.triu_indices(30, 1)
    rows = dk.HistogramEmbedding(8, "chi2", domain="unit").fit_transform(arrays)
    reference_rows = AdditiveChi2Sampler(sample_steps=3).fit_transform(p)
    result, sampled, exact = (
        squared_distances(rows, i, j),
        squared_distances(reference_rows, i, j),
        kappas("chi2", p, i, j),
    )
    assert np.corrcoef(result, sampled)[0, 1] > 0.99
    assert rms_errors(result, exact)[0] < rms_errors(sampled, exact)[0]


def test_custom_kappa_and_more_frequencies():
    arrays = unit_sets(20, 1)
    p = np.array([bin_fractions(x, 12) for x in arrays])
    i, j = np.triu_indices(20, 1)

    def triangular(x, y):
        return (x - y) ** 2 / np.maximum(x + y, 1e-300)

    rows = dk.HistogramEmbedding(12, triangular, domain="unit").fit_transform(arrays)
    assert rms_errors(squared_distances(rows, i, j), kappas("chi2", p, i, j))[0] < 0.003
    errors = []
    for n in (4, 64):
        options = {"frequencies": "gauss", "n_frequencies": n, "domain": "unit"}
        rows = dk.HistogramEmbedding(12, "total-variation", **options).fit_transform(arrays)
        errors.append(rms_errors(squared_distances(rows, i, j), kappas("total-variation", p, i, j))[0])
    assert errors[1] < errors[0] / 2


def test_random_frequencies_depend_on_the_seed():
    arrays = unit_sets(5, 2)
    options = {"frequencies": "random", "n_frequencies": 3, "domain": "unit"}
    first, same_seed, other_seed = (
        dk.HistogramEmbedding(**options, random_state=seed).fit_transform(arrays) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same_seed)
    assert (first != other_seed).any()


def test_marginal_divergences_are_summed():
    arrays = unit_sets(8, 5)
    i, j = np.triu_indices(8, 1)
    rows = dk.HistogramEmbedding(6, "hellinger", domain="unit").fit_transform(arrays)
    assert rows.shape == (8, 30)
    expected = sum(
        kappas("hellinger", np.array([bin_fractions(x[:, [k]], 6) for x in arrays]), i, j) for k in range(5)
    )
    np.testing.assert_allclose(squared_distances(rows, i, j), expected, rtol=1e-5)


def test_domain_of_data_and_points_outside():
    arrays = [np.array([[-3.0], [1.0], [5.0]]), np.array([[0.0], [0.5]])]
    embedding = dk.HistogramEmbedding(4, "hellinger").fit(arrays)
    rows = 2 * embedding.transform(arrays) ** 2  # bins end at -1, 1 and 3
    np.testing.assert_allclose(rows, [[1 / 3, 0, 1 / 3, 1 / 3], [0, 1, 0, 0]], rtol=1e-6)
    with pytest.warns(UserWarning, match="1 points in 1 sets .* are outside"):
        np.testing.assert_allclose(2 * embedding.transform([[[9.0]]]) ** 2, [[0, 0, 0, 1]], atol=1e-5)
    with pytest.raises(dk.SampleSetError, match=r"point 0 of set 0 is 9\.0"):
        dk.HistogramEmbedding(4, domain=(-3, 5)).fit(arrays).transform([[[9.0]]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "n_bins must be an integer >= 1"),
        (
            {"n_bins": 2000},
            "at most 1048576 cells; got 4000000 from n_bins=2000 in 2 joint dimensions. Reduce n_bins",
        ),
        ({"divergence": "kullback"}, "divergence must be one of 'jensen-shannon'.*got 'kullback'"),
        ({"structure": "tensor"}, "structure must be one of"),
        ({"frequencies": "best"}, "frequencies must be one of"),
        ({"n_frequencies": 0}, "n_frequencies must be an integer"),
        ({"on_error": "ignore"}, "on_error must be one of"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        dk.HistogramEmbedding(**options).fit(unit_sets(3, 2))


def test_the_largest_histogram_is_accepted(monkeypatch):
    from dkdist.embeddings import histogram

    sets = unit_sets(3, 2)
    monkeypatch.setattr(histogram, "MAX_HISTOGRAM_CELLS", 16)
    assert dk.HistogramEmbedding(4, structure="joint").fit(sets).spec_.n_features > 0
    monkeypatch.setattr(histogram, "MAX_HISTOGRAM_CELLS", 15)
    with pytest.raises(ValueError, match="at most 15 cells; got 16"):
        dk.HistogramEmbedding(4, structure="joint").fit(sets)
