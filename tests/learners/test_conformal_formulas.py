"""Spreads of prediction intervals, and conformal scores of one-row groups, compared with their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist.auto.conformal import ConformalScores, PredictionIntervals, conformal_scores


def test_variance_decreases_with_set_size() -> None:
    intervals = PredictionIntervals(0.04, 0.5, 0.06, ConformalScores(1, (2.0,)))
    result = intervals.standard_deviations(3, np.array([1.0, 10.0, 100.0]))
    np.testing.assert_allclose(result, np.sqrt([0.54, 0.09, 0.06]))  # the last one is the minimum
    np.testing.assert_allclose(intervals.standard_deviations(2), np.sqrt([0.06, 0.06]))
    np.testing.assert_allclose(
        intervals.interval([7.0], 0.5, [1.0]), [[7 - 2 * 0.54**0.5, 7 + 2 * 0.54**0.5]]
    )


@pytest.mark.parametrize("n", [4, 5])
def test_conformal_scores_of_one_row_groups(n: int) -> None:
    scores = np.random.default_rng(n).normal(size=n)
    result = conformal_scores(scores, np.random.default_rng(0).permutation(n))
    assert result == conformal_scores(scores) == ConformalScores(n, tuple(sorted(scores.tolist())))
