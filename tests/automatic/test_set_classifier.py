"""`SetClassifier` and `SetRegressor`: accuracy, calibration, explanations, stores and clusters, and invalid input."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask.distributed import Client, LocalCluster
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

import dkdist as dk

RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
SETS = [RNG.normal(0, 1 + c / 2, (RNG.integers(20, 40), 2)) for c in Y]
QUICK = ["moments", "sliced-wasserstein", "hellinger"]


@pytest.fixture(scope="module")
def model() -> dk.SetClassifier:
    return dk.SetClassifier(QUICK, random_state=0).fit(SETS[:60], Y[:60])


@pytest.fixture(scope="module")
def two_classes() -> dk.SetClassifier:
    smooth = ["moments", "hellinger", "kernel-mean"]  # quantiles of weighted points are step functions
    return dk.SetClassifier(smooth, random_state=0).fit([planted(c) for c in range(80)], np.arange(80) % 2)


def planted(i: int, n: int = 60) -> np.ndarray:
    """Return a set whose last three points are at another position if i is odd."""
    x = np.random.default_rng(i).normal(size=(n, 2))
    x[-3:] = x[-3:] / 5 + [2.5, -2.5] if i % 2 else x[-3:]
    return x


def test_classifier_predicts_and_is_calibrated(model: dk.SetClassifier) -> None:
    test, test_y = SETS[60:], Y[60:]
    assert model.score(test, test_y) > 0.8
    p = model.predict_proba(test)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (p.argmax(axis=1) == model.predict(test)).mean() > 0.9
    prediction_sets = model.predict_set(test, 0.9)
    assert prediction_sets.shape == p.shape
    assert prediction_sets.any(axis=1).all()


def entry(model: Any, name: str = "this model") -> dict[str, Any]:
    return next(one for one in model.leaderboard_ if one["name"] == name)


def test_leaderboard_holds_baselines_and_standard_errors(model: dk.SetClassifier) -> None:
    baselines = {"constant", "sizes", "means", "moments"}
    outer = [one for one in model.leaderboard_ if one["evaluation"] == "outer folds"]
    selection = model.leaderboard_[len(outer) :]
    assert {one["name"] for one in outer} == {"this model", *baselines}
    assert selection
    assert {one["evaluation"] for one in selection} == {"selection"}
    for part in (outer, selection):
        scores = [one["score"] for one in part]
        assert scores == sorted(scores, reverse=True)
    assert set(model.leads_) == set(model.verdicts_) == baselines
    assert all(one["std_error"] >= 0 for one in model.leaderboard_)
    text = model.summary()
    assert "this model" in text
    assert "the means of the sets: " in text


def test_store_gives_identical_results(model: dk.SetClassifier, tmp_path: Path) -> None:
    dk.write_sets(tmp_path / "s.zarr", SETS)
    stored = dk.open_sets(tmp_path / "s.zarr")
    other = dk.SetClassifier(QUICK, random_state=0).fit(stored[:60], Y[:60])
    np.testing.assert_array_equal(other.decision_function(stored[60:]), model.decision_function(SETS[60:]))
    assert other.summary() == model.summary()


def test_cluster_gives_identical_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker_processes: LocalCluster
) -> None:
    """Selection, predictions and explanations, for random features in one pass over a store and for exact kernels."""
    dk.write_sets(tmp_path / "s.zarr", SETS)
    stored = dk.open_sets(tmp_path / "s.zarr", block_sets=16)
    monkeypatch.setattr("dkdist.auto._tuning.N_LANDMARKS", 128)

    def results_of_both_kinds() -> list[Any]:
        results = []
        for exact in (4000, 50):
            monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", exact)
            results += answers(stored)
        return results

    single = results_of_both_kinds()
    with Client(worker_processes):
        for a, b in zip(results_of_both_kinds(), single, strict=True):
            np.testing.assert_array_equal(a, b)


def answers(stored: Any) -> list[Any]:
    """Return scores, decision values, and contributions of points and dimensions."""
    model = dk.SetClassifier(QUICK, cv=3, random_state=0).fit(stored[:60], Y[:60])
    scores = [entry["score"] for entry in model.leaderboard_]
    why = model.explain(stored[60:64])
    return [scores, model.decision_function(stored[60:]), *why, model.explain(stored[60:64], by="dimension")]


def test_each_class_is_covered_on_request() -> None:
    """One class is a seventh of the sets: 3 models, 600 test sets each, about 85 of them of that class."""
    covered = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = (rng.random(900) < 1 / 7).astype(int)
        sets = [rng.normal(0.5 * c, 1, (8, 1)) for c in y]
        model = dk.SetClassifier(["means"], random_state=0).fit(sets[:300], y[:300])
        held = [
            model.predict_set(sets[300:], 0.9, by_class)[np.arange(600), y[300:]]
            for by_class in (False, True)
        ]
        covered.append([is_covered[y[300:] == 1].mean() for is_covered in held])
    overall, per_class = np.mean(covered, axis=0)
    assert overall < 0.8
    # 43 held-out sets of the class and 85 test sets per model: standard error 0.056, 0.033 for three models
    assert abs(per_class - 0.9) < 3 * 0.033


def test_dimension_contributions_sum_to_difference_from_background() -> None:
    sets = [x[:20] for x in SETS]  # sets of equal size: the background is not resampled
    model = dk.SetClassifier(QUICK, random_state=0).fit(sets[:60], Y[:60])
    result = model.explain(sets[60:63], by="dimension")
    assert result.shape == (3, 2, 3)
    difference = model.decision_function(sets[60:63]) - model.decision_function(model.background_).mean(
        axis=0
    )
    np.testing.assert_allclose(result.sum(axis=1), difference, atol=1e-4)
    np.testing.assert_array_equal(dk.explain(model, sets[60:63], by="dimension"), result)


def test_regressor_contributions_by_dimension_and_position() -> None:
    rng = np.random.default_rng(4)
    y = rng.uniform(0.5, 1.5, 80)
    sets = [rng.normal(0, 1, (50, 2)) * [1, s] for s in y]
    model = dk.SetRegressor(["moments"], random_state=0).fit(sets[:60], y[:60])
    by_dimension = model.explain(sets[60:], by="dimension")
    assert np.corrcoef(by_dimension[:, 1], y[60:])[0, 1] > 0.9
    assert np.abs(by_dimension[:, 1]).mean() > 3 * np.abs(by_dimension[:, 0]).mean()
    near, far = model.explain(sets[60:], at=[[0.0, 0], [0, 3]]).mean(axis=0)
    assert far > near  # distant points increase the predicted width
    points = model.explain(sets[60:], reference=1.0)
    np.testing.assert_allclose([c.sum() for c in points], model.predict(sets[60:]) - 1.0, atol=1e-6)


def test_prediction_does_not_depend_on_other_sets(model: dk.SetClassifier) -> None:
    batch = model.decision_function(SETS[60:])
    single = np.concatenate([model.decision_function(SETS[i : i + 1]) for i in (60, 75)])
    # matrix products of another size may sum 60 rows in another order
    np.testing.assert_allclose(single, batch[[0, 15]], rtol=1e-9, atol=1e-9)


def test_model_can_be_cloned_and_pickled(model: dk.SetClassifier) -> None:
    assert clone(model).get_params() == model.get_params()
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict(SETS[60:]), model.predict(SETS[60:]))


@pytest.mark.parametrize("streamed", [False, True])
def test_explain_finds_planted_points_and_sums_to_decision_value(
    streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if streamed:
        monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", 50)
        monkeypatch.setattr("dkdist.auto._tuning.N_LANDMARKS", 40)
    train, y = [planted(i) for i in range(80)], np.arange(80) % 2
    model = dk.SetClassifier(QUICK, random_state=0).fit(train, y)
    assert all(len(part.duals) == (40 if streamed else 80) for part in model.machine_.parts)
    test = [planted(i) for i in range(101, 121, 2)]
    result = model.explain(test)
    np.testing.assert_allclose([c.sum() for c in result], model.decision_function(test), atol=1e-4)
    auc = [roc_auc_score(np.arange(60) >= 57, c) for c in result]
    assert np.mean(auc) > 0.95


def test_influence_is_the_derivative_by_the_weight_of_a_point(
    two_classes: dk.SetClassifier,
) -> None:
    one = planted(201)
    u, t = np.full(60, 1 / 60), 0.002

    def decision(weights: Any) -> float:
        return float(two_classes.decision_function(dk.SampleSets.from_arrays([one], [weights]))[0])

    influence = two_classes.explain([one], at=one)[0]
    for i in (0, 58):
        plus, minus = ((1 - s) * u + s * (np.arange(60) == i) for s in (t, -t))
        # central differences: rows are float32, so values of order 1 have errors of 1e-6, and slopes of 1e-3
        slope = (decision(plus) - decision(minus)) / (2 * t)
        assert slope == pytest.approx(influence[i], rel=0.02, abs=0.01)


@pytest.mark.parametrize("streamed", [False, True])
def test_best_estimator_is_a_pipeline(streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", 50 if streamed else 4000)
    monkeypatch.setattr("dkdist.auto._tuning.N_LANDMARKS", 40)
    for candidates in (["symmetric"], ["moments"], ["sliced-wasserstein"]):
        model = dk.SetClassifier(candidates, random_state=0).fit(SETS[:60], Y[:60])
        best = model.best_estimator_
        assert best.score(SETS[60:], Y[60:]) > model.score(SETS[60:], Y[60:]) - 0.15
        assert best.predict_proba(SETS[60:]).shape == (30, 3)
    y = np.array([x.std() for x in SETS])
    regressor = dk.SetRegressor(["moments"], random_state=0).fit(SETS[:60], y[:60])
    assert regressor.best_estimator_.score(SETS[60:], y[60:]) > 0.9


def test_class_weight_and_sample_weight() -> None:
    rare = np.arange(80) % 8 == 0
    sets = [np.random.default_rng(i).normal(0.5 * rare[i], 1, (15, 1)) for i in range(80)]
    plain = dk.SetClassifier(["moments"], random_state=0).fit(sets, rare)
    balanced = dk.SetClassifier(["moments"], class_weight="balanced", random_state=0).fit(sets, rare)
    assert balanced.predict(sets)[rare].mean() > plain.predict(sets)[rare].mean()
    weights = (np.arange(80) < 40).astype(float)
    half = dk.SetClassifier(["moments"], random_state=0).fit(sets, rare, sample_weight=weights)
    subset = dk.SetClassifier(["moments"], random_state=0).fit(sets[:40], rare[:40])
    np.testing.assert_array_equal(half.decision_function(sets), subset.decision_function(sets))


def test_groups_are_held_out_together() -> None:
    group = np.arange(60) // 3
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(20, 2)) * 5
    y = rng.permutation(np.arange(20) % 2)[group]  # depends on the group only
    sets = [rng.normal(centres[g], 1, (20, 2)) for g in group]
    ungrouped = dk.SetClassifier(["means"], random_state=0).fit(sets, y)
    grouped = dk.SetClassifier(["means"], random_state=0).fit(sets, y, groups=group)
    assert entry(ungrouped)["score"] > 0.95  # sets of the same group reveal the class
    assert entry(grouped)["score"] < 0.85


def test_intervals_cover_and_are_wider_for_small_sets() -> None:
    rng = np.random.default_rng(5)

    def sample(n: int) -> tuple[list[np.ndarray], np.ndarray]:
        y = rng.uniform(-1, 1, n)
        return [rng.normal(v, 1, (rng.choice([5, 200]), 1)) for v in y], y

    sets, y = sample(300)
    model = dk.SetRegressor(["moments"], random_state=0).fit(sets, y)
    test, test_y = sample(600)
    low, high = model.predict_interval(test, 0.9).T
    # standard errors: 0.012 for 600 rows, 0.017 for 300 held-out rows
    assert abs(((low <= test_y) & (test_y <= high)).mean() - 0.9) < 3 * np.hypot(0.012, 0.017)
    small = np.array([len(x) for x in test]) == 5
    assert (high - low)[small].mean() > 2 * (high - low)[~small].mean()


@pytest.mark.parametrize("d", [1, 3, 5])
def test_series_of_any_dimension(d: int) -> None:
    rng = np.random.default_rng(8)
    y = np.arange(60) % 2
    sets = [np.cumsum(rng.normal(0, 1 + c, (12, d)), axis=0) for c in y]  # series
    model = dk.SetClassifier(random_state=0).fit(sets[:40], y[:40])
    assert model.score(sets[40:], y[40:]) > 0.7
    assert any("time warping" in entry["name"] for entry in model.leaderboard_)


def unusual_collections() -> dict[str, Any]:
    rng = np.random.default_rng(9)
    walks = [np.cumsum(rng.normal(i % 2, 1, (10, 1)), axis=0) for i in range(40)]
    flat = [np.column_stack([rng.normal(2 * (i % 2), 1, 20), np.full(20, 3.0)]) for i in range(40)]
    return {
        "weights, which some distances do not support": dk.SampleSets.from_arrays(walks, [np.ones(10)] * 40),
        "a constant column": flat,
        "single points": [x[:1] for x in flat],
        "one far point": [np.full((3, 2), 1e4), *flat[1:]],
        "more columns than sets": [rng.normal(0.2 * (i % 2), 1, (10, 200)) for i in range(40)],
        "strings of one symbol": ["ab"[i % 2] for i in range(40)],
    }


@pytest.mark.parametrize("name", unusual_collections())
def test_unusual_collections(name: str) -> None:
    sets, y = unusual_collections()[name], np.arange(40) % 2
    model = dk.SetClassifier(random_state=0).fit(sets, y)
    assert model.score(sets, y) > 0.6
    assert len(model.explain(sets[:2])) == 2


def test_identical_sets_raise() -> None:
    with pytest.raises(ValueError, match="X must contain sets with different points"):
        dk.SetClassifier().fit([np.ones((5, 2))] * 20, np.arange(20) % 2)


def test_regressor_with_several_targets() -> None:
    rng = np.random.default_rng(6)
    y = rng.normal(size=(60, 2))
    sets = [rng.normal(v, 0.3, (30, 2)) for v in y]
    model = dk.SetRegressor(["means"], random_state=0).fit(sets, y)
    assert model.predict(sets).shape == (60, 2)
    assert model.predict_interval(sets).shape == (60, 2, 2)
    assert model.score(sets, y) > 0.9
    explained = model.explain(sets[:2])
    np.testing.assert_allclose(explained[0].sum(axis=0), model.predict(sets[:1])[0] - model.mean_, atol=1e-6)


def test_embedding_object_is_a_candidate_and_is_not_modified() -> None:
    embedding = dk.HistogramEmbedding(n_bins=5)
    model = dk.SetClassifier([embedding, "moments"], random_state=0).fit(SETS[:60], Y[:60])
    assert not hasattr(embedding, "spec_")
    assert any(entry["name"].startswith("HistogramEmbedding") for entry in model.leaderboard_)
    with pytest.raises(TypeError, match="names, embeddings or transformers of sets; got 5"):
        dk.SetClassifier([5]).fit(SETS[:60], Y[:60])


def test_strings_use_edit_distances() -> None:
    rng = np.random.default_rng(7)
    strings = ["".join(rng.choice(list("ACGT"), 30)) + "GATTACA" * (i % 2) + "A" * (i % 3) for i in range(60)]
    model = dk.SetClassifier(random_state=0).fit(strings[:40], np.arange(40) % 2)
    assert model.score(strings[40:], np.arange(40, 60) % 2) > 0.85
    assert any(entry["name"].startswith("edit") for entry in model.leaderboard_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(60, int)}, "2 classes"),
        ({"y": Y[:59]}, "60 sets of X; got 59"),
        ({"sample_weight": -np.ones(60)}, "finite, at least 0"),
        ({"sample_weight": np.zeros(60)}, "got only zeros"),
        ({"sample_weight": np.ones(59)}, r"shape \(60,\), one weight per set"),
        ({"groups": np.zeros(60)}, "at least 2 distinct values; got"),
        ({"groups": np.arange(59)}, "one label per set; got"),
        ({"candidates": ["wavelets"]}, "wavelets"),
        ({"candidates": []}, "candidates must be"),
        ({"candidates": "best"}, "candidates must be"),
        ({"budget": 1e-6}, r"at least one candidate; got -?[0-9.e-]* s"),
        (
            {"budget": {"memory": 1000}},
            "must be at least .* bytes to compare candidates on 50 sets; got 1e.03",
        ),
        ({"budget": {"hours": 1}}, "hours"),
        ({"budget": -1}, "positive"),
        ({"cv": "loo"}, "cv must be"),
        ({"cv": 1}, "cv must be"),
    ],
)
def test_invalid_input_raises(change: dict[str, Any], message: str) -> None:
    params = {"candidates": ["means"]} | {
        k: v for k, v in change.items() if k in ("candidates", "budget", "cv")
    }
    options = {"y": Y[:60]} | {k: v for k, v in change.items() if k not in params}
    with pytest.raises(ValueError, match=message):
        dk.SetClassifier(**params).fit(SETS[:60], **options)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        *((dk.SetClassifier, name) for name in ("predict", "predict_proba", "predict_set", "decision_function")),
        *((dk.SetRegressor, name) for name in ("predict", "predict_interval")),
        *((dk.SetSurvival, n) for n in ("predict", "predict_survival_function", "predict_lower_bound")),
    ],
)  # fmt: skip
def test_unfitted_model_raises(model: Any, method: str) -> None:
    with pytest.raises(NotFittedError, match=f"This {model.__name__} instance is not fitted yet"):
        getattr(model(), method)(SETS[:2])


@pytest.mark.parametrize("model", [dk.SetClassifier, dk.SetRegressor])
def test_missing_targets_raise(model: Any) -> None:
    y = np.where(np.arange(60) == 7, np.nan, np.arange(60) % 2)
    with pytest.raises(ValueError, match=r"target 7|set 7"):
        model().fit(SETS[:60], y)


def test_memory_budget_reduces_the_search() -> None:
    limited = dk.SetClassifier(budget={"memory": 1.7e6}, random_state=0).fit(SETS[:60], Y[:60])
    # fewer sets are compared than used for training
    assert all(len(part.duals) < 60 for part in limited.machine_.parts)
    assert limited.score(SETS[60:], Y[60:]) > 0.5  # chance level is 1/3
