"""Lazy features are plain dask arrays: Dask, dask-ml, XGBoost, LightGBM and scikit-learn compute with them."""

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB

import dkdist as dk

N, BLOCK = 100, 32


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """Return lazy features of a store, their values, and two classes that a linear model separates."""
    rng = np.random.default_rng(0)
    y = rng.permutation(N) % 2
    sets = [rng.normal(label, 0.5, (20, 2)).astype("f4") for label in y]
    path = tmp_path_factory.mktemp("features") / "sets.zarr"
    dk.write_sets(path, sets)
    store = dk.open_sets(path, block_sets=BLOCK)
    embedding = dk.MomentEmbedding(2).fit(sets)
    features = dk.RandomFourierFeatures(40, sigma=2.0, random_state=0).fit(embedding.transform(sets))
    return features.transform(embedding.transform(store)), features.transform(embedding.transform(sets)), y


@pytest.fixture(scope="module")
def client():
    with Client(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
    ) as active:
        yield active


def zarr_copy(X, folder):
    X.to_zarr(str(folder / "copy.zarr"))
    return da.from_zarr(str(folder / "copy.zarr"))


def masked(X, rows):
    return X[da.from_array(rows, chunks=X.chunks[0])].compute_chunk_sizes()


IS_USED = np.arange(N) % 3 > 0
OPERATIONS = {
    "none": (lambda X, folder: X, slice(None)),
    "persist": (lambda X, folder: X.persist(), slice(None)),
    "rechunk": (lambda X, folder: X.rechunk((17, 9)), slice(None)),
    "mask": (lambda X, folder: X[IS_USED], IS_USED),
    "lazy mask": (lambda X, folder: masked(X, IS_USED), IS_USED),
    "slice": (lambda X, folder: X[5:70], slice(5, 70)),
    "to_zarr": (zarr_copy, slice(None)),
    "map_blocks": (lambda X, folder: X.map_blocks(np.positive), slice(None)),
    "optimize": (lambda X, folder: dask.optimize(X)[0], slice(None)),
    "concatenate": (lambda X, folder: da.concatenate([X[:40], X[40:]]), slice(None)),
}


@pytest.mark.parametrize("second", ["none", "persist", "rechunk", "map_blocks"])
@pytest.mark.parametrize("first", OPERATIONS)
def test_chunks_and_meta_are_known(first, second, task, tmp_path):
    X, values, y = task
    operation, rows = OPERATIONS[first]
    result = OPERATIONS[second][0](operation(X, tmp_path), tmp_path)
    values, y = values[rows], y[rows]
    assert type(result) is da.Array
    assert result.shape == values.shape
    assert not np.isnan(np.concatenate(result.chunks)).any()
    assert (result.dtype, result._meta.dtype, type(result._meta)) == (np.float32, np.float32, np.ndarray)
    np.testing.assert_array_equal(result.compute(), values)
    # learners of this library read the result block by block
    assert dk.IncrementalRidgeClassifier(1.0).fit(result, y).score(result, y) > 0.9


def test_reductions_and_linear_algebra_of_dask(task):
    X, values, _ = task
    np.testing.assert_allclose(X.mean(axis=0), values.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose((X.T @ X).compute(), values.T @ values, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(da.linalg.svd(X)[1], np.linalg.svd(values)[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "estimator", [SGDClassifier(random_state=0), GaussianNB(), MiniBatchKMeans(2, n_init=1)]
)
def test_incremental_learners_of_scikit_learn(estimator, task):
    X, values, y = task
    options = {} if isinstance(estimator, MiniBatchKMeans) else {"classes": [0, 1]}
    for i, block in enumerate(X.blocks):
        rows = block.compute()
        estimator.partial_fit(rows, y[BLOCK * i : BLOCK * i + len(rows)], **options)
    predicted = estimator.predict(values)
    accuracy = (predicted == y).mean()
    assert max(accuracy, 1 - accuracy) > 0.9  # clusters have no order
    np.testing.assert_array_equal(dk.lazy_predict(estimator, X), predicted)


def test_dask_ml(task, client):
    wrappers = pytest.importorskip("dask_ml.wrappers")
    X, values, y = task
    targets = da.from_array(y, chunks=X.chunks[0])
    model = wrappers.Incremental(SGDClassifier(random_state=0)).fit(X, targets, classes=[0, 1])
    assert (model.predict(X).compute() == y).mean() > 0.9
    forest = wrappers.ParallelPostFit(GaussianNB().fit(values, y))
    np.testing.assert_array_equal(forest.predict(X).compute(), GaussianNB().fit(values, y).predict(values))


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("library", ["xgboost.dask.DaskXGBClassifier", "lightgbm.DaskLGBMClassifier"])
def test_boosted_trees_on_a_cluster(library, task, client):
    module, _, name = library.rpartition(".")
    Model = getattr(pytest.importorskip(module), name)
    X, _, y = task
    for x in (X, X.persist()):
        model = Model(n_estimators=5).fit(x, da.from_array(y, chunks=x.chunks[0]))
        assert (np.asarray(model.predict(x)) == y).mean() > 0.9
