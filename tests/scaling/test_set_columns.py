"""`SetColumns`: targets as features, in memory and with lazy rows of a store."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dkdist as dk

RNG = np.random.default_rng(0)
AGE = RNG.normal(50, 9, 30)
SITE = np.array(list("uvw"))[np.arange(30) % 3]
TARGETS = {"age": AGE, "site": SITE, "sick": AGE > 50, "both": np.ones((30, 2))}
SETS = dk.SampleSets.from_arrays([RNG.normal(size=(10, 1)) for _ in range(30)], targets=TARGETS)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    sets = dk.write_sets(tmp_path_factory.mktemp("s") / "s.zarr", SETS)
    sets.block_sets = 7
    return sets


def test_numeric_columns_are_float64_and_text_is_kept(store):
    for sets in (SETS, store):
        rows = dk.SetColumns(["sick", "age"]).fit_transform(sets)
        assert type(rows) is np.ndarray
        assert rows.dtype == np.float64
        np.testing.assert_array_equal(rows, np.stack([AGE > 50, AGE], axis=1))
        mixed = dk.SetColumns(["site", "age"]).fit_transform(sets)
        assert mixed.dtype == object
        assert mixed[:2].tolist() == [["u", AGE[0]], ["v", AGE[1]]]
        part = sets[np.array([4, 2])]
        assert dk.SetColumns("age").fit(sets).transform(part).ravel().tolist() == AGE[[4, 2]].tolist()
    assert dk.SetColumns(["site", "age"]).fit(SETS).get_feature_names_out().tolist() == ["site", "age"]


def test_text_columns_with_one_hot_encoder():
    hot = make_pipeline(dk.SetColumns("site"), OneHotEncoder(sparse_output=False)).fit_transform(SETS)
    np.testing.assert_array_equal(hot.argmax(axis=1), np.arange(30) % 3)


def make_feature_union():
    return make_union(dk.MomentEmbedding(2), make_pipeline(dk.SetColumns(["age"]), StandardScaler()))


def test_union_of_a_store_is_lazy_and_identical(store):
    expected = make_feature_union().fit_transform(SETS)
    np.testing.assert_allclose(expected[:, -1], (AGE - AGE.mean()) / AGE.std())
    lazy = make_feature_union().fit_transform(store)
    assert hasattr(lazy, "dask")
    assert lazy.shape == (30, 3)
    np.testing.assert_array_equal(np.asarray(lazy), expected)


def test_learner_on_a_union(store):
    model = make_pipeline(make_feature_union(), dk.IncrementalRidge(alphas=[1e-4]))
    for sets in (SETS, store):
        assert model.fit(sets, AGE * 3).score(sets, AGE * 3) > 0.99


def test_invalid_columns_raise():
    for columns, message in (
        ("sex", "targets of the sets, \\['age', 'site', 'sick', 'both'\\]; got 'sex'"),
        ([], "columns must be a target name"),
        ([3], "columns must be a target name"),
        ("both", "'both' must have 1 number per set; got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            dk.SetColumns(columns).fit(SETS)
    with pytest.raises(ValueError, match="targets of the sets, \\[\\]; got 'age'"):
        dk.SetColumns("age").fit(list(SETS))
    fitted = dk.SetColumns("age").fit(SETS)
    with pytest.raises(ValueError, match="'age' must be numeric, as in fit; got text"):
        fitted.transform(SETS.labelled(targets={"age": SITE}))


def test_pandas_output_and_model_files(tmp_path):
    rows = (
        dk.SetColumns(["age"])
        .set_output(transform="pandas")
        .fit_transform(SETS.labelled(ids=np.arange(30) + 5))
    )
    assert rows["age"].loc[5] == AGE[0]
    model = make_pipeline(dk.SetColumns(["sick", "age"]), StandardScaler(), dk.IncrementalRidge()).fit(
        SETS, AGE
    )
    dk.save_model(model, tmp_path / "m.npz")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "m.npz").predict(SETS), model.predict(SETS))
