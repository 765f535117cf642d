"""`dk.IncrementalWrapper` equals a loop of ``partial_fit`` over blocks, for estimators of all kinds."""

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from distributed import Client
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import make_multilabel_classification
from sklearn.decomposition import IncrementalPCA
from sklearn.linear_model import Ridge, SGDClassifier, SGDRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dkdist as dk
from dkdist._base.random_streams import RngStream

N, ROWS = 90, 25
X = np.random.default_rng(0).standard_normal((N, 4)).astype("f4")
Y = X @ [1.0, -0.5, 0.0, 0.2]
C = np.array(["left", "middle", "right"])[np.digitize(Y, [-0.5, 0.5])]
W = np.random.default_rng(1).random(N)
LAZY = da.from_array(X, chunks=(ROWS, 3))
WEIGHT_CHECKS = (
    "pandas_series",
    "not_an_array",
    "list",
    "shape",
    "not_overwritten",
)


def expected_failures(wrapper):
    estimator = wrapper.estimator
    expected = {}
    if isinstance(estimator, (SGDClassifier, SGDRegressor, MiniBatchKMeans, IncrementalPCA)):
        for kind in ("dense", "sparse"):
            name = f"check_sample_weight_equivalence_on_{kind}_data"
            expected[name] = "repeated rows are shuffled one by one"  # fails for the estimator itself
    if isinstance(estimator, IncrementalPCA):
        for name in WEIGHT_CHECKS:
            expected[f"check_sample_weights_{name}"] = "the estimator does not accept weights"
        expected["check_estimator_sparse_tag"] = "partial_fit of the estimator does not support sparse input"
    return expected


