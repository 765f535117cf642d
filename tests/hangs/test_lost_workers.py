"""Lost or stopped workers during a run: other workers continue, or the run raises with the remedy."""

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
    outcomes: list[Any] = []

    def work() -> None:
        try:
            outcomes.append(model().fit(features, Y).coef_)
        except Exception as error:
            outcomes.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, outcomes


def wait_until(condition: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_run_without_workers_raises_and_keeps_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "WORKER_CHECK_SECONDS", 0.2)
    with (
        dask.config.set({"dkdist.wait-for-workers": "1s"}),
        LocalCluster(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
    ):
        thread, outcomes = fit_in_a_thread(lazy(0.05))
        wait_until(lambda: cluster.scheduler.tasks)
        cluster.scale(0)
        thread.join(60)
        assert not thread.is_alive()
    (error,) = outcomes
    assert isinstance(error, TimeoutError)
    assert "has had no worker for 1 s" in str(error)
    assert "checkpoints remain valid" in str(error)


def test_run_continues_with_a_new_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = model().fit(lazy(0.0), Y).coef_
    monkeypatch.setattr(waiting, "WORKER_CHECK_SECONDS", 0.2)
    with (
        LocalCluster(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
    ):
        thread, outcomes = fit_in_a_thread(lazy(0.02))
        wait_until(lambda: cluster.scheduler.tasks)
        cluster.scale(0)
        wait_until(lambda: not cluster.scheduler.workers)
        time.sleep(0.5)
        cluster.scale(1)
        thread.join(60)
        assert not thread.is_alive()
    np.testing.assert_array_equal(outcomes[0], expected)


@pytest.mark.chaos
@pytest.mark.parametrize("is_resumed", [False, True])
def test_run_continues_without_a_stopped_worker(is_resumed: bool) -> None:
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
        model().fit(lazy(0.0), Y)  # all workers are checked and loaded
        thread, outcomes = fit_in_a_thread(lazy(0.2))
        wait_until(lambda: any("sgd_block" in str(key) for key in cluster.scheduler.tasks))
        pid = next(iter(cluster.workers.values())).pid
        os.kill(pid, signal.SIGSTOP)
        if is_resumed:
            time.sleep(9)
            os.kill(pid, signal.SIGCONT)
        thread.join(180)
        assert not thread.is_alive()
    np.testing.assert_array_equal(outcomes[0], expected)


@pytest.mark.chaos
def test_worker_stopped_before_a_run_does_not_block_it() -> None:
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
        thread, outcomes = fit_in_a_thread(lazy(0.05))
        thread.join(150)
        assert not thread.is_alive()
    np.testing.assert_array_equal(outcomes[0], expected)
