"""Forward selection of an ensemble: weights and stopping rule, with losses computed by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dkdist.auto._tuning import MIN_RELATIVE_GAIN
from dkdist.auto.scoring import EvaluationSet
from dkdist.auto.successive_halving import Trial, best_average

ZERO = EvaluationSet(np.zeros((2, 1)), np.ones(2), [[np.arange(2)]], np.arange(2))


def trial(*errors: float) -> Trial:
    """Predictions of two rows, whose targets are 0."""
    values = np.array(errors)[None, :, None]
    no_view: Any = None
    return Trial(no_view, None, 1.0, values, np.empty(0), ZERO.loss(values), 0.0)


def test_weights_are_selection_frequencies() -> None:
    """Loss of w a + (1 - w) b with a = (1, 0), b = (-2, 0): (3 w - 2)^2 / 2, which is 0 at w = 2 / 3."""
    a, b = trial(1, 0), trial(-2, 0)
    result = best_average([a, b], ZERO)  # a: 1/2; a + b: 1/8; a + b + a: 0
    assert result.members == (a, b)
    assert result.shares == pytest.approx((2 / 3, 1 / 3))
    np.testing.assert_allclose(result.values, 0, atol=1e-15)


@pytest.mark.parametrize("gain", [0.5 * MIN_RELATIVE_GAIN, 2 * MIN_RELATIVE_GAIN])
def test_member_is_added_only_for_minimum_gain(gain: float) -> None:
    """Loss of the mean of a = (1, 0) and b = (-c, s): ((1 - c)^2 + s^2) / 8, which is (1 - gain) / 2."""
    c = 0.5
    s = float(np.sqrt(4 * (1 - gain) - (1 - c) ** 2))
    a, b = trial(1, 0), trial(-c, s)
    assert ZERO.loss((a.values + b.values) / 2) == pytest.approx((1 - gain) * a.loss)
    result = best_average([a, b], ZERO)
    if gain < MIN_RELATIVE_GAIN:
        assert result.members == (a,)
        assert result.shares == (1.0,)
    else:
        assert result.members[:2] == (a, b)


def test_minimum_gain_with_negative_losses() -> None:
    """Losses of a maximised criterion are negative. The criterion is 1 minus the squared error."""
    scored = EvaluationSet(
        ZERO.y, ZERO.weights, ZERO.repeats, ZERO.rows, criterion=lambda v, rows: 1 - float((v**2).sum())
    )

    # criteria: 0.75 for a; 0.7505 for the mean of a and b (gain below 0.1 %); 0.7515 for the mean of a and c
    def other(criterion: float) -> Trial:
        return trial(-0.5, 2 * float(np.sqrt(1 - criterion)))

    def n_selected(candidate: Trial) -> int:
        ordered = [replace(t, loss=scored.loss(t.values)) for t in (trial(0.5, 0), candidate)]
        return len(best_average(ordered, scored).members)

    assert n_selected(other(0.7505)) == 1
    assert n_selected(other(0.7515)) == 2
