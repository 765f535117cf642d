"""Lanes on threads and clusters: one result for every way to run them, and n_lanes="auto"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client

from dkdist import IncrementalRidge, IncrementalSGDClassifier
from dkdist.linear import epochs, lanes
from tests.simulated_kill import SimulatedKill, kill_after_saves

RNG = np.random.default_rng(0)
X = RNG.standard_normal((700, 6)).astype("f4")
C = (X @ RNG.standard_normal(6) > 0).astype(int)
LAZY = da.from_array(X, chunks=(20, -1))


def bits(model: Any) -> bytes:
    return b"".join(
        np.ascontiguousarray(a).tobytes()
        for a in (model.coef_, model.intercept_, model.loss_curve_, model.validation_loss_curve_)
    )


@pytest.fixture(scope="module")
def two_workers() -> Any:
    with Client(
        processes=False,
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        set_as_default=False,
    ) as client:
        yield client


@pytest.mark.parametrize("n_lanes", [2, 3, 5])
def test_lanes_in_turn_and_in_parallel_give_identical_results(
    two_workers: Any, monkeypatch: Any, n_lanes: int
) -> None:
    model = IncrementalSGDClassifier(n_epochs=3, n_lanes=n_lanes, validation_fraction=0.1, random_state=0)
    expected = bits(model.fit(LAZY, C))
    assert model.n_lanes_ == n_lanes
    folds, rounds = list[int](), list[int]()
    for name, calls in (("fold", folds), ("run_rounds", rounds)):
        function = getattr(lanes, name)
        monkeypatch.setattr(
            lanes,
            name,
            lambda *a, calls=calls, function=function, **k: calls.append(1) or function(*a, **k),
        )
    with two_workers.as_current():
        assert bits(model.fit(LAZY, C)) == expected
        assert (len(folds), len(rounds)) == (1, 0)  # three epochs of short tasks are one fold
        monkeypatch.setattr(epochs, "ROUND_OVERHEAD_BYTES", 1)
        assert bits(model.fit(LAZY, C)) == expected
        assert (len(folds), len(rounds)) == (1, 1)  # and one graph
        monkeypatch.setattr(lanes, "MAX_GRAPH_BATCHES", 4)
        assert bits(model.fit(LAZY, C)) == expected
        assert len(rounds) > 2


def test_lanes_in_turn_resume_from_the_last_average(
    two_workers: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("dkdist._runtime.map_reduce.MAX_GRAPH_JOBS", 3)
    model = IncrementalSGDClassifier(n_epochs=3, n_lanes=3, random_state=0)
    expected = bits(model.fit(LAZY, C))
    kill_after_saves(monkeypatch, [2])
    model.set_params(checkpoint=tmp_path / "run")
    with two_workers.as_current():
        with pytest.raises(SimulatedKill):
            model.fit(LAZY, C)
        assert bits(model.fit(LAZY, C)) == expected


def test_auto_is_a_lane_per_core_for_large_features(monkeypatch: Any, tmp_path: Path) -> None:
    model = IncrementalSGDClassifier(n_epochs=2, n_lanes="auto", random_state=0)
    with dask.config.set(num_workers=2):
        assert model.fit(LAZY, C).n_lanes_ == 1  # 17 KB of features
        one_lane = bits(model)
        monkeypatch.setattr(epochs, "ROUND_OVERHEAD_BYTES", 100)
        model.set_params(checkpoint=tmp_path).fit(LAZY, C)
        assert model.n_lanes_ == 2
    assert bits(IncrementalSGDClassifier(n_epochs=2, random_state=0).fit(LAZY, C)) == one_lane
    two_lanes = IncrementalSGDClassifier(n_epochs=2, n_lanes=2, random_state=0).fit(LAZY, C)
    assert bits(two_lanes) == bits(model)
    with dask.config.set(num_workers=1):  # a checkpoint contains the number
        assert model.fit(LAZY, C).n_lanes_ == 2
        assert bits(model) == bits(two_lanes)
        assert model.set_params(checkpoint=None).fit(LAZY, C).n_lanes_ == 1


def test_invalid_n_lanes_is_refused() -> None:
    for n_lanes in (0, "all"):
        with pytest.raises(ValueError, match="n_lanes"):
            IncrementalSGDClassifier(n_lanes=n_lanes).fit(X, C)


def test_ridge_on_a_cluster_equals_threads(two_workers: Any) -> None:
    y = X @ np.arange(6.0)
    lazy = da.from_array(X, chunks=(10, -1))  # 70 blocks: tasks of a cluster are subtrees
    expected = IncrementalRidge(random_state=0).fit(lazy, y)
    with two_workers.as_current():
        model = IncrementalRidge(random_state=0).fit(lazy, y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.alpha_errors_, expected.alpha_errors_)
