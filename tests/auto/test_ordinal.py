"""Ordered classes: the proportional-odds model, its agreement with statsmodels, and the order of labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import dkdist as dk
from dkdist.auto.ordinal import (
    fit_proportional_odds,
    mid_ranks,
    ordinal_log_probabilities,
    ordinal_score,
)


def staged(rng, n):
    """Return sets of ten points, their means, and stages 1 to 4 with proportional odds."""
    sets = [rng.normal(m, 0.3, (10, 3)) for m in rng.normal(size=(n, 3))]
    X = np.array([x.mean(axis=0) for x in sets])
    return sets, X, 1 + np.digitize(1.5 * X @ [0.7, -0.5, 0] + rng.logistic(size=n), [-1.0, 0.0, 1.5])


def negative_log_likelihood(parameters, v, index, weights):
    """Compute the likelihood by definition, for increasing thresholds and a slope."""
    cumulative = expit(np.append(parameters[:-1], np.inf)[index] - parameters[-1] * v)
    before = expit(np.append(-np.inf, parameters[:-1])[index] - parameters[-1] * v)
    return -(weights * np.log(np.maximum(cumulative - before, 1e-300))).sum()


def test_thresholds_and_slope_maximise_the_likelihood():
    rng = np.random.default_rng(0)
    v = rng.normal(2, 3, size=200)
    index, w = np.digitize(0.4 * v + rng.logistic(size=200), [-1, 1, 2.5]), rng.uniform(0.5, 1.5, 200)
    own = fit_proportional_odds(v[:, None], index, 4, w)
    best = minimize(
        negative_log_likelihood,
        [-1, 1, 2, 0.3],
        (v, index, w),
        "Nelder-Mead",
        options={"maxiter": 9999, "xatol": 1e-8},
    )
    np.testing.assert_allclose(own, best.x, atol=1e-2)
    assert negative_log_likelihood(own, v, index, w) <= best.fun + 1e-3
    p = np.exp(ordinal_log_probabilities(v[:, None], own))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert negative_log_likelihood(own, v, index, w) == pytest.approx(
        -(w * np.log(p[np.arange(200), index])).sum()
    )


def test_values_of_the_wrong_sign_and_equal_values_give_class_frequencies():
    index = np.repeat([0, 1, 2], [10, 20, 30])
    for values in (np.zeros((60, 1)), -np.arange(60.0)[:, None]):
        calibration = fit_proportional_odds(values, index, 3, np.ones(60))
        p = np.exp(ordinal_log_probabilities(values, calibration))
        np.testing.assert_allclose(p, np.tile([1 / 6, 1 / 3, 1 / 2], (60, 1)), atol=1e-3)


def test_separated_and_missing_classes_give_finite_probabilities():
    values = np.arange(30.0)[:, None]
    for index in (np.arange(30) // 10, np.arange(30) // 15 * 2):  # the second has no class 1
        calibration = fit_proportional_odds(values, index, 3, np.ones(30))
        logs = ordinal_log_probabilities(values, calibration)
        assert np.isfinite(logs).all()
        assert (logs.argmax(axis=1) == index).mean() > 0.9


def test_mid_ranks_are_means_of_ranks():
    index = np.array([1, 0, 1, 2, 2, 2])
    ranks = np.array([2.0, 0.5, 2.0, 4.5, 4.5, 4.5])
    np.testing.assert_allclose(mid_ranks(index, np.ones(6))[:, 0], (ranks - ranks.mean()) / ranks.std())


def test_scores_of_noise_are_those_of_chance():
    rng, index, rows = np.random.default_rng(0), np.arange(30) % 3, np.arange(30)
    score = ordinal_score(index, 3)
    scores = [score(rng.normal(size=(30, 1)), rows) for _ in range(300)]
    assert (
        abs(np.mean(scores) - 1 / 3) < 3 * np.std(scores) / np.sqrt(300) + 0.02
    )  # 0.02: slopes below 0 are 0
    assert score(np.zeros((30, 1)), rows) == pytest.approx(1 / 3)
    assert score(index[:, None] + 0.1 * rng.normal(size=(30, 1)), rows) > 0.9


def test_probabilities_are_as_good_as_those_of_the_true_model(tmp_path):
    rng = np.random.default_rng(101)
    sets, X, y = staged(rng, 2400)
    model = dk.SetClassifier(["means"], ordinal=True, random_state=0).fit(sets[:400], y[:400])
    truth = ordinal_log_probabilities(X @ [[1.05], [-0.75], [0.0]], np.array([-1.0, 0.0, 1.5, 1.0]))
    p = model.predict_proba(sets[400:])
    at = np.arange(2000), y[400:] - 1
    # four parameters cost 4 / (2 n) = 0.005 on average
    assert -np.log(p[at]).mean() <= -truth[400:][at].mean() + 0.02
    assert 0.86 <= model.predict_set(sets[400:], 0.9)[at].mean() <= 0.94
    np.testing.assert_array_equal(model.predict(sets[400:]), model.classes_[p.argmax(axis=1)])
    assert "Mean absolute error of ranks" in model.summary()
    assert model.decision_function(sets[:3]).shape == (3,)
    assert model.leaderboard_[0]["score"] == pytest.approx(model.score(sets[400:], y[400:]), abs=0.08)
    dk.save_model(model, tmp_path / "m.npz")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "m.npz").predict_proba(sets[400:]), p)


def test_probabilities_are_within_001_of_statsmodels():
    ordinal_model = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    rng = np.random.default_rng(102)
    sets, X, y = staged(rng, 2400)
    model = dk.SetClassifier(["means"], ordinal=True, random_state=0).fit(sets[:400], y[:400])
    peer = ordinal_model.OrderedModel(y[:400], X[:400], distr="logit").fit(method="bfgs", disp=0)
    at = np.arange(2000), y[400:] - 1
    own, other = (
        -np.log(p[at]).mean()
        for p in (model.predict_proba(sets[400:]), peer.model.predict(peer.params, exog=X[400:]))
    )
    assert own <= other + 0.01


def test_the_order_is_that_of_a_categorical():
    rng = np.random.default_rng(3)
    level = np.arange(60) % 3
    sets = [rng.normal(2 * i, 1, (20, 1)) for i in level]
    names = np.array(["low", "middle", "high"])
    y = pd.Series(pd.Categorical(names[level], ["low", "middle", "none", "high"], ordered=True))
    model = dk.SetClassifier(["means"], ordinal=True, random_state=0).fit(sets, y)
    assert model.classes_.tolist() == ["low", "middle", "high"]
    assert model.score(sets, y) > 0.9
    assert np.corrcoef(model.decision_function(sets), level)[0, 1] > 0.8


@pytest.mark.parametrize(
    ("arguments", "y", "message"),
    [
        ({}, np.array(["a", "b"] * 12), "y must have an order with ordinal=True; got text, such as 'a'"),
        ({"scoring": "accuracy"}, np.arange(24) % 3, "scoring must be None with ordinal=True"),
    ],
)
def test_text_without_an_order_and_scoring_are_refused(arguments, y, message):
    with pytest.raises(ValueError, match=message):
        dk.SetClassifier(ordinal=True, **arguments).fit([np.zeros((2, 1))] * 24, y)
