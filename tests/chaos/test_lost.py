"""Lost and restarted schedulers, and lost clients: saved state is kept, and results are identical."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client

import dkdist as dk

from .killing import slow_down
from .processes import free_port, processes, wait_for

pytestmark = pytest.mark.network

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1200, 20)).astype("f4")
Y = (X[:, 0] + 0.3 * RNG.standard_normal(1200) > 0).astype(int)


def lazy(seconds: float) -> Any:
    import dask.array as da

    return slow_down(da.from_array(X, chunks=(10, -1)), seconds)


def model(**parameters: Any) -> Any:
    return dk.IncrementalSGDClassifier(n_epochs=2, random_state=0, **parameters)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_lost_scheduler_raises_and_fit_resumes_on_another_cluster(tmp_path: Path) -> None:
    expected = model().fit(lazy(0.0), Y).coef_
    checkpoint = tmp_path / "checkpoint"
    with processes(tmp_path) as started:
        port = free_port()
        scheduler = started.scheduler(port)
        started.worker(port)
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
            Client(f"tcp://127.0.0.1:{port}", timeout="2s") as client,
        ):
            client.wait_for_workers(1, timeout=30)
            threading.Thread(target=_kill_when, args=(checkpoint / "state.npz", scheduler)).start()
            with pytest.raises(ConnectionError, match=rf"scheduler at tcp://127.0.0.1:{port} was lost"):
                model(checkpoint=checkpoint).fit(lazy(0.02), Y)
        result = model(checkpoint=checkpoint).fit(lazy(0.0), Y).coef_
    np.testing.assert_array_equal(result, expected)


def _kill_when(path: Path, process: Any) -> None:
    wait_for(path)
    process.send_signal(signal.SIGKILL)


def test_fit_waits_for_a_restarted_scheduler(tmp_path: Path) -> None:
    expected = model().fit(lazy(0.0), Y).coef_
    with processes(tmp_path) as started:
        port = free_port()
        first = started.scheduler(port)
        started.worker(port)
        with Client(f"tcp://127.0.0.1:{port}", timeout="20s") as client:
            client.wait_for_workers(1, timeout=30)

            def replace() -> None:
                time.sleep(1.5)
                first.send_signal(signal.SIGKILL)
                first.wait()
                started.scheduler(port)
                started.worker(port)

            thread = threading.Thread(target=replace)
            thread.start()
            with pytest.warns(RuntimeWarning, match="reconnected to the Dask scheduler"):
                result = model().fit(lazy(0.03), Y).coef_
            thread.join()
    np.testing.assert_array_equal(result, expected)


SCRIPT = """
import sys, dask.array as da, numpy as np
from distributed import Client
sys.path.insert(0, {tests!r})
from chaos.test_lost import Y, lazy, model
with Client({address!r}):
    model(checkpoint={checkpoint!r}).fit(lazy(0.05), Y)
"""


def test_lost_client_releases_tasks_and_fit_resumes(tmp_path: Path) -> None:
    expected = model().fit(lazy(0.0), Y).coef_
    checkpoint = tmp_path / "checkpoint"
    with processes(tmp_path) as started:
        port = free_port()
        started.scheduler(port)
        started.worker(port)
        address = f"tcp://127.0.0.1:{port}"
        values = {"tests": str(Path(__file__).parents[1]), "address": address, "checkpoint": str(checkpoint)}
        client_process = started.start("client", sys.executable, "-c", SCRIPT.format(**values))
        wait_for(checkpoint / "state.npz")
        client_process.send_signal(signal.SIGKILL)
        client_process.wait()
        with Client(address, timeout="10s") as client:
            deadline, remaining = time.monotonic() + 30, 1
            while remaining and time.monotonic() < deadline:
                remaining = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
                time.sleep(0.1)
            assert remaining == 0
            state = np.load(checkpoint / "state.npz", allow_pickle=False)
            assert state["coef"].any()
            result = model(checkpoint=checkpoint).fit(lazy(0.0), Y).coef_
    np.testing.assert_array_equal(result, expected)
