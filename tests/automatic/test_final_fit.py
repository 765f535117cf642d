"""Reduction of the final fit to a time budget, with simulated durations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dkdist as dk
from dkdist.auto import budgets
from dkdist.auto.budgets import Budget, BudgetPlanner
from dkdist.auto.successive_halving import Trial, WeightedAverage

SHARES = (0.5, 0.3, 0.2)


def average(seconds: float) -> WeightedAverage:
    """Return an ensemble of three members with one penalty each that took this many seconds."""
    trials = tuple(
        Trial(Any, Any, 1.0, np.full((1, 2, 1), float(i)), np.empty(0), 0.0, 2 * seconds, 2)
        for i in range(3)  # type: ignore[arg-type]
    )
    return WeightedAverage(trials, SHARES, np.full((1, 2, 1), 0.7))


def fit(n: int, budget: Any = 1000, row_seconds: float = 0.0) -> BudgetPlanner:
    return BudgetPlanner(Budget.from_value(budget), n, 100, row_seconds)


def test_take_first_renormalizes_shares() -> None:
    first = average(1.0).take_first(2)
    np.testing.assert_allclose(first.shares, [0.625, 0.375])
    np.testing.assert_allclose(first.values, 0.375)
    whole = average(1.0)
    assert whole.take_first(3) is whole


def test_extend_adds_other_representations() -> None:
    tried = average(1.0)
    others = [replace(tried.members[0], view=object()) for _ in range(3)]  # type: ignore[arg-type]
    known = replace(tried.members[1], alpha=7.0)
    extended = tried.extend([known, *others], 5)
    assert extended.members == (*tried.members, *others[:2])
    assert extended.shares == (*SHARES, 0.0, 0.0)
    np.testing.assert_array_equal(extended.values, tried.values)
    assert len(tried.extend(others, 2).members) == 3  # no members are removed


def test_trim_kernels_keeps_members_that_fit_in_the_time() -> None:
    assert len(fit(100).trim_kernels(average(300)).members) == 3
    assert len(fit(100).trim_kernels(average(400)).members) == 2
    assert len(fit(200).trim_kernels(average(90)).members) == 1  # twice as many sets: 8 times 90 s
    # 600 s for rows, 200 s per member
    assert len(fit(200, row_seconds=600).trim_kernels(average(25)).members) == 1
    assert len(fit(100, row_seconds=600).trim_kernels(average(300)).members) == 3  # rows are already computed


def test_exceeded_budget_warns() -> None:
    with pytest.warns(
        UserWarning, match="on 200 sets needs about 7.2e.03 s, but 1e.03 s of the budget of 1e.03 s remain"
    ):
        assert len(fit(200).trim_kernels(average(900)).members) == 1
    with pytest.warns(UserWarning, match="Increase the budget, or pass fewer sets"):
        assert fit(10**9, row_seconds=1.0).trim_landmarks(average(1.0), 1024)[1] == 128


def test_no_time_budget_skips_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "seconds_per_product", None)
    for budget in (None, {"memory": 1e9}):
        whole = average(1e9)
        assert fit(10**6, budget).trim_kernels(whole) is whole
        assert fit(10**6, budget).trim_landmarks(whole, 1024) == (whole, 1024)


def test_trim_landmarks_reduces_landmarks_before_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "seconds_per_product", lambda: 1e-10)

    def trimmed_sizes(n: int) -> tuple[int, int]:
        trimmed, m = fit(n).trim_landmarks(average(1.0), 1024)
        assert 1e-10 * len(trimmed.members) * (n * m**2 + 6 * m**3) < 1000
        return len(trimmed.members), m

    # 1e-10 * (n 1024^2 + ..) is 105 s per member for a million sets, 1,050 s for ten million
    assert trimmed_sizes(10**6) == (3, 1024)
    assert trimmed_sizes(10**7) == (3, 512)
    assert trimmed_sizes(10**8) == (3, 128)
    assert trimmed_sizes(4 * 10**8) == (1, 128)


def test_sufficient_budget_does_not_change_the_model() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    sets = [rng.normal(0, 1 + c, (20, 2)) for c in y]
    models = [dk.SetClassifier(["moments"], budget=b, random_state=0).fit(sets, y) for b in (None, 600)]
    np.testing.assert_array_equal(*(model.decision_function(sets) for model in models))
