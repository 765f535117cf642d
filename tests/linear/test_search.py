"""One-pass search: every candidate matches a separate fit, and shared work is done once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from bad_sets import spoilt_store
from distributed import Client
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk
from dkdist.io import SetStore

EMBEDDING = dk.DivergenceEmbedding("hellinger", domain="unit", n_basis=5, bandwidth=0.2)
FEATURES = dk.RandomFourierFeatures(64, sigma=0.5, random_state=0)
SGD = dk.IncrementalSGDRegressor(n_epochs=2, random_state=3)
GRID = {
    "divergenceembedding__bandwidth": [0.16, 0.3],
    "randomfourierfeatures__sigma": [0.3, "median"],
    "incrementalsgdregressor__alpha": [1e-6, 1e-2],
}


def problem(n: int = 500, seed: int = 0) -> tuple[dk.SampleSets, Any]:
    """Return sets whose spread is the target."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(0.02, 0.3, n)
    sets = [np.clip(0.5 + s * rng.standard_normal((rng.integers(20, 60), 2)), 0, 1) for s in y]
    return dk.SampleSets.from_arrays(sets), y * 10


def pipeline(*steps: Any) -> Any:
    return make_pipeline(*map(clone, steps))


@pytest.fixture(scope="module")
def data() -> Any:
    return problem()


@pytest.fixture(scope="module")
def path(data: Any, tmp_path_factory: Any) -> Path:
    path = tmp_path_factory.mktemp("search") / "sets.zarr"
    dk.write_sets(path, data[0], targets=data[1])
    return Path(path)


def search(learner: Any = SGD, grid: Any = GRID, **options: Any) -> dk.OnePassSearch:
    options = {"validation_fraction": 0.2, "random_state": 3, **options}
    return dk.OnePassSearch(pipeline(EMBEDDING, FEATURES, learner), grid, **options)


