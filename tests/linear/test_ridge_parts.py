"""partial_fit of ridge regression, probabilities, and multilabel targets."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import accuracy_score, log_loss

from dkdist import IncrementalRidge, IncrementalRidgeClassifier, load_model, save_model
from dkdist._runtime.run import plan_of
from dkdist.linear.held_out import held_out_in_stream

from .problems import smooth_problem

CUTS = [0, 7, 250, 251, 700, 1500]


def problem(n: int = 1500, d: int = 12) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 3.0
    y = X @ rng.standard_normal((d, 2)) + rng.standard_normal((n, 2))
    return X, y, np.digitize(y[:, 0], np.quantile(y[:, 0], [0.5, 0.8])), rng.random(n)


@pytest.mark.parametrize("fraction", [0.1, 0.15, 1 / 3, 0.5, 0.8])
def test_held_out_rows_depend_on_row_number_only(fraction: float) -> None:
    whole = held_out_in_stream(0, 1000, fraction, (3,))
    parts = [
        held_out_in_stream(a, b - a, fraction, (3,)) for a, b in ((0, 1), (1, 17), (17, 900), (900, 1000))
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert abs(whole.mean() - fraction) < 0.03
    if fraction == 0.1:
        assert (whole.reshape(-1, 10).sum(axis=1) == 1).all()


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("alphas", [0.5, [0.01, 1.0, 1000.0]])
def test_partial_fit_matches_fit(lazy: bool, alphas: Any) -> None:
    X, y, c, w = problem()
    options = {"alphas": alphas, "selection": "held-out", "random_state": 0}
    regressor, classes = IncrementalRidge(**options), IncrementalRidgeClassifier(**options)
    for a, b in pairwise(CUTS):
        part = da.from_array(X[a:b], chunks=(100, -1)) if lazy else X[a:b]
        regressor.partial_fit(part, y[a:b], w[a:b])
        classes.partial_fit(part, c[a:b], classes=[0, 1, 2], sample_weight=w[a:b])
        regressor, classes = (pickle.loads(pickle.dumps(model)) for model in (regressor, classes))
    for model, whole in (
        (regressor, IncrementalRidge(**options).fit(X, y, w)),
        (classes, IncrementalRidgeClassifier(**options).fit(X, c, w)),
    ):
        assert model.alpha_ == whole.alpha_
        np.testing.assert_allclose(model.alpha_errors_, whole.alpha_errors_, rtol=1e-9)
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-8, atol=1e-11)
    whole = IncrementalRidgeClassifier(**options).fit(X, c, w)
    np.testing.assert_allclose(classes.predict_proba(X), whole.predict_proba(X), atol=1e-6)


def test_partial_fit_requirements(tmp_path: Any) -> None:
    X, y, c, _ = problem()
    model = IncrementalRidge(random_state=0).partial_fit(X[:1], y[:1])
    assert model.alpha_ == 1000.0  # the largest
    with pytest.raises(ValueError, match="the same targets in every call"):
        model.partial_fit(X, y[:, 0])
    with pytest.raises(ValueError, match="which needs a second pass"):
        IncrementalRidge(selection="leave-one-out").partial_fit(X, y)
    with pytest.raises(ValueError, match="all labels in the first call of partial_fit; got None"):
        IncrementalRidgeClassifier().partial_fit(X, c)
    classifier = IncrementalRidgeClassifier(random_state=0).partial_fit(X, c, classes=[0, 1, 2])
    save_model(classifier, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    assert (tmp_path / "m.npz").stat().st_size < 20_000
    with pytest.raises(ValueError, match="which model files omit"):
        loaded.partial_fit(X, c)


@pytest.mark.parametrize("alphas", [0.1, [1e-3, 0.1, 10.0]])
@pytest.mark.parametrize("n", [200, 1000])  # fewer rows than features, and more
def test_probabilities_match_cross_validated_calibration(n: int, alphas: Any) -> None:
    losses = []
    for seed in range(4):
        p = smooth_problem(n, 300, noise=1.0, seed=seed)
        model = IncrementalRidgeClassifier(alphas, random_state=0).fit(p.X, p.c)
        P = model.predict_proba(p.X_test)
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(p.X_test))
        folds = CalibratedClassifierCV(RidgeClassifier(model.alpha_), cv=5).fit(p.X, p.c)
        losses.append([log_loss(p.c_test, Q) for Q in (P, folds.predict_proba(p.X_test))])
    log_loss_of_model, reference = np.mean(losses, axis=0)  # the reference is the mean of five models
    assert log_loss_of_model < reference + 0.01
    assert log_loss_of_model < np.log(2) - 0.1


def test_probabilities_of_noise_match_class_frequencies() -> None:
    rng = np.random.default_rng(0)
    X, c = rng.standard_normal((4000, 20)), rng.choice(3, 4000, p=[0.7, 0.2, 0.1])
    P = IncrementalRidgeClassifier(random_state=0).fit(X, c).predict_proba(X)
    np.testing.assert_allclose(P.mean(axis=0), [0.7, 0.2, 0.1], atol=0.03)


def test_multilabel_targets(tmp_path: Any) -> None:
    X, y, _, w = problem()
    labels = (np.column_stack([y, y[:, 0] + y[:, 1]]) > y.mean()).astype(int)
    for form in (X, da.from_array(X, chunks=(400, -1))):
        model = IncrementalRidgeClassifier(2.0).fit(form, labels)
        exact = RidgeClassifier(2.0).fit(X, labels)
        np.testing.assert_allclose(model.decision_function(form), exact.decision_function(X), atol=1e-8)
        np.testing.assert_array_equal(model.predict(form), exact.predict(X))
        assert model.score(form, labels, w) == pytest.approx(
            accuracy_score(labels, exact.predict(X), sample_weight=w)
        )
        P = model.predict_proba(form)
        np.testing.assert_array_equal(P > 0.5, model.predict(form) == 1)
    save_model(model, tmp_path / "m.npz")
    np.testing.assert_array_equal(load_model(tmp_path / "m.npz").predict_proba(X), model.predict_proba(X))
    two = IncrementalRidgeClassifier(2.0).fit(X, labels[:, :2])
    save_model(two, tmp_path / "two.npz")
    np.testing.assert_array_equal(load_model(tmp_path / "two.npz").predict(X), two.predict(X))
    with pytest.raises(ValueError, match="Pass sample_weight"):
        IncrementalRidgeClassifier(class_weight="balanced").fit(X, labels)
    with pytest.raises(ValueError, match="multiclass-multioutput"):
        IncrementalRidgeClassifier().fit(X, labels + np.arange(1500)[:, None] % 2)


def test_auto_selects_leave_one_out_up_to_4000_rows() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4001, 5)), rng.standard_normal(4001)
    for n, selection in ((4000, "leave-one-out"), (4001, "held-out")):
        auto = IncrementalRidge(random_state=0).fit(X[:n], y[:n])
        explicit = IncrementalRidge(selection=selection, random_state=0).fit(X[:n], y[:n])
        np.testing.assert_array_equal(auto.alpha_errors_, explicit.alpha_errors_)


def test_plans_include_many_targets() -> None:
    """Targets in float64, centred and in the tasks, take at least 16 bytes per number."""
    rows, y = np.zeros((600, 8), np.float32), np.arange(600 * 500.0).reshape(600, 500)
    one, many = (plan_of(lambda y=y: IncrementalRidge().fit(rows, y)).work_bytes for y in (y[:, 0], y))
    assert many - one >= 16 * 600 * 499
