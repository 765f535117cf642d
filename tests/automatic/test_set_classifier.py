"""`SetClassifier` and `SetRegressor`: right without a choice, the same from memory and stores, and honest."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask.distributed import Client
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

import dkdist as dk
from dkdist.auto import selection as choosing
from dkdist.auto.budgets import N_GRAM_MATRICES, Budget

RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
SETS = [RNG.normal(0, 1 + c / 2, (RNG.integers(20, 40), 2)) for c in Y]
QUICK = ["moments", "sliced-wasserstein", "hellinger"]


@pytest.fixture(scope="module")
def model() -> dk.SetClassifier:
    return dk.SetClassifier(QUICK, random_state=0).fit(SETS[:60], Y[:60])


@pytest.fixture(scope="module")
def two_classes() -> dk.SetClassifier:
    smooth = ["moments", "hellinger", "kernel-mean"]  # quantiles of weighted points go by steps
    return dk.SetClassifier(smooth, random_state=0).fit([planted(c) for c in range(80)], np.arange(80) % 2)


def planted(i: int, n: int = 60) -> np.ndarray:
    """A set whose last three points are elsewhere if i is odd."""
    x = np.random.default_rng(i).normal(size=(n, 2))
    x[-3:] = x[-3:] / 5 + [2.5, -2.5] if i % 2 else x[-3:]
    return x


def test_it_is_right_and_says_how_sure_it_is(model: dk.SetClassifier) -> None:
    test, evaluation = SETS[60:], Y[60:]
    assert model.score(test, evaluation) > 0.8
    p = model.predict_proba(test)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (p.argmax(axis=1) == model.predict(test)).mean() > 0.9
    members = model.predict_set(test, 0.9)
    assert members.shape == p.shape
    assert members.any(axis=1).all()


def entry(model: Any, name: str = "this model") -> dict[str, Any]:
    return next(one for one in model.leaderboard_ if one["name"] == name)


def test_the_leaderboard_holds_baselines_and_errors(model: dk.SetClassifier) -> None:
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


def test_a_store_gives_the_same_bits(model: dk.SetClassifier, tmp_path: Path) -> None:
    dk.write_sets(tmp_path / "s.zarr", SETS)
    stored = dk.open_sets(tmp_path / "s.zarr")
    other = dk.SetClassifier(QUICK, random_state=0).fit(stored[:60], Y[:60])
    np.testing.assert_array_equal(other.decision_function(stored[60:]), model.decision_function(SETS[60:]))
    assert other.summary() == model.summary()


def test_a_cluster_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one pass over a store, and of exact kernels: what is chosen, what is predicted and why."""
    dk.write_sets(tmp_path / "s.zarr", SETS)
    stored = dk.open_sets(tmp_path / "s.zarr", block_sets=16)
    monkeypatch.setattr(choosing, "N_COMPONENTS", 128)

    def found() -> list[Any]:
        both = []
        for exact in (4000, 50):
            monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", exact)
            both += answers(stored)
        return both

    alone = found()
    with Client(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
        for a, b in zip(found(), alone, strict=True):
            np.testing.assert_array_equal(a, b)


def answers(stored: Any) -> list[Any]:
    """Scores, decision values, and what points and dimensions add."""
    model = dk.SetClassifier(QUICK, random_state=0).fit(stored[:60], Y[:60])
    scores = [entry["score"] for entry in model.leaderboard_]
    why = model.explain(stored[60:64])
    return [scores, model.decision_function(stored[60:]), *why, model.explain(stored[60:64], by="dimension")]


def test_every_class_is_covered_by_itself_if_asked() -> None:
    """A class of a seventh of the sets: 3 models, 600 test sets each, of which 85 are of that class."""
    covered = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = (rng.random(900) < 1 / 7).astype(int)
        sets = [rng.normal(0.5 * c, 1, (8, 1)) for c in y]
        model = dk.SetClassifier(["means"], random_state=0).fit(sets[:300], y[:300])
        held = [model.predict_set(sets[300:], 0.9, each)[np.arange(600), y[300:]] for each in (False, True)]
        covered.append([own[y[300:] == 1].mean() for own in held])
    together, alone = np.mean(covered, axis=0)
    assert together < 0.8
    # 43 left-out sets of the class a model, 85 test sets: a standard error of .056 each, of .033 of three
    assert abs(alone - 0.9) < 3 * 0.033


def test_dimensions_sum_to_the_lead_over_sets_that_are_kept() -> None:
    sets = [x[:20] for x in SETS]  # as many points each: the background is drawn as it is
    model = dk.SetClassifier(QUICK, random_state=0).fit(sets[:60], Y[:60])
    result = model.explain(sets[60:63], by="dimension")
    assert result.shape == (3, 2, 3)
    lead = model.decision_function(sets[60:63]) - model.decision_function(model.background_).mean(axis=0)
    np.testing.assert_allclose(result.sum(axis=1), lead, atol=1e-4)
    np.testing.assert_array_equal(dk.explain(model, sets[60:63], by="dimension"), result)


def test_a_regressor_says_which_dimension_and_where() -> None:
    rng = np.random.default_rng(4)
    y = rng.uniform(0.5, 1.5, 80)
    sets = [rng.normal(0, 1, (50, 2)) * [1, s] for s in y]
    model = dk.SetRegressor(["moments"], random_state=0).fit(sets[:60], y[:60])
    by_dimension = model.explain(sets[60:], by="dimension")
    assert np.corrcoef(by_dimension[:, 1], y[60:])[0, 1] > 0.9
    assert np.abs(by_dimension[:, 1]).mean() > 3 * np.abs(by_dimension[:, 0]).mean()
    near, far = model.explain(sets[60:], at=[[0.0, 0], [0, 3]]).mean(axis=0)
    assert far > near  # points far out speak for a wide dimension
    points = model.explain(sets[60:], reference=1.0)
    np.testing.assert_allclose([c.sum() for c in points], model.predict(sets[60:]) - 1.0, atol=1e-6)


def test_a_set_alone_is_predicted_as_among_others(model: dk.SetClassifier) -> None:
    together = model.decision_function(SETS[60:])
    alone = np.concatenate([model.decision_function(SETS[i : i + 1]) for i in (60, 75)])
    # a product of matrices of other sizes may add in another order: a rounding of sums of 60 rows
    np.testing.assert_allclose(alone, together[[0, 15]], rtol=1e-9, atol=1e-9)


def test_it_is_an_estimator_of_scikit_learn(model: dk.SetClassifier) -> None:
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(SETS[60:]), model.predict(SETS[60:]))


