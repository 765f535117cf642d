"""What a cluster has installed is compared before work goes there; a first worker is waited for."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

from dkdist.execution.blocks import row_blocks
from dkdist.execution.cluster import versions
from dkdist.execution.cluster.versions import checked_workers
from dkdist.execution.map_reduce import collect
from dkdist.execution.processes.process import prepare_worker

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
    ) as found:
        yield found


def start_worker(run: Programs, cluster: LocalCluster, *options: str) -> None:
    command = ["dask", "worker", cluster.scheduler_address, "--nthreads", "1", "--no-dashboard", *options]
    run.start(command, says="Registered to")


def versions_of(*different: tuple[str, str | None]) -> dict[str, str | None]:
    return {"python": "3.11", **dict.fromkeys(versions.PACKAGES, "1.0"), **dict(different)}


def test_the_table_names_package_versions_and_addresses() -> None:
    there = {f"tcp://host:{i}": versions_of(("numpy", "2.0")) for i in range(5)}
    there["tcp://other:1"] = versions_of(("zarr", None), ("numpy", "2.1"))
    there["tcp://good:1"] = versions_of()
    with pytest.raises(ImportError, match="install the same versions everywhere") as error:
        versions._compare(versions_of(), there)
    lines = [line.split(maxsplit=2) for line in str(error.value).splitlines()[1:4]]
    assert lines == [
        ["package", "here", "there"],
        ["numpy", "1.0", "2.0 on tcp://host:0, tcp://host:1, tcp://host:2 and 2 more; 2.1 on tcp://other:1"],
        ["zarr", "1.0", "missing on tcp://other:1"],
    ]


def test_python_counts_to_the_minor_version() -> None:
    packages = dict.fromkeys(versions.PACKAGES, "1.0")
    assert versions._installed({"packages": {**packages, "python": "3.11.7.final.0"}})["python"] == "3.11"


def test_workers_are_asked_once_for_each_client(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    ask = versions._ask

    async def counted(client: Client, workers: list[str], scheduler_too: bool, seconds: float) -> object:
        asked.append([*workers, *(["scheduler"] if scheduler_too else [])])
        return await ask(client, workers, scheduler_too, seconds)

    monkeypatch.setattr(versions, "_ask", counted)
    first = next(iter(cluster.workers.values())).address
    with Client(cluster):
        for _ in range(2):
            assert collect(BLOCKS, total) == [20.0] * 4
        cluster.scale(2)
        cluster.wait_for_workers(2)
        collect(BLOCKS, total)
    assert [len(one) for one in asked] == [2, 1]
    assert asked[0] == [first, "scheduler"]
    assert asked[1] != [first]
    with Client(cluster):
        collect(BLOCKS, total)
    assert len(asked) == 3


def test_no_workers(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(versions, "NOTICE", 0.1)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
        dask.config.set({"dkdist.wait-for-workers": "300ms"}),
        caplog.at_level(logging.WARNING, "dkdist"),
        pytest.raises(TimeoutError, match=r"within 0.3 s: start some with 'dask worker inproc://") as error,
    ):
        collect(BLOCKS, total)
    assert "'dkdist.wait-for-workers'" in str(error.value)
    assert "has no workers yet: waiting up to 0.3 s" in caplog.text


@pytest.mark.network
def test_other_versions_are_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    """One worker is like this client, the other says that it has another Python, another numba and no dkdist."""
    (tmp_path / "other.py").write_text(OTHER_VERSIONS)
    (good,) = (worker.address for worker in cluster.workers.values())
    with Client(cluster) as client, Programs(tmp_path) as run:
        with pytest.raises(ImportError, match="other versions") as error, checked_workers(client):
            start_worker(run, cluster, "--preload", str(tmp_path / "other.py"))  # it joins while work goes on
        (bad,) = set(client.nthreads()) - {good}
        table = [line.split() for line in str(error.value).splitlines()]
        assert ["dkdist", "0.1.0", "missing", "on", bad] in table
        assert any(row[:1] == ["numba"] and row[2:] == ["0.1", "on", bad] for row in table)
        assert any(row[:1] == ["python"] and row[2:] == ["2.7", "on", bad] for row in table)
        assert good not in str(error.value)
        assert not re.search("^  (numpy|dask) ", str(error.value), re.MULTILINE)
        with pytest.raises(ImportError, match="nothing was given to it"):
            collect(BLOCKS, total)
    until(lambda: len(cluster.scheduler.workers) == 1, "the other worker to be gone")
    with Client(cluster):
        assert collect(BLOCKS, total) == [20.0] * 4


def test_a_worker_that_dies_while_it_is_asked_is_not_called_silent() -> None:
    async def broadcast(msg: object, workers: list[str], on_error: str) -> dict[str, object]:
        if workers == ["stopped"]:
            await asyncio.sleep(60)
        return {} if workers == ["dead"] else {workers[0]: "packages"}

    client = SimpleNamespace(scheduler=SimpleNamespace(broadcast=broadcast))
    found = asyncio.run(versions._ask(client, ["good", "dead", "stopped"], False, 0.1))
    assert found == {"good": "packages", "stopped": None}


def test_only_silence_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def ask(client: Client, workers: list[str], *_: object) -> dict[str, None]:
        asked.extend(workers)
        return dict.fromkeys(workers) if silent else {}

    with (
        LocalCluster(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        collect(BLOCKS, total)
        cluster.scale(2)
        until(lambda: len(cluster.scheduler.workers) == 2, "a second worker")
        monkeypatch.setattr(versions, "_ask", ask)
        silent = False
        assert collect(BLOCKS, total) == [20.0] * 4
        assert len(set(asked)) == 1
        silent = True
        with pytest.warns(RuntimeWarning, match="no sign of life"):
            assert versions._accept_new_workers(client) == {}


@pytest.mark.network
def test_blas_threads_of_a_worker_that_joins_late(cluster: LocalCluster, tmp_path: Path) -> None:
    threads = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    with Client(cluster) as client, Programs(tmp_path, **threads) as run:
        warned = pytest.warns(
            UserWarning, match=r"joined during this run with 2 BLAS threads.*dkdist\.preload"
        )
        with warned, checked_workers(client):
            start_worker(run, cluster, "--no-nanny")
        (late,) = set(client.nthreads()) - {worker.address for worker in cluster.workers.values()}
        assert client.run(prepare_worker, workers=[late])[late] == 1
