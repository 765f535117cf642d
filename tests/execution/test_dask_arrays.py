"""Functions give identical results for all kinds of dask arrays: lazy, persisted, of futures, and others."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask._task_spec import Task, TaskRef
from dask.distributed import Client
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist._runtime.blocks import Job, row_blocks
from dkdist._runtime.map_reduce import map_blocks, tree_sum

N, D, ROWS = 96, 2, 32
X = np.random.default_rng(0).normal(size=(N, D)).astype("f4")
Y = X @ [1.0, -0.5]
C = (Y > 0).astype(int)
LAZY = da.from_array(X, chunks=(ROWS, D))
PARTS = [X[a : a + ROWS] for a in range(0, N, ROWS)]


@pytest.fixture(scope="module")
def client():
    with Client(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
    ) as active:
        yield active


def concatenate_parts(parts):
    return da.concatenate([da.from_delayed(part, (ROWS, D), "f4") for part in parts])


def optimized(client):  # the graph has no futures, only the global array has
    global persisted
    persisted = LAZY.persist()
    return dask.optimize(persisted * 2 / 2 + 0)[0]


def filtered(client):
    X_and_more = da.concatenate([LAZY, LAZY[:7] + 1]).persist()
    return X_and_more[da.arange(N + 7, chunks=X_and_more.chunks[0]) < N].compute_chunk_sizes()


def from_data_frame(client):
    return dd.from_pandas(pd.DataFrame(X), npartitions=3, sort=False).persist().to_dask_array(lengths=True)


KINDS = {
    "lazy": lambda client: LAZY,
    "persisted": lambda client: LAZY.persist(),
    "persisted by threads": lambda client: LAZY.persist(scheduler="threads"),
    "persisted columns": lambda client: LAZY.rechunk((ROWS, 1)).persist(),
    "derived": lambda client: LAZY.persist() * 2 / 2,
    "optimized": optimized,
    "rechunked": lambda client: LAZY.rechunk((20, 1)).persist().rechunk((ROWS, D)),
    "rows": lambda client: da.concatenate([LAZY + 1, LAZY, LAZY]).persist()[N : 2 * N],
    "mapped rows": lambda client: (
        dk.RandomFourierFeatures(4, sigma=1.0, random_state=0).fit(X).transform(LAZY.persist())[:ROWS]
    ),
    "filtered": filtered,
    "scattered": lambda client: concatenate_parts(client.scatter(PARTS)),
    "futures": lambda client: concatenate_parts([client.submit(PARTS.__getitem__, i) for i in range(3)]),
    "delayed of futures": lambda client: concatenate_parts(
        [dask.delayed(np.add)(client.submit(PARTS.__getitem__, i), np.float32(0)) for i in range(3)]
    ),
    "delayed of lists of futures": lambda client: concatenate_parts(
        [dask.delayed(sum)([client.submit(PARTS.__getitem__, i), np.float32(0)]) for i in range(3)]
    ),
    "data frame": from_data_frame,
}

LEARNERS = {
    "IncrementalRidgeClassifier": dk.IncrementalRidgeClassifier(alphas=[1.0]),
    "IncrementalRidge": dk.IncrementalRidge(),
    "IncrementalSGDClassifier": dk.IncrementalSGDClassifier(n_epochs=2, random_state=0),
    "IncrementalSGDRegressor": dk.IncrementalSGDRegressor(n_epochs=2, n_lanes=2, random_state=0),
}


def targets(learner):
    return C if "Classifier" in type(learner).__name__ else Y


def fit_coefficients(learner):
    return lambda x: learner.fit(x, targets(learner)).coef_


def partial_fit_coefficients(learner):
    names = {"classes": [0, 1]} if targets(learner) is C else {}
    return lambda x: type(learner)(random_state=0).partial_fit(x, targets(learner), **names).coef_


def predictions(learner):
    def predict_and_score(x):
        with dask.config.set(scheduler="threads"):
            learner.fit(LAZY, targets(learner))
        values = [learner.predict(x), learner.score(x, targets(learner))]
        return np.append(*values) if targets(learner) is Y else np.append(values[0], learner.predict_proba(x))

    return predict_and_score


def search_scores(x):
    pipeline = make_pipeline(
        dk.RandomFourierFeatures(4, sigma=1.0, random_state=0), dk.IncrementalRidgeClassifier(alphas=[1.0])
    )
    search = dk.OnePassSearch(
        pipeline, {"incrementalridgeclassifier__alphas": [[1.0], [2.0]]}, random_state=0
    )
    return np.append(search.fit(x, C).cv_results_["mean_test_score"], search.decision_function(x))


def write_features(x, folder):
    return dk.write_features(folder / "features.zarr", x).compute(scheduler="threads")


def fit_with_cache(x, folder):
    return dk.IncrementalSGDClassifier(n_epochs=2, cache=folder, random_state=0).fit(x, C).coef_


def fit_with_checkpoint(x, folder):
    learner = dk.IncrementalSGDClassifier(n_epochs=2, checkpoint=folder / "run", random_state=0)
    return np.append(learner.fit(x, C).coef_, learner.fit(x, C).coef_)


def median_features(x):
    return dk.RandomFourierFeatures(4, sigma="median", random_state=0).fit(x).transform(x)


ENTRIES = {
    **{f"{name}.fit": fit_coefficients(learner) for name, learner in LEARNERS.items()},
    **{f"{name}.partial_fit": partial_fit_coefficients(learner) for name, learner in LEARNERS.items()},
    **{f"{name}.predict": predictions(learner) for name, learner in LEARNERS.items()},
    "RandomFourierFeatures": median_features,
    "OnePassSearch": search_scores,
    "write_features": write_features,
    "cache": fit_with_cache,
    "checkpoint": fit_with_checkpoint,
    "NearestSets": lambda x: np.concatenate(dk.NearestSets(2).fit(x).kneighbors(x)),
    "coreset": lambda x: dk.coreset(x, 5, sigma=1.0, random_state=0).indices,
    "weighted coreset": lambda x: dk.coreset(x, 5, sigma=1.0, weights=x[:, 0] ** 2, random_state=0).weights,
    "kernel_distance": lambda x: dk.kernel_distance(x, x + 1, sigma=1.0),
    "two_sample_test": lambda x: dk.two_sample_test(x, X + 1, n_permutations=19, random_state=0).statistic,
}


def compute_entry(name, x, folder):
    entry = ENTRIES[name]
    return np.asarray(
        entry(x, folder) if entry in (write_features, fit_with_cache, fit_with_checkpoint) else entry(x)
    )


@pytest.mark.parametrize("name", ENTRIES)
def test_arrays_on_a_cluster_match_lazy_arrays(name, client, tmp_path):
    for folder_name, kind in (("a", "persisted"), ("b", "rechunked"), ("c", "delayed of futures")):
        (tmp_path / folder_name).mkdir()
        actual = compute_entry(name, KINDS[kind](client), tmp_path / folder_name)
        (tmp_path / folder_name / "here").mkdir()
        with dask.config.set(scheduler="threads"):
            expected = compute_entry(name, LAZY, tmp_path / folder_name / "here")
        np.testing.assert_array_equal(actual, expected, err_msg=kind)


@pytest.mark.parametrize("name", ENTRIES)
def test_rows_in_memory_are_accepted(name, tmp_path):
    with dask.config.set(scheduler="threads"):
        assert np.isfinite(compute_entry(name, X, tmp_path)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_arrays_give_identical_rows(kind, client):
    x = KINDS[kind](client)
    whole = x.compute()
    if kind != "mapped rows":
        np.testing.assert_array_equal(whole, X)
    for config in ({}, {"scheduler": "threads"}):  # on the cluster, and in this process
        with dask.config.set(config):
            output = map_blocks(row_blocks(x), np.add, np.zeros(len(x.chunks[0]), np.float32))
            np.testing.assert_array_equal(np.concatenate(output), whole)
            jobs = [Job((i,)) for i in range(len(output))]
            total = tree_sum(row_blocks(x), jobs, sum_of_block, np.add, window=2)
            np.testing.assert_allclose(total, whole.sum(axis=0), rtol=1e-5)  # sum of N float32 rows


def sum_of_block(blocks, extra):
    return next(blocks).sum(axis=0)


UNKNOWN = LAZY[LAZY[:, 0] > -9]
CALLS_BY_PARAMETER = {
    "X": [
        *[lambda x, model=model: model.fit(x, targets(model)) for model in LEARNERS.values()],
        *[lambda x, model=model: model.partial_fit(x, targets(model)) for model in LEARNERS.values()],
        *[lambda x, model=model: model.fit(X, targets(model)).predict(x) for model in LEARNERS.values()],
        *[lambda x, model=model: model.fit(X, targets(model)).score(x, Y) for model in LEARNERS.values()],
        lambda x: dk.RandomFourierFeatures(4, sigma=1.0).fit(x),
        lambda x: dk.RandomFourierFeatures(4, sigma=1.0).fit(X).transform(x),
        lambda x: dk.NearestSets(2).fit(x),
        search_scores,
    ],
    "features": [lambda x: dk.write_features({}, x)],
    "P": [
        lambda x: dk.coreset(x, 5, sigma=1.0),
        lambda x: dk.kernel_distance(x, LAZY, sigma=1.0),
        lambda x: dk.two_sample_test(x, X),
    ],
    "Q": [lambda x: dk.kernel_distance(LAZY, x, sigma=1.0), lambda x: dk.two_sample_test(X, x)],
    "weights": [lambda x: dk.coreset(LAZY, 5, sigma=1.0, weights=x[:, 0])],
}


@pytest.mark.parametrize("name", CALLS_BY_PARAMETER)
def test_chunks_of_unknown_length_raise(name):
    for call in CALLS_BY_PARAMETER[name]:
        with pytest.raises(
            ValueError,
            match=rf"{name} must have chunks of known length.* Call {name}\.compute_chunk_sizes\(\)",
        ):
            call(UNKNOWN)


TARGET_KINDS = {
    "array": lambda y: da.from_array(y, chunks=50),
    "persisted array": lambda y: da.from_array(y, chunks=50).persist(),
    "unknown chunks": lambda y: (lambda lazy: lazy[lazy < np.inf])(da.from_array(y, chunks=50)),
    "Series": lambda y: dd.from_pandas(pd.Series(y), npartitions=3),
}


@pytest.mark.parametrize("kind", TARGET_KINDS)
@pytest.mark.parametrize("name", LEARNERS)
def test_lazy_targets_and_weights(name, kind):
    model, weights = LEARNERS[name], np.linspace(0.5, 2.0, N)
    y, w = (TARGET_KINDS[kind](values) for values in (targets(model), weights))
    for x in (X, LAZY):
        expected = model.fit(x, targets(model), weights).coef_, model.score(x, targets(model), weights)
        assert np.array_equal(model.fit(x, y, w).coef_, expected[0])
        assert model.score(x, y, w) == expected[1]


def test_lazy_series_is_aligned_by_its_index():
    ids = [f"s{i:02d}" for i in range(N)]
    sets = dk.SampleSets.from_arrays(list(X[:, None]), ids=ids)
    series = pd.Series(C, index=ids)[::-1]
    lazy = dd.from_pandas(series, npartitions=3, sort=False)
    assert np.array_equal(sets.labelled(targets=lazy).targets["y"], C)
    assert np.array_equal(sets.labelled(targets={"y": lazy}).targets["y"], C)
    pipelines = [
        make_pipeline(*steps, dk.IncrementalRidgeClassifier(alphas=[1.0]))
        for steps in (
            [dk.MomentEmbedding()],
            [dk.MomentEmbedding(), dk.RandomFourierFeatures(4, random_state=0)],
        )
    ]
    for pipeline in pipelines:
        expected = pipeline.fit(sets, C)[-1].coef_
        assert np.array_equal(pipeline.fit(sets, lazy)[-1].coef_, expected)
    with pytest.raises(ValueError, match="another order"):  # a step that ignores the index
        make_pipeline(dk.MomentEmbedding(), LogisticRegression()).fit(sets, lazy)


def test_persisted_arrays_of_other_or_closed_clusters_raise():
    cluster_options = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": "127.0.0.1:0",
    }
    with Client(**cluster_options, set_as_default=False) as other:
        x = other.persist(LAZY)
        with (
            Client(**cluster_options),
            pytest.raises(ValueError, match=r"persisted on the cluster at .* but the active client"),
        ):
            dk.IncrementalRidge().fit(x, Y)
    with pytest.raises(ValueError, match=r"which is cancelled.* Persist it again"):
        dk.IncrementalRidge().fit(x, Y)


def test_array_with_incomplete_graph_raises():
    graph = {("rows", 0, 0): Task(("rows", 0, 0), np.negative, TaskRef("lost"))}
    broken = da.Array(graph, "rows", ((ROWS,), (D,)), dtype="f4")
    with pytest.raises(ValueError, match=r"needs .*'lost'.* which its graph does not contain"):
        row_blocks(broken)
