"""What dimensions add: closed forms of means and covariances, the axioms of Shapley values, and the sum law."""

from __future__ import annotations

from itertools import permutations
from math import factorial

import numpy as np
import pytest
from base.test_embedding_laws import EMBEDDINGS
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.inspection.contributions import _resample_points, draw_coalitions
from explaining.test_point_contributions import collection, fitted, model_of, values

N_POINTS = 25  # of every set below, so that a background is drawn as it is


def of_size(n_sets, d, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.normal(size=d), 1, (N_POINTS, d)) for _ in range(n_sets)]


def by_dimension(embedding, features, coef, sets, background):
    model = model_of(embedding, features, coef)
    return dk.explain(model, sets, by="dimension", background=background, random_state=0)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_coalitions_give_the_mean_over_all_orders(d):
    """Against the definition: what a dimension adds when it joins, over all orders of joining."""
    plan = draw_coalitions(d, np.random.default_rng(0))
    v = {
        tuple(kept): x
        for kept, x in zip(plan.columns, np.random.default_rng(1).normal(size=2**d), strict=True)
    }
    expected = np.zeros(d)
    for order in permutations(range(d)):
        kept = np.zeros(d, bool)
        for j in order:
            before, kept[j] = v[tuple(kept)], True
            expected[j] += (v[tuple(kept)] - before) / factorial(d)
    np.testing.assert_allclose(plan.weights @ np.array(list(v.values())), expected, atol=1e-12)


@pytest.mark.parametrize("d", [4, 7, 20])
def test_coalitions_sum_to_all_less_none(d):
    """Of sums over dimensions each has its own term; with products of two, orders and their reverses are exact too."""
    rng = np.random.default_rng(0)
    plan = draw_coalitions(d, rng)
    a, B = rng.normal(size=d), np.triu(rng.normal(size=(d, d)), 1)
    v = plan.columns @ a + np.einsum("qi,ij,qj->q", plan.columns, B, plan.columns)
    np.testing.assert_allclose(plan.weights @ v, a + (B.sum(axis=0) + B.sum(axis=1)) / 2, atol=1e-12)


@pytest.mark.parametrize("d", [3, 9])
def test_of_means_each_dimension_has_its_own_difference(d):
    sets, background = of_size(5, d), of_size(4, d, seed=1)
    embedding = dk.MomentEmbedding(1).fit(sets)
    coef = np.random.default_rng(2).normal(size=d)
    units = embedding.transform([np.eye(d)[j : j + 1] for j in range(d)]) - embedding.transform(
        [np.zeros((1, d))]
    )
    means = np.array([x.mean(axis=0) for x in sets]) - np.mean([x.mean(axis=0) for x in background], axis=0)
    result = by_dimension(embedding, [], coef, sets, background)
    np.testing.assert_allclose(result, means * (units @ coef), atol=1e-5)


@pytest.mark.parametrize("name", sorted(EMBEDDINGS))
def test_contributions_sum_to_the_lead_over_the_background(name):
    sets, embedding, features = fitted(name, n_components=16)
    plain = dk.SampleSets.from_arrays([x[:N_POINTS] for x in sets])
    coef = np.random.default_rng(2).normal(size=(3, 16))
    own, beside = plain[:2], plain[10:13]
    result = by_dimension(embedding, features, coef, own, beside)
    assert result.shape == (2, sets.n_dims, 3)
    lead = values(embedding, features, coef, 0.0, own) - values(embedding, features, coef, 0.0, beside).mean(
        axis=0
    )
    np.testing.assert_allclose(result.sum(axis=1), lead, atol=1e-4)


def test_a_dimension_that_is_not_looked_at_adds_nothing_and_like_ones_the_same():
    sets = [np.column_stack([x[:, 0], x[:, 0], x[:, 1]]) for x in of_size(6, 2)]
    embedding = dk.MomentEmbedding(1).fit(sets)
    result = by_dimension(embedding, [], [2.0, 2, 0], sets[:3], sets[3:])
    np.testing.assert_allclose(result[:, 2], 0, atol=1e-12)
    np.testing.assert_allclose(result[:, 0], result[:, 1], atol=1e-5)


