"""A pipeline from a store to a score gives bit-identical coefficients on all schedulers."""

from __future__ import annotations

import numpy as np
import pytest
from distributed import Client, LocalCluster
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

import dkdist as dk


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of 1,200 sets of 20 to 60 points; the class is the number of clusters, one or two."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1200)
    sets = []
    for has_two_clusters in y:
        n = int(rng.integers(20, 60))
        centres = rng.uniform(0.25, 0.75, (2, 2))
        sets.append(centres[rng.integers(0, 2, n) * has_two_clusters] + 0.05 * rng.standard_normal((n, 2)))
    path = str(tmp_path_factory.mktemp("road") / "bags.zarr")
    dk.write_sets(path, sets, targets=y)
    return path


def fit_and_score(
    store: str, block_sets: int | None = None, **learner: object
) -> tuple[NDArray[np.float32], float]:
    sets = dk.open_sets(store, block_sets=block_sets)
    y = sets.targets["y"]
    model = make_pipeline(
        dk.DivergenceEmbedding("jensen-shannon"),
        dk.RandomFourierFeatures(500, random_state=0),
        dk.IncrementalSGDClassifier(n_epochs=5, random_state=0, **learner),
    )
    score = model.fit(sets[:1000], y[:1000]).score(sets[1000:], y[1000:])
    return model[-1].coef_, score


@pytest.fixture(scope="module")
def local_result(store: str) -> tuple[NDArray[np.float32], float]:
    return fit_and_score(store, block_sets=150)


def test_pipeline_learns(local_result: tuple[NDArray[np.float32], float]) -> None:
    assert local_result[1] > 0.85  # the classes have equal frequencies


def test_in_process_cluster_gives_identical_results(
    store: str, local_result: tuple[NDArray[np.float32], float]
) -> None:
    with Client(processes=False, dashboard_address="127.0.0.1:0"):
        coef, score = fit_and_score(store, block_sets=150)
    np.testing.assert_array_equal(coef, local_result[0])
    assert score == local_result[1]


def test_two_worker_processes_give_identical_results(
    store: str, local_result: tuple[NDArray[np.float32], float], worker_processes: LocalCluster
) -> None:
    with Client(worker_processes):
        coef, score = fit_and_score(store, block_sets=150)
        coef_of_two_replicas, _ = fit_and_score(store, block_sets=150, n_lanes=2)
    np.testing.assert_array_equal(coef, local_result[0])
    assert score == local_result[1]
    np.testing.assert_array_equal(coef_of_two_replicas, fit_and_score(store, block_sets=150, n_lanes=2)[0])


def test_features_of_memory_and_store_are_identical(store: str) -> None:
    """Features are identical, so predictions differ only by the order of SGD blocks."""
    sets = dk.open_sets(store)
    embedding = dk.DivergenceEmbedding("jensen-shannon").fit(sets)
    features = dk.RandomFourierFeatures(100, random_state=0).fit(embedding.transform(sets))
    lazy = features.transform(embedding.transform(sets)).compute()
    np.testing.assert_array_equal(lazy, features.transform(embedding.transform(sets.load())))


def test_ridge_is_identical_on_a_cluster(store: str) -> None:
    sets = dk.open_sets(store, block_sets=100)
    A = dk.DivergenceEmbedding("hellinger").fit(sets).transform(sets)
    local = dk.IncrementalRidge(alphas=[0.1, 1.0], random_state=0).fit(A, sets.targets["y"]).coef_
    with Client(processes=False, dashboard_address="127.0.0.1:0"):
        cluster = dk.IncrementalRidge(alphas=[0.1, 1.0], random_state=0).fit(A, sets.targets["y"]).coef_
    np.testing.assert_array_equal(local, cluster)


def test_cross_validation_of_memory_and_store_agree(store: str) -> None:
    from sklearn.model_selection import cross_val_score

    sets = dk.open_sets(store)
    model = make_pipeline(
        dk.DivergenceEmbedding(domain=(-0.5, 1.5)), dk.IncrementalRidgeClassifier(alphas=[0.1])
    )
    y = sets.targets["y"]
    stored = cross_val_score(model, sets, y, cv=3)
    np.testing.assert_allclose(cross_val_score(model, sets.load(), y, cv=3), stored)
    assert stored.mean() > 0.8
