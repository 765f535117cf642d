"""`dk.lazy_predict` equals a call on all rows, and computes nothing before it is asked to."""

import itertools

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import dkdist as dk

X = np.random.default_rng(0).standard_normal((90, 4)).astype("f4")
Y = np.array(["left", "middle", "right"])[np.digitize(X[:, 0], [-0.5, 0.5])]
LAZY = da.from_array(X, chunks=(25, 3))
FOREST = RandomForestClassifier(5, random_state=0).fit(X, Y)
CALLS = [
    (FOREST, "predict"),
    (FOREST, "predict_proba"),
    (LogisticRegression().fit(X, Y), "decision_function"),
    (LinearRegression().fit(X, X[:, :2]), "predict"),
    (StandardScaler().fit(X), "transform"),
    (dk.IncrementalRidge(1.0).fit(X, X[:, 0]), "predict"),
    (make_pipeline(StandardScaler(), Ridge()).fit(X, X[:, 1]), "predict"),
]


@pytest.mark.parametrize(("model", "method"), CALLS)
def test_equals_the_call_on_all_rows(model, method):
    result, expected = dk.lazy_predict(model, LAZY, method), getattr(model, method)(X)
    assert isinstance(result, da.Array)
    assert result.chunks == ((25, 25, 25, 15), *((n,) for n in expected.shape[1:]))
    assert result.dtype == result._meta.dtype == result.compute().dtype == expected.dtype
    assert result._meta.shape == (0,) * expected.ndim
    # rows in other blocks may differ in the last bit of a matrix product
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(result.compute(), expected, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(result.compute(), expected)
    np.testing.assert_array_equal(getattr(model, method)(X), dk.lazy_predict(model, X, method))


def test_nothing_is_computed_before_compute():
    def fail(block):
        raise AssertionError("computed")

    failing = LAZY.rechunk((25, 4)).map_blocks(fail, meta=LAZY._meta)
    result = dk.lazy_predict(FOREST, failing)[:30]
    with pytest.raises(AssertionError, match="computed"):
        result.compute()


def test_later_fits_do_not_change_the_result():
    model = Ridge().fit(X, X[:, 0])
    expected = model.predict(X)
    result = dk.lazy_predict(model, LAZY)
    model.fit(X, -X[:, 0])
    np.testing.assert_allclose(result.compute(), expected, atol=1e-6)
    assert result.name != dk.lazy_predict(model, LAZY).name
    assert dk.lazy_predict(model, LAZY).name == dk.lazy_predict(model, LAZY).name


def test_masks_and_empty_blocks():
    masked = LAZY[LAZY[:, 0] > 0.1]
    for method in ("predict", "predict_proba"):
        result = dk.lazy_predict(FOREST, masked, method)
        assert np.isnan(result.shape[0])
        np.testing.assert_array_equal(result.compute(), getattr(FOREST, method)(X[X[:, 0] > 0.1]))
    empty = da.concatenate([LAZY[:0], LAZY[:5]])
    assert len(dk.lazy_predict(FOREST, empty).compute()) == 5


def test_rows_with_more_axes():
    images = np.random.default_rng(0).random((20, 3, 5))
    means = FunctionTransformer(lambda block: block.mean(axis=1)).fit(images)
    result = dk.lazy_predict(means, da.from_array(images, chunks=(6, 2, 2)), "transform")
    assert result.chunks == ((6, 6, 6, 2), (5,))
    np.testing.assert_allclose(result.compute(), images.mean(axis=1))


def test_lazy_sets(tmp_path):
    sets = [np.random.default_rng(i).random((i % 7 + 1, 2)).astype("f4") for i in range(40)]
    y = np.array([len(x) for x in sets], float)
    dk.write_sets(tmp_path / "s.zarr", sets, targets=y)
    store = dk.open_sets(tmp_path / "s.zarr", block_sets=16)
    model = make_pipeline(dk.MomentEmbedding(2), StandardScaler(), Ridge()).fit(sets, y)
    for data in (store, store[3:30]):
        result = dk.lazy_predict(model, data)
        assert result.shape == (len(data),)
        np.testing.assert_allclose(result.compute(), model.predict(data.load()), rtol=1e-5)
    cube = np.random.default_rng(0).random((30, 5, 2)).astype("f4")
    lazy = dk.as_sets(da.from_array(cube, chunks=(8, 5, 2)))
    np.testing.assert_allclose(dk.lazy_predict(model, lazy).compute(), model.predict(cube), rtol=1e-5)
    rows = dk.lazy_predict(model[:1], store, "transform")
    np.testing.assert_array_equal(rows.compute(), model[0].transform(sets))


def test_on_a_cluster():
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"):
        persisted = LAZY.persist()
        result = dk.lazy_predict(FOREST, persisted)
        np.testing.assert_array_equal(result.compute(), FOREST.predict(X))
        # fits read the predictions block by block
        total = dk.fold(result, lambda n, block: n + np.count_nonzero(block == "left"), 0)
        assert total == np.count_nonzero(FOREST.predict(X) == "left")


class Constant:
    def __init__(self, function):
        self.function = function

    def predict(self, block):
        return self.function(block)


def test_errors():
    with pytest.raises(TypeError, match=r"must have the method 'predict_proba'; got Ridge"):
        dk.lazy_predict(Ridge(), LAZY, "predict_proba")
    outputs = MultiOutputClassifier(LogisticRegression()).fit(X, X[:, :2] > 0)
    with pytest.raises(
        ValueError, match=r"predict_proba must return one dense array with 1 row\(s\); got a list"
    ):
        dk.lazy_predict(outputs, LAZY, "predict_proba")
    with pytest.raises(ValueError, match=r"transform must return one dense array .*; got a csr_"):
        dk.lazy_predict(OneHotEncoder(handle_unknown="ignore").fit(X), LAZY, "transform")
    changing = Constant(lambda block: block[:, : len(block)])
    with pytest.raises(ValueError, match=r"predict must return rows of shape \(1,\), .*; got \(4,\)"):
        dk.lazy_predict(changing, LAZY).compute()
    with pytest.raises(
        ValueError, match=r"predict must return one dense array with \d+ row\(s\); got .*\(1, 4\)"
    ):
        dk.lazy_predict(Constant(lambda block: block[:1]), LAZY).compute()
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    with pytest.raises(ValueError, match=r"X\.to_dask_array\(lengths=True\)"):
        dk.lazy_predict(FOREST, frame)


def test_meta_replaces_the_call_on_one_row():
    logarithm = Constant(lambda block: 1 / (block[:, 0] - 1))

    def positive(block):
        if (block == 1).all():
            raise ZeroDivisionError
        return logarithm.predict(block)

    model = Constant(positive)
    with pytest.raises(ZeroDivisionError) as caught:
        dk.lazy_predict(model, LAZY)
    assert "pass them as meta=" in caught.value.__notes__[0]
    result = dk.lazy_predict(model, LAZY, meta=np.empty(0, "f4"))
    assert (result.shape, result.dtype) == ((90,), np.float32)
    np.testing.assert_array_equal(result.compute(), logarithm.predict(X))


def test_the_model_is_one_key_of_the_graph():
    result = dk.lazy_predict(FOREST, LAZY)
    layer = result.dask.layers[result.name]
    assert len(layer) == 1 + 4
    (shared,) = set(itertools.chain(*(layer[key].dependencies for key in result.__dask_keys__()))) - set(
        itertools.chain(*LAZY.rechunk((25, 4)).__dask_keys__())
    )
    assert layer[shared]() is not FOREST


def test_with_dask_functions():
    result = dk.lazy_predict(FOREST, LAZY, "predict_proba")
    with dask.config.set(scheduler="threads"):
        np.testing.assert_allclose(result.mean(axis=0).compute(), FOREST.predict_proba(X).mean(axis=0))
        np.testing.assert_array_equal(result.persist()[10:20], FOREST.predict_proba(X[10:20]))
