"""Covariates and adjusted variables: encoding, joint least squares, held-out offsets, predictions and reports."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dkdist as dk
from dkdist._base.design_columns import StudyDesign, encode, encodings
from dkdist.auto import _tuning
from dkdist.auto.ensemble import KernelMember, TreeMember
from dkdist.auto.leaderboard import BETTER, NOT_ESTABLISHED, Evidence, verdict
from dkdist.auto.nuisance import nuisance_scores
from dkdist.auto.outer_predictions import FoldPredictions, OuterPredictions
from dkdist.auto.scoring import TrainingData
from dkdist.auto.study_design import adjust_rows, fit_offset, permutation_strata, residuals
from dkdist.linear.kernel_ridge import duals

RNG = np.random.default_rng(0)
N = 48
BATCH = np.array(["a", "b", "c"])[np.arange(N) // 2 % 3]
Y = np.arange(N) % 2
AGE = RNG.normal(50, 10, N)
POINTS = [RNG.normal(1.2 * Y[i] + 3 * (BATCH[i] == "b"), 1, (12, 2)) for i in range(N)]
SETS = dk.SampleSets.from_arrays(
    POINTS, targets={"age": AGE, "batch": BATCH, "code": np.unique(BATCH, return_inverse=True)[1]}
)
MEANS = np.array([one.mean(axis=0) for one in POINTS])


@pytest.fixture(scope="module")
def fitted() -> dk.SetClassifier:
    return dk.SetClassifier(
        ["means", "symmetric", "trees"], covariates=["age"], adjust=["batch"], random_state=0
    ).fit(SETS, Y)


def design_of(n_covariates: int = 0, **columns: Any) -> StudyDesign:
    return StudyDesign({name: np.asarray(values) for name, values in columns.items()}, n_covariates)


def training_data(design: StudyDesign | None, y: np.ndarray, groups: Any = None) -> TrainingData:
    n = len(y)
    targets = y.reshape(n, -1).astype(np.float64)
    return TrainingData(None, targets, None, np.ones(n), groups, np.arange(n), "auto", None, 0, design=design)


def test_encoding_equals_the_column_transformer_of_scikit_learn() -> None:
    pd = pytest.importorskip("pandas")
    numbers = np.where(np.arange(N) % 5 == 0, np.nan, AGE)
    frame = pd.DataFrame({"age": numbers, "batch": BATCH, "smoker": np.arange(N) % 3 == 0})
    numeric = make_pipeline(
        SimpleImputer(add_indicator=True),
        ColumnTransformer([("s", StandardScaler(), [0])], remainder="passthrough"),
    )
    transformer = ColumnTransformer(
        [
            ("age", numeric, ["age"]),
            ("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["batch", "smoker"]),
        ]
    )
    expected = transformer.fit_transform(frame)
    expected = expected - expected.mean(axis=0)
    # the standard deviation of known numbers is larger than that of imputed ones
    expected[:, 0] *= np.std(np.nan_to_num(numbers - np.nanmean(numbers))) / np.nanstd(numbers)
    design = design_of(**{name: frame[name].to_numpy() for name in ("age", "smoker")}, batch=BATCH)
    design = design.select(["age", "batch", "smoker"])
    np.testing.assert_allclose(encode(encodings(design, np.ones(N)), design), expected, atol=1e-12)


def test_unknown_categories_count_as_the_mean_with_one_warning() -> None:
    variables = encodings(design_of(batch=BATCH), np.ones(N))
    with pytest.warns(UserWarning, match=r"column 'batch' has values .* such as 'z' \(2 sets\)") as caught:
        Z = encode(variables, design_of(batch=["z", "a", "z"]), warn=True)
    assert len(caught) == 1
    np.testing.assert_array_equal(Z[[0, 2]], 0.0)
    np.testing.assert_allclose(Z[1], [2 / 3, -1 / 3, -1 / 3])


def test_missing_numbers_are_imputed_by_the_mean_and_marked() -> None:
    variables = encodings(design_of(age=[1.0, np.nan, 3.0]), np.ones(3))
    np.testing.assert_allclose(
        encode(variables, design_of(age=[np.nan, 2.0, 4.0])), [[0, 2 / 3], [0, -1 / 3], [2, -1 / 3]]
    )
    complete = encodings(design_of(age=[1.0, 3.0]), np.ones(2))
    np.testing.assert_allclose(encode(complete, design_of(age=[np.nan])), [[0.0]])


def test_adjusted_integers_that_repeat_are_categories() -> None:
    codes = np.arange(20) % 4
    (adjusted,) = encodings(design_of(batch=codes), np.ones(20))
    (covariate,) = encodings(design_of(1, age=codes), np.ones(20))
    (years,) = encodings(design_of(age=np.arange(20)), np.ones(20))
    assert [adjusted.description, covariate.description, years.description] == [
        "4 categories",
        "number",
        "number",
    ]


def test_ridge_on_adjusted_rows_is_joint_ridge_on_rows_and_variables() -> None:
    """Frisch, Waugh and Lovell: the oracle is a joint fit that penalises the coefficients of the rows alone."""
    design, weights = design_of(age=AGE, batch=BATCH), RNG.uniform(0.5, 2, N)
    Z = encode(encodings(design, weights), design)
    y, alpha = RNG.normal(size=N) + MEANS[:, 0], 0.7
    joint = np.column_stack([np.ones(N), Z[:, :-1], MEANS])  # without one redundant column of categories
    penalty = np.diag([0.0] * Z.shape[1] + [alpha] * 2)
    gram = joint.T @ (weights[:, None] * joint) + penalty
    expected = np.linalg.solve(gram, joint.T @ (weights * y))[-2:]
    rows, _ = adjust_rows({0: MEANS}, Z, weights, {})
    adjusted = residuals(Z, weights, MEANS)
    np.testing.assert_allclose(
        rows[0] - np.average(rows[0], axis=0, weights=weights), adjusted, atol=2e-6
    )  # float32
    ridge = Ridge(alpha, fit_intercept=False).fit(adjusted, residuals(Z, weights, y[:, None])[:, 0], weights)
    np.testing.assert_allclose(ridge.coef_, expected, rtol=1e-9)


def test_a_fitted_regressor_is_the_joint_least_squares_fit() -> None:
    """With a small penalty the linear model of means and its offset are ordinary least squares on all columns."""
    y = MEANS @ [1.0, -1.0] + 0.1 * AGE + 0.5 * (BATCH == "c") + 1e-3 * RNG.normal(size=N)
    model = dk.SetRegressor(["means"], covariates=["age"], adjust=["batch"], random_state=0).fit(SETS, y)
    predicted = model.predict(SETS)
    columns = np.column_stack([MEANS, AGE, BATCH == "b", BATCH == "c"])
    joint = LinearRegression().fit(columns, y)
    # The prediction at the mean of the adjusted variables, from the means that the batches would have without shifts.
    Z = np.column_stack([AGE, BATCH == "b", BATCH == "c"]).astype(float)
    unshifted = MEANS - (Z - Z.mean(axis=0)) @ LinearRegression().fit(Z, MEANS).coef_.T
    total = LinearRegression().fit(Z, y)
    expected = (
        y.mean() + (unshifted - MEANS.mean(axis=0)) @ joint.coef_[:2] + total.coef_[0] * (AGE - AGE.mean())
    )
    assert np.corrcoef(predicted, expected)[0, 1] > 0.999
    np.testing.assert_allclose(predicted, expected, atol=0.1 * y.std())


@pytest.mark.parametrize("groups", [None, np.arange(N) // 3])
def test_offsets_are_fits_without_the_own_set_or_group(groups: Any) -> None:
    design, y, weights = design_of(age=AGE, batch=BATCH), RNG.normal(size=(N, 2)), RNG.uniform(0.5, 2, N)
    y[:, 0] += 0.1 * AGE
    Z = encode(encodings(design, weights), design)
    C, A = Z[:, :1], Z[:, 1:]
    coef, offset = fit_offset(C, A, y, weights, groups)
    units = np.arange(N) if groups is None else groups
    errors = []
    for penalty in _tuning.OFFSET_PENALTIES:
        alpha = penalty * float((residuals(A, weights, C) ** 2 * weights[:, None]).sum())
        expected, loss = np.zeros_like(y), 0.0
        for unit in np.unique(units):
            train, test = units != unit, units == unit
            M = np.column_stack([np.ones(N), A[:, :-1], C])
            gram = M[train].T @ (weights[train, None] * M[train]) + np.diag([0.0] * A.shape[1] + [alpha])
            b = np.linalg.solve(gram, M[train].T @ (weights[train, None] * y[train]))
            expected[test] = C[test] @ b[-1:]
            loss += (weights[test, None] * (y[test] - M[test] @ b) ** 2).sum()
        errors.append((loss, expected))
    np.testing.assert_allclose(offset, min(errors, key=lambda one: one[0])[1], atol=1e-9)
    assert coef.shape == (1, 2)


def test_rows_of_images_stay_symmetric() -> None:
    rows, swap = RNG.normal(size=(N, 2)).astype(np.float32), np.array([1, 0])
    Z = RNG.normal(size=(N, 1))
    _, coefficients = adjust_rows({0: rows}, Z, np.ones(N), {0: [swap]})
    both = np.concatenate([rows, rows[:, swap]])
    expected = LinearRegression().fit(np.concatenate([Z, Z]), both).coef_.T
    np.testing.assert_allclose(coefficients[0], expected, atol=1e-6)


def test_predictions_add_covariates_and_ignore_shifts_of_batches(fitted: dk.SetClassifier) -> None:
    assert fitted.fallback_ is None
    assert fitted.score(SETS, Y) > 0.8
    assert {"covariates", "constant", "means"} <= set(fitted.leads_)
    assert fitted.verdicts_["covariates"] == "better"
    text = fitted.summary()
    assert "Covariate 'age' (number)" in text
    assert "Adjusted for 'batch' (3 categories)" in text
    assert "Better than the covariates alone" in text


def test_covariates_that_predict_are_the_fallback() -> None:
    rng = np.random.default_rng(1)
    sets = dk.SampleSets.from_arrays(list(rng.normal(size=(N, 10, 2))), targets={"age": AGE + 8 * Y})
    model = dk.SetClassifier(["means"], covariates=["age"], random_state=0).fit(sets, Y)
    assert model.fallback_ == "covariates"
    assert "no ensemble beat the covariates alone" in model.summary()
    assert set(model.verdicts_.values()) == {"not established"}
    by_age = np.argsort(AGE + 8 * Y)
    assert (np.diff(model.predict_proba(sets)[by_age, 1]) >= 0).all()
    assert model.predict_set(sets).any(axis=1).all()
    regressor = dk.SetRegressor(["means"], covariates=["age"], random_state=0).fit(sets, AGE + 8 * Y)
    assert np.corrcoef(regressor.predict(sets), AGE + 8 * Y)[0, 1] > 0.99


@pytest.mark.parametrize("candidates", [["means"], ["trees"]])
def test_batch_equal_to_the_class_warns_and_claims_nothing(candidates: list[str]) -> None:
    points = [
        RNG.normal(0, 1 + 2 * c, (12, 2)) for c in Y
    ]  # trees see differences of spread, which adjustment keeps
    sets = dk.SampleSets.from_arrays(points, targets={"batch": np.array(["x", "y"])[Y]})
    for n_permutations in (None, 3):
        model = dk.SetClassifier(
            candidates, adjust=["batch"], cv=3, n_permutations=n_permutations, random_state=0
        )
        with pytest.warns(
            UserWarning, match=r"adjust=\['batch'\] is confounded with y.* 100%.* \(by chance 2%\)"
        ):
            model.fit(sets, Y)
        assert model.fallback_ == "constant"
        assert model.p_value_ == 1.0
        assert set(model.verdicts_.values()) == {"not established"}


def test_half_of_the_variance_explained_warns_and_crossed_batches_do_not() -> None:
    y = np.where(np.arange(N) % 12 < 2, 1 - (BATCH == "b"), BATCH == "b").astype(int)
    with pytest.warns(
        UserWarning, match=r"explain \d\d% of the variance of y \(by chance 4%\). The 48 sets are worth"
    ):
        dk.SetClassifier(["means"], adjust=["batch"], cv=3, random_state=0).fit(SETS, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dk.SetClassifier(["means"], adjust=["batch"], cv=3, random_state=0).fit(SETS, Y)


def test_p_value_of_predictions_of_the_batch_alone_is_not_small() -> None:
    """Predictions that depend on the batch alone are no evidence, although batch and class are associated."""
    batch = np.arange(N) // (N // 2)
    y = np.where(np.arange(N) % 8 == 0, 1 - batch, batch) * 2.0 - 1
    values = (2.0 * batch - 1 + 0.1 * RNG.normal(size=N))[:, None]
    fold = np.zeros(N, np.int64)
    p_values = [
        OuterPredictions(training_data(design, y), fold, FoldPredictions(values, values, {})).p_value()
        for design in (None, design_of(batch=batch.astype(str)))
    ]
    assert p_values[0] < 1e-5
    assert p_values[1] > 0.05


def test_a_lead_over_means_is_a_claim_only_with_a_small_conditional_p_value() -> None:
    for has_design, p_value, expected in (
        (False, 0.5, BETTER),
        (True, 0.5, NOT_ESTABLISHED),
        (True, 0.01, BETTER),
    ):
        evidence = Evidence(p_value, 0.02, is_constant=False, has_design=has_design)
        assert verdict("means", 0.3, 0.1, evidence) == expected


def test_permutations_stay_within_strata_of_equal_expectations() -> None:
    design = design_of(batch=BATCH)
    y = (BATCH == "b").astype(float)
    data = training_data(design, y)
    np.testing.assert_array_equal(data.permuted(np.random.default_rng(0)).y, data.y)
    crossed = training_data(design, Y).permuted(np.random.default_rng(0))
    for batch in "abc":
        assert crossed.y[batch == BATCH].sum() == Y[batch == BATCH].sum()
    assert not np.array_equal(crossed.y[:, 0], Y)
    numbers = permutation_strata(design_of(age=AGE), AGE[:, None] + RNG.normal(size=(N, 1)), np.ones(N))
    assert np.bincount(numbers).min() >= 10
    assert all(np.ptp(np.argsort(np.argsort(AGE))[numbers == k]) < 20 for k in np.unique(numbers))


def test_nuisance_scores_show_what_adjustment_leaves() -> None:
    design, weights = design_of(batch=BATCH, age=AGE), np.ones(N)
    shifts = np.select([BATCH == "b", BATCH == "c"], [4.0, -4.0])
    rows = (RNG.normal(size=(N, 3)) + np.outer(shifts, [1, 1, 0]) + np.outer(AGE, [0, 0, 1])).astype(
        np.float32
    )
    scores = nuisance_scores(design, rows, weights, None, 0)
    assert scores["batch"]["unadjusted"] > 0.8
    assert scores["batch"]["adjusted"] < 0.6  # chance 1/3, standard error 0.07
    assert scores["batch"]["chance"] == pytest.approx(1 / 3)
    assert scores["age"]["unadjusted"] > 0.9
    assert scores["age"]["adjusted"] < 0.3
    spread = (RNG.normal(size=(N, 3)) * np.where(BATCH == "b", 20.0, 0.2)[:, None]).astype(np.float32)
    assert nuisance_scores(design.select(["batch"]), spread, weights, None, 0)["batch"]["adjusted"] > 0.5


def test_saved_cloned_and_pickled_models_predict_the_same(fitted: dk.SetClassifier, tmp_path: Path) -> None:
    expected = fitted.predict_proba(SETS)
    dk.save_model(fitted, tmp_path / "model.dkm")
    loaded = dk.load_model(tmp_path / "model.dkm")
    np.testing.assert_array_equal(loaded.predict_proba(SETS), expected)
    assert loaded.summary() == fitted.summary()
    assert loaded.nuisance_scores_ == fitted.nuisance_scores_
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(SETS), expected)
    copy = clone(fitted)
    assert (copy.covariates, copy.adjust) == (["age"], ["batch"])
    np.testing.assert_array_equal(copy.fit(SETS, Y).predict_proba(SETS), expected)


def test_explanations_of_saved_models_use_the_variables_of_their_background(tmp_path: Path) -> None:
    points = [RNG.normal(0, 1 + Y[i], (12, 2)) + 2 * (BATCH[i] == "b") for i in range(N)]
    age = np.where(np.arange(N) % 7 == 0, np.nan, AGE)
    sets = dk.SampleSets.from_arrays(points, targets={"age": age, "batch": BATCH})
    model = dk.SetClassifier(["trees"], covariates=["age"], adjust=["batch"], random_state=0).fit(sets, Y)
    assert any(isinstance(part, TreeMember) for part in model.machine_.parts)  # which stores no training rows
    dk.save_model(model, tmp_path / "model.dkm")
    loaded = dk.load_model(tmp_path / "model.dkm")
    for one, other in zip(model.explain(sets[:5]), loaded.explain(sets[:5]), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="covariates must be targets of X"):
        model.explain(sets[:5], background=points[:16])


def test_stores_equal_sets_in_memory(fitted: dk.SetClassifier, tmp_path: Path) -> None:
    store = dk.write_sets(tmp_path / "sets.zarr", SETS)
    np.testing.assert_array_equal(fitted.predict_proba(store), fitted.predict_proba(SETS))
    again = clone(fitted).fit(store, Y)
    np.testing.assert_array_equal(again.predict_proba(store), fitted.predict_proba(SETS))
    for one, other in zip(
        fitted.explain(store[:4], background=store[:9]),
        fitted.explain(SETS[:4], background=SETS[:9]),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_data_frames_join_covariates_by_id() -> None:
    pd = pytest.importorskip("pandas")
    ids = [f"p{i}" for i in range(N)]
    cells = pd.DataFrame(np.concatenate(POINTS), columns=["u", "v"]).assign(donor=np.repeat(ids, 12))
    donors = pd.DataFrame({"age": AGE, "batch": pd.Categorical(BATCH), "outcome": Y}, index=ids).sample(
        frac=1, random_state=0
    )
    sets = dk.SampleSets.from_frame(cells, set_id="donor", points=["u", "v"], targets=donors)
    model = dk.SetClassifier(["means"], covariates=["age"], adjust=["batch"], cv=3, random_state=0)
    model.fit(sets, donors["outcome"])
    assert model.score(sets, donors["outcome"]) > 0.8


def test_contributions_sum_to_predictions_with_the_own_design(fitted: dk.SetClassifier) -> None:
    decision = fitted.decision_function(SETS)
    for background in (None, SETS[:5]):
        sums = [one.sum() for one in fitted.explain(SETS, background=background)]
        np.testing.assert_allclose(sums, decision, atol=1e-9)
    sums = [one.sum() for one in fitted.explain(SETS, reference=0.5)]
    np.testing.assert_allclose(sums, decision - 0.5, atol=1e-9)


def test_contributions_of_dimensions_hold_the_variables_of_the_set_constant(fitted: dk.SetClassifier) -> None:
    """They sum to the difference to background sets with the covariates and the batch of the explained set."""
    background = list(range(20, 26))
    result = fitted.explain(SETS[:4], by="dimension", background=SETS[background])
    assert result.shape == (4, 2)
    for i in range(4):
        targets = {"age": np.full(6, AGE[i]), "batch": np.full(6, BATCH[i])}
        others = dk.SampleSets.from_arrays([POINTS[k] for k in background], targets=targets)
        expected = fitted.decision_function(SETS[i : i + 1])[0] - fitted.decision_function(others).mean()
        assert result[i].sum() == pytest.approx(expected, abs=1e-6)  # float32 rows of points in another order
    # the background of the model: up to 16 of its sets
    assert fitted.explain(SETS[:2], by="dimension").shape == (2, 2)


def test_contributions_of_dimensions_of_a_linear_model_are_differences_of_means() -> None:
    y = MEANS @ [1.0, -0.5] + 0.05 * AGE + 0.3 * RNG.normal(size=N)
    model = dk.SetRegressor(["means"], covariates=["age"], adjust=["batch"], random_state=0).fit(SETS, y)
    assert [one["kernel"] for one in model.leaderboard_ if one["name"] == "means"] == ["linear"]
    moved = [POINTS[0] + step for step in ([0.0, 0.0], [0.1, 0.0], [0.0, 0.1])]
    targets = {"age": np.full(3, AGE[0]), "batch": np.full(3, BATCH[0])}
    values = model.predict(dk.SampleSets.from_arrays(moved, targets=targets))
    result = model.explain(SETS[:1], by="dimension", background=SETS[1:2])[0]
    slopes = (values[1:] - values[0]) / 0.1
    np.testing.assert_allclose(result, slopes * (MEANS[0] - MEANS[1]), atol=1e-4)  # float32 rows


def test_contributions_of_points_are_differences_of_predictions() -> None:
    """In a model that is linear in means, two points differ by the effect of moving the one to the other, over n."""
    y = MEANS @ [1.0, -0.5] + 0.05 * AGE + 0.3 * RNG.normal(size=N)
    model = dk.SetRegressor(["means"], covariates=["age"], adjust=["batch"], random_state=0).fit(SETS, y)
    best = model.best_name_, [one["kernel"] for one in model.leaderboard_ if one["name"] == "means"]
    assert best == ("means", ["linear"])
    (contributions,) = model.explain(SETS[:1])
    moved = POINTS[0].copy()
    moved[0] = moved[1]
    changed = dk.SampleSets.from_arrays([moved], targets={"age": AGE[:1], "batch": BATCH[:1]})
    difference = model.predict(changed) - model.predict(SETS[:1])
    assert contributions[1] - contributions[0] == pytest.approx(difference[0], abs=1e-5)  # float32 rows


def test_scores_of_candidates_include_the_covariates() -> None:
    y = AGE + 3 * MEANS[:, 0]
    model = dk.SetRegressor(["means", "kernel-mean"], covariates=["age"], cv=3, random_state=0).fit(SETS, y)
    assert (
        min(entry["score"] for entry in model.leaderboard_ if entry["name"].startswith("kernel mean")) > 0.8
    )


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_groups_weights_and_several_targets(n_outputs: int) -> None:
    y = (
        np.stack([AGE + 5 * MEANS[:, 0], MEANS[:, 1] - MEANS[:, 0]], axis=1)[:, :n_outputs]
        .reshape(N, -1)
        .squeeze()
    )
    model = dk.SetRegressor(["means"], covariates=["age"], adjust=["batch"], cv=3, random_state=0)
    weights = np.where(np.arange(N) == 5, 0.0, RNG.uniform(0.5, 1, N))
    model.fit(SETS, y, sample_weight=weights, groups=np.arange(N) // 2)
    assert 5 not in model.judged_
    assert model.predict(SETS).shape == y.shape
    assert model.predict_interval(SETS).shape == (*y.shape, 2)
    assert model.leads_["covariates"][0] > 0


def test_domain_shift_uses_adjusted_rows(fitted: dk.SetClassifier) -> None:
    shift = fitted.domain_shift(SETS)
    np.testing.assert_allclose(shift["distance"], 0.0, atol=1e-3)


def test_best_estimator_does_not_exist(fitted: dk.SetClassifier) -> None:
    with pytest.raises(AttributeError, match="models with covariates or adjust"):
        _ = fitted.best_estimator_


def test_large_collections_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tuning, "MAX_EXACT_SETS", 30)
    model = dk.SetClassifier(["means"], adjust=["batch"], random_state=0).fit(SETS, Y)
    assert all(len(part.duals) <= 30 for part in model.machine_.parts if isinstance(part, KernelMember))
    assert model.score(SETS, Y) > 0.8


def test_new_categories_at_prediction_warn_once(fitted: dk.SetClassifier) -> None:
    new = SETS[:4].labelled(targets={"batch": ["a", "new", "b", "new"]})
    with pytest.warns(
        UserWarning, match=r"column 'batch' has values that fit did not see, such as 'new'"
    ) as caught:
        fitted.predict(new)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"covariates": "age"}, r"covariates must be a list of names .*; got 'age'"),
        ({"adjust": [3]}, r"adjust must be a list of names"),
        ({"covariates": ["age"], "adjust": ["age"]}, r"must be distinct names; got 'age' twice"),
        ({"covariates": ["sex"]}, r"covariates must be targets of X, \['age', 'batch', 'code'\]; got 'sex'"),
    ],
)
def test_unsuitable_names_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dk.SetClassifier(["means"], **parameters).fit(SETS, Y)


def test_unsuitable_columns_are_refused(fitted: dk.SetClassifier) -> None:
    model = dk.SetClassifier(["means"], covariates=["age"])
    with pytest.raises(ValueError, match=r"'age' must be finite or NaN \(missing\); got inf for set 1"):
        model.fit(SETS[:20].labelled(targets={"age": np.r_[1.0, np.inf, AGE[2:20]]}), Y[:20])
    with pytest.raises(ValueError, match=r"'age' must have 1 value per set; got 2"):
        model.fit(SETS[:20].labelled(targets={"age": np.ones((20, 2))}), Y[:20])
    with pytest.raises(ValueError, match=r"covariates must be targets of X, \[\]; got 'age'"):
        fitted.predict(POINTS[:2])
    with pytest.raises(ValueError, match=r"column 'age' must be numbers, as in fit"):
        fitted.predict(SETS[:2].labelled(targets={"age": ["x", "y"]}))


def test_ridge_on_float32_rows_equals_the_kernel_model() -> None:
    """Duals of adjusted rows are the ridge regression on them, so that the model is the joint fit."""
    design = design_of(batch=BATCH)
    Z = encode(encodings(design, np.ones(N)), design)
    rows, _ = adjust_rows({0: MEANS.astype(np.float32)}, Z, np.ones(N), {})
    X = rows[0].astype(np.float64) - rows[0].mean(axis=0)
    scale, y = float((X**2).sum(axis=1).mean()), RNG.normal(size=(N, 1))
    a = duals(X @ X.T / scale, y, np.ones(N), 0.1)
    ridge = Ridge(0.1 * scale).fit(X, y)
    np.testing.assert_allclose(X.T @ a[:, 0] / scale, np.ravel(ridge.coef_), rtol=1e-3)
