"""Limits that a budget sets, compared with hand calculations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import dkdist as dk
from dkdist.auto import budgets, candidate_rows
from dkdist.auto import selection as choosing
from dkdist.auto import successive_halving as trials
from dkdist.auto._tuning import MAX_FIT_SETS, MIN_LANDMARKS, MIN_SELECTION_SETS, N_GRAM_MATRICES, PENALTIES
from dkdist.auto.budgets import Budget, BudgetPlanner
from dkdist.auto.preparation import _sample_size
from dkdist.auto.representation_rows import RowKernel
from dkdist.auto.scoring import TrainingData
from dkdist.auto.successive_halving import Survivor, Trial, _evaluate_view, evaluate_round


def test_max_sets_fit_in_memory() -> None:
    """64 n^2 + 1000 n bytes: 740,000 for 100 sets, 210,000 for the minimum of 50."""
    assert Budget.from_value({"memory": 740_000}).max_sets(10**6, 1000) == 100
    assert Budget.from_value({"memory": 739_000}).max_sets(10**6, 1000) == 99
    assert Budget.from_value({"memory": 740_000}).max_sets(80, 1000) == 80
    assert Budget.from_value({"memory": 210_000}).max_sets(10**6, 1000) == MIN_SELECTION_SETS
    assert Budget.from_value(None).max_sets(10**6, 1000) == 10**6
    with pytest.raises(ValueError, match=r"at least 2\.1e\+05 bytes .* 50 sets; got 2\.09e\+05"):
        Budget.from_value({"memory": 209_000}).max_sets(10**6, 1000)


def test_landmarks_fit_in_memory() -> None:
    """Each of 3 members has `N_GRAM_MATRICES` matrices of m x m float64."""
    memory = 8 * N_GRAM_MATRICES * 3 * 200**2
    assert Budget.from_value({"memory": memory}).max_landmarks(3, 1024) == 200
    assert Budget.from_value({"memory": memory - 1}).max_landmarks(3, 1024) == 199
    assert Budget.from_value({"memory": memory}).max_landmarks(3, 128) == 128
    assert Budget.from_value({"memory": 1}).max_landmarks(3, 1024) == MIN_LANDMARKS
    assert Budget.from_value(None).max_landmarks(3, 1024) == 1024


def test_restart_takes_a_fraction_of_the_remaining_time() -> None:
    budget = Budget.from_value({"seconds": 1000, "memory": 7})
    for part, seconds in ((budget.restart(), 1000), (budget.restart(0.25), 250)):
        assert part.seconds == pytest.approx(seconds, rel=0.05)  # minus the time since the budget was created
        assert part.memory == 7
        assert part.remaining <= part.seconds


@pytest.mark.parametrize(
    ("n_points", "n_dims", "expected"),
    [
        (2**13, 2, 256),
        (2**20, 2, 16),
        (3, 2, MAX_FIT_SETS),
        (2**12, 2**5, 256),
        (2**12, 20, 409),
        (2**8, 2**9, 256),
    ],
)
def test_sample_size_is_limited_by_number_of_points(n_points: int, n_dims: int, expected: int) -> None:
    """1,000 sets: at most 2^21 points, 2^25 coordinates in more than 256 sets, and at least 16 sets."""
    sets = MagicMock(
        n_points=1000 * n_points, n_dims=n_dims, alphabet=None, points_dtype=np.dtype(np.float32)
    )
    sets.__len__.return_value = 1000
    assert _sample_size(sets) == expected


class Evaluation:
    """Evaluation with the loss |prediction - log(best)|, where the prediction is the logarithm of the penalty."""

    def __init__(self, best: float) -> None:
        self.best, self.y, self.weights, self.folds_by_length = best, np.zeros((4, 1)), np.ones(4), []

    def loss(self, values: Any) -> float:
        return abs(float(values.mean()) - np.log(self.best))

    def is_significantly_worse(self, values: Any, others: Any) -> bool:
        return False


@pytest.fixture
def alphas(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of penalties, in the order of the solutions."""
    results: list[float] = []

    def fake_cross_validated_values(
        K: Any, y: Any, weights: Any, alpha: float, folds: Any
    ) -> tuple[Any, Any]:
        results.append(alpha)
        return np.full((1, 4, 1), np.log(alpha)), np.zeros((4, 1))

    monkeypatch.setattr(trials, "cross_validated_values", fake_cross_validated_values)
    return results


def view() -> Any:
    rows = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    return SimpleNamespace(entry=SimpleNamespace(tree_seed=None), leaf=0, of=lambda value: [rows])


def test_penalty_search_starts_in_the_middle_and_stops_at_a_minimum(
    alphas: list[float],
) -> None:
    evaluation: Any = Evaluation(1.0)
    result = _evaluate_view(view(), {}, evaluation)
    middle = sorted(PENALTIES).index(1.0)
    for i, trial in enumerate(result):
        assert trial.alpha == 1.0
        assert trial.n_penalties == 3  # the best one and its two neighbours
        assert set(alphas[3 * i : 3 * i + 3]) == set(PENALTIES[middle - 1 : middle + 2])


def test_next_round_tries_multiples_of_the_best_penalty(alphas: list[float]) -> None:
    earlier = Trial(view(), RowKernel(1.0), 50.0, np.empty(0), np.empty(0), 0.0, 0.0)
    evaluation: Any = Evaluation(15.0)
    (result,) = evaluate_round(
        [Survivor(earlier.view, (earlier,), True)],
        {},
        evaluation,
        Budget.from_value(None),
        (0.1, 0.3, 1.0, 3.0),
    )
    assert result.alpha == pytest.approx(15.0)
    np.testing.assert_allclose(sorted(alphas), [5, 15, 50, 150])


def test_row_seconds_count_the_rows_added_by_a_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock advances 3 s for each added row, after a pause of 1,000 s."""
    clock, results = [1000.0], list[BudgetPlanner]()
    monkeypatch.setattr(budgets, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr("dkdist.auto._tuning.FIRST_ROUND_SETS", 20)
    monkeypatch.setattr("dkdist.auto._tuning.SECOND_ROUND_SETS", 10**9)

    def timed_extend_rows(views: Any, sets: Any, tried: Any, rows: Any, known: Any, leaves: Any) -> Any:
        clock[0] += 3.0 * (len(tried) - len(known))
        return extend_rows(views, sets, tried, rows, known, leaves)

    def make_planner(*args: Any) -> BudgetPlanner:
        results.append(BudgetPlanner(*args))
        return results[-1]

    extend_rows = candidate_rows.extend_rows
    monkeypatch.setattr(candidate_rows, "extend_rows", timed_extend_rows)
    monkeypatch.setattr(choosing, "BudgetPlanner", make_planner)
    classes = np.arange(40) % 2
    sets = dk.SampleSets.from_arrays(np.random.default_rng(0).normal(classes[:, None, None], 1, (40, 5, 1)))
    y = 2.0 * classes[:, None] - 1
    data = TrainingData(sets, y, classes, np.ones(40), None, np.arange(40), "auto", None, 0)
    budget = Budget.from_value(None)
    clock[0] += 1000.0
    choosing.select_model(data, ["means"], budget)
    assert [one.n_tried for one in results] == [20, 40]
    assert results[1].row_seconds == pytest.approx(3.0 * 40)


def test_penalties_are_powers_of_ten() -> None:
    np.testing.assert_allclose(np.log10(PENALTIES), [-3, -2, -1, 0, 1, 2])