@pytest.mark.parametrize("streamed", [False, True])
def test_points_that_make_a_class_are_found_and_contributions_sum(
    streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if streamed:
        monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", 50)
        monkeypatch.setattr(choosing, "N_COMPONENTS", 256)
    train, y = [planted(i) for i in range(80)], np.arange(80) % 2
    model = dk.SetClassifier(QUICK, random_state=0).fit(train, y)
    assert any(hasattr(part, "W") for part in model.machine_.parts) == streamed
    test = [planted(i) for i in range(101, 121, 2)]
    result = model.explain(test)
    np.testing.assert_allclose([c.sum() for c in result], model.decision_function(test), atol=1e-4)
    auc = [roc_auc_score(np.arange(60) >= 57, c) for c in result]
    assert np.mean(auc) > 0.95


def test_influence_at_a_place_is_the_derivative_by_the_weight_of_a_point(
    two_classes: dk.SetClassifier,
) -> None:
    one = planted(201)
    u, t = np.full(60, 1 / 60), 0.002

    def decision(weights: Any) -> float:
        return float(two_classes.decision_function(dk.SampleSets.from_arrays([one], [weights]))[0])

    influence = two_classes.explain([one], at=one)[0]
    for i in (0, 58):
        more, less = ((1 - s) * u + s * (np.arange(60) == i) for s in (t, -t))
        # central differences: rows are float32, so that a value of order one is known to some 1e-6, a slope to 1e-3
        slope = (decision(more) - decision(less)) / (2 * t)
        assert slope == pytest.approx(influence[i], rel=0.02, abs=0.01)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_best_candidate_is_a_pipeline_of_public_parts(
    streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", 50 if streamed else 4000)
    monkeypatch.setattr(choosing, "N_COMPONENTS", 512)
    for candidates in (["symmetric"], ["moments"], ["sliced-wasserstein"]):
        model = dk.SetClassifier(candidates, random_state=0).fit(SETS[:60], Y[:60])
        alone = model.best_estimator_
        assert alone.score(SETS[60:], Y[60:]) > model.score(SETS[60:], Y[60:]) - 0.15
        assert alone.predict_proba(SETS[60:]).shape == (30, 3)
    y = np.array([x.std() for x in SETS])
    regressor = dk.SetRegressor(["moments"], random_state=0).fit(SETS[:60], y[:60])
    assert regressor.best_estimator_.score(SETS[60:], y[60:]) > 0.9


def test_weights_and_classes_that_count_more() -> None:
    rare = np.arange(80) % 8 == 0
    sets = [np.random.default_rng(i).normal(0.5 * rare[i], 1, (15, 1)) for i in range(80)]
    plain = dk.SetClassifier(["moments"], random_state=0).fit(sets, rare)
    balanced = dk.SetClassifier(["moments"], class_weight="balanced", random_state=0).fit(sets, rare)
    assert balanced.predict(sets)[rare].mean() > plain.predict(sets)[rare].mean()
    weights = (np.arange(80) < 40).astype(float)
    half = dk.SetClassifier(["moments"], random_state=0).fit(sets, rare, sample_weight=weights)
    alone = dk.SetClassifier(["moments"], random_state=0).fit(sets[:40], rare[:40])
    np.testing.assert_array_equal(half.decision_function(sets), alone.decision_function(sets))


def test_groups_are_left_out_together() -> None:
    group = np.arange(60) // 3
    rng = np.random.default_rng(3)
    place = rng.normal(size=(20, 2)) * 5
    y = rng.permutation(np.arange(20) % 2)[group]  # a matter of the group alone
    sets = [rng.normal(place[g], 1, (20, 2)) for g in group]
    loose = dk.SetClassifier(["means"], random_state=0).fit(sets, y)
    strict = dk.SetClassifier(["means"], random_state=0).fit(sets, y, groups=group)
    assert entry(loose)["score"] > 0.95  # its own group tells
    assert entry(strict)["score"] < 0.85


def test_intervals_cover_and_widen_for_small_sets() -> None:
    rng = np.random.default_rng(5)

    def sample(n: int) -> tuple[list[np.ndarray], np.ndarray]:
        y = rng.uniform(-1, 1, n)
        return [rng.normal(v, 1, (rng.choice([5, 200]), 1)) for v in y], y

    sets, y = sample(300)
    model = dk.SetRegressor(["moments"], random_state=0).fit(sets, y)
    test, evaluation = sample(600)
    low, high = model.predict_interval(test, 0.9).T
    # 600 rows: a standard error of .012; 300 that were left out: .017
    assert abs(((low <= evaluation) & (evaluation <= high)).mean() - 0.9) < 3 * np.hypot(0.012, 0.017)
    small = np.array([len(x) for x in test]) == 5
    assert (high - low)[small].mean() > 2 * (high - low)[~small].mean()


@pytest.mark.parametrize("d", [1, 3, 5])
def test_any_dimension_is_taken_without_a_warning(d: int) -> None:
    rng = np.random.default_rng(8)
    y = np.arange(60) % 2
    sets = [np.cumsum(rng.normal(0, 1 + c, (12, d)), axis=0) for c in y]  # in order: series
    model = dk.SetClassifier(random_state=0).fit(sets[:40], y[:40])
    assert model.score(sets[40:], y[40:]) > 0.7
    assert any("time warping" in entry["name"] for entry in model.leaderboard_)


def odd_collections() -> dict[str, Any]:
    rng = np.random.default_rng(9)
    walks = [np.cumsum(rng.normal(i % 2, 1, (10, 1)), axis=0) for i in range(40)]
    flat = [np.column_stack([rng.normal(2 * (i % 2), 1, 20), np.full(20, 3.0)]) for i in range(40)]
    return {
        "weights, where some distances take none": dk.SampleSets.from_arrays(walks, [np.ones(10)] * 40),
        "a flat column, like no other axis": flat,
        "single points": [x[:1] for x in flat],
        "one far point": [np.full((3, 2), 1e4), *flat[1:]],
        "more columns than sets": [rng.normal(0.2 * (i % 2), 1, (10, 200)) for i in range(40)],
        "strings of one symbol": ["ab"[i % 2] for i in range(40)],
    }


@pytest.mark.parametrize("name", odd_collections())
def test_odd_collections_are_taken(name: str) -> None:
    sets, y = odd_collections()[name], np.arange(40) % 2
    model = dk.SetClassifier(random_state=0).fit(sets, y)
    assert model.score(sets, y) > 0.6
    assert len(model.explain(sets[:2])) == 2


def test_sets_that_nothing_tells_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="X must contain sets with different points"):
        dk.SetClassifier().fit([np.ones((5, 2))] * 20, np.arange(20) % 2)


def test_several_targets() -> None:
    rng = np.random.default_rng(6)
    y = rng.normal(size=(60, 2))
    sets = [rng.normal(v, 0.3, (30, 2)) for v in y]
    model = dk.SetRegressor(["means"], random_state=0).fit(sets, y)
    assert model.predict(sets).shape == (60, 2)
    assert model.predict_interval(sets).shape == (60, 2, 2)
    assert model.score(sets, y) > 0.9
    explained = model.explain(sets[:2])
    np.testing.assert_allclose(explained[0].sum(axis=0), model.predict(sets[:1])[0] - model.mean_, atol=1e-6)


def test_an_embedding_of_ones_own_is_a_candidate_and_stays_as_it_was() -> None:
    own = dk.HistogramEmbedding(n_bins=5)
    model = dk.SetClassifier([own, "moments"], random_state=0).fit(SETS[:60], Y[:60])
    assert not hasattr(own, "spec_")
    assert any(entry["name"].startswith("HistogramEmbedding") for entry in model.leaderboard_)
    with pytest.raises(TypeError, match="names, embeddings or transformers of sets; got 5"):
        dk.SetClassifier([5]).fit(SETS[:60], Y[:60])


def test_strings_are_taken_for_strings() -> None:
    rng = np.random.default_rng(7)
    strings = ["".join(rng.choice(list("ACGT"), 30)) + "GATTACA" * (i % 2) + "A" * (i % 3) for i in range(60)]
    model = dk.SetClassifier(random_state=0).fit(strings[:40], np.arange(40) % 2)
    assert model.score(strings[40:], np.arange(40, 60) % 2) > 0.85
    assert any(entry["name"].startswith("edit") for entry in model.leaderboard_)


@pytest.mark.parametrize(
    ("change", "words"),
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
def test_bad_input_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    named = {"candidates": ["means"]} | {
        k: v for k, v in change.items() if k in ("candidates", "budget", "cv")
    }
    options = {"y": Y[:60]} | {k: v for k, v in change.items() if k not in named}
    with pytest.raises(ValueError, match=words):
        dk.SetClassifier(**named).fit(SETS[:60], **options)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        *((dk.SetClassifier, name) for name in ("predict", "predict_proba", "predict_set", "decision_function")),
        *((dk.SetRegressor, name) for name in ("predict", "predict_interval")),
    ],
)  # fmt: skip
def test_nothing_is_predicted_before_fit(model: Any, method: str) -> None:
    with pytest.raises(NotFittedError, match=f"This {model.__name__} instance is not fitted yet"):
        getattr(model(), method)(SETS[:2])


@pytest.mark.parametrize("model", [dk.SetClassifier, dk.SetRegressor])
def test_targets_that_are_missing_are_refused(model: Any) -> None:
    y = np.where(np.arange(60) == 7, np.nan, np.arange(60) % 2)
    with pytest.raises(ValueError, match=r"target 7|set 7"):
        model().fit(SETS[:60], y)


def test_a_budget_is_kept_by_trying_less() -> None:
    some = dk.SetClassifier(budget={"memory": 1.2e6}, random_state=0).fit(SETS[:60], Y[:60])
    assert any(
        hasattr(part, "W") for part in some.machine_.parts
    )  # fewer sets are compared than learned from
    assert some.score(SETS[60:], Y[60:]) > 0.5  # chance is a third


def test_random_features_keep_to_the_memory() -> None:
    assert Budget.from_value(None).max_components(3, 4096) == 4096
    D = Budget.from_value({"memory": 1e9}).max_components(3, 4096)
    assert D % 2 == 0
    assert 0.9e9 < N_GRAM_MATRICES * 3 * 8 * D**2 <= 1e9
