"""Scripts run as ``python script.py`` does, each in a process forked from one that has loaded what nearly all load."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["distributed", "sklearn.pipeline", "dkdist.embeddings.divergence", "dkdist.linear.sgd_classifier"]
)


def run_script(path: Path, *arguments: str, told: Path, timeout: float = 600) -> tuple[int | None, str]:
    """(exit code, what it printed and complained of) of a script; ``told`` is a file for the latter."""
    process = FORKS.Process(target=execute, args=(str(path), arguments, str(told), dict(os.environ)))
    process.start()
    process.join(timeout)
    process.kill()
    return process.exitcode, told.read_text() if told.exists() else ""


def execute(path: str, arguments: tuple[str, ...], told: str, environment: dict[str, str]) -> None:
    with open(told, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).parent))
    runpy.run_path(path, run_name="__main__")
