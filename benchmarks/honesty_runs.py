"""Runner of `honesty.py`: independent runs in worker processes of one thread, recorded as JSON lines, resumable."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
from threadpoolctl import threadpool_limits

SECONDS_BETWEEN_LINES = 20.0

Run = dict[str, Any]


@dataclass(frozen=True)
class Runner:
    """Executes the runs that are not in the file of records; ``n_jobs`` = 1 uses this process.

    A record has the arguments, the name of the function, the commit, and the result. Runs of the same function and
    arguments are read from the file regardless of their commit: use one file per commit.
    """

    n_jobs: int
    records: Path | None

    def run(self, function: Callable[..., Run], arguments: Sequence[Run]) -> list[Run]:
        """Return the records of ``function(**arguments[i])``, in the order of arguments."""
        recorded = self._recorded(function.__name__)
        keys = [json.dumps(a, sort_keys=True) for a in arguments]
        pending = [(key, a) for key, a in zip(keys, arguments, strict=True) if key not in recorded]
        start = last_print = time.perf_counter()
        for k, (key, run) in enumerate(self._results(function, pending)):
            recorded[key] = run
            self._append(run)
            if time.perf_counter() - last_print > SECONDS_BETWEEN_LINES:
                last_print = time.perf_counter()
                print(f"    {k + 1} of {len(pending)} runs, {last_print - start:.0f} s", flush=True)
        return [recorded[key] for key in keys]

    def _results(self, function: Callable[..., Run], pending: list[tuple[str, Run]]) -> Any:
        if self.n_jobs == 1 or len(pending) < 2:
            for key, a in pending:
                yield key, _recorded_run(function, a)
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.n_jobs, context) as workers:
            key_by_future = {workers.submit(_recorded_run, function, a): key for key, a in pending}
            for future in as_completed(key_by_future):
                yield key_by_future[future], future.result()

    def _recorded(self, function: str) -> dict[str, Run]:
        if self.records is None or not self.records.exists():
            return {}
        runs = [json.loads(line) for line in self.records.read_text().splitlines()]
        return {
            json.dumps(run["arguments"], sort_keys=True): run for run in runs if run["function"] == function
        }

    def _append(self, run: Run) -> None:
        if self.records is not None:
            with self.records.open("a") as file:
                file.write(json.dumps(run) + "\n")


def _recorded_run(function: Callable[..., Run], arguments: Run) -> Run:
    start = time.perf_counter()
    with warnings.catch_warnings(), threadpool_limits(1), dask.config.set(num_workers=1):
        warnings.simplefilter("ignore")  # small fits warn by design
        result = function(**arguments)
    seconds = round(time.perf_counter() - start, 3)
    return {
        "function": function.__name__, "arguments": arguments, "commit": COMMIT, "seconds": seconds, **result
    }  # fmt: skip


def _describe_commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


COMMIT = _describe_commit()
