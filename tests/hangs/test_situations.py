"""Fits in all calling contexts end within a time limit, with identical results or an error."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hangs import problem
from hangs.situations import ASYNCHRONOUS, HERE, WITH_A_CLIENT

TESTS = Path(__file__).parents[1]
SECONDS = 150  # for a process with all contexts of a kind; it takes ten on an idle machine
ROWS = [*HERE, *ASYNCHRONOUS, *WITH_A_CLIENT]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("situations") / "bags.zarr"
    problem.write(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DKDIST_TEST_STORE", str(path))
        yield problem.fit()


@pytest.fixture(scope="module")
def answers(expected: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Return results by context; contexts that did not end have no entry."""
    paths = [*map(str, (TESTS, TESTS.parent)), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    result, running = {}, {}
    for kind in ("here", "client"):
        output_file = tmp_path_factory.mktemp(kind) / "output"
        with output_file.open("w") as file:  # workers of loky would keep a pipe open for minutes
            running[output_file] = subprocess.Popen(
                [sys.executable, "-m", "hangs.situations", kind],
                stdout=file, stderr=subprocess.DEVNULL, text=True, env=environment, start_new_session=True,
            )  # fmt: skip
    for output_file, process in running.items():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS)
        with contextlib.suppress(ProcessLookupError):  # the process group has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        lines = [json.loads(line) for line in output_file.read_text().splitlines() if line.startswith("{")]
        result |= {line["name"]: line["found"] for line in lines if "name" in line}
    return result


def test_contexts_work_or_raise(answers: dict[str, list[Any]], expected: str) -> None:
    """One test for all contexts, because parallel test workers would restart the two processes."""
    assert answers.keys() >= set(ROWS)
    outcomes = documented()
    mismatches = {
        name: answers[name]
        for name in ROWS
        if not matches_documentation(name, outcomes[name], answers[name], expected)
    }
    assert mismatches == {}


def matches_documentation(name: str, outcome: str, result: list[Any], expected: str) -> bool:
    """Return whether the result matches the table."""
    if outcome.startswith("works"):
        return bool(result) and (set(result) == {expected} or all(score == 1.0 for score in result))
    errors = [answer for answer in result if answer != expected]
    are_clear = all(str(answer).startswith("RuntimeError: ") and "To fix: " in answer for answer in errors)
    return bool(result) and outcome.startswith("refused") and are_clear and bool(errors or name in MAY_WORK)


MAY_WORK = {"`multiprocessing` with 'fork', while another thread fits"}  # between two fits


def documented() -> dict[str, str]:
    """Return the table of docs/failures.md."""
    text = (
        (TESTS.parent / "docs" / "failures.md").read_text().partition("## Threads, forks and event loops")[2]
    )
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {name.strip(): outcome.strip() for name, outcome in rows[1:]}


def test_table_lists_all_contexts() -> None:
    assert sorted(documented()) == sorted(ROWS)
