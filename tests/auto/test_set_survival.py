"""`SetSurvival`: concordance on new sets, curves, coverage of lower bounds, honest scores, stores, invalid input."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import dkdist as dk
from dkdist.auto import _tuning
from dkdist.auto.cox_members import LandmarkRows, landmark_cox_member
from dkdist.auto.folds import draw_folds
from dkdist.auto.landmark_ridge import LandmarkData, LandmarkKernel, _kernel_columns
from dkdist.auto.representation_rows import RowKernel, leaf_rows
from dkdist.auto.scoring import TrainingData
from dkdist.auto.study_design import fit_hazard_offset
from dkdist.auto.survival_curves import fit_curves, fit_slope
from dkdist.linear.concordance import concordance
from dkdist.linear.cox import ArrayRows, Survival, fit_cox, fit_kernel_cox
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph

N = 120
SIMPLE: dict[str, Any] = {"candidates": ["means", "hellinger"], "cv": 4, "random_state": 0}


def records(event: Any, time: Any) -> np.ndarray:
    return np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])


def simulate(n: int, seed: int, effect: float = 1.5) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return sets whose mean is the risk, censored exponential times, and the true log hazards."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    sets = [rng.normal([risk, 0], 1, (30, 2)) for risk in z]
    death, end = rng.exponential(np.exp(-effect * z)), rng.exponential(2, n)
    return sets, records(death <= end, np.minimum(death, end)), effect * z


SETS, Y, LOG_HAZARDS = simulate(N + 400, 0)
NEW, Y_NEW = SETS[N:], Y[N:]


@cache
def fitted() -> dk.SetSurvival:
    return dk.SetSurvival(**SIMPLE).fit(SETS[:N], Y[:N])


def harrell(y: np.ndarray, risk: np.ndarray) -> float:
    """Return the concordance of untied risks, by a loop over pairs."""
    pairs = [(i, j) for i in np.flatnonzero(y["event"]) for j in np.flatnonzero(y["time"] > y["time"][i])]
    return float(np.mean([risk[i] > risk[j] for i, j in pairs]))


def test_risk_scores_are_almost_as_concordant_on_new_sets_as_the_true_risk() -> None:
    score = fitted().score(NEW, Y_NEW)
    assert score == pytest.approx(harrell(Y_NEW, fitted().predict(NEW)), abs=1e-12)
    # the standard error of a concordance of about 270 events is about 0.015
    assert harrell(Y_NEW, LOG_HAZARDS[N:]) - 0.03 < score
    assert np.corrcoef(fitted().predict(NEW), LOG_HAZARDS[N:])[0, 1] > 0.9


def test_risk_scores_are_calibrated_log_hazard_ratios() -> None:
    y = Survival(Y_NEW["event"], Y_NEW["time"], np.ones(len(NEW)))
    # three standard errors: 80 events and 270 new events give slopes of about 1.2 standard deviations 0.09 and 0.05
    assert abs(fit_slope(fitted().predict(NEW), y) - 1) < 0.3


def test_survival_curves_match_the_true_curves() -> None:
    model = fitted()
    curves = model.predict_survival_function(NEW)
    times = model.unique_times_
    assert curves.shape == (len(NEW), len(times))
    assert (np.diff(curves, axis=1) <= 0).all()
    assert (curves <= 1).all()
    assert set(times) <= set(Y[:N]["time"][Y[:N]["event"]])
    np.testing.assert_allclose(
        curves, np.exp(-np.exp(model.predict(NEW))[:, None] * model.cum_baseline_hazard_), rtol=1e-12
    )
    true = np.exp(-np.exp(LOG_HAZARDS[N:])[:, None] * times)
    assert np.abs(curves - true).mean() < 0.08


def test_summary_and_leaderboard_compare_with_baselines_on_outer_folds() -> None:
    model = fitted()
    text = model.summary()
    assert "concordance on 4 outer folds" in text
    assert f"{Y[:N]['event'].sum()} of {N} sets have an event" in text
    scores = {
        entry["name"]: entry["score"] for entry in model.leaderboard_ if entry["evaluation"] == "outer folds"
    }
    assert scores["constant"] == 0.5  # exactly: constants of folds do not differ by rounding errors
    assert set(model.leads_) == set(model.verdicts_) == {"constant", "means", "moments"}
    assert model.verdicts_["constant"] == "better"
    assert model.p_value_ < 1e-4
    assert model.fallback_ is None


def test_times_that_sets_do_not_predict_give_no_claim() -> None:
    claims, p_values = 0, []
    for seed in range(6):
        sets, y, _ = simulate(50, 100 + seed, effect=0.0)
        model = dk.SetSurvival(["means"], random_state=seed).fit(sets, y)
        claims += model.verdicts_["constant"] == "better"
        p_values.append(model.p_value_)
        if model.fallback_ is not None:
            assert (model.predict(sets[:3]) == 0).all()
            assert (
                model.predict_survival_function(sets[:3])[0] == model.predict_survival_function(sets[3:4])
            ).all()
    assert claims <= 1  # more than one of six at the level 0.05: probability 0.03
    assert min(p_values) > 1e-3


def test_predictions_of_a_fold_do_not_depend_on_its_times() -> None:
    times = np.arange(1.0, 41)
    data = TrainingData(
        None, np.zeros((40, 1)), None, np.ones(40), None, np.arange(40), "auto", None, 0,
        event=np.arange(40) % 3 > 0, time=times,
    )  # fmt: skip
    train = np.arange(40) % 4 > 0
    changed = times.copy()
    changed[~train] = 100 - changed[~train]
    parts = [
        TrainingData(**{**vars(data), "time": one}).take(np.flatnonzero(train)) for one in (times, changed)
    ]
    np.testing.assert_array_equal(parts[0].y, parts[1].y)
    assert abs(parts[0].y.sum()) < 1e-12
    assert (parts[0].constant == 0).all()


def test_contributions_of_points_sum_to_risk_scores() -> None:
    parts = fitted().explain(NEW[:5])
    np.testing.assert_allclose([part.sum() for part in parts], fitted().predict(NEW[:5]), atol=1e-5)


def test_the_best_pipeline_predicts_log_hazards() -> None:
    model = fitted()
    assert np.corrcoef(model.best_estimator_.predict(NEW), model.predict(NEW))[0, 1] > 0.95


@pytest.mark.filterwarnings("ignore:.*outside the range seen in fit")
def test_a_loaded_model_has_the_same_bits(tmp_path: Path) -> None:
    dk.save_model(fitted(), tmp_path / "model.npz")
    loaded = dk.load_model(tmp_path / "model.npz")
    for method in ("predict", "predict_survival_function", "predict_lower_bound"):
        np.testing.assert_array_equal(getattr(loaded, method)(NEW), getattr(fitted(), method)(NEW))
    assert loaded.summary() == fitted().summary()


def test_a_store_gives_the_same_bits_as_sets_in_memory(tmp_path: Path) -> None:
    dk.write_sets(tmp_path / "sets.zarr", SETS[:N])
    model = dk.SetSurvival(**SIMPLE).fit(dk.open_sets(tmp_path / "sets.zarr"), Y[:N])
    np.testing.assert_array_equal(model.predict(NEW), fitted().predict(NEW))


def test_a_data_frame_is_matched_to_sets_by_its_index() -> None:
    ids = [f"p{i}" for i in range(N)]
    sets = dk.SampleSets.from_arrays(SETS[:N], ids=ids)
    frame = pd.DataFrame(Y[:N], index=ids)
    model = dk.SetSurvival(**SIMPLE).fit(sets, frame.iloc[::-1])
    np.testing.assert_array_equal(model.predict(NEW), fitted().predict(NEW))
    assert model.score(sets, frame.iloc[::-1]) == fitted().score(SETS[:N], Y[:N])


def test_sets_of_weight_zero_are_not_used() -> None:
    weights = np.ones(N)
    weights[::5] = 0
    y = Y[:N].copy()
    model = dk.SetSurvival(**SIMPLE).fit(SETS[:N], y, sample_weight=weights)
    y["time"][::5] = 1000
    other = dk.SetSurvival(**SIMPLE).fit(SETS[:N], y, sample_weight=weights)
    np.testing.assert_array_equal(model.predict(NEW), other.predict(NEW))


def test_groups_count_as_one_set_in_lower_bounds() -> None:
    model = dk.SetSurvival(["means"], random_state=0).fit(SETS[:64], Y[:64], groups=np.arange(64) // 8)
    assert (model.predict_lower_bound(NEW[:5], coverage=0.9) == 0).all()  # 8 groups are too few for 0.9
    assert (model.predict_lower_bound(NEW[:5], coverage=0.6) > 0).any()


@pytest.mark.parametrize("censoring", ["none", "independent", "by risk"])
@pytest.mark.parametrize("n", [40, 200])
def test_lower_bounds_cover(censoring: str, n: int) -> None:
    coverages = []
    for seed in range(200):
        rng = np.random.default_rng([seed, n])
        f = rng.normal(size=n + 200)
        death = (
            rng.exponential(np.exp(-f)) ** 2
        )  # hazards are not those of the model: log f has another scale
        end = {
            "none": np.full(n + 200, np.inf), "independent": rng.exponential(1.0, n + 200),
            "by risk": rng.exponential(np.exp(f)),
        }[censoring]  # fmt: skip
        y = Survival((death <= end)[:n], np.minimum(death, end)[:n], np.ones(n))
        risk = max(0.0, fit_slope(f[:n], y)) * f
        bounds = fit_curves(risk[:n], y).lower_bounds(risk[n:], 0.9)
        coverages.append((death[n:] >= bounds).mean())
    error = np.std(coverages) / np.sqrt(len(coverages))
    # at least 0.9, and no wider than the steps of n scores and the weights of censoring require
    assert 0.9 - 3 * error < np.mean(coverages) < 0.9 + 2 / n + 3 * error


def test_lower_bounds_of_uncensored_times_by_hand() -> None:
    y = Survival(np.ones(19, bool), np.arange(1.0, 20), np.ones(19))
    curves = fit_curves(np.zeros(19), y)
    # (19 + 1) 0.1 = 2: the second smallest score, which is the hazard before time 2, reached at time 1
    np.testing.assert_array_equal(curves.lower_bounds(np.zeros(2), 0.9), [1.0, 1.0])
    np.testing.assert_array_equal(curves.lower_bounds(np.zeros(2), 0.95), [0.0, 0.0])
    np.testing.assert_array_equal(curves.lower_bounds(np.zeros(2), 0.96), [0.0, 0.0])  # more than 19 / 20
    np.testing.assert_allclose(curves.hazards, np.cumsum(1 / np.arange(19.0, 0, -1)))


def test_weights_of_censoring_are_inverse_kaplan_meier_probabilities_for_equal_risks() -> None:
    # censored at 2 and 4 of times 1 to 5: at risk 4 and 2, so the Breslow estimate is exp(-1/4), then exp(-1/4 - 1/2)
    y = Survival(np.array([1, 0, 1, 0, 1], bool), np.arange(1.0, 6), np.ones(5))
    weights = fit_curves(np.zeros(5), y).weights
    np.testing.assert_allclose(weights, [1, np.exp(1 / 4), np.exp(3 / 4)], rtol=1e-12)


def test_landmark_members_match_a_dense_solution() -> None:
    rng = np.random.default_rng(0)
    sets = dk.SampleSets.from_arrays(SETS[:N])
    spec = dk.MomentEmbedding(2).fit(sets).spec_
    graph = SharedFeatureGraph((Node(spec, (), 0),))
    rows = leaf_rows(SearchData(sets, graph, [spec.n_features], False), [0])[0]
    kernel = LandmarkKernel(0, RowKernel(2.0), (rows[:30],))
    data = LandmarkData(sets, graph, [30], False, (kernel,))
    y = Survival(Y[:N]["event"], Y[:N]["time"], rng.uniform(0.5, 2, N))
    (K,) = _kernel_columns(rows, [kernel])
    X = np.linalg.solve(kernel.penalty_factor(), K.T).T
    alpha = 0.1
    penalty = _tuning.COX_PENALTY_FACTOR * alpha * y.event_fraction
    _, f = fit_cox(ArrayRows(X), y, penalty)
    member = landmark_cox_member(data, 0, y, alpha, np.zeros(30), 1.0)
    # the relative tolerance 1e-6 of the objective is an error of about sqrt(1e-6) standard deviations
    np.testing.assert_allclose(member.values(rows)[:, 0], f - np.average(f, weights=y.weights), atol=5e-3)
    np.testing.assert_allclose(
        LandmarkRows(data, 0).products(np.arange(30.0)), X @ np.arange(30.0), atol=1e-4
    )


def test_large_collections_are_as_concordant_as_exact_models(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_tuning, "MAX_EXACT_SETS", 40)
    monkeypatch.setattr("dkdist.auto._tuning.N_LANDMARKS", 40)
    model = dk.SetSurvival(**SIMPLE).fit(SETS[:N], Y[:N])
    assert all(len(part.duals) == 40 for part in model.machine_.parts)
    assert abs(model.score(NEW, Y_NEW) - fitted().score(NEW, Y_NEW)) < 0.01
    dk.write_sets(tmp_path / "sets.zarr", SETS[:N])
    lazy = dk.SetSurvival(**SIMPLE).fit(dk.open_sets(tmp_path / "sets.zarr"), Y[:N])
    np.testing.assert_allclose(lazy.predict(NEW), model.predict(NEW), rtol=1e-6)


def test_events_at_one_time_are_compared_with_later_times() -> None:
    y = records(np.arange(N) % 2 == 0, np.where(np.arange(N) % 2 == 0, 1.0, 2.0))
    sets = [points + np.array([y["event"][i] * 3.0, 0]) for i, points in enumerate(SETS[:N])]
    model = dk.SetSurvival(["means"], random_state=0).fit(sets, y)
    assert model.score(sets, y) > 0.8
    np.testing.assert_array_equal(model.unique_times_, [1.0])


TIMES = Y[:N]["time"]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (TIMES, r"y must be a structured array of events \(bool\) and times .* got ndarray with 0 named columns"),
        (records(np.ones(5), np.ones(5)), r"y must have one event and time for each of the 120 sets of X; .* \(5,\)"),
        (records(np.zeros(N), TIMES), "y must have at least 1 event; got 120 censored times"),
        (records(np.ones(N), np.ones(N)), "y must have at least 2 comparable pairs, .* got 0"),
        (records(np.ones(N), np.where(np.arange(N) == 7, 0, TIMES)), r"times above 0; got 0.0 \(set 7\)"),
        (records(np.ones(N), np.where(np.arange(N) == 7, np.inf, TIMES)), r"finite times above 0; got inf \(set 7\)"),
        (records(np.ones(N), np.where(np.arange(N) == 7, np.nan, TIMES)), r"finite times above 0; got nan \(set 7\)"),
        (Y[:N].astype([("e", int), ("t", float)]), "bool in its first column, 'e', True for events; got int64"),
        (Y[:N].astype([("e", bool), ("t", "S5")]), r"numbers in its second column, 't'; got \|S5"),
    ],
)  # fmt: skip
def test_invalid_times_are_refused_by_name(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dk.SetSurvival(["means"], random_state=0).fit(SETS[:N], y)


def test_invalid_calls_of_a_fitted_model_are_refused() -> None:
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
        fitted().predict_lower_bound(NEW, coverage=1.0)
    with pytest.raises(ValueError, match="y must have a comparable pair"):
        fitted().score(NEW, records(np.zeros(len(NEW)), np.ones(len(NEW))))


def test_weights_of_the_score_count_pairs_by_products() -> None:
    weights = np.random.default_rng(0).integers(1, 3, len(NEW))
    twice = np.repeat(np.arange(len(NEW)), weights)
    y = Survival(Y_NEW["event"][twice], Y_NEW["time"][twice], np.ones(len(twice)))
    # repeated sets are not comparable with themselves: their times are equal
    expected = concordance(y, fitted().predict(NEW)[twice])
    assert fitted().score(NEW, Y_NEW, sample_weight=weights) == pytest.approx(expected, rel=1e-12)


AGE, BATCH = np.random.default_rng(5).normal(60, 10, N + 400), np.arange(N + 400) % 3


def study(effect: float, batch_effect: float = 0.0) -> tuple[dk.SampleSets, np.ndarray]:
    """Return sets and times whose hazard grows with age, the mean of the set, and batch, which also moves points."""
    rng = np.random.default_rng(6)
    z = rng.normal(size=len(AGE))
    f = 0.1 * (AGE - 60) + effect * z + batch_effect * BATCH
    death, end = rng.exponential(np.exp(-f)), rng.exponential(2, len(f))
    points = [
        rng.normal([mean + 2 * batch_effect * b, 0], 1, (30, 2)) for mean, b in zip(z, BATCH, strict=True)
    ]
    targets = {"age": AGE, "batch": np.array(["x", "y", "z"])[BATCH]}
    return dk.SampleSets.from_arrays(points, targets=targets), records(death <= end, np.minimum(death, end))


STUDY, Y_STUDY = study(1.0, batch_effect=0.5)


@cache
def fitted_study() -> dk.SetSurvival:
    model = dk.SetSurvival(["means"], cv=4, covariates=["age"], adjust=["batch"], random_state=0)
    return model.fit(STUDY[:N], Y_STUDY[:N])


def minimise_cox(X: np.ndarray, y: Survival, penalties: Any, offset: Any = 0.0) -> np.ndarray:
    """Return the coefficients of Breslow's partial likelihood with ridge penalties, by a general optimiser."""

    def loss(w: np.ndarray) -> float:
        f = X @ w + offset
        total = 0.5 * float(penalties @ w**2)
        for i in np.flatnonzero(y.event):
            at_risk = y.time >= y.time[i]
            total -= y.weights[i] * (f[i] - np.log(y.weights[at_risk] @ np.exp(f[at_risk])))
        return total

    return np.asarray(minimize(loss, np.zeros(X.shape[1]), method="BFGS", options={"gtol": 1e-6}).x)


