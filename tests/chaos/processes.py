"""Schedulers, workers and clients in separate processes on loopback, which tests may kill."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DASK = [sys.executable, "-m", "dask"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Processes:
    """Processes that are killed at the end of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.all = folder, list[subprocess.Popen[bytes]]()

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self.all.append(process)
        return process

    def scheduler(self, port: int) -> subprocess.Popen[bytes]:
        options = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        process = self.start("scheduler", *DASK, "scheduler", *options)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return process
            time.sleep(0.1)
        raise TimeoutError((self.folder / "scheduler.log").read_text())

    def worker(self, port: int) -> subprocess.Popen[bytes]:
        options = ["--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", "127.0.0.1"]
        return self.start("worker", *DASK, "worker", f"tcp://127.0.0.1:{port}", *options)


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    """Kill all started processes at the end."""
    started = Processes(folder)
    try:
        yield started
    finally:
        for process in started.all:
            process.kill()
        for process in started.all:
            process.wait()


def wait_for(path: Path, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.01)
