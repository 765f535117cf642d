"""Versions on a cluster are compared before work is sent; a first worker is awaited."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import dkdist as dk
from dkdist._runtime import cluster as versions
from dkdist._runtime import cluster as waiting
from dkdist._runtime.blocks import row_blocks
from dkdist._runtime.cluster import checked_workers
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.process import prepare_worker

from .programs import Programs, until

BLOCKS = row_blocks(da.from_array(np.ones((40, 2)), chunks=(10, 2)))

OTHER_VERSIONS = """
import distributed.versions as versions

versions.own = getattr(versions, "own", versions.get_package_info)
other = {"numba": "0.1", "python": "2.7.18.final.0", "dkdist": None}
versions.get_package_info = lambda packages: {**versions.own(packages), **other}
"""


def total(block: np.ndarray, _: None) -> float:
    return float(block.sum())


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0"
    ) as result:
        yield result


def start_worker(run: Programs, cluster: LocalCluster, *options: str) -> None:
    command = ["dask", "worker", cluster.scheduler_address, "--nthreads", "1", "--no-dashboard", *options]
    run.start(command, expected_output="Registered to")


def test_python_is_compared_up_to_the_minor_version() -> None:
    packages = dict.fromkeys(versions.PACKAGES, "1.0")
    assert versions._compared_versions({**packages, "python": "3.11.7.final.0"})["python"] == ("3.11",)


def test_workers_are_inspected_once_per_client(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[list[str]] = []
    inspect = versions._inspect_workers

    async def counting(client: Client, workers: list[str], timeout: float) -> object:
        requested.append(workers)
        return await inspect(client, workers, timeout)

    monkeypatch.setattr(versions, "_inspect_workers", counting)
    first = next(iter(cluster.workers.values())).address
    with Client(cluster):
        for _ in range(2):
            assert map_blocks(BLOCKS, total) == [20.0] * 4
        cluster.scale(2)
        cluster.wait_for_workers(2)
        map_blocks(BLOCKS, total)
    assert [len(workers) for workers in requested] == [1, 1]
    assert requested[0] == [first]
    assert requested[1] != [first]
    with Client(cluster):
        map_blocks(BLOCKS, total)
    assert len(requested) == 3


def test_missing_workers_are_awaited(caplog: pytest.LogCaptureFixture) -> None:
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
        dask.config.set({"dkdist.wait-for-workers": "300ms"}),
        caplog.at_level(logging.WARNING, "dkdist"),
        pytest.raises(
            TimeoutError, match=r"no worker for 0.3 s. To fix: start one with 'dask worker inproc://"
        ) as error,
    ):
        map_blocks(BLOCKS, total)
    assert "'dkdist.wait-for-workers'" in str(error.value)
    assert "has no workers; waiting up to 0.3 s" in caplog.text


@pytest.mark.network
def test_different_versions_raise(cluster: LocalCluster, tmp_path: Path) -> None:
    """One worker matches the client; the other reports another Python, another numba and no dkdist."""
    (tmp_path / "other.py").write_text(OTHER_VERSIONS)
    (good,) = (worker.address for worker in cluster.workers.values())
    with Client(cluster) as client, Programs(tmp_path) as run:
        with (
            pytest.raises(ImportError, match="versions on the cluster differ") as error,
            checked_workers(client),
        ):
            # the worker joins during the work
            start_worker(run, cluster, "--preload", str(tmp_path / "other.py"))
        (bad,) = set(client.nthreads()) - {good}
        (line,) = [line for line in str(error.value).splitlines() if line.startswith(f"  {bad}: ")]
        expected = (
            f"dkdist {dk.__version__} (client), missing (worker)",
            "(client), 0.1 (worker)",
            "(client), 2.7 (worker)",
        )
        for difference in expected:
            assert difference in line
        assert good not in str(error.value)
        assert not re.search("(numpy|dask) [0-9]", line)
        with pytest.raises(ImportError, match="No work was submitted"):
            map_blocks(BLOCKS, total)
    until(lambda: len(cluster.scheduler.workers) == 1, "the other worker to be gone")
    with Client(cluster):
        assert map_blocks(BLOCKS, total) == [20.0] * 4


def inspected(results: dict[str, object]) -> dict[str, object]:
    """Return inspection results; workers without a result do not answer."""

    async def run(function: object, client: str, workers: list[str], on_error: str) -> dict[str, object]:
        if workers[0] not in results:
            await asyncio.sleep(60)
        return {workers[0]: results[workers[0]]}

    return asyncio.run(versions._inspect_workers(SimpleNamespace(run=run), ["good", "dead", "other"], 0.1))


def test_workers_without_an_answer_cause_a_warning() -> None:
    """Workers that died are ignored."""
    result = {"good": ({}, {}, 1), "dead": OSError("connection refused")}
    with pytest.warns(
        RuntimeWarning, match=r"worker other has not answered for 0.1 s; .* not checked"
    ) as record:
        assert inspected(result) == {"good": ({}, {}, 1)}
    assert len(record) == 1


def test_worker_without_dkdist_raises() -> None:
    result = {
        "good": ({}, {}, 1),
        "dead": OSError(),
        "other": ModuleNotFoundError("No module named 'dkdist'"),
    }
    with pytest.raises(ImportError, match=r"worker other cannot run .*No module named 'dkdist'.*To fix"):
        inspected(result)


def test_workers_without_an_answer_are_inspected_again(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[str] = []

    async def inspect(client: Client, workers: list[str], timeout: float) -> dict[str, object]:
        requested.extend(workers)
        return {}

    with Client(cluster):
        monkeypatch.setattr(versions, "_inspect_workers", inspect)
        with pytest.raises(TimeoutError, match="no worker"):
            map_blocks(BLOCKS, total)
        monkeypatch.undo()
        map_blocks(BLOCKS, total)
        cluster.scale(2)
        until(lambda: len(cluster.scheduler.workers) == 2, "a second worker")
        requested.clear()
        monkeypatch.setattr(versions, "_inspect_workers", inspect)
        for _ in range(2):
            assert map_blocks(BLOCKS, total) == [20.0] * 4
        assert len(set(requested)) == 1
        assert len(requested) == 4


@pytest.mark.network
def test_slow_scheduler_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler_options = ["--host", "tcp://127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
    monkeypatch.setattr(waiting, "SCHEDULER_TIMEOUT_SECONDS", 0.5)
    with Programs(tmp_path) as run:
        log = run.start(["dask", "scheduler", *scheduler_options], expected_output="Scheduler at")
        address = re.findall("Scheduler at: +(.*)", log.read_text())[0]
        with Client(address) as client:
            scheduler = client.run_on_scheduler(os.getpid)
            assert not waiting.ResultMonitor(client)._has_workers()
            os.kill(scheduler, signal.SIGSTOP)
            try:
                assert waiting.ResultMonitor(client)._has_workers()
            finally:
                os.kill(scheduler, signal.SIGCONT)
    assert f"scheduler at {address} has not answered for 0.5 s; waiting for it" in caplog.text


@pytest.mark.network
def test_blas_threads_of_a_late_worker(cluster: LocalCluster, tmp_path: Path) -> None:
    threads = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    with Client(cluster) as client, Programs(tmp_path, **threads) as run:
        record = pytest.warns(
            UserWarning, match=r"joined during this run with 2 BLAS threads.*dkdist\.preload"
        )
        with record, checked_workers(client):
            start_worker(run, cluster, "--no-nanny")
        (late,) = set(client.nthreads()) - {worker.address for worker in cluster.workers.values()}
        assert client.run(prepare_worker, workers=[late])[late] == 1