def test_sgd_candidates_match_separate_fits(data: Any) -> None:
    """The reference uses the same held-out rows, order and blocks."""
    sets, y = data
    result = search(refit=False).fit(sets, y)
    held_out = result.held_out_
    train = np.setdiff1d(np.arange(len(y)), held_out)
    for params, score in zip(
        result.cv_results_["params"], result.cv_results_["mean_test_score"], strict=True
    ):
        model = pipeline(EMBEDDING, FEATURES, SGD).set_params(**params)
        Z = model[:-1].fit(sets[train]).transform(sets)
        learner = model[-1].set_params(validation_fraction=0.2)
        learner.fit(da.from_array(Z, chunks=(128, -1)), y)
        assert score == pytest.approx(learner.score(Z[held_out], y[held_out]), abs=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_candidates_match_separate_fits(data: Any, fit_intercept: bool) -> None:
    sets, y = data
    ridge = dk.IncrementalRidge(fit_intercept=fit_intercept)
    grid = {"randomfourierfeatures__sigma": [0.3, 0.7], "incrementalridge__alphas": [1e-3, 1.0, [1e-3, 1.0]]}
    result = search(ridge, grid, refit=False).fit(sets, y)
    held_out = result.held_out_
    train = np.setdiff1d(np.arange(len(y)), held_out)
    scores = result.cv_results_["mean_test_score"]
    for i, params in enumerate(result.cv_results_["params"]):
        model = pipeline(EMBEDDING, FEATURES, ridge).set_params(**params)
        Z = model[:-1].fit(sets[train]).transform(sets)
        alphas = np.atleast_1d(params["incrementalridge__alphas"])
        scores_of_single_fits = [
            clone(ridge).set_params(alphas=a).fit(Z[train], y[train]).score(Z[held_out], y[held_out])
            for a in alphas
        ]
        assert scores[i] == pytest.approx(max(scores_of_single_fits), abs=2e-4)
        expected = alphas[np.argmax(scores_of_single_fits)] if len(alphas) > 1 else None
        assert result.cv_results_["alpha"][i] == expected


@pytest.mark.parametrize("sampler", ["supervised", "object"])
def test_score_of_random_labels_is_chance(sampler: str) -> None:
    """Objects that were selected with the targets of held-out rows scored 0.625 +- 0.015.

    60 means of 18 accuracies each have a standard error of at most sqrt(0.25 / (60 * 18)) = 0.015 about 0.5 or less
    (balanced labels). The bound of four standard errors fails for 1 in 10,000 seeds of a correct score, and holds for 1
    in 10,000 with that defect.
    """
    scores = []
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        sets = [rng.normal(rng.normal(size=3), 1, (10, 3)) for _ in range(60)]
        y = rng.permutation(np.repeat([0, 1], 30))
        embedding = dk.DistanceEmbedding("energy", sampler=sampler, n_components=20, random_state=seed)
        model = make_pipeline(embedding, dk.IncrementalRidgeClassifier(alphas=1e-2))
        result = dk.OnePassSearch(model, {}, 0.3, random_state=seed, refit=False).fit(sets, y)
        scores.append(result.best_score_)
    assert np.mean(scores) < 0.56


def test_steps_are_not_fitted_on_held_out_rows(data: Any, path: Path) -> None:
    """A distant held-out set changes neither the domain nor the model."""
    sets, y = data
    # the domain is learned from the data
    embedding = dk.DivergenceEmbedding("hellinger", n_basis=5, bandwidth=0.2)
    result = dk.OnePassSearch(
        pipeline(embedding, FEATURES, dk.IncrementalRidge(1e-2)), {}, 0.2, random_state=3
    )
    held_out = result.fit(sets, y).held_out_
    moved = dk.SampleSets.from_arrays([x + 50 * (i == held_out[0]) for i, x in enumerate(sets)])
    far = clone(result).set_params(scoring=_score_without_first_row).fit(moved, y)
    near = clone(result).set_params(scoring=_score_without_first_row).fit(sets, y)
    assert far.best_score_ == pytest.approx(near.best_score_, abs=1e-6)


def _score_without_first_row(model: Any, X: Any, y: Any) -> float:
    return -float(np.mean((model.predict(X)[1:] - y[1:]) ** 2))


def test_candidate_does_not_depend_on_other_candidates(data: Any) -> None:
    sets, y = data
    joint = search(refit=False).fit(sets, y).cv_results_
    for i, params in enumerate(joint["params"]):
        single = search(grid={k: [v] for k, v in params.items()}, refit=False).fit(sets, y).cv_results_
        score = joint["mean_test_score"][i]
        # products of several models round differently
        assert single["mean_test_score"][0] == pytest.approx(score, rel=1e-7)


def test_store_memory_and_cluster_give_identical_results(data: Any, path: Path) -> None:
    sets, y = data
    grid = {**GRID, "incrementalsgdregressor__loss": ["squared_error"]}
    expected = search(grid=grid).fit(sets, y)
    store = dk.open_sets(path)
    on_store = search(grid=grid).fit(store, y)
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
        on_cluster = search(grid=grid).fit(store, y)
    for result in (on_store, on_cluster):
        np.testing.assert_array_equal(
            result.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
        )
        np.testing.assert_array_equal(result.predict(sets), expected.predict(sets))


def test_points_are_read_once_per_pass(path: Path, data: Any, monkeypatch: Any) -> None:
    """All candidates share a summary pass, a sample for sigma, the step size, two epochs, and the held-out rows."""
    reads = []
    load = SetStore.points_alone
    monkeypatch.setattr(SetStore, "points_alone", lambda self, first=0: reads.append(len(self)) or load(self))
    search(refit=False).fit(dk.open_sets(path), data[1])
    n = len(data[1])
    # summary and two epochs; sample for two sigmas; step; score
    assert sum(reads) <= 3 * n + 2 * n + 128 + 0.2 * n + 4


def test_blocks_of_large_sets_are_small(tmp_path: Path, monkeypatch: Any) -> None:
    """A block holds at most MAX_BLOCK_BYTES of points."""
    monkeypatch.setattr("dkdist._runtime.arrays.MAX_BLOCK_BYTES", 2**18)
    rng = np.random.default_rng(0)
    sets = dk.write_sets(tmp_path / "large.zarr", [rng.random((9000, 2)) for _ in range(40)])
    max_points, load = [0], SetStore.points_alone

    def loading(self: SetStore, first: int = 0) -> Any:
        max_points[0] = max(max_points[0], self.n_points)
        return load(self)

    monkeypatch.setattr(SetStore, "points_alone", loading)
    search(refit=False, grid={"randomfourierfeatures__sigma": [0.3]}).fit(sets, rng.random(40))
    assert max_points[0] == 3 * 9000


def test_results_match_grid_search_format(data: Any) -> None:
    sets, y = data
    result = search().fit(sets, y)
    grid = GridSearchCV(result.estimator, GRID, cv=2).fit(sets[:60], y[:60])
    shared = {
        k
        for k in grid.cv_results_
        if not k.startswith(("mean_fit", "std_fit", "mean_score", "std_score", "split1"))
    }
    assert shared == set(result.cv_results_)
    assert result.cv_results_["params"] == grid.cv_results_["params"]
    scores = result.cv_results_["mean_test_score"]
    assert result.best_index_ == np.argmax(scores)
    assert result.cv_results_["rank_test_score"][result.best_index_] == 1
    assert result.best_score_ == scores.max()
    assert result.best_params_ == result.cv_results_["params"][result.best_index_]
    refitted = clone(result.estimator).set_params(**result.best_params_).fit(sets, y)
    np.testing.assert_array_equal(result.predict(sets), refitted.predict(sets))
    assert result.score(sets, y) == refitted.score(sets, y)


def test_candidates_of_several_grids(data: Any) -> None:
    sets, y = data
    classes = np.array(["narrow", "middle", "wide"])[np.digitize(y, [1.0, 2.0])]
    grid = [
        {
            "incrementalsgdclassifier__loss": ["log_loss", "hinge"],
            "incrementalsgdclassifier__n_epochs": [1, 6],
        },
        {"incrementalsgdclassifier": [dk.IncrementalRidgeClassifier(alphas=1e-3)]},
        {"randomfourierfeatures": ["passthrough"]},
    ]
    result = search(dk.IncrementalSGDClassifier(random_state=0), grid).fit(sets, classes)
    scores = result.cv_results_["mean_test_score"]
    assert len(scores) == 6
    assert (scores > 0.6).all()
    assert scores[1] > scores[0]  # six epochs, then one epoch
    assert result.cv_results_["param_randomfourierfeatures"].mask.tolist() == [True] * 5 + [False]
    assert sorted(result.classes_) == ["middle", "narrow", "wide"]
    assert accuracy_score(classes, result.predict(sets)) > 0.8


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss", "balanced_accuracy"])
def test_search_with_scikit_learn_scorers(data: Any, scoring: str) -> None:
    sets, y = data
    c = (y > 1.5).astype(int)
    learner = dk.IncrementalSGDClassifier(random_state=3, validation_fraction=0.2)
    result = search(learner, {"randomfourierfeatures__sigma": [0.4]}, scoring=scoring, refit=False).fit(
        sets, c
    )
    model = pipeline(EMBEDDING, FEATURES, learner).set_params(randomfourierfeatures__sigma=0.4)
    Z = model[:-1].fit(sets).transform(sets)
    model_of_single_fit = model[-1].fit(da.from_array(Z, chunks=(128, -1)), c)
    held_out = result.held_out_
    assert result.best_score_ == pytest.approx(
        result.scorer_(model_of_single_fit, Z[held_out], c[held_out]), abs=1e-6
    )


@pytest.mark.parametrize("lazy", [False, True])
def test_search_on_features(data: Any, lazy: bool) -> None:
    sets, y = data
    A = clone(EMBEDDING).fit_transform(sets)
    grid = {k: v for k, v in GRID.items() if "divergence" not in k}
    on_rows = dk.OnePassSearch(pipeline(FEATURES, SGD), grid, 0.2, random_state=3, refit=False)
    result = on_rows.fit(da.from_array(A, chunks=(128, -1)) if lazy else A, y).cv_results_["mean_test_score"]
    expected = search(grid=grid, refit=False).fit(sets, y).cv_results_["mean_test_score"]
    np.testing.assert_allclose(result, expected, rtol=1e-6)  # held-out rows form separate blocks


def test_search_of_a_single_learner(data: Any) -> None:
    sets, y = data
    A = clone(EMBEDDING).fit_transform(sets)
    result = dk.OnePassSearch(dk.IncrementalRidge(), {"alphas": [1e-3, 1e3]}, 0.2, random_state=0).fit(A, y)
    assert result.best_params_ == {"alphas": 1e-3}


def test_diverged_candidate_scores_nan(data: Any) -> None:
    sets, y = data
    grid = {"incrementalsgdregressor__eta0": [0.5, 50.0]}
    with pytest.warns(UserWarning, match="1 of 2 candidates diverged and score NaN: 1"):
        result = search(grid=grid).fit(sets, y)
    assert np.isnan(result.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert result.best_index_ == 0
    with pytest.raises(ValueError, match="No candidate has a score"):
        search(grid={"incrementalsgdregressor__eta0": [50.0]}).fit(sets, y)


def test_invalid_sets_raise_or_are_skipped(tmp_path: Path) -> None:
    spoilt = spoilt_store(tmp_path / "sets.zarr")
    y = np.array([x.mean() for x in spoilt.clean])
    grid = {"divergenceembedding__bandwidth": [0.2, 0.4]}
    store = dk.open_sets(spoilt.path)
    with pytest.raises(ValueError, match="set 5"):
        search(grid=grid).fit(store, y)
    skipping = search(grid=grid, refit=False)
    skipping.estimator.set_params(
        divergenceembedding__on_error="skip", incrementalsgdregressor__on_error="skip"
    )
    with pytest.warns(UserWarning, match="left out of fit") as caught:
        result = skipping.fit(store, y)
    trained = np.setdiff1d(spoilt.bad, result.held_out_).tolist()  # by their positions among all sets
    assert {str(w.message) for w in caught} == {
        f"{len(trained)} invalid set(s) left out of fit: {', '.join(map(str, trained))}"
    }
    assert np.isfinite(result.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((EMBEDDING, StandardScaler(), SGD), "got StandardScaler.* as step 1.*GridSearchCV"),
        ((EMBEDDING, LinearRegression()), "got LinearRegression.* as step 1"),
        ((FEATURES, EMBEDDING, SGD), "got DivergenceEmbedding.* as step 1"),
    ],
)
def test_unsupported_steps_raise(data: Any, steps: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        dk.OnePassSearch(pipeline(*steps), {}).fit(*data)


def test_invalid_parameters_raise(data: Any) -> None:
    sets, y = data
    with pytest.raises(ValueError, match="validation_fraction must be between 0 and 1"):
        search(validation_fraction=0.0).fit(sets, y)
    with pytest.raises(ValueError, match="each of the 500 rows of X; got shape"):
        search().fit(sets, y[1:])
    with pytest.raises(ValueError, match="y must be finite; got nan"):
        search().fit(sets, np.where(np.arange(500) == 7, np.nan, y))
    with pytest.raises(ValueError, match="Invalid parameter"):
        search(grid={"nonsense": [1]}).fit(sets, y)
    with pytest.raises(ValueError, match="alpha"):
        search(grid={"incrementalsgdregressor__alpha": [-1.0]}).fit(sets, y)


def test_grid_search_and_cross_validation_with_sets_and_stores(data: Any, path: Path) -> None:
    sets, y = data
    model, store = pipeline(EMBEDDING, FEATURES, SGD), dk.open_sets(path)
    in_memory, on_store = (cross_val_score(model, X, y, cv=3) for X in (sets, store))
    np.testing.assert_allclose(on_store, in_memory, atol=0.05)
    assert on_store.mean() > 0.8
    grid = GridSearchCV(model, {"divergenceembedding__bandwidth": [0.2, 0.4]}, cv=2).fit(store, y)
    assert grid.best_score_ > 0.8
