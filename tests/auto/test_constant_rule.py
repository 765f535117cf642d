"""When an ensemble counts as better than the constant: errors, groups and criteria."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist.auto.scoring import EvaluationSet
from dkdist.linear.calibration import probabilities_of

N = 40


def evaluation(y: np.ndarray, groups: np.ndarray | None = None, criterion: object = None) -> EvaluationSet:
    repeats = [[np.arange(k, N, 10) for k in range(10)]]
    return EvaluationSet(y, np.ones(N), repeats, np.arange(N), None, criterion, groups)  # type: ignore[arg-type]


def test_the_constant_of_a_fold_is_the_mean_of_the_others() -> None:
    y = np.random.default_rng(0).normal(size=(N, 2))
    weights = np.random.default_rng(1).uniform(0.5, 2, N)
    own = EvaluationSet(y, weights, [[np.arange(10), np.arange(10, N)]], np.arange(N))
    np.testing.assert_allclose(
        own.constant_values[0, :10], np.broadcast_to(np.average(y[10:], 0, weights[10:]), (10, 2))
    )
    np.testing.assert_allclose(
        own.constant_values[0, 10:], np.broadcast_to(np.average(y[:10], 0, weights[:10]), (30, 2))
    )


@pytest.mark.parametrize("ratio", [0.9, 1.1])
def test_one_standard_error_of_the_paired_difference_decides(ratio: float) -> None:
    own = evaluation((2.0 * (np.arange(N) % 2) - 1)[:, None])
    errors = (own.constant_values[0] - own.y)[:, 0] ** 2  # about 1
    gain = np.random.default_rng(2).uniform(-0.5, 0.5, N)
    gain -= gain.mean()
    gain += ratio * np.sqrt(gain @ gain) / N
    values = own.y + np.sqrt(errors - gain)[:, None]
    assert own.beats_constant(values[None]) == (ratio > 1)


def test_rows_of_one_group_count_as_one() -> None:
    """Four groups of ten equal rows: the standard error is that of four numbers."""
    group = np.arange(N) // 10
    gain = np.array([1.0, 2.0, 3.0, -2.0])[group]
    y = np.zeros((N, 1))
    own = evaluation(y, group)
    mean, error = own._paired(np.sqrt(10 + gain)[None, :, None], np.sqrt(np.full((1, N, 1), 10.0)))
    assert mean == pytest.approx(1.0)
    assert error == pytest.approx(np.array([1.0, 2, 3, -2]).std() / 2)
    _, single = evaluation(y)._paired(np.sqrt(10 + gain)[None, :, None], np.sqrt(np.full((1, N, 1), 10.0)))
    assert single == pytest.approx(error / np.sqrt(10))


def test_a_criterion_decides_by_its_sign() -> None:
    y = np.random.default_rng(0).normal(size=(N, 1))

    def criterion(values: np.ndarray, rows: np.ndarray) -> float:
        return -float(np.abs(values - y[rows]).mean())

    own = evaluation(y, criterion=criterion)
    assert own.beats_constant(y[None])
    assert not own.beats_constant(-y[None])


@pytest.mark.parametrize("t", [1, 3])
def test_calibration_makes_predictions_of_any_scale_comparable(t: int) -> None:
    rng = np.random.default_rng(4)
    classes = rng.integers(0, max(t, 2), N)
    y = (2.0 * classes - 1)[:, None] if t == 1 else np.where(np.arange(t) == classes[:, None], 1.0, -1.0)
    own = EvaluationSet(y, rng.uniform(0.5, 2, N), [[np.arange(N)]], np.arange(N), classes)
    values = y + rng.normal(size=(2, N, t))
    p, small = (probabilities_of(c * values[0], own.calibration(c * values)) for c in (1.0, 0.1))
    assert 0.6 < p[np.arange(N), classes].mean() < 0.95
    # a softmax of small values stands for the curved map of large ones
    np.testing.assert_allclose(small, p, atol=0.1)
    np.testing.assert_array_equal(
        p.argmax(axis=1), values[0].argmax(axis=1) if t > 1 else values[0][:, 0] > 0
    )
    assert EvaluationSet(y, own.weights, own.repeats, own.rows).calibration(values) is None
