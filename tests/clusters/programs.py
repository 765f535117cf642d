"""Programs that run during a test, each in its own session, which is killed at the end."""

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
TIMEOUT_SECONDS = 120.0  # long enough for loaded machines
TERMINATION_SECONDS = 2.0


def needs(*programs: str, root: bool = False) -> None:
    """Skip the test if a program is missing on this machine."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in programs if shutil.which(name, path=path) is None]
    if root and os.geteuid() != 0:
        missing.append("root")
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


def environment(**more: str) -> dict[str, str]:
    """Return the environment of this process with the programs of this installation first."""
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}:/usr/sbin:/sbin", **more}


class Programs:
    """``with Programs(folder) as run``: start programs, wait for their output, or run them to their end."""

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
        end = time.monotonic() + TERMINATION_SECONDS
        for process in self._running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the process leads its session
            process.wait()

    def start(self, command: Sequence[str], expected_output: str = "") -> Path:
        """Start a program, wait for an expected output, and return the log file."""
        log = self.folder / f"program-{len(self._logs)}.log"
        self._logs.append(log)
        with open(log, "wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                cwd=self.folder, env=self.environment, start_new_session=True,
            )  # fmt: skip
        self._running.append(process)
        until(
            lambda: expected_output in log.read_text() or process.poll() is not None,
            f"{expected_output!r} of {command}",
        )
        assert process.poll() is None, log.read_text()
        return log

    def finish(self, command: Sequence[str]) -> str:
        """Run a program, which must succeed, and return its output."""
        result = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS,
            cwd=self.folder, env=self.environment,
        )  # fmt: skip
        text = f"{result.stdout}{result.stderr}"
        assert result.returncode == 0, "\n".join([text, *(log.read_text() for log in self._logs)])
        return text


def until(condition: Callable[[], bool], description: str) -> None:
    """Wait for a condition, with a timeout."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited {TIMEOUT_SECONDS:g} s in vain for {description}"
        time.sleep(0.05)


def command(language: str, text: str) -> list[str]:
    """Return the command that runs a block of the document."""
    return {"python": [sys.executable, "-c", text], "sh": ["bash", "-euc", text]}[language]
