"""Rule for an ensemble to count as better than the constant: errors, groups and criteria."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist.auto.scoring import EvaluationSet
from dkdist.linear.calibration import probabilities_of

N = 40


def evaluation(y: np.ndarray, groups: np.ndarray | None = None, criterion: object = None) -> EvaluationSet:
    repeats = [[np.arange(k, N, 10) for k in range(10)]]
    return EvaluationSet(y, np.ones(N), repeats, np.arange(N), None, criterion, groups)  # type: ignore[arg-type]


def test_constant_of_a_fold_is_the_mean_of_the_other_folds() -> None:
    y = np.random.default_rng(0).normal(size=(N, 2))
    weights = np.random.default_rng(1).uniform(0.5, 2, N)
    evaluation_set = EvaluationSet(y, weights, [[np.arange(10), np.arange(10, N)]], np.arange(N))
    np.testing.assert_allclose(
        evaluation_set.constant_values[0, :10], np.broadcast_to(np.average(y[10:], 0, weights[10:]), (10, 2))
    )
    np.testing.assert_allclose(
        evaluation_set.constant_values[0, 10:], np.broadcast_to(np.average(y[:10], 0, weights[:10]), (30, 2))
    )


@pytest.mark.parametrize("ratio", [0.9, 1.1])
def test_beats_constant_requires_one_standard_error(ratio: float) -> None:
    evaluation_set = evaluation((2.0 * (np.arange(N) % 2) - 1)[:, None])
    errors = (evaluation_set.constant_values[0] - evaluation_set.y)[:, 0] ** 2  # about 1
    gain = np.random.default_rng(2).uniform(-0.5, 0.5, N)
    gain -= gain.mean()
    gain += ratio * np.sqrt(gain @ gain) / N
    values = evaluation_set.y + np.sqrt(errors - gain)[:, None]
    assert evaluation_set.beats_constant(values[None]) == (ratio > 1)


def test_groups_count_as_single_rows() -> None:
    """Four groups of ten equal rows: the standard error is that of four numbers."""
    group = np.arange(N) // 10
    gain = np.array([1.0, 2.0, 3.0, -2.0])[group]
    y = np.zeros((N, 1))
    evaluation_set = evaluation(y, group)
    mean, error = evaluation_set._paired(np.sqrt(10 + gain)[None, :, None], np.sqrt(np.full((1, N, 1), 10.0)))
    assert mean == pytest.approx(1.0)
    assert error == pytest.approx(np.array([1.0, 2, 3, -2]).std() / 2)
    _, single = evaluation(y)._paired(np.sqrt(10 + gain)[None, :, None], np.sqrt(np.full((1, N, 1), 10.0)))
    assert single == pytest.approx(error / np.sqrt(10))


def test_beats_constant_with_a_criterion() -> None:
    y = np.random.default_rng(0).normal(size=(N, 1))

    def criterion(values: np.ndarray, rows: np.ndarray) -> float:
        return -float(np.abs(values - y[rows]).mean())

    evaluation_set = evaluation(y, criterion=criterion)
    assert evaluation_set.beats_constant(y[None])
    assert not evaluation_set.beats_constant(-y[None])


@pytest.mark.parametrize("t", [1, 3])
def test_calibration_is_independent_of_scale(t: int) -> None:
    rng = np.random.default_rng(4)
    classes = rng.integers(0, max(t, 2), N)
    y = (2.0 * classes - 1)[:, None] if t == 1 else np.where(np.arange(t) == classes[:, None], 1.0, -1.0)
    evaluation_set = EvaluationSet(y, rng.uniform(0.5, 2, N), [[np.arange(N)]], np.arange(N), classes)
    values = y + rng.normal(size=(2, N, t))
    p, small = (probabilities_of(c * values[0], evaluation_set.calibration(c * values)) for c in (1.0, 0.1))
    assert 0.6 < p[np.arange(N), classes].mean() < 0.95
    # a softmax of small values approximates the calibration map of large ones
    np.testing.assert_allclose(small, p, atol=0.1)
    np.testing.assert_array_equal(
        p.argmax(axis=1), values[0].argmax(axis=1) if t > 1 else values[0][:, 0] > 0
    )
    assert (
        EvaluationSet(y, evaluation_set.weights, evaluation_set.repeats, evaluation_set.rows).calibration(
            values
        )
        is None
    )
