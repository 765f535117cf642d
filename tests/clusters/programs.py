"""Programs that run beside a test: each in a session of its own, which is ended with everything in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
PATIENCE = 120.0  # for machines that do much else; nothing waits longer than it must
GRACE = 2.0


def needs(*programs: str, root: bool = False) -> None:
    """Skip the test, naming what this machine lacks for it."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in programs if shutil.which(name, path=path) is None]
    if root and os.geteuid() != 0:
        missing.append("root")
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


def environment(**more: str) -> dict[str, str]:
    """The environment of this process, in which this installation's programs come first."""
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}:/usr/sbin:/sbin", **more}


class Programs:
    """``with Programs(folder) as run``: start some, wait for what they say, run others to their end."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        self.environment = environment(DASK_DKDIST__WAIT_FOR_WORKERS="120s", **more)
        self._running: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.terminate()
        end = time.monotonic() + GRACE
        for process in self._running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # it leads its session
            process.wait()

    def start(self, command: Sequence[str], says: str = "") -> Path:
        """Start a program, and wait until it says something; the file with all it says."""
        log = self.folder / f"program-{len(self._logs)}.log"
        self._logs.append(log)
        with open(log, "wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                cwd=self.folder, env=self.environment, start_new_session=True,
            )  # fmt: skip
        self._running.append(process)
        until(lambda: says in log.read_text() or process.poll() is not None, f"{says!r} of {command}")
        assert process.poll() is None, log.read_text()
        return log

    def finish(self, command: Sequence[str]) -> str:
        """Run a program to its end, which must be a good one; what it said."""
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE,
            cwd=self.folder, env=self.environment,
        )  # fmt: skip
        text = f"{done.stdout}{done.stderr}"
        assert done.returncode == 0, "\n".join([text, *(log.read_text() for log in self._logs)])
        return text


def until(happens: Callable[[], bool], what: str) -> None:
    """Wait for something; fail if it does not happen in a long while."""
    end = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < end, f"waited {PATIENCE:g} s in vain for {what}"
        time.sleep(0.05)


def command(language: str, text: str) -> list[str]:
    """How a block of the document is run."""
    return {"python": [sys.executable, "-c", text], "sh": ["bash", "-euc", text]}[language]