@parametrize_with_checks(
    [
        dk.IncrementalWrapper(estimator, random_state=0, **options)
        for estimator, options in (
            (SGDClassifier(random_state=0), {}),
            (SGDRegressor(random_state=0), {"n_epochs": 2}),
            (MultinomialNB(), {}),
            (MiniBatchKMeans(3, n_init=1, random_state=0), {}),
            (IncrementalPCA(), {"shuffle_blocks": False}),
            (StandardScaler(), {}),
        )
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def loop(estimator, y, weights=None, *, n_epochs=1, seed=0, options=None):
    """Return the estimator after passes over shuffled blocks of `ROWS` rows."""
    model = clone(estimator)
    for epoch in range(n_epochs):
        rng = np.random.default_rng((seed, RngStream.BLOCK_ORDER, epoch))
        for i in rng.permutation(4):
            rows = slice(ROWS * i, ROWS * (i + 1))
            more = {} if weights is None else {"sample_weight": weights[rows]}
            model.partial_fit(X[rows], None if y is None else y[rows], **more, **(options or {}))
    return model


CASES = [
    (SGDClassifier(random_state=0), C, {"classes": np.unique(C)}),
    (GaussianNB(), C, {"classes": np.unique(C)}),
    (SGDRegressor(random_state=0), Y, {}),
    (MiniBatchKMeans(3, random_state=0, n_init=1), None, {}),
    (StandardScaler(), None, {}),
]


@pytest.mark.parametrize(("estimator", "y", "options"), CASES)
def test_equals_a_loop_over_blocks(estimator, y, options):
    for weights in (None, W):
        expected = loop(estimator, y, weights, n_epochs=3, options=options)
        wrapper = dk.IncrementalWrapper(estimator, n_epochs=3, random_state=0).fit(LAZY, y, weights)
        assert pickle.dumps(wrapper.estimator_.__getstate__()) == pickle.dumps(expected.__getstate__())
        assert not set(vars(estimator)) - set(estimator.get_params())  # the argument is not fitted
    assert wrapper.n_features_in_ == 4
    assert is_classifier(wrapper) == is_classifier(estimator)
    assert is_regressor(wrapper) == is_regressor(estimator)


@pytest.mark.parametrize(("estimator", "y", "options"), CASES)
def test_results_for_dask_arrays_are_dask_arrays(estimator, y, options):
    wrapper = dk.IncrementalWrapper(estimator, random_state=0).fit(LAZY, y)
    for method in ("predict", "predict_proba", "decision_function", "transform"):
        assert hasattr(wrapper, method) == hasattr(estimator, method)
        if hasattr(wrapper, method):
            expected = getattr(wrapper.estimator_, method)(X)
            result = getattr(wrapper, method)(LAZY)
            assert isinstance(result, da.Array)
            assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
            # blocks of other sizes change the order of sums in matrix products
            close = (
                np.testing.assert_array_equal if expected.dtype.kind in "iU" else np.testing.assert_allclose
            )
            close(result.compute(), expected, **({} if expected.dtype.kind in "iU" else {"rtol": 1e-4}))
            assert np.array_equal(getattr(wrapper, method)(X), expected)


def test_scores():
    model = dk.IncrementalWrapper(SGDClassifier(random_state=0), n_epochs=3, random_state=0).fit(LAZY, C)
    for weights in (None, W):
        expected = accuracy_score(C, model.estimator_.predict(X), sample_weight=weights)
        assert model.score(X, C, weights) == pytest.approx(expected)
        assert model.score(LAZY, da.from_array(C, chunks=ROWS), weights) == pytest.approx(expected)
    model = dk.IncrementalWrapper(SGDRegressor(random_state=0), random_state=0).fit(LAZY, Y)
    assert model.score(LAZY, Y) == pytest.approx(r2_score(Y, model.estimator_.predict(X)))
    model = dk.IncrementalWrapper(MiniBatchKMeans(2, random_state=0, n_init=1)).fit(LAZY)
    assert model.score(X) == model.estimator_.score(X)
    with pytest.raises(ValueError, match=r"X must be in memory, as MiniBatchKMeans has a score of its own"):
        model.score(LAZY)


def test_partial_fit_continues():
    estimator, options = SGDClassifier(random_state=0), {"classes": np.unique(C)}
    wrapper = dk.IncrementalWrapper(estimator, random_state=0)
    wrapper.partial_fit(LAZY, C, classes=["right", "left", "middle"]).partial_fit(LAZY, C)
    expected = loop(estimator, C, n_epochs=2, options=options)
    np.testing.assert_array_equal(wrapper.estimator_.coef_, expected.coef_)
    np.testing.assert_array_equal(
        wrapper.fit(LAZY, C).estimator_.coef_, loop(*CASES[0][:2], options=options).coef_
    )


def test_back_ends_give_identical_results():
    wrapper = dk.IncrementalWrapper(SGDClassifier(random_state=0), n_epochs=4, random_state=0)
    expected = wrapper.fit(LAZY, C).estimator_.coef_
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"):
        for config, x in (({}, LAZY), ({}, LAZY.persist()), ({"scheduler": "threads"}, LAZY)):
            with dask.config.set(config):
                np.testing.assert_array_equal(clone(wrapper).fit(x, C).estimator_.coef_, expected)


def test_kinds_of_rows():
    counts = np.random.default_rng(0).poisson(1.0, (N, 4))
    expected = MultinomialNB().fit(counts, C).feature_log_prob_
    for x in (counts, scipy.sparse.csr_array(counts), scipy.sparse.coo_array(counts), pd.DataFrame(counts)):
        model = dk.IncrementalWrapper(MultinomialNB()).fit(x, C)
        np.testing.assert_allclose(model.estimator_.feature_log_prob_, expected)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = dk.IncrementalWrapper(IncrementalPCA(2)).fit(frame)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.get_feature_names_out().tolist() == ["incrementalpca0", "incrementalpca1"]
    rows = np.random.default_rng(0).random((2100, 3))  # blocks of 1,024 rows
    model = dk.IncrementalWrapper(StandardScaler()).fit(rows)
    np.testing.assert_allclose(model.estimator_.mean_, rows.mean(axis=0))
    assert model.estimator_.n_samples_seen_ == 2100


def test_several_outputs():
    outputs = np.stack([C, C[::-1]], axis=1)
    base = MultiOutputClassifier(SGDClassifier(random_state=0))
    model = dk.IncrementalWrapper(base, random_state=0).fit(LAZY, outputs)
    assert [classes.tolist() for classes in model.classes_] == [np.unique(C).tolist()] * 2
    assert model.predict(LAZY).shape == (N, 2)
    x, labels = make_multilabel_classification(random_state=0)
    network = dk.IncrementalWrapper(MLPClassifier(random_state=0, learning_rate_init=0.05), n_epochs=60)
    assert (network.fit(x, labels).predict(x) == labels).mean() > 0.8


class SmoothedMeans(BaseEstimator):
    """Estimator of another library: no tags, no ``classes`` and no ``sample_weight``; returns None."""

    def partial_fit(self, X, y):
        self.mean_ = 0.5 * getattr(self, "mean_", 0.0) + X.mean(axis=0)


def test_estimators_of_other_libraries():
    model = dk.IncrementalWrapper(SmoothedMeans(), shuffle_blocks=False).fit(LAZY, Y)
    expected = SmoothedMeans()
    for i in range(0, N, ROWS):
        expected.partial_fit(X[i : i + ROWS], None)
    np.testing.assert_array_equal(model.estimator_.mean_, expected.mean_)
    assert not hasattr(model, "predict")
    with pytest.raises(ValueError, match=r"sample_weight must be None, as partial_fit of SmoothedMeans"):
        model.fit(LAZY, Y, W)


def test_in_pipelines_and_searches(tmp_path):
    sets, _ = dk.datasets.make_cells(60, random_state=0)
    means = np.array([points[:, 0].mean() for points in sets])
    y = np.where(means > np.median(means), "high", "low")
    store = dk.write_sets(tmp_path / "s.zarr", sets, targets=y)
    wrapper = dk.IncrementalWrapper(SGDClassifier(random_state=0), n_epochs=20, random_state=0)
    model = make_pipeline(dk.MomentEmbedding(), StandardScaler(), wrapper).fit(sets, y)
    assert model.score(sets, y) > 0.9
    lazy = make_pipeline(dk.MomentEmbedding(), wrapper).fit(store, y)
    np.testing.assert_array_equal(
        np.asarray(lazy.predict(store)),
        make_pipeline(dk.MomentEmbedding(), wrapper).fit(sets, y).predict(sets),
    )
    search = GridSearchCV(wrapper, {"estimator__alpha": [1e-4, 1.0]}, cv=2).fit(X, C)
    assert len(search.cv_results_["params"]) == 2


def test_lazy_targets_and_masks():
    y, w = da.from_array(C, chunks=40), dd.from_pandas(pd.Series(W), npartitions=2)
    wrapper = dk.IncrementalWrapper(SGDClassifier(random_state=0), random_state=0)
    expected = wrapper.fit(LAZY, C, W).estimator_.coef_
    np.testing.assert_array_equal(wrapper.fit(LAZY, y, w).estimator_.coef_, expected)
    is_used = LAZY[:, 0] > 0
    with pytest.raises(ValueError, match=r"known length.*compute_chunk_sizes"):
        wrapper.fit(LAZY[is_used], C)
    first_only = da.concatenate([LAZY[:0], LAZY[:40], LAZY[40:40], LAZY[40:]])  # chunks without rows
    np.testing.assert_array_equal(wrapper.fit(first_only, C, W).n_features_in_, 4)


def test_invalid_arguments():
    wrapper = dk.IncrementalWrapper(SGDClassifier())
    with pytest.raises(ValueError, match=r"y must have one target for each of the 90 rows of X; got 89"):
        wrapper.fit(LAZY, C[:-1])
    with pytest.raises(ValueError, match=r"at least 2 classes"):
        wrapper.fit(LAZY, np.zeros(N))
    with pytest.raises(ValueError, match=r"requires y to be passed"):
        wrapper.fit(LAZY)
    with pytest.raises(ValueError, match=r"Call X\.to_dask_array\(lengths=True\)"):
        wrapper.fit(dd.from_pandas(pd.DataFrame(X), npartitions=2), C)
    with pytest.raises(ValueError, match=r"must be rows of features; got sample sets"):
        wrapper.fit(dk.SampleSets.from_arrays([X]), C[:1])
    with pytest.raises(ValueError, match=r"X has 3 features, but IncrementalWrapper is expecting 4"):
        wrapper.fit(LAZY, C).predict(LAZY[:, :3])
    for name, value in (("n_epochs", 0), ("estimator", Ridge()), ("shuffle_blocks", 2)):
        with pytest.raises(ValueError, match=f"'{name}' parameter of IncrementalWrapper"):
            clone(wrapper).set_params(**{name: value}).fit(LAZY, C)


def test_progress(capsys):
    dk.IncrementalWrapper(StandardScaler(), n_epochs=3, verbose=True).fit(LAZY)
    assert "fit StandardScaler: 12 blocks in" in capsys.readouterr().err
