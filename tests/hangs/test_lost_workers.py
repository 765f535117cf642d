"""Workers that go away or stop in the middle of a run: others go on, or the run ends with what to do."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import dkdist as dk
from dkdist._runtime import cluster as waiting

X = np.random.default_rng(0).standard_normal((400, 10)).astype("f4")
Y = (X[:, 0] > 0).astype(int)


def lazy(seconds: float) -> Any:
    def wait(block: np.ndarray) -> np.ndarray:
        time.sleep(seconds)
        return block

    return da.from_array(X, chunks=(10, -1)).map_blocks(wait, dtype=X.dtype, name=f"slow-{seconds}")


def model(**parameters: Any) -> Any:
    return dk.IncrementalSGDClassifier(n_epochs=2, random_state=0, **parameters)


def fit_in_a_thread(features: Any) -> tuple[threading.Thread, list[Any]]:
    ended: list[Any] = []

    def work() -> None:
        try:
            ended.append(model().fit(features, Y).coef_)
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, ended


def until(true: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_run_that_lost_all_workers_ends_with_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "WORKER_CHECK_SECONDS", 0.2)
    with (
        dask.config.set({"dkdist.wait-for-workers": "1s"}),
        LocalCluster(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
    ):
        thread, ended = fit_in_a_thread(lazy(0.05))
        until(lambda: cluster.scheduler.tasks)
        cluster.scale(0)
        thread.join(60)
        assert not thread.is_alive()
    (error,) = ended
    assert isinstance(error, TimeoutError)
    assert "has had no worker for 1 s" in str(error)
    assert "checkpoints remain valid" in str(error)


def test_a_run_goes_on_with_a_worker_that_joins_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = model().fit(lazy(0.0), Y).coef_
    monkeypatch.setattr(waiting, "WORKER_CHECK_SECONDS", 0.2)
    with (
        LocalCluster(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
    ):
        thread, ended = fit_in_a_thread(lazy(0.02))
        until(lambda: cluster.scheduler.tasks)
        cluster.scale(0)
        until(lambda: not cluster.scheduler.workers)
        time.sleep(0.5)
        cluster.scale(1)
        thread.join(60)
        assert not thread.is_alive()
    np.testing.assert_array_equal(ended[0], expected)


@pytest.mark.chaos
@pytest.mark.parametrize("wakes", [False, True])
def test_others_go_on_without_a_stopped_worker(wakes: bool) -> None:
    expected = model().fit(lazy(0.0), Y).coef_
    with (
        dask.config.set({"distributed.scheduler.worker-ttl": "20s"}),
        LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address="127.0.0.1:0", preload=["dkdist.preload"]
        ) as cluster,
        Client(cluster),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RuntimeWarning)
        model().fit(lazy(0.0), Y)  # every worker is asked and loaded
        thread, ended = fit_in_a_thread(lazy(0.2))
        until(lambda: any("sgd_block" in str(key) for key in cluster.scheduler.tasks))
        pid = next(iter(cluster.workers.values())).pid
        os.kill(pid, signal.SIGSTOP)
        if wakes:
            time.sleep(9)
            os.kill(pid, signal.SIGCONT)
        thread.join(180)
        assert not thread.is_alive()
    np.testing.assert_array_equal(ended[0], expected)


@pytest.mark.chaos
def test_a_worker_that_is_stopped_before_a_run_keeps_it_not_waiting() -> None:
    expected = model().fit(lazy(0.0), Y).coef_
    settings = {"distributed.scheduler.worker-ttl": "20s", "dkdist.wait-for-workers": "2s"}
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", preload=["dkdist.preload"]
        ) as cluster,
        Client(cluster),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RuntimeWarning)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGSTOP)
        thread, ended = fit_in_a_thread(lazy(0.05))
        thread.join(150)
        assert not thread.is_alive()
    np.testing.assert_array_equal(ended[0], expected)
