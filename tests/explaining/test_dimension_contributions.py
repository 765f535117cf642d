"""Contributions of dimensions: closed forms of means and covariances, axioms of Shapley values, and sums."""

from __future__ import annotations

from itertools import permutations
from math import factorial

import numpy as np
import pytest
from base.test_embedding_laws import EMBEDDINGS
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.inspection.contributions import _resample_points, draw_coalitions
from explaining.test_point_contributions import collection, fitted, make_model, values

N_POINTS = 25  # points per set; the background is not resampled


def equal_size_sets(n_sets, d, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.normal(size=d), 1, (N_POINTS, d)) for _ in range(n_sets)]


def by_dimension(embedding, features, coef, sets, background):
    model = make_model(embedding, features, coef)
    return dk.explain(model, sets, by="dimension", background=background, random_state=0)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_coalitions_average_over_all_orders(d):
    """Compare with the definition: the mean contribution over all orders of dimensions."""
    plan = draw_coalitions(d, np.random.default_rng(0))
    v = {
        tuple(included): x
        for included, x in zip(plan.columns, np.random.default_rng(1).normal(size=2**d), strict=True)
    }
    expected = np.zeros(d)
    for order in permutations(range(d)):
        included = np.zeros(d, bool)
        for j in order:
            value_before, included[j] = v[tuple(included)], True
            expected[j] += (v[tuple(included)] - value_before) / factorial(d)
    np.testing.assert_allclose(plan.weights @ np.array(list(v.values())), expected, atol=1e-12)


@pytest.mark.parametrize("d", [4, 7, 20])
def test_coalitions_are_exact_for_pairwise_interactions(d):
    """Orders and their reverses are exact for sums of single terms and of products of two dimensions."""
    rng = np.random.default_rng(0)
    plan = draw_coalitions(d, rng)
    a, B = rng.normal(size=d), np.triu(rng.normal(size=(d, d)), 1)
    v = plan.columns @ a + np.einsum("qi,ij,qj->q", plan.columns, B, plan.columns)
    np.testing.assert_allclose(plan.weights @ v, a + (B.sum(axis=0) + B.sum(axis=1)) / 2, atol=1e-12)


@pytest.mark.parametrize("d", [3, 9])
def test_contributions_of_means_match_differences(d):
    sets, background = equal_size_sets(5, d), equal_size_sets(4, d, seed=1)
    embedding = dk.MomentEmbedding(1).fit(sets)
    coef = np.random.default_rng(2).normal(size=d)
    units = embedding.transform([np.eye(d)[j : j + 1] for j in range(d)]) - embedding.transform(
        [np.zeros((1, d))]
    )
    means = np.array([x.mean(axis=0) for x in sets]) - np.mean([x.mean(axis=0) for x in background], axis=0)
    result = by_dimension(embedding, [], coef, sets, background)
    np.testing.assert_allclose(result, means * (units @ coef), atol=1e-5)


@pytest.mark.parametrize("name", sorted(EMBEDDINGS))
def test_contributions_sum_to_difference_from_background(name):
    sets, embedding, features = fitted(name, n_components=16)
    plain = dk.SampleSets.from_arrays([x[:N_POINTS] for x in sets])
    coef = np.random.default_rng(2).normal(size=(3, 16))
    own_sets, background = plain[:2], plain[10:13]
    result = by_dimension(embedding, features, coef, own_sets, background)
    assert result.shape == (2, sets.n_dims, 3)
    difference = values(embedding, features, coef, 0.0, own_sets) - values(
        embedding, features, coef, 0.0, background
    ).mean(axis=0)
    np.testing.assert_allclose(result.sum(axis=1), difference, atol=1e-4)


def test_unused_dimensions_add_nothing_and_equal_dimensions_add_the_same():
    sets = [np.column_stack([x[:, 0], x[:, 0], x[:, 1]]) for x in equal_size_sets(6, 2)]
    embedding = dk.MomentEmbedding(1).fit(sets)
    result = by_dimension(embedding, [], [2.0, 2, 0], sets[:3], sets[3:])
    np.testing.assert_allclose(result[:, 2], 0, atol=1e-12)
    np.testing.assert_allclose(result[:, 0], result[:, 1], atol=1e-5)


