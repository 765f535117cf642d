"""Rows of features that are not finite: they raise, or are skipped as if they were absent."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from bad_sets import spoilt_store
from sklearn.base import clone, is_classifier
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import make_pipeline

import dkdist as dk
import dkdist._runtime.map_reduce
import dkdist.linear.epochs
import dkdist.linear.lanes
import dkdist.linear.sgd_steps
from dkdist._base.parameter_checks import draw_seed
from dkdist._base.random_streams import RngStream
from dkdist.linear.held_out import held_out_in_stream
from dkdist.linear.rows import exclude
from dkdist.linear.sgd_steps import Batch, prepare, step_size
from tests.simulated_kill import SimulatedKill, kill_after_saves

N, D = 700, 6
RNG = np.random.default_rng(0)
CLEAN = RNG.standard_normal((N, D))
Y = CLEAN @ RNG.standard_normal((D, 2)) + 0.5 * RNG.standard_normal((N, 2))
LABELS = np.array(["a", "b", "c"])[np.digitize(Y[:, 0], [-1.0, 1.0])]
BAD = np.array([0, 33, 34, 35, 36, 37, 38, 39, 250, 511, 512, 699])
GOOD = np.setdiff1d(np.arange(N), BAD)


def invalid_rows(dtype: str = "f8") -> Any:
    X = CLEAN.astype(dtype)
    X[BAD[::2], 2], X[BAD[1::2], 0] = np.nan, -np.inf
    return X


def forms(dtype: str = "f8") -> list[Any]:
    X = invalid_rows(dtype)
    # rows 35 to 41 form one block
    return [
        X,
        da.from_array(X, chunks=(40, -1)),
        da.from_array(X, chunks=(7, 3)),
    ]


LEARNERS = [
    dk.IncrementalSGDClassifier(n_epochs=3, random_state=0),
    dk.IncrementalSGDRegressor(n_epochs=3, random_state=0),
    dk.IncrementalRidgeClassifier(random_state=0),
    dk.IncrementalRidge(random_state=0),
]
for_each_learner = pytest.mark.parametrize("learner", LEARNERS, ids=lambda e: type(e).__name__)
NOT_FINITE = (  # dask blocks are checked by dkdist, arrays by scikit-learn
    r"X must be finite; got -?(nan|inf) in row \d+, column \d+\. Drop the row|contains (NaN|infinity)"
)
ignore_skip_warning = pytest.mark.filterwarnings("ignore:12 of 700 rows:UserWarning")


def targets_for(learner: Any) -> Any:
    return LABELS if is_classifier(learner) else Y[:, 0]


def skipping(learner: Any, **parameters: Any) -> Any:
    return clone(learner).set_params(on_error="skip", **parameters)


@for_each_learner
def test_invalid_rows_raise_by_default_and_are_listed_if_skipped(learner: Any) -> None:
    y = targets_for(learner)
    fitted = clone(learner).fit(CLEAN, y)
    assert fitted.skipped_.dtype == np.int64
    assert fitted.skipped_.shape == (0,)
    for X in forms():
        with pytest.raises(ValueError, match=NOT_FINITE):
            clone(learner).fit(X, y)
        with pytest.warns(
            UserWarning, match=r"12 of 700 rows of X .* \(see skipped_\): 0, 33, .* 511, \.\.\."
        ) as message:
            fitted = skipping(learner).fit(X, y)
        assert len(message) == 1
        assert fitted.skipped_.dtype == np.int64
        np.testing.assert_array_equal(fitted.skipped_, BAD)


@for_each_learner
def test_skip_does_not_change_fits_of_valid_rows(learner: Any) -> None:
    y = targets_for(learner)
    for X in (CLEAN, da.from_array(CLEAN, chunks=(40, -1))):
        plain, skip = clone(learner).fit(X, y), skipping(learner).fit(X, y)
        assert plain.coef_.tobytes() == skip.coef_.tobytes()
        np.testing.assert_array_equal(plain.predict(X), skip.predict(X))
        assert skip.score(X, y) == pytest.approx(plain.score(X, y))


@ignore_skip_warning
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_matches_fit_of_valid_rows(fit_intercept: bool) -> None:
    exact = Ridge(alpha=2.0, fit_intercept=fit_intercept).fit(CLEAN[GOOD], Y[GOOD])
    for X in forms():
        model = dk.IncrementalRidge(2.0, fit_intercept=fit_intercept, on_error="skip").fit(X, Y)
        np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-10)
        np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=1e-12)


@ignore_skip_warning
def test_leave_one_out_errors_match_valid_rows() -> None:
    alphas = [0.1, 10.0, 1000.0]
    exact = RidgeCV(alphas, store_cv_results=True).fit(CLEAN[GOOD], Y[GOOD])
    for X in forms():
        model = dk.IncrementalRidge(alphas, selection="leave-one-out", on_error="skip").fit(X, Y)
        np.testing.assert_allclose(model.alpha_errors_, exact.cv_results_.mean(axis=(0, 1)), rtol=1e-9)
        np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-8)


@ignore_skip_warning
def test_held_out_errors_match_valid_rows() -> None:
    alphas, y = [0.1, 10.0, 1000.0], Y[:, 0]
    held = held_out_in_stream(0, N, 0.3, (draw_seed(5), RngStream.HELD_OUT))
    train, validation = (
        np.intersect1d(np.flatnonzero(~held), GOOD),
        np.intersect1d(np.flatnonzero(held), GOOD),
    )
    fits = [Ridge(alpha=a).fit(CLEAN[train], y[train]) for a in alphas]
    expected = [((y[validation] - fit.predict(CLEAN[validation])) ** 2).mean() for fit in fits]
    for X in forms():
        model = dk.IncrementalRidge(
            alphas, selection="held-out", validation_fraction=0.3, random_state=5, on_error="skip"
        ).fit(X, y)
        np.testing.assert_allclose(model.alpha_errors_, expected, rtol=1e-9)


def prepare_valid_rows(*arguments: Any) -> Batch:
    """Return a batch of finite rows whose order omits the rows BAD."""
    batch = prepare(*arguments)
    rows = np.concatenate(
        [start + np.arange(part.stop - part.start) for start, part in arguments[-1].parts()]
    )
    bad = np.flatnonzero(np.isin(rows, BAD))
    return replace(
        batch, train_rows=exclude(batch.train_rows, bad), held_out_rows=exclude(batch.held_out_rows, bad)
    )


@ignore_skip_warning
@pytest.mark.parametrize("n_lanes", [1, 3])
@pytest.mark.parametrize("order", [np.arange(N), np.argsort(Y[:, 0])], ids=["shuffled", "sorted"])
def test_sgd_matches_batches_of_valid_rows(monkeypatch: Any, n_lanes: int, order: Any) -> None:
    model = dk.IncrementalSGDClassifier(
        eta0=0.3, n_epochs=3, n_lanes=n_lanes, validation_fraction=0.2, random_state=0
    )
    y = LABELS[order]  # with sorted targets, several blocks are shuffled together
    for X, clean in (
        (forms("f4")[0], CLEAN.astype("f4")),
        (forms("f4")[1], da.from_array(CLEAN.astype("f4"), (40, D))),
    ):
        result = skipping(model).fit(X, y)
        with monkeypatch.context() as patch:
            for module in (dkdist.linear.epochs, dkdist.linear.lanes, dkdist.linear.sgd_steps):
                patch.setattr(module, "prepare", prepare_valid_rows)
            expected = clone(model).fit(clean, y)
        for name in ("coef_", "intercept_", "loss_curve_", "validation_loss_curve_"):
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
        assert np.isfinite([result.loss_curve_, result.validation_loss_curve_]).all()
        assert not np.array_equal(result.coef_, clone(model).fit(clean, y).coef_)


@ignore_skip_warning
def test_eta0_matches_valid_rows() -> None:
    X = invalid_rows("f4")
    result = skipping(dk.IncrementalSGDRegressor(random_state=0)).fit(X, Y[:, 0])
    assert result.eta0_ == step_size("squared_error", CLEAN[GOOD].astype("f4"))
    blank = np.full((N, D), np.nan)
    blank[40:47] = CLEAN[40:47]  # only one block has valid rows
    lazy = da.from_array(blank, chunks=(7, -1))[5:]
    for seed in range(3):
        with pytest.warns(UserWarning, match="688 of 695 rows"):
            result = skipping(dk.IncrementalSGDRegressor(n_epochs=1, random_state=seed)).fit(lazy, Y[5:, 0])
        assert result.eta0_ in [
            step_size("squared_error", CLEAN[a:b]) for a, b in ((40, 47), (40, 42), (42, 47))
        ]


@ignore_skip_warning
@pytest.mark.parametrize("n_lanes", [1, 3])
def test_resumed_run_lists_skipped_rows(tmp_path: Path, monkeypatch: Any, n_lanes: int) -> None:
    monkeypatch.setattr(dkdist._runtime.map_reduce, "MAX_GRAPH_JOBS", 5)
    monkeypatch.setattr(dkdist.linear.epochs, "MAX_BATCHES_PER_SYNC", 2)
    model = skipping(LEARNERS[0], n_epochs=1, n_lanes=n_lanes)
    X = forms()[1]
    kill_after_saves(monkeypatch, [2])
    resumed = clone(model).set_params(checkpoint=tmp_path)
    with pytest.raises(SimulatedKill):
        resumed.fit(X, LABELS)
    resumed.fit(X, LABELS)
    whole = clone(model).fit(X, LABELS)
    np.testing.assert_array_equal(resumed.skipped_, BAD)
    for name in ("coef_", "intercept_", "loss_curve_"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))


@ignore_skip_warning
def test_partial_fit_lists_skipped_rows_of_the_call() -> None:
    stream = skipping(LEARNERS[0])
    for a in [
        *range(0, N, 100)
    ] * 3:  # accuracy over seeds: 0.76 to 0.85 after one pass, above 0.82 after three
        invalid_positions = np.intersect1d(BAD, np.arange(a, a + 100))
        if len(invalid_positions):
            with pytest.warns(UserWarning, match=rf"{len(invalid_positions)} of 100 rows of X"):
                stream.partial_fit(invalid_rows()[a : a + 100], LABELS[a : a + 100], classes=["a", "b", "c"])
        else:
            stream.partial_fit(invalid_rows()[a : a + 100], LABELS[a : a + 100])
        np.testing.assert_array_equal(stream.skipped_, invalid_positions - a)
    assert accuracy_score(LABELS, stream.predict(CLEAN)) > 0.8
    state_before = pickle.dumps(stream._stream)
    with pytest.raises(ValueError, match="at least one row with finite features"):
        stream.partial_fit(np.full((20, D), np.nan), LABELS[:20])
    assert pickle.dumps(stream._stream) == state_before


@for_each_learner
def test_no_valid_row_raises(learner: Any) -> None:
    y, all_invalid = targets_for(learner), np.full((N, D), np.nan)
    for X in (all_invalid, da.from_array(all_invalid, chunks=(100, -1))):
        with pytest.raises(ValueError, match="X must contain at least one row with finite features"):
            skipping(learner).fit(X, y)
        with (
            pytest.raises(ValueError, match="at least one row"),
            pytest.warns(UserWarning, match="700 of 700 rows"),
        ):
            skipping(learner).fit(CLEAN, y).score(X, y)
    with pytest.raises(ValueError, match="at least one row with finite features"):
        skipping(dk.IncrementalSGDRegressor(eta0=0.1)).fit(all_invalid, Y[:, 0])


@for_each_learner
@pytest.mark.parametrize("weights", [None, RNG.random(N)])
def test_predictions_and_scores_of_invalid_rows(learner: Any, weights: Any) -> None:
    y = targets_for(learner)
    model = skipping(learner).fit(CLEAN, y)
    w = None if weights is None else weights[GOOD]
    classifier = is_classifier(learner)
    measure = accuracy_score if classifier else r2_score
    expected = measure(y[GOOD], model.predict(CLEAN[GOOD]), sample_weight=w)
    for X in forms():
        with pytest.warns(
            UserWarning, match="12 of 700 rows of X are not finite and were left out of the score"
        ):
            assert model.score(X, y, weights) == pytest.approx(expected)
        values = model.decision_function(X) if classifier else model.predict(X)
        assert np.isnan(values[BAD]).all()
        np.testing.assert_allclose(
            values[GOOD], (model.decision_function if classifier else model.predict)(CLEAN[GOOD]), atol=1e-12
        )
        if classifier:
            with pytest.raises(
                ValueError,
                match=r"X must be finite in predict; 12 of 700 rows are not: 0, 33, 34, .*decision_function",
            ):
                model.predict(X)
        with pytest.raises(ValueError, match=NOT_FINITE):
            clone(learner).fit(CLEAN, y).predict(X)


def test_probabilities_are_nan_and_score_of_one_row_is_nan() -> None:
    model = skipping(LEARNERS[0]).fit(CLEAN, LABELS)
    assert np.isnan(model.predict_proba(invalid_rows())[BAD]).all()
    assert np.isfinite(model.predict_proba(invalid_rows())[GOOD]).all()
    model = skipping(LEARNERS[3]).fit(CLEAN, Y[:, 0])
    with pytest.warns(UserWarning, match="1 of 2 rows"):
        assert np.isnan(model.score(invalid_rows()[:2], Y[:2, 0]))


@ignore_skip_warning
def test_model_file_stores_skipped_rows(tmp_path: Path) -> None:
    model = skipping(LEARNERS[3]).fit(invalid_rows(), Y)
    dk.save_model(model, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    assert loaded.on_error == "skip"
    np.testing.assert_array_equal(loaded.skipped_, BAD)


@pytest.mark.filterwarnings("ignore:.*(invalid set|rows of X):UserWarning")
def test_pipeline_skips_invalid_sets_of_a_store(tmp_path: Path) -> None:
    invalid_store = spoilt_store(tmp_path / "sets.zarr")
    y = np.array([x[:, 0].mean() for x in invalid_store.clean]) > 0.5

    def pipeline(on_error: str) -> Any:
        return make_pipeline(
            dk.DivergenceEmbedding(domain="unit", n_basis=4, on_error=on_error),
            dk.RandomFourierFeatures(20, sigma=0.3, random_state=0),
            dk.IncrementalRidgeClassifier(0.01, on_error=on_error),
        )

    model = pipeline("skip").fit(dk.open_sets(invalid_store.path, block_sets=7), y)
    np.testing.assert_array_equal(model[0].skipped_, invalid_store.bad)
    np.testing.assert_array_equal(model[-1].skipped_, invalid_store.bad)
    plain = pipeline("raise").fit(invalid_store.clean[invalid_store.good], y[invalid_store.good])
    np.testing.assert_allclose(model[-1].coef_, plain[-1].coef_, rtol=1e-3, atol=1e-4)
    assert model.score(dk.open_sets(invalid_store.path), y) == plain.score(
        invalid_store.clean[invalid_store.good], y[invalid_store.good]
    )
