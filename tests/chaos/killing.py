"""A cluster whose worker processes are killed repeatedly, and a log of executed blocks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster
from distributed.core import Status


class Killer:
    """Kills a random worker process ``every`` seconds after the last one was replaced."""

    def __init__(self, client: Client, every: float, seed: int) -> None:
        self.killed = 0
        self._client, self._every, self._rng = client, every, np.random.default_rng(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        next_kill = time.monotonic() + self._every
        while not self._stop.wait(0.1):
            cluster = self._client.cluster
            nannies = list(cluster.workers.values())
            # a nanny that is starting a worker would give up
            running = [nanny for nanny in nannies if nanny.status is Status.running]
            if (
                not len(cluster.scheduler.workers) == len(running) == len(nannies)
            ):  # the last worker is not replaced yet
                next_kill = time.monotonic() + self._every
            elif time.monotonic() >= next_kill:
                pids = sorted(nanny.pid for nanny in nannies)
                os.kill(int(self._rng.choice(pids)), signal.SIGKILL)
                self.killed += 1
                next_kill = time.monotonic() + self._every

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def four_workers() -> Iterator[Client]:
    """Start four single-threaded worker processes on loopback, each with a nanny that replaces it."""
    with (
        LocalCluster(
            n_workers=4,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            preload=["dkdist.preload"],
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def slow_down(features: Any, seconds: float, log: Path | None = None) -> Any:
    """Return the same lazy features; each block takes this many seconds longer and adds a byte to the log."""

    def wait(block: np.ndarray) -> np.ndarray:
        if log is not None:
            with open(log, "ab") as file:
                file.write(b".")
        time.sleep(seconds)
        return block

    return features.map_blocks(wait, dtype=features.dtype, name=f"slow_{features.name}")