def test_marginal_densities_are_divided_exactly():
    """Rows of every dimension side by side: what dimension j adds is the difference of its own columns."""
    d = 5
    sets, background = of_size(3, d), of_size(4, d, seed=1)
    embedding = dk.DivergenceEmbedding(structure="marginal", n_basis=8, bandwidth=0.1).fit(sets + background)
    coef = np.random.default_rng(0).normal(size=embedding.spec_.n_features)
    own, beside = (embedding.transform(s).astype(np.float64) * coef for s in (sets, background))
    expected = (own - beside.mean(axis=0)).reshape(3, d, -1).sum(axis=2)
    np.testing.assert_allclose(by_dimension(embedding, [], coef, sets, background), expected, atol=1e-5)


def test_the_dimension_that_makes_a_class_is_found():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    sets = [rng.normal(0, 1, (60, 3)) * [1, 1 + 0.7 * c, 1] for c in y]
    model = make_pipeline(
        dk.DivergenceEmbedding(n_basis=8, bandwidth=0.12),
        dk.RandomFourierFeatures(300, random_state=0),
        dk.IncrementalRidgeClassifier(random_state=0),
    ).fit(sets[:80], y[:80])
    result = dk.explain(model, sets[80:], by="dimension", background=sets[:16], random_state=0)
    matters = np.abs(result).mean(axis=0)
    assert matters[1] > 3 * max(matters[0], matters[2])
    assert ((result[:, 1] > 0) == (y[80:] == 1)).mean() > 0.9


def test_stores_and_neighbours_change_no_bit(tmp_path):
    sets, embedding, features = fitted("hellinger-2")
    coef = np.random.default_rng(0).normal(size=64)
    dk.write_sets(tmp_path / "s.zarr", sets)
    stored = dk.open_sets(tmp_path / "s.zarr", block_sets=7)
    own = by_dimension(embedding, features, coef, sets, sets[:4])
    np.testing.assert_array_equal(by_dimension(embedding, features, coef, stored, stored[:4]), own)
    np.testing.assert_array_equal(by_dimension(embedding, features, coef, sets[11:12], sets[:4])[0], own[11])


def test_coalitions_that_are_looked_at_in_parts_change_no_value(monkeypatch):
    sets, embedding, features = fitted("l2-3")
    coef = np.random.default_rng(0).normal(size=64)
    whole = by_dimension(embedding, features, coef, sets[:2], sets[5:7])
    monkeypatch.setattr("dkdist.inspection.contributions.POINTS_PER_BATCH", 60)
    np.testing.assert_allclose(by_dimension(embedding, features, coef, sets[:2], sets[5:7]), whole, atol=1e-6)


def test_points_are_drawn_at_even_steps_of_their_weight():
    one = dk.SampleSets.from_arrays([np.arange(4.0)[:, None]], [[1.0, 2, 0, 1]])
    assert _resample_points(one, 8, None).ravel().tolist() == [0, 0, 1, 1, 1, 1, 3, 3]
    plain = dk.SampleSets.from_arrays([np.arange(5.0)[:, None]])
    assert sorted(_resample_points(plain, 5, np.random.default_rng(0)).ravel()) == [0, 1, 2, 3, 4]


def test_series_keep_their_order():
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


def test_a_background_is_needed_and_its_bad_sets_are_named():
    sets = collection(2)
    embedding = dk.MomentEmbedding(1).fit(sets)
    with pytest.raises(ValueError, match="Pass background="):
        by_dimension(embedding, [], [1.0, 1], sets, None)
    with pytest.raises(dk.SampleSetError, match="one of background"):
        by_dimension(embedding, [], [1.0, 1], sets, [np.zeros((3, 3))])
    many = by_dimension(embedding, [], [1.0, 1], sets[:2], collection(2, seed=3, n=80))
    assert many.shape == (2, 2)
