"""`SetClassifier` is as accurate as the golden table says, on tasks of five kinds, up to the error of fresh test sets.

An accuracy p of n test sets has the standard error sqrt(p (1 - p) / n), about 0.015 here. Three of them below the table
are exceeded by chance in 1 of 700 tests of an equally good model, and less often by one that errs on the same sets.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from .accuracy_tasks import N_TEST_SETS, SEEDS, TABLE, TASKS, accuracy

N_STANDARD_ERRORS = 3
GOLDEN: dict[str, list[float]] = json.loads(TABLE.read_text())


@pytest.fixture(scope="module")
def accuracies() -> dict[str, list[float]]:
    return {name: [accuracy(name, seed) for seed in SEEDS] for name in TASKS}


def lower_bound(p: Any) -> float:
    """The mean of golden accuracies, less its standard errors."""
    standard_error = np.sqrt((p * (1 - p) / N_TEST_SETS).sum()) / p.size
    return float(p.mean() - N_STANDARD_ERRORS * standard_error)


def test_table_has_all_tasks_and_seeds() -> None:
    assert GOLDEN.keys() == TASKS.keys()
    assert {len(row) for row in GOLDEN.values()} == {len(SEEDS)}
    assert all(0.7 < p < 0.97 for row in GOLDEN.values() for p in row)


@pytest.mark.parametrize("name", TASKS)
def test_accuracy_of_each_task_is_not_worse(name: str, accuracies: dict[str, list[float]]) -> None:
    golden = np.array(GOLDEN[name])
    for p, accuracy_now in zip(golden, accuracies[name], strict=True):
        assert accuracy_now >= lower_bound(p)
    assert np.mean(accuracies[name]) >= lower_bound(golden)


def test_mean_accuracy_is_not_worse(accuracies: dict[str, list[float]]) -> None:
    assert np.mean(list(accuracies.values())) >= lower_bound(np.array(list(GOLDEN.values())))
