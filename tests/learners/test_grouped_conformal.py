"""Conformal quantiles for grouped rows: weights of groups, coverage of new groups, too few groups."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist.auto.conformal import conformal_scores, fit_intervals, fit_prediction_sets


def hierarchical_quantile(scores: np.ndarray, groups: np.ndarray, coverage: float) -> float:
    """Return the smallest score at or below which ceil((G + 1) coverage) / G of the mass of the groups lies."""
    names = np.unique(groups)
    level = np.ceil((len(names) + 1) * coverage) / len(names)
    if level > 1:
        return float("inf")
    for s in np.sort(scores):
        if np.mean([(scores[groups == g] <= s).mean() for g in names]) >= level - 1e-12:
            return float(s)
    raise AssertionError


@pytest.mark.parametrize("coverage", [0.3, 0.5, 0.8, 0.9])
def test_quantiles_weight_groups_equally(coverage: float) -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), rng.integers(1, 9, 12))
    scores = rng.normal(size=len(groups)) + groups
    result = conformal_scores(scores, groups).quantile(coverage)
    expected = hierarchical_quantile(scores, groups, coverage)
    # only n_rows quantiles are stored: the next larger one may be returned
    assert (
        expected
        <= result
        <= np.sort(scores)[min(len(scores) - 1, np.searchsorted(np.sort(scores), expected) + 4)]
    )


def test_one_row_groups_match_ungrouped_scores() -> None:
    scores = np.random.default_rng(1).normal(size=57)
    ungrouped, grouped = conformal_scores(scores), conformal_scores(scores, np.arange(57))
    assert (ungrouped.n_rows, ungrouped.values) == (grouped.n_rows, grouped.values)


def test_fewer_than_nine_groups_give_infinite_intervals() -> None:
    groups = np.repeat(np.arange(6), 20)
    y = np.random.default_rng(2).normal(size=120)
    intervals = fit_intervals(np.zeros(120), y, groups=groups)
    np.testing.assert_array_equal(intervals.interval([0.0], 0.9), [[-np.inf, np.inf]])
    assert np.isfinite(intervals.interval([0.0], 0.8)).all()
    sets = fit_prediction_sets(np.full((120, 2), 0.5), np.arange(120) % 2, groups)
    assert sets.members([[0.99, 0.01]], 0.9).all()


def test_new_groups_are_covered() -> None:
    """Groups of 1 to 20 rows with a common error: 400 calibrations with 30 groups, 20 new groups each."""
    rng = np.random.default_rng(3)
    covered = []
    for _ in range(400):
        sizes = rng.integers(1, 21, 50)
        groups = np.repeat(np.arange(50), sizes)
        residuals = rng.normal(0, 1, 50)[groups] + rng.normal(0, 0.3, len(groups))
        known = groups < 30
        half = fit_intervals(np.zeros(known.sum()), residuals[known], groups=groups[known]).interval(
            [0.0], 0.9
        )[0, 1]
        covered.append(np.mean([(np.abs(residuals[groups == g]) <= half).mean() for g in range(30, 50)]))
    error = np.std(covered) / 20
    # ceil(27.9) of 31 ranks, one more for stored quantiles
    assert abs(np.mean(covered) - 28 / 31) < 4 * error + 1 / 31
