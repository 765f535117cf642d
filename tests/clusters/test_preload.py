"""``dkdist.preload`` prepares workers, however they are started."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from dkdist._runtime import process
from dkdist._runtime import process as processors

from .programs import Programs
from .recipes import TEXT

COMPILED_STATE = """
import sys
from threadpoolctl import threadpool_info

def compiled(module):
    return any(getattr(thing, "signatures", ()) for thing in vars(sys.modules[f"dkdist.{module}"]).values())

threads = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
found = threads, compiled("embeddings._density_numba"), compiled("_numba.sgd")
"""
READY = ({1}, True, True)


def worker_state(client: Client) -> object:
    """Return the BLAS threads of the worker, and whether embedding and learner are compiled."""
    names: dict[str, object] = {}
    (result,) = client.run(lambda: (exec(COMPILED_STATE, names), names["found"])[1]).values()
    return result


@pytest.mark.network
def test_preload_of_local_cluster_workers() -> None:
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with Client(preload="dkdist.preload", **options) as client:
        assert worker_state(client) == READY


@pytest.mark.network
def test_preload_of_a_worker_without_nanny(tmp_path: Path) -> None:
    """Without a nanny, only the preload, from Dask's configuration, limits threads."""
    options = {"n_workers": 0, "processes": False, "dashboard_address": "127.0.0.1:0"}
    preload = {"DASK_DISTRIBUTED__WORKER__PRELOAD": '["dkdist.preload"]', "OPENBLAS_NUM_THREADS": "2"}
    assert f"DASK_DISTRIBUTED__WORKER__PRELOAD='{preload['DASK_DISTRIBUTED__WORKER__PRELOAD']}'" in TEXT
    with (
        LocalCluster(protocol="tcp://", **options) as cluster,
        Programs(tmp_path, **preload) as run,
        Client(cluster) as client,
    ):
        command = ["dask", "worker", cluster.scheduler_address, "--no-nanny", "--nthreads", "1"]
        run.start(command, expected_output="Registered to")
        assert worker_state(client) == READY


def mallopt_calls(monkeypatch: pytest.MonkeyPatch, **environment: str) -> list[tuple[int, int]]:
    calls: list[tuple[int, int]] = []
    libc = type("libc", (), {"mallopt": lambda _, *call: calls.append(call)})
    monkeypatch.setattr(ctypes, "CDLL", lambda _: libc())
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    process.keep_freed_memory.__wrapped__()
    return calls


def test_memory_settings_of_the_user_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defaults of Dask's nanny do not count as settings of the user."""
    expected = [(-3, 32 * 2**20), (-1, 512 * 2**20)]
    assert mallopt_calls(monkeypatch) == expected
    assert mallopt_calls(monkeypatch, MALLOC_TRIM_THRESHOLD_="65536") == expected
    assert mallopt_calls(monkeypatch, MALLOC_TRIM_THRESHOLD_="1000000") == []
    assert mallopt_calls(monkeypatch, MALLOC_ARENA_MAX="2") == []


TRIM_TEST = """
import numpy as np
from dkdist._runtime import process

trimmer = process._MemoryTrimmer()
trimmer.trim()  # no worker's process: nothing happens
assert trimmer.trimmed_bytes == 0
trimmer.is_enabled = True
trimmer.trimmed_bytes = before = process.resident_bytes()
gaps = [np.ones(2**17, np.uint8) for _ in range(2 * trimmer.max_growth_bytes // 2**17)]  # too small for maps
last = np.ones(2**16, np.uint8)
assert process.resident_bytes() > before + trimmer.max_growth_bytes
del gaps
trimmer.trim()
assert process.resident_bytes() < before + trimmer.max_growth_bytes / 2
assert last.all()
trimmed = trimmer.trimmed_bytes
trimmer.trim()  # little more than that
assert trimmer.trimmed_bytes == trimmed
"""


def test_worker_trims_memory_after_growth() -> None:
    """glibc keeps memory that was freed below a block in use.

    A separate process is used since other tests leave freed memory that new blocks would reuse.
    """
    subprocess.run([sys.executable, "-c", TRIM_TEST], check=True)


def test_tasks_trim_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(process.MEMORY_TRIMMER, "trim", lambda: calls.append(1))
    assert processors.require_same_cpu(max)(1, 2) == 2
    with pytest.raises(ValueError, match="empty"):
        processors.require_same_cpu(max)([])
    assert len(calls) == 2


def test_client_process_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker runs in the process of the client."""
    monkeypatch.setattr(process, "limit_blas_permanently", lambda: pytest.fail("its threads were limited"))
    assert process.prepare_worker(process.THIS_PROCESS) == 1


def test_preload_imports_few_modules() -> None:
    """Nannies also import the preload module."""
    heavy = {"numpy", "numba", "scipy", "sklearn", "zarr"}
    code = f"import sys, dkdist.preload; assert not {heavy!r} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
