"""Alignment of targets that have an index with the ids of sets, in pipelines, learners and searches."""

import gc
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import dkdist as dk
from dkdist._base import row_ids
from dkdist.sets import SampleSetError

N = 40
RNG = np.random.default_rng(0)
Y = np.arange(N) % 2
IDS = np.array([f"p{i:02d}" for i in range(N)])
SETS = dk.SampleSets.from_arrays([RNG.normal(c, 0.3, (12, 2)) for c in Y], ids=IDS, targets={"age": Y + 50})
SERIES = pd.Series(Y, index=IDS)
SHUFFLED = SERIES.sample(frac=1, random_state=3)
ORDER_MESSAGE = "y must be in the order of the sets, as this step ignores its index"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return dk.write_sets(tmp_path_factory.mktemp("s") / "s.zarr", SETS)


def ridge():
    return dk.IncrementalRidgeClassifier(alphas=[1.0])


def features(n=20):
    return dk.RandomFourierFeatures(n, sigma=1.0, random_state=0)


MODELS = {
    "ridge": lambda: make_pipeline(dk.MomentEmbedding(), ridge()),
    "features": lambda: make_pipeline(dk.SetScaler(), dk.MomentEmbedding(), features(), ridge()),
    "sgd": lambda: make_pipeline(
        dk.MomentEmbedding(), dk.IncrementalSGDClassifier(n_epochs=5, random_state=0)
    ),
    "regression": lambda: make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidge(alphas=[0.1])),
    "sgd regression": lambda: make_pipeline(
        dk.MomentEmbedding(), dk.IncrementalSGDRegressor(n_epochs=20, random_state=0)
    ),
    "columns": lambda: make_pipeline(dk.SetColumns("age"), dk.IncrementalRidge(alphas=[0.1])),
    "union": lambda: make_pipeline(make_union(dk.MomentEmbedding(), dk.SetColumns(["age"])), ridge()),
    "search": lambda: dk.OnePassSearch(
        MODELS["ridge"](), {"incrementalridgeclassifier__alphas": [[1.0]]}, random_state=0
    ),
    "no choice": lambda: dk.SetClassifier(["means"], random_state=0),
    "no choice of numbers": lambda: dk.SetRegressor(["means"], random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_shuffled_targets_give_the_same_model(name):
    expected = MODELS[name]().fit(SETS, Y)
    for y in (SHUFFLED, SERIES, pd.Series(Y)):
        result = MODELS[name]().fit(SETS, y)
        np.testing.assert_array_equal(result.predict(SETS), expected.predict(SETS))
    assert expected.score(SETS, Y) > 0.9


def test_frames_of_several_targets_are_aligned():
    table = pd.DataFrame({"a": Y, "b": 1.0 - Y}, index=IDS)
    for name in ("regression", "no choice of numbers"):
        result = MODELS[name]().fit(SETS, table.sample(frac=1, random_state=5))
        np.testing.assert_array_equal(
            result.predict(SETS), MODELS[name]().fit(SETS, table.to_numpy()).predict(SETS)
        )


@pytest.mark.parametrize("name", [name for name in MODELS if name != "union"])
def test_shuffled_targets_give_the_same_score(name):
    model = MODELS[name]().fit(SETS, Y)
    assert model.score(SETS, SHUFFLED) == model.score(SETS, Y)
    assert model.score(SETS[5:9], SHUFFLED) == model.score(SETS[5:9], Y[5:9])


@pytest.mark.parametrize("name", ["ridge", "features", "sgd", "search"])
def test_rows_of_stores_are_aligned(name, store):
    model = MODELS[name]().fit(store, SHUFFLED)
    np.testing.assert_array_equal(model.predict(store), MODELS[name]().fit(store, Y).predict(store))
    assert model.score(store[::2], SHUFFLED) == model.score(store[::2], Y[::2])


def test_partial_fit_and_weights_are_aligned():
    rows = dk.MomentEmbedding().fit(SETS).transform(SETS)
    weights = pd.Series(np.arange(N) + 1.0, index=IDS)
    for make in (
        lambda: dk.IncrementalRidge(alphas=[0.1]),
        lambda: dk.IncrementalSGDRegressor(random_state=0),
    ):
        expected = make().partial_fit(rows, Y, sample_weight=weights.to_numpy())
        result = make().partial_fit(rows, SHUFFLED, sample_weight=weights.sample(frac=1, random_state=7))
        np.testing.assert_array_equal(result.coef_, expected.coef_)
        assert result.score(rows, SHUFFLED, weights[::-1]) == expected.score(rows, Y, weights.to_numpy())


def test_group_test_aligns_groups_and_strata():
    strata = pd.Series(np.arange(N) // 10, index=IDS)
    options = {"n_permutations": 49, "random_state": 0}
    expected = dk.group_test(SETS, Y, blocks=strata.to_numpy(), **options)
    assert dk.group_test(SETS, SHUFFLED, blocks=strata[::-1], **options) == expected


def test_steps_that_ignore_the_index_raise():
    for steps in ([LogisticRegression()], [StandardScaler(), ridge()], [features(), LogisticRegression()]):
        with pytest.raises(ValueError, match=ORDER_MESSAGE):
            make_pipeline(dk.MomentEmbedding(), *steps).fit(SETS, SHUFFLED)
        model = make_pipeline(dk.MomentEmbedding(), *steps)
        assert model.fit(SETS, SERIES).score(SETS, SERIES) == model.fit(SETS, Y).score(SETS, Y)
    framed = make_pipeline(dk.MomentEmbedding(), ridge()).set_output(transform="pandas")
    with pytest.raises(ValueError, match=ORDER_MESSAGE):
        framed.fit(SETS, SHUFFLED)


def test_rows_of_other_steps_have_no_ids():
    for model in (make_pipeline(dk.MomentEmbedding(), StandardScaler(), ridge()), MODELS["union"]()):
        fitted = model.fit(SETS, SERIES)
        assert fitted.score(SETS, SERIES) > 0.9
        with pytest.raises(SampleSetError, match="order of the rows, whose ids another step has removed"):
            fitted.score(SETS, SHUFFLED)
    backwards = SETS[::-1]
    assert fitted.score(backwards, SERIES[::-1]) > 0.9
    rows = StandardScaler().fit_transform(dk.MomentEmbedding().fit_transform(SETS))
    # the index does not hold ids of sets
    assert ridge().fit(rows, pd.Series(Y, index=np.arange(N)[::-1])).score(rows, Y) > 0.9


def test_cross_validation_aligns_or_raises():
    model = MODELS["ridge"]()
    assert cross_val_score(model, SETS, SERIES, cv=3).min() > 0.9
    with pytest.raises(ValueError, match="lacks the id"):
        cross_val_score(model, SETS, SHUFFLED, cv=3, error_score="raise")
    grid = {"incrementalridgeclassifier__alphas": [[1.0], [0.1]]}
    assert GridSearchCV(model, grid, cv=2).fit(SETS, SERIES).score(SETS, SHUFFLED) > 0.9


def test_targets_with_missing_or_repeated_ids_raise():
    for model in (MODELS["ridge"](), MODELS["no choice"](), MODELS["search"]()):
        with pytest.raises(SampleSetError, match="lacks the id 'p07' of set 7"):
            model.fit(SETS, SHUFFLED.drop("p07"))
        with pytest.raises(SampleSetError, match="'p07' twice"):
            model.fit(SETS, pd.concat([SHUFFLED, SHUFFLED[["p07"]]]))


def test_rows_are_ndarrays_and_ids_are_removed_with_them():
    rows = dk.MomentEmbedding().fit_transform(SETS, SERIES)
    assert type(rows) is np.ndarray
    assert row_ids.find_ids(rows).tolist() == IDS.tolist()
    assert row_ids.find_ids(rows[:3]) is None
    key = id(rows)
    assert key in row_ids._OWNERS
    del rows
    gc.collect()
    assert key not in row_ids._OWNERS


def test_unaligned_rows_raise_on_use():
    rows = dk.MomentEmbedding().fit_transform(SETS, SHUFFLED)
    assert repr(rows) == "UnalignedRows(shape=(40, 2)): the targets are in another order than the sets"
    assert len(rows) == N
    for use in (np.asarray, np.sum, lambda r: np.vstack([r, r]), lambda r: np.concatenate([r, r])):
        with pytest.raises(SampleSetError, match=ORDER_MESSAGE):
            use(rows)
    restored = pickle.loads(pickle.dumps(rows))
    assert row_ids.find_ids(restored).tolist() == IDS.tolist()
    assert (
        ridge().fit(restored, SHUFFLED).predict(restored).tolist()
        == ridge().fit(rows, SHUFFLED).predict(rows).tolist()
    )


def test_sets_without_ids_ignore_the_index():
    sets_without_ids = list(SETS)
    result = MODELS["ridge"]().fit(sets_without_ids, SHUFFLED)
    np.testing.assert_array_equal(
        result[-1].coef_, MODELS["ridge"]().fit(sets_without_ids, SHUFFLED.to_numpy())[-1].coef_
    )
