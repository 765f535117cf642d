"""Reduction of the final fit to a time budget, with simulated durations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dkdist as dk
from dkdist.auto import selection as final_fit
from dkdist.auto.budgets import Budget
from dkdist.auto.representation_rows import RowKernel
from dkdist.auto.selection import BudgetPlanner
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


def test_widen_adds_intermediate_bandwidths() -> None:
    tried = average(1.0)
    kernels = RowKernel(4.0), RowKernel(None), RowKernel(1.0)
    members = tuple(replace(t, kernel=k) for t, k in zip(tried.members, kernels, strict=True))
    wide = replace(tried, members=members).widen(6)
    result = [t.kernel.sigma for t in wide.members]
    assert result[:3] == [4.0, None, 1.0]
    np.testing.assert_allclose(result[3:], [8**0.5, 32**0.5, 0.5**0.5])
    assert wide.shares == (*SHARES, 0.0, 0.0, 0.0)
    np.testing.assert_allclose(wide.take_first(5).shares, (*SHARES, 0.0, 0.0))
    assert len(wide.widen(4).members) == 6  # no members are removed


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
        assert fit(10**9, row_seconds=1.0).trim_features(average(1.0), 4096)[1] == 512


def test_no_time_budget_skips_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final_fit, "seconds_per_product", None)
    for budget in (None, {"memory": 1e9}):
        whole = average(1e9)
        assert fit(10**6, budget).trim_kernels(whole) is whole
        assert fit(10**6, budget).trim_features(whole, 4096) == (whole, 4096)


def test_trim_features_reduces_features_before_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final_fit, "seconds_per_product", lambda: 1e-10)

    def trimmed_sizes(n: int) -> tuple[int, int]:
        trimmed, D = fit(n).trim_features(average(1.0), 4096)
        assert 1e-10 * len(trimmed.members) * (n * D**2 + 5 * D**3) < 1000
        return len(trimmed.members), D

    # 1e-10 * (n 4096^2 + ..) is 100 s per member for 60,000 sets, 1,000 s for 600,000
    assert trimmed_sizes(60_000) == (3, 4096)
    assert trimmed_sizes(600_000) == (3, 2048)
    assert trimmed_sizes(6_000_000) == (3, 512)
    assert trimmed_sizes(20_000_000) == (1, 512)


def test_sufficient_budget_does_not_change_the_model() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    sets = [rng.normal(0, 1 + c, (20, 2)) for c in y]
    models = [dk.SetClassifier(["moments"], budget=b, random_state=0).fit(sets, y) for b in (None, 600)]
    np.testing.assert_array_equal(*(model.decision_function(sets) for model in models))