def test_contributions_of_marginal_densities_match_their_columns():
    """Rows are concatenated over dimensions, so dimension j contributes the difference of its columns."""
    d = 5
    sets, background = equal_size_sets(3, d), equal_size_sets(4, d, seed=1)
    embedding = dk.DivergenceEmbedding(structure="marginal", n_basis=8, bandwidth=0.1).fit(sets + background)
    coef = np.random.default_rng(0).normal(size=embedding.spec_.n_features)
    values_of_sets, values_of_background = (
        embedding.transform(s).astype(np.float64) * coef for s in (sets, background)
    )
    expected = (values_of_sets - values_of_background.mean(axis=0)).reshape(3, d, -1).sum(axis=2)
    np.testing.assert_allclose(by_dimension(embedding, [], coef, sets, background), expected, atol=1e-5)


def test_relevant_dimension_is_found():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    sets = [rng.normal(0, 1, (60, 3)) * [1, 1 + 0.7 * c, 1] for c in y]
    model = make_pipeline(
        dk.DivergenceEmbedding(n_basis=8, bandwidth=0.12),
        dk.RandomFourierFeatures(300, random_state=0),
        dk.IncrementalRidgeClassifier(random_state=0),
    ).fit(sets[:80], y[:80])
    result = dk.explain(model, sets[80:], by="dimension", background=sets[:16], random_state=0)
    mean_contributions = np.abs(result).mean(axis=0)
    assert mean_contributions[1] > 3 * max(mean_contributions[0], mean_contributions[2])
    assert ((result[:, 1] > 0) == (y[80:] == 1)).mean() > 0.9


def test_contributions_do_not_depend_on_stores_and_other_sets(tmp_path):
    sets, embedding, features = fitted("hellinger-2")
    coef = np.random.default_rng(0).normal(size=64)
    dk.write_sets(tmp_path / "s.zarr", sets)
    stored = dk.open_sets(tmp_path / "s.zarr", block_sets=7)
    expected = by_dimension(embedding, features, coef, sets, sets[:4])
    np.testing.assert_array_equal(by_dimension(embedding, features, coef, stored, stored[:4]), expected)
    np.testing.assert_array_equal(
        by_dimension(embedding, features, coef, sets[11:12], sets[:4])[0], expected[11]
    )


def test_batches_of_coalitions_do_not_change_contributions(monkeypatch):
    sets, embedding, features = fitted("l2-3")
    coef = np.random.default_rng(0).normal(size=64)
    whole = by_dimension(embedding, features, coef, sets[:2], sets[5:7])
    monkeypatch.setattr("dkdist.inspection.contributions.POINTS_PER_BATCH", 60)
    np.testing.assert_allclose(by_dimension(embedding, features, coef, sets[:2], sets[5:7]), whole, atol=1e-6)


def test_resampling_uses_equal_steps_of_weight():
    one = dk.SampleSets.from_arrays([np.arange(4.0)[:, None]], [[1.0, 2, 0, 1]])
    assert _resample_points(one, 8, None).ravel().tolist() == [0, 0, 1, 1, 1, 1, 3, 3]
    plain = dk.SampleSets.from_arrays([np.arange(5.0)[:, None]])
    assert sorted(_resample_points(plain, 5, np.random.default_rng(0)).ravel()) == [0, 1, 2, 3, 4]


def test_order_of_series_is_kept():
    rng = np.random.default_rng(0)
    sets = [np.cumsum(rng.normal(c, 1, (20, 2)), axis=0) for c in (0, 1) * 10]
    embedding = dk.DistanceEmbedding("dtw", n_components=8, random_state=0).fit(sets)
    coef = np.ones(8)
    result = by_dimension(embedding, [], coef, sets[:1], sets[1:2])[0]
    mixed = [np.column_stack([(sets[0] if a else sets[1])[:, 0], (sets[0] if b else sets[1])[:, 1]])
             for a in (0, 1) for b in (0, 1)]  # fmt: skip
    v = embedding.transform(mixed).astype(np.float64) @ coef
    np.testing.assert_allclose(
        result, [(v[2] - v[0] + v[3] - v[1]) / 2, (v[1] - v[0] + v[3] - v[2]) / 2], atol=1e-6
    )


def test_missing_or_invalid_background_raises():
    sets = collection(2)
    embedding = dk.MomentEmbedding(1).fit(sets)
    with pytest.raises(ValueError, match="Pass background="):
        by_dimension(embedding, [], [1.0, 1], sets, None)
    with pytest.raises(dk.SampleSetError, match="one of background"):
        by_dimension(embedding, [], [1.0, 1], sets, [np.zeros((3, 3))])
    many = by_dimension(embedding, [], [1.0, 1], sets[:2], collection(2, seed=3, n=80))
    assert many.shape == (2, 2)
