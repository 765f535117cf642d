"""Run scripts like ``python script.py``, in processes forked from one with common modules loaded."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from pathlib import Path

FORK_CONTEXT = multiprocessing.get_context("forkserver")
FORK_CONTEXT.set_forkserver_preload(
    ["distributed", "sklearn.pipeline", "dkdist.embeddings.divergence", "dkdist.linear.sgd_classifier"]
)


def run_script(path: Path, *arguments: str, log_file: Path, timeout: float = 600) -> tuple[int | None, str]:
    """Return the exit code and the output of a script; ``log_file`` is the file for its output."""
    process = FORK_CONTEXT.Process(
        target=execute, args=(str(path), arguments, str(log_file), dict(os.environ))
    )
    process.start()
    process.join(timeout)
    process.kill()
    return process.exitcode, log_file.read_text() if log_file.exists() else ""


def execute(path: str, arguments: tuple[str, ...], log_file: str, environment: dict[str, str]) -> None:
    with open(log_file, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).parent))
    runpy.run_path(path, run_name="__main__")