@pytest.mark.parametrize("groups", [None, np.arange(60) // 3])
def test_covariates_are_a_cox_regression_and_offsets_are_fits_without_the_own_fold(groups: Any) -> None:
    rng = np.random.default_rng(0)
    C, A = rng.normal(size=(60, 2)), (np.arange(60) % 2)[:, None] - 0.5
    y = Survival(rng.random(60) < 0.7, rng.exponential(np.exp(-C[:, 0])), rng.uniform(0.5, 2, 60))
    coef, log_hazards, offset = fit_hazard_offset(C, A, y, groups, 0)
    X = np.concatenate([C, A], axis=1)

    def fit(rows: Any, penalty: float) -> np.ndarray:
        part = y.take(rows)
        unit = float(np.average((X[rows] ** 2).mean(axis=1), weights=part.weights))
        relative = np.array([penalty, penalty, _tuning.OFFSET_PENALTIES[0]])
        return minimise_cox(X[rows], part, relative * unit * part.weights[part.event].sum())

    fits = {p: fit(np.arange(60), p)[:2] for p in _tuning.OFFSET_PENALTIES}
    penalty = min(fits, key=lambda p: float(np.abs(fits[p] - coef).max()))
    np.testing.assert_allclose(coef, fits[penalty], atol=1e-4)  # gradients below 1e-6, curvature above 0.01
    classes = y.event.astype(int) if groups is None else None
    for test in draw_folds(60, classes, groups, 10, 0)[:3]:
        w = fit(np.setdiff1d(np.arange(60), test), penalty)
        np.testing.assert_allclose(log_hazards[test], X[test] @ w, atol=5e-4)
        np.testing.assert_allclose(offset[test], C[test] @ w[:2], atol=5e-4)


def test_a_member_with_an_offset_is_the_cox_regression_on_its_columns() -> None:
    rng = np.random.default_rng(1)
    X, offset = rng.normal(size=(40, 3)), rng.normal(size=40)
    y = Survival(rng.random(40) < 0.7, rng.exponential(np.exp(-offset - X[:, 0])), rng.uniform(0.5, 2, 40))
    _, f = fit_kernel_cox(X @ X.T, y, 2.0, offset=offset)
    np.testing.assert_allclose(f, X @ minimise_cox(X, y, np.full(3, 2.0), offset), atol=1e-4)


def test_sets_that_add_to_covariates_are_better_than_these() -> None:
    model, new = fitted_study(), slice(N, None)
    assert model.fallback_ is None
    assert {"covariates", "constant", "means"} <= set(model.leads_)
    assert model.verdicts_["covariates"] == "better"
    assert model.p_value_ < 0.01
    text = model.summary()
    assert "Covariate 'age' (number)" in text
    assert "Adjusted for 'batch' (3 categories)" in text
    assert "sets have an event" in text
    assert model.nuisance_scores_["batch"]["adjusted"] < 0.5 < model.nuisance_scores_["batch"]["unadjusted"]
    without = dk.SetSurvival(["means"], cv=4, adjust=["batch"], random_state=0).fit(STUDY[:N], Y_STUDY[:N])
    assert model.score(STUDY[new], Y_STUDY[new]) > without.score(STUDY[new], Y_STUDY[new]) + 0.03


def test_risk_scores_do_not_depend_on_shifts_of_adjusted_batches() -> None:
    """The mean of points moves by 1 from batch to batch, and so do the coefficients of the adjustment."""
    moved = [STUDY[i] + np.array([1.0, 0.0], np.float32) for i in range(3)]
    later = np.array(["x", "y", "z", "z"])[BATCH[:3] + 1]
    sets = dk.SampleSets.from_arrays(moved, targets={"age": AGE[:3], "batch": later})
    difference = (fitted_study().predict(sets) - fitted_study().predict(STUDY[:3]))[:2]
    assert np.abs(difference).max() < 0.3 * fitted_study().predict(STUDY).std()


def test_covariates_alone_are_the_fallback_for_sets_of_noise() -> None:
    rng = np.random.default_rng(3)
    noise = dk.SampleSets.from_arrays(list(rng.normal(size=(N, 10, 2))), targets={"age": AGE[:N]})
    model = dk.SetSurvival(["means"], covariates=["age"], cv=4, random_state=0).fit(noise, Y_STUDY[:N])
    assert model.fallback_ == "covariates"
    assert set(model.verdicts_.values()) == {"not established"}
    scores = {entry["name"]: entry["score"] for entry in model.leaderboard_}
    assert scores["this model"] == scores["covariates"] > 0.6
    risk = model.predict(noise)
    slope = np.polyfit(AGE[:N], risk, 1)[0]
    np.testing.assert_allclose(risk - risk.mean(), slope * (AGE[:N] - AGE[:N].mean()), atol=1e-9)
    y = Survival(Y_STUDY[:N]["event"], Y_STUDY[:N]["time"], np.ones(N))
    # two standard errors of a coefficient of 80 events: 2 / sqrt(80) / 10 years
    assert abs(slope - fit_slope(AGE[:N], y)) < 0.022


def test_contributions_of_points_and_covariates_sum_to_risk_scores() -> None:
    parts = fitted_study().explain(STUDY[:5])
    np.testing.assert_allclose([part.sum() for part in parts], fitted_study().predict(STUDY[:5]), atol=1e-5)


def test_a_loaded_model_with_covariates_has_the_same_bits(tmp_path: Path) -> None:
    dk.save_model(fitted_study(), tmp_path / "model.npz")
    loaded = dk.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(STUDY), fitted_study().predict(STUDY))
    assert loaded.summary() == fitted_study().summary()
    dk.write_sets(tmp_path / "sets.zarr", STUDY[:N])
    lazy = dk.SetSurvival(**fitted_study().get_params()).fit(
        dk.open_sets(tmp_path / "sets.zarr"), Y_STUDY[:N]
    )
    np.testing.assert_array_equal(lazy.predict(STUDY), fitted_study().predict(STUDY))


def test_missing_covariates_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"covariates must be targets of X, \['age', 'batch'\]; got 'sex'"):
        dk.SetSurvival(["means"], covariates=["sex"]).fit(STUDY[:N], Y_STUDY[:N])
    with pytest.raises(ValueError, match=r"covariates must be targets of X, \[\]; got 'age'"):
        fitted_study().predict(SETS[:2])


