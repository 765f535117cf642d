"""Weights of rows and classes, compared with scikit-learn's exact solvers and with repeated rows."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, RidgeCV
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkdist import (
    IncrementalRidge,
    IncrementalRidgeClassifier,
    IncrementalSGDClassifier,
    IncrementalSGDRegressor,
    OnePassSearch,
)
from dkdist._base.parameter_checks import draw_seed
from dkdist._base.random_streams import RngStream
from dkdist.linear.held_out import choose_held_out, held_out_in_stream

ALPHAS = [0.01, 1.0, 100.0]
LEARNERS = [IncrementalRidge, IncrementalRidgeClassifier, IncrementalSGDClassifier, IncrementalSGDRegressor]


def problem(n: int = 300, d: int = 8) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 2.0
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    return X, y, np.digitize(y, np.quantile(y, [0.6, 0.9])), rng.integers(0, 4, n).astype(float)


@pytest.mark.parametrize("d", [8, 400])  # more rows than features, and fewer
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weighted_ridge_matches_scikit_learn(d: int, fit_intercept: bool) -> None:
    X, y, c, w = problem(300, d)
    exact = Ridge(2.0, fit_intercept=fit_intercept, solver="svd").fit(X, y, w)
    for form in (X, da.from_array(X, chunks=(90, -1))):
        model = IncrementalRidge(2.0, fit_intercept=fit_intercept).fit(form, y, sample_weight=w)
        np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-9 * np.abs(exact.coef_).max())
        np.testing.assert_allclose(model.predict(X), exact.predict(X), rtol=1e-8, atol=1e-8)
    for class_weight in ("balanced", {0: 1.0, 2: 5.0}):
        exact = RidgeClassifier(2.0, class_weight=class_weight).fit(X, c)
        model = IncrementalRidgeClassifier(2.0, class_weight=class_weight).fit(X, c)
        np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-9 * np.abs(exact.coef_).max())


@pytest.mark.parametrize("d", [8, 400])
def test_weighted_leave_one_out_matches_ridge_cv(d: int) -> None:
    X, y, _, w = problem(300, d)
    w = w + 0.5
    exact = RidgeCV(ALPHAS, store_cv_results=True).fit(X, y, w)
    model = IncrementalRidge(ALPHAS, selection="leave-one-out").fit(X, y, w)
    assert model.alpha_ == exact.alpha_
    mean = exact.cv_results_.mean(axis=0) * len(y) / w.sum()
    np.testing.assert_allclose(model.alpha_errors_, mean, rtol=1e-7)


@pytest.mark.parametrize("selection", ["held-out", "leave-one-out"])
@pytest.mark.parametrize("d", [8, 400])
def test_rows_of_weight_zero_are_ignored(selection: str, d: int) -> None:
    X, y, _, w = problem(300, d)
    model = IncrementalRidge(ALPHAS, selection=selection, random_state=0)
    is_positive = w > 0
    a, b = clone(model).fit(X, y, w), clone(model).fit(X[is_positive], y[is_positive], w[is_positive])
    np.testing.assert_allclose(a.alpha_errors_, b.alpha_errors_, rtol=1e-9)
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)


@pytest.mark.parametrize("d", [8, 400])
def test_held_out_errors_are_weighted(d: int) -> None:
    X, y, _, w = problem(300, d)
    w = w + 0.5
    model = IncrementalRidge(ALPHAS, selection="held-out", random_state=5).fit(X, y, w)
    held_out = held_out_in_stream(0, 300, 0.1, (5, RngStream.HELD_OUT))
    for alpha, result in zip(ALPHAS, model.alpha_errors_, strict=True):
        exact = Ridge(alpha, solver="svd").fit(X[~held_out], y[~held_out], w[~held_out])
        expected = mean_squared_error(y[held_out], exact.predict(X[held_out]), sample_weight=w[held_out])
        assert result == pytest.approx(expected, rel=1e-8)


def test_integer_weights_match_repeated_rows() -> None:
    X, y, c, w = problem()
    repeats = np.repeat(np.arange(300), w.astype(int))
    a, b = IncrementalRidge(1.0).fit(X, y, w), IncrementalRidge(1.0).fit(X[repeats], y[repeats])
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)
    a, b = (
        m.fit(*p)
        for m, p in (
            (IncrementalRidgeClassifier(1.0, class_weight="balanced"), (X, c, w)),
            (IncrementalRidgeClassifier(1.0, class_weight="balanced"), (X[repeats], c[repeats])),
        )
    )
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)


def test_weighted_sgd_approaches_exact_solutions() -> None:
    X, y, c, w = problem(2000)
    X = (X - 2.0) / 3.0
    c = (c > 1).astype(int)
    exact = LogisticRegression(C=1e4, class_weight="balanced").fit(X, c, w)
    model = IncrementalSGDClassifier(class_weight="balanced", n_epochs=60, random_state=0).fit(X, c, w)
    assert abs(model.predict(X).mean() - exact.predict(X).mean()) < 0.03
    assert (
        model.predict(X).mean() > IncrementalSGDClassifier(random_state=0).fit(X, c).predict(X).mean() + 0.05
    )
    ridge = Ridge(1e-3).fit(X, y, w)
    sgd = IncrementalSGDRegressor(n_epochs=60, random_state=0).fit(X, y, w)
    np.testing.assert_allclose(sgd.coef_, ridge.coef_, atol=0.1)


@pytest.mark.parametrize("n_lanes", [1, 2])
def test_sgd_losses_are_weighted_means(n_lanes: int) -> None:
    rng = np.random.default_rng(0)
    y, w = rng.standard_normal(200), rng.uniform(0.1, 5.0, 200)
    X = da.from_array(np.zeros((200, 2)), chunks=(200 // n_lanes, -1))  # all rows predict the mean
    model = IncrementalSGDRegressor(n_epochs=1, n_lanes=n_lanes, validation_fraction=0.5, random_state=0).fit(
        X, y, w
    )
    held_out = choose_held_out(200, 0.5, (draw_seed(0), RngStream.HELD_OUT))
    squares = (
        y - np.average(y, weights=w)
    ) ** 2 / 2  # measured on all rows of a replica, before its first step
    curves = (model.loss_curve_, ~held_out), (model.validation_loss_curve_, held_out)
    for curve, rows in curves:
        np.testing.assert_allclose(curve, [np.average(squares[rows], weights=w[rows])], rtol=1e-12)


@pytest.mark.parametrize("learner", [IncrementalSGDClassifier, IncrementalSGDRegressor])
def test_sgd_ignores_scale_of_weights_and_rows_of_weight_zero(learner: Any) -> None:
    X, _, c, w = problem()
    model = learner(n_epochs=3, random_state=0)
    plain = clone(model).fit(X, c)
    np.testing.assert_allclose(clone(model).fit(X, c, np.full(300, 7.0)).coef_, plain.coef_, rtol=1e-9)
    moved = X.copy()
    moved[w == 0] += 1.0
    a, b = (clone(model).set_params(eta0=0.01).fit(rows, c, w) for rows in (X, moved))
    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.r_[np.ones(299), -1.0], r"got -1.0 \(row 299"),
        (np.r_[np.nan, np.ones(299)], r"got nan \(row 0"),
        (np.zeros(300), "zero in every row"),
        (np.ones(299), r"shape \(300,\).*got \(299,"),
        (np.ones((300, 2)), r"got \(300, 2\)"),
        (["a"] * 300, "real numbers"),
    ],
)
def test_invalid_sample_weight_raises(learner: Any, weights: Any, message: str) -> None:
    X, _, c, _ = problem()
    for call in (learner().fit, clone(learner(random_state=0)).fit(X, c).score):
        with pytest.raises(ValueError, match=message):
            call(X, c, sample_weight=weights)


@pytest.mark.parametrize("learner", [IncrementalRidgeClassifier, IncrementalSGDClassifier])
def test_invalid_class_weight_raises(learner: Any) -> None:
    X, _, c, _ = problem()
    with pytest.raises(ValueError, match=r"only the classes .*; got 7"):
        learner(class_weight={7: 1.0}).fit(X, c)
    with pytest.raises(ValueError, match="finite weights >= 0"):
        learner(class_weight={0: -1.0}).fit(X, c)
    with pytest.raises(ValueError, match="class_weight"):
        learner(class_weight="even").fit(X, c)
    with pytest.raises(ValueError, match="does not see all rows"):
        learner(class_weight="balanced").partial_fit(X, c, classes=[0, 1, 2])


def test_metadata_routing() -> None:
    X, y, _, w = problem()
    with sklearn.config_context(enable_metadata_routing=True):
        ridge = (
            IncrementalRidge(1.0).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        )
        model = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), ridge)
        result = GridSearchCV(model, {"incrementalridge__alphas": [1.0, 1e4]}, cv=3).fit(
            X, y, sample_weight=w
        )
        single_model = clone(ridge).fit(StandardScaler().fit_transform(X), y, w)
    np.testing.assert_allclose(result.best_estimator_[-1].coef_, single_model.coef_)


@pytest.mark.parametrize("learner", [IncrementalRidgeClassifier, IncrementalSGDClassifier])
def test_search_uses_sample_weight_and_class_weight(learner: Any) -> None:
    """Every candidate matches a separate fit on the rows that are not held out."""
    X, _, c, w = problem(600)
    X, options = X.astype("f4"), {"alphas": 1.0} if learner is IncrementalRidgeClassifier else {"n_epochs": 3}
    grid = {"class_weight": [None, "balanced", {0: 0.1, 1: 1.0, 2: 3.0}]}
    search = OnePassSearch(learner(random_state=0, **options), grid, 0.3, random_state=0)
    result = search.fit(da.from_array(X, chunks=(128, -1)), c, sample_weight=w)
    held_out = np.zeros(600, bool)
    held_out[result.held_out_] = True
    assert (w[held_out] > 0).all()
    for params, score in zip(
        result.cv_results_["params"], result.cv_results_["mean_test_score"], strict=True
    ):
        single_model = learner(random_state=0, **options, **params)
        if learner is IncrementalRidgeClassifier:
            single_model.fit(X[~held_out], c[~held_out], w[~held_out])
            assert score == pytest.approx(single_model.score(X[held_out], c[held_out], w[held_out]), abs=1e-9)
        else:  # different blocks and order
            single_model.fit(da.from_array(X, chunks=(128, -1)), c, np.where(held_out, 0.0, w))
            assert score == pytest.approx(single_model.score(X[held_out], c[held_out], w[held_out]), abs=0.06)
    assert len(set(result.cv_results_["mean_test_score"])) > 1
