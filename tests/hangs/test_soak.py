"""Many runs through one client leave no objects in this process or on the scheduler."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import psutil
import pytest
from distributed import Client, LocalCluster
from distributed.metrics import time as distributed_time
from threadpoolctl import threadpool_info, threadpool_limits

from dkdist._runtime import dashboard as stages

from . import problem


def counts(cluster: Any, client: Any) -> dict[str, int]:
    gc.collect()
    scheduler = cluster.scheduler
    return {
        "threads": threading.active_count(),
        "files": psutil.Process().num_fds(),
        "futures": len(client.futures),
        "tasks": len(scheduler.tasks),
        "plugins": len(scheduler.plugins),
        "prefixes": len(scheduler.task_prefixes),
        "groups": len(scheduler.task_groups),
        "clients": len(scheduler.clients),
        "spans": len(scheduler.extensions["spans"].spans),
        "groups of spans": sum(len(span.groups) for span in scheduler.extensions["spans"].spans.values()),
    }


def settle(scheduler: Any) -> None:
    """Wait until the scheduler has no tasks and has heard from all workers afterwards."""
    end = time.monotonic() + 60
    while scheduler.tasks and time.monotonic() < end:
        gc.collect()  # futures in reference cycles
        time.sleep(0.2)
    idle = distributed_time()
    while (
        min(w.last_seen for w in scheduler.workers.values()) < idle + stages.HEARTBEAT_GRACE_SECONDS
        and time.monotonic() < end
    ):
        time.sleep(0.05)


def soak(
    runs: int, every: int, monkeypatch: pytest.MonkeyPatch, path: Any
) -> list[tuple[dict[str, int], int]]:
    """Return object counts and resident bytes after each ``every`` runs."""
    monkeypatch.setattr(stages, "MAX_SPANS", 4)
    monkeypatch.setattr(stages, "HEARTBEAT_GRACE_SECONDS", 1.5)  # workers here report every half second
    monkeypatch.setenv("DKDIST_TEST_STORE", str(path))
    problem.write(path)
    result = []
    with (
        LocalCluster(
            processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        for run in range(1, runs + 1):
            problem.fit()
            if run % every == 0:
                settle(cluster.scheduler)
                problem.fit()  # releases finished runs
                settle(cluster.scheduler)
                result.append((counts(cluster, client), psutil.Process().memory_info().rss))
    return result


def check_counts_are_constant(result: list[tuple[dict[str, int], int]]) -> None:
    first, last = result[0][0], result[-1][0]
    # A fit has five spans, which a late heartbeat keeps for two more fits; six fits that leave theirs have 30 more.
    tolerances = {"threads": 8, "files": 16, "spans": 10, "groups of spans": 12, "tasks": 12, "groups": 6}
    for name, count in last.items():
        assert count <= first[name] + tolerances.get(name, 0), (name, first, last)


def test_ten_runs_release_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    check_counts_are_constant(soak(10, 5, monkeypatch, tmp_path / "bags.zarr"))


@pytest.mark.chaos
def test_five_hundred_runs_release_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    result = soak(500, 100, monkeypatch, tmp_path / "bags.zarr")
    check_counts_are_constant(result)
    assert result[-1][1] < result[1][1] + 100 * 2**20


def test_runs_in_several_threads_restore_blas_threads() -> None:
    from dkdist._runtime.process import one_blas_thread

    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before
        assert set(before) == {2}