def test_groups_weights_permutations_and_missing_covariates() -> None:
    age = np.where(np.arange(N) % 9 == 0, np.nan, AGE[:N])
    sets = STUDY[:N].labelled(targets={"age": age, "batch": STUDY[:N].targets["batch"]})
    weights = np.where(np.arange(N) == 5, 0.0, np.random.default_rng(0).uniform(0.5, 2, N))
    model = dk.SetSurvival(
        ["means"], covariates=["age"], adjust=["batch"], cv=3, n_permutations=2, random_state=0
    )
    model.fit(sets, Y_STUDY[:N], sample_weight=weights, groups=np.arange(N) // 2)
    assert 5 not in model.judged_
    assert model.p_value_ in {1 / 3, 2 / 3, 1.0}
    assert model.leads_["covariates"][0] > 0
    assert np.isfinite(model.predict(sets)).all()


def test_a_batch_without_events_has_a_finite_coefficient() -> None:
    y = Y_STUDY[:N].copy()
    y["event"][BATCH[:N] == 0] = False
    model = dk.SetSurvival(["means"], adjust=["batch"], cv=3, random_state=0).fit(STUDY[:N], y)
    assert np.isfinite(model.predict(STUDY)).all()
    assert {"constant", "means", "moments"} == set(model.leads_)
