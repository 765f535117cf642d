"""Scores, standard errors and p-values of outer predictions, compared with closed forms and simulation."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student_t

from dkdist.auto.outer_predictions import (
    CONSTANT,
    FoldPredictions,
    OuterFolds,
    OuterPredictions,
    collect_predictions,
    draw_outer_folds,
    standard_error,
)
from dkdist.auto.scoring import TrainingData
from tests.auto.test_folds import training_data


def outer_predictions(data: TrainingData, values: np.ndarray, n_folds: int) -> OuterPredictions:
    fold = np.arange(len(data)) % n_folds
    return OuterPredictions(data, fold, FoldPredictions(values, values, {CONSTANT: 0 * values}))


def test_fold_predictions_are_put_in_row_order() -> None:
    data = training_data(6)
    folds = OuterFolds((np.array([1, 4]), np.array([0, 3]), np.array([2, 5])))
    rows = [100.0 + test[:, None] for test in folds.test_rows]
    parts = [FoldPredictions(v, v + 100, {CONSTANT: v + 200, "means": v + 300}) for v in rows[:2]]
    parts.append(FoldPredictions(rows[2], rows[2] + 100, {CONSTANT: rows[2] + 200}))
    outer = collect_predictions(data, folds, parts)
    np.testing.assert_array_equal(outer.fold, [1, 0, 2, 1, 0, 2])
    np.testing.assert_array_equal(outer.predictions.model[:, 0], 100 + np.arange(6))
    np.testing.assert_array_equal(outer.predictions.ensemble[:, 0], 200 + np.arange(6))
    expected = 400.0 + np.arange(6)
    expected[[2, 5]] -= 100  # a fold without the baseline uses its constant
    np.testing.assert_array_equal(outer.predictions.baselines["means"][:, 0], expected)


def test_hold_out_reports_only_its_rows() -> None:
    data = training_data(10, (np.arange(10) % 2).astype(np.int64))
    values = np.ones((3, 1))
    part = FoldPredictions(values, values, {CONSTANT: values})
    outer = collect_predictions(data, OuterFolds((np.array([7, 2, 5]),)), [part])
    np.testing.assert_array_equal(outer.positions, [2, 5, 7])
    np.testing.assert_array_equal(outer.data.classes, [0, 1, 1])
    assert outer.variance_factor == 1.0


def test_standard_error_of_a_mean() -> None:
    x = np.random.default_rng(0).normal(size=40)
    outer = outer_predictions(training_data(40), x[:, None], 5)
    score, jackknife_scores = outer.score(x[:, None], lambda values, rows: float(values.mean()))
    assert score == pytest.approx(x.mean())
    assert standard_error(jackknife_scores) == pytest.approx(x.std(ddof=1) / np.sqrt(40))


def test_standard_error_leaves_out_whole_groups() -> None:
    group = np.arange(40) // 4
    x = np.random.default_rng(0).normal(size=10)[group]
    outer = outer_predictions(training_data(40, groups=group), x[:, None], 5)
    _, jackknife_scores = outer.score(x[:, None], lambda values, rows: float(values.mean()))
    assert standard_error(jackknife_scores) == pytest.approx(x[::4].std(ddof=1) / np.sqrt(10))


def test_p_value_standardises_by_all_permutations() -> None:
    rng = np.random.default_rng(1)
    data = training_data(6, np.array([0, 1, 0, 1, 0, 1]))
    values = rng.normal(size=(6, 1)) + data.y
    outer = outer_predictions(data, values, 1)
    null = [data.y[list(order), 0] @ (values[:, 0] - values.mean()) for order in permutations(range(6))]
    z = null[0] / np.std(null)
    assert z > 1
    assert outer.p_value() == pytest.approx(2 * student_t.sf(z, 5))


def test_p_value_with_groups_standardises_by_all_sign_flips() -> None:
    rng = np.random.default_rng(2)
    groups, classes = np.repeat(np.arange(6), [1, 2, 3, 1, 2, 3]), (np.arange(12) % 2).astype(np.int64)
    data = training_data(12, classes, groups)
    values = rng.normal(size=(12, 1)) + data.y
    products = data.y[:, 0] * (values[:, 0] - values.mean())  # the mean of the targets is 0
    sums = [sum(products[i] for i in range(12) if groups[i] == g) for g in range(6)]
    null = [
        sum(sign * x for sign, x in zip(signs, sums, strict=True)) for signs in product((-1, 1), repeat=6)
    ]
    z = sum(sums) / np.std(null)
    assert z > 1
    assert outer_predictions(data, values, 1).p_value() == pytest.approx(2 * student_t.sf(z, 5))


def test_p_value_with_folds_uses_the_corrected_variance() -> None:
    classes = (np.arange(80) // 2 % 2).astype(np.int64)
    data = training_data(80, classes)
    outer = outer_predictions(data, data.y, 10)
    z = np.sqrt(79)  # a correlation of one
    assert outer.p_value() == pytest.approx(2 * student_t.sf(z / np.sqrt(1 + 10 / 9), 79))


def test_p_value_of_constant_or_wrong_model_is_one() -> None:
    data = training_data(40, (np.arange(40) // 2 % 2).astype(np.int64))
    assert outer_predictions(data, np.zeros((40, 1)), 10).p_value() == 1.0
    assert outer_predictions(data, -data.y, 10).p_value() == 1.0


def leave_fold_out(y: np.ndarray, K: np.ndarray, folds: OuterFolds) -> np.ndarray:
    """Return cross-validated values of a linear smoother: sums of K y over the rows of the other folds."""
    values = np.empty(len(y))
    for test in folds.test_rows:
        train = np.setdiff1d(np.arange(len(y)), test)
        values[test] = K[np.ix_(test, train)] @ y[train]
    return values


@pytest.mark.parametrize("grouped", [False, True])
def test_level_holds_for_smoothers_with_shared_training_rows(grouped: bool) -> None:
    """400 coin flips of 30 sets, or of 30 groups of two, with kernels of rank three: at most 5 % below 0.05."""
    rng = np.random.default_rng(2)
    n, n_trials, rejected = 60 if grouped else 30, 400, 0
    group = np.arange(n) // 2 if grouped else None
    for seed in range(n_trials):
        classes = rng.permutation(np.arange(30) % 2)
        rows = rng.normal(size=(30, 3))
        if grouped:
            classes, rows = np.repeat(classes, 2), np.repeat(rows, 2, axis=0) + rng.normal(0, 0.3, (n, 3))
        data = training_data(n, classes, group, seed=seed)
        folds = draw_outer_folds(data, 4000)
        values = leave_fold_out(data.y[:, 0], rows @ rows.T, folds)[:, None]
        fold = np.empty(n, np.int64)
        for k, test in enumerate(folds.test_rows):
            fold[test] = k
        outer = OuterPredictions(data, fold, FoldPredictions(values, values, {}))
        rejected += outer.p_value() <= 0.05
    # a test of level 0.05 exceeds this bound with a probability of 1e-4
    assert rejected <= binom.ppf(1 - 1e-4, n_trials, 0.05)


def test_weights_count_as_repeated_rows() -> None:
    rng = np.random.default_rng(3)
    classes = (np.arange(20) % 2).astype(np.int64)
    weights = rng.integers(1, 3, 20).astype(float)
    values = rng.normal(size=(20, 1))
    data = replace(training_data(20, classes), weights=weights / weights.mean())
    outer = outer_predictions(data, values, 1)
    repeats: Any = np.repeat(np.arange(20), weights.astype(int))
    repeated = outer_predictions(training_data(len(repeats), classes[repeats]), values[repeats], 1)
    assert outer.statistic == pytest.approx(repeated.statistic / weights.mean())
