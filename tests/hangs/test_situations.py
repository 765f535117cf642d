"""Every place a fit may be called from ends within a time limit: with the bits of a plain fit, or refused by name."""

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
SECONDS = 150  # for a process that does all of a kind; it takes ten on a quiet machine
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
    """What came of each; what did not end has no entry."""
    places = [*map(str, (TESTS, TESTS.parent)), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    result, running = {}, {}
    for kind in ("here", "client"):
        message = tmp_path_factory.mktemp(kind) / "told"
        with message.open(
            "w"
        ) as file:  # a pipe would be held open by workers of loky, which stay for minutes
            running[message] = subprocess.Popen(
                [sys.executable, "-m", "hangs.situations", kind],
                stdout=file, stderr=subprocess.DEVNULL, text=True, env=environment, start_new_session=True,
            )  # fmt: skip
    for message, process in running.items():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS)
        with contextlib.suppress(ProcessLookupError):  # nobody is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        lines = [json.loads(line) for line in message.read_text().splitlines() if line.startswith("{")]
        result |= {line["name"]: line["found"] for line in lines if "name" in line}
    return result


def test_each_works_or_is_refused(answers: dict[str, list[Any]], expected: str) -> None:
    """One test for all: workers that take over each other's tests would begin the two processes anew."""
    assert answers.keys() >= set(ROWS)
    outcomes = documented()
    wrong = {
        name: answers[name] for name in ROWS if not is_as_told(name, outcomes[name], answers[name], expected)
    }
    assert wrong == {}


def is_as_told(name: str, outcome: str, result: list[Any], expected: str) -> bool:
    """Whether what came of it is what the table says."""
    if outcome.startswith("works"):
        return bool(result) and (set(result) == {expected} or all(score == 1.0 for score in result))
    ends = [answer for answer in result if answer != expected]
    clear = all(str(answer).startswith("RuntimeError: ") and "To fix: " in answer for answer in ends)
    return bool(result) and outcome.startswith("refused") and clear and bool(ends or name in MAY_WORK)


MAY_WORK = {"`multiprocessing` with 'fork', while another thread fits"}  # between two fits


def documented() -> dict[str, str]:
    """The table of docs/failures.md."""
    text = (TESTS.parent / "docs" / "failures.md").read_text().partition("## Where it may be called from")[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {name.strip(): outcome.strip() for name, outcome in rows[1:]}


def test_the_table_names_all_of_them() -> None:
    assert sorted(documented()) == sorted(ROWS)
