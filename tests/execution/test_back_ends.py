"""All back ends limit the number of living blocks and their memory, and resume after errors and kills.

Only the public interface is used, so that these tests hold for any implementation of the back ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster

import dkdist as dk
from dkdist._runtime._tuning import TARGET_TASK_SECONDS

from .logged_blocks import (
    FAIL_AFTER_BLOCKS,
    LOCAL_BACK_ENDS,
    N_BATCHES,
    N_BLOCKS,
    SLOW_BLOCK_SECONDS,
    fit,
    lazy_rows,
    max_alive,
    n_computed,
)

# workers answer late on a busy machine
pytestmark = pytest.mark.filterwarnings("ignore:worker .* has not answered:RuntimeWarning")

MAX_ALIVE = N_BLOCKS // 2  # almost all blocks would be alive without back pressure
CHECKPOINT_BATCHES = 128  # batches between saved states
MAX_REPEATED = 16  # blocks in flight when a run is interrupted, and one for the step size
SHAPE = (512, 2000)  # 4 MB per block, 160 MB for 40 blocks
BLOCK_BYTES = 4 * SHAPE[0] * SHAPE[1]
BACK_ENDS = [*LOCAL_BACK_ENDS, "workers"]


@contextmanager
def on_back_end(name: str, request: pytest.FixtureRequest) -> Iterator[Client | None]:
    if name == "workers":
        with Client(request.getfixturevalue("worker_processes")) as client:
            yield client
    else:
        with dask.config.set(LOCAL_BACK_ENDS[name]):
            yield None


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("expected")
    with dask.config.set(scheduler="synchronous"):
        coefficients = fit(folder)
    # one more block for the step size, and one to check it after the fit
    assert N_BATCHES <= n_computed(folder) <= N_BATCHES + 2
    return coefficients


def resident_bytes() -> int:
    """Return the resident bytes of this process, and reset their peak."""
    Path("/proc/self/clear_refs").write_text("5")
    return psutil.Process().memory_info().rss


def peak_resident_bytes() -> int:
    """Return the peak of resident bytes since the call of `resident_bytes`."""
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


@pytest.mark.parametrize("name", BACK_ENDS)
def test_living_blocks_and_memory_are_bounded(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Steps of 256 outputs are slower than blocks, which would accumulate."""
    y = np.random.default_rng(0).integers(0, 256, N_BLOCKS * SHAPE[0])
    model = dk.IncrementalSGDClassifier(n_epochs=1, cache=False, random_state=0)
    with on_back_end(name, request) as client:
        if client is None:
            tracemalloc.start()
            model.fit(lazy_rows(tmp_path, SHAPE), y)
            growth = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        else:
            fit(tmp_path)  # load and compile on all workers
            (tmp_path / "alive").unlink()
            before = client.run(resident_bytes)
            model.fit(lazy_rows(tmp_path, SHAPE), y)
            after = client.run(peak_resident_bytes)
            growth = max(after[worker] - before[worker] for worker in before)
    assert max_alive(tmp_path) <= MAX_ALIVE
    assert growth < (MAX_ALIVE + 4) * BLOCK_BYTES  # four more for copies: shuffled rows, and the model


@pytest.mark.parametrize("name", BACK_ENDS)
def test_fit_resumes_after_an_error(
    name: str, tmp_path: Path, expected: Any, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "raise").touch()
    if (
        name == "workers"
    ):  # a task has blocks for 0.2 s: fast blocks would all be computed before a state is saved
        (tmp_path / "slow").touch()
    with on_back_end(name, request):
        with pytest.raises(InterruptedError):
            fit(tmp_path)
        interrupted = n_computed(tmp_path)
        assert fit(tmp_path).tobytes() == expected.tobytes()
    assert interrupted >= FAIL_AFTER_BLOCKS
    assert n_computed(tmp_path) - interrupted <= N_BATCHES - CHECKPOINT_BATCHES + MAX_REPEATED


@pytest.mark.parametrize("name", LOCAL_BACK_ENDS)
def test_fit_resumes_after_its_process_was_killed(
    name: str, tmp_path: Path, expected: Any, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "kill").touch()
    command = [sys.executable, "-m", "execution.logged_blocks", str(tmp_path), name]
    paths = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")]))
    killed = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    interrupted = n_computed(tmp_path)
    with on_back_end(name, request):
        assert fit(tmp_path).tobytes() == expected.tobytes()
    assert n_computed(tmp_path) - interrupted <= N_BATCHES - CHECKPOINT_BATCHES + MAX_REPEATED


def test_fit_continues_when_a_worker_is_killed(tmp_path: Path, expected: Any) -> None:
    (tmp_path / "kill").touch()
    (tmp_path / "slow").touch()  # limits the blocks of a task, which takes 0.2 s
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
    ):
        assert fit(tmp_path).tobytes() == expected.tobytes()
    assert not (tmp_path / "kill").exists()
    # At most four tasks are repeated; two threads compute max_task_blocks in the target duration. Three further blocks:
    # for the step size, for the check after the fit, and the one that kills its worker.
    max_task_blocks = round(2 * TARGET_TASK_SECONDS / SLOW_BLOCK_SECONDS)
    assert n_computed(tmp_path) <= N_BATCHES + 4 * max_task_blocks + 3
