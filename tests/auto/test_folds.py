"""Inner and outer folds: sizes, strata, groups, and folds of a splitter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import KFold, PredefinedSplit, ShuffleSplit

from dkdist.auto.folds import draw_hold_out, fold_labels, repeated_folds
from dkdist.auto.outer_predictions import draw_outer_folds
from dkdist.auto.scoring import TrainingData


def training_data(
    n: int, classes: Any = None, groups: Any = None, cv: Any = "auto", seed: int = 0
) -> TrainingData:
    labels = fold_labels(cv, n, classes, groups)
    y = np.zeros((n, 1)) if classes is None else 2.0 * classes[:, None] - 1
    return TrainingData(None, y, classes, np.ones(n), groups, np.arange(n), cv, labels, seed)


@pytest.mark.parametrize("n", [20, 30, 50, 60, 90, 120, 600])
def test_outer_folds_of_balanced_classes_are_balanced(n: int) -> None:
    classes = np.random.default_rng(n).permutation(np.arange(n) % 2)
    folds = draw_outer_folds(training_data(n, classes), 4000)
    assert folds.refit
    assert 5 <= len(folds.test_rows) <= 10
    for rows in folds.test_rows:
        assert classes[rows].mean() == 0.5
    np.testing.assert_array_equal(np.sort(np.concatenate(folds.test_rows)), np.arange(n))


def test_number_of_folds_is_limited_by_classes_and_groups() -> None:
    classes = (np.arange(40) < 3).astype(np.int64)
    assert len(draw_outer_folds(training_data(40, classes), 4000).test_rows) == 3
    for folds in repeated_folds(40, classes, None, "auto", None, 0):
        assert len(folds) == 3
    groups = np.arange(40) % 6
    outer = draw_outer_folds(training_data(40, np.arange(40) % 2, groups), 4000)
    assert len(outer.test_rows) == 6
    for rows in outer.test_rows:
        assert not set(groups[rows]) & set(np.delete(groups, rows))


def test_many_sets_use_one_hold_out() -> None:
    for n, refit, size in (
        (2001, True, 401),
        (4001, False, 500),
        (20_000, False, 2000),
        (200_000, False, 10_000),
    ):
        folds = draw_outer_folds(training_data(n, np.arange(n) % 2), 4000)
        assert folds.refit == refit
        assert [len(rows) for rows in folds.test_rows] == [size]
    single = draw_outer_folds(training_data(100, np.arange(100) % 2), 4000, single=True)
    assert [len(rows) for rows in single.test_rows] == [20]
    assert single.refit


def test_splitter_folds_are_outer_and_remaining_folds_are_inner() -> None:
    chosen = np.repeat(np.arange(4), 10)
    data = training_data(40, np.arange(40) % 2, cv=PredefinedSplit(chosen))
    outer = draw_outer_folds(data, 4000)
    for fold, rows in enumerate(outer.test_rows):
        np.testing.assert_array_equal(rows, np.flatnonzero(chosen == fold))
    train = data.take(np.flatnonzero(chosen != 1))
    (inner,) = train.evaluation_set(np.arange(30)).repeats
    np.testing.assert_array_equal(inner, np.arange(30).reshape(3, 10))
    two = training_data(40, np.arange(40) % 2, cv=KFold(2)).take(np.arange(20))
    assert len(two.evaluation_set(np.arange(20)).repeats[0]) == 10  # one fold remains: new folds are drawn


@pytest.mark.parametrize("cv", [1, True, "loo", 2.5, ShuffleSplit(3)])
def test_invalid_cv_raises(cv: Any) -> None:
    with pytest.raises(ValueError, match=r"^cv[ =]"):
        fold_labels(cv, 20, None, None)


def test_hold_out_keeps_groups_and_strata() -> None:
    groups = np.arange(100) // 5
    rows = draw_hold_out(100, None, groups, 0.2, 0, 1)
    assert len(rows) == 20
    assert not set(groups[rows]) & set(np.delete(groups, rows))
    classes = np.repeat([0, 1, 2], [80, 15, 5])
    rows = draw_hold_out(100, classes, None, 0.2, 0, 1)
    np.testing.assert_array_equal(np.bincount(classes[rows]), [16, 3, 1])


def test_subsets_keep_positions_and_weights_of_mean_one() -> None:
    data = training_data(10, np.arange(10) % 2)
    weighted = data.take(np.arange(1, 10, 2)).take(np.array([0, 2]))
    np.testing.assert_array_equal(weighted.positions, [1, 5])
    assert weighted.weights.mean() == 1.0


def test_targets_are_permuted_within_groups_if_they_differ_there() -> None:
    """Targets differ within groups, and every group keeps all its targets."""
    groups, y = np.repeat(np.arange(4), 3), np.tile([3.0, 1.0, 2.0], 4) + 10 * np.repeat(np.arange(4), 3)
    data = replace(training_data(12, groups=groups), y=y[:, None])
    orders = [data.permuted(np.random.default_rng(seed)).y[:, 0].reshape(4, 3) for seed in range(5)]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order, axis=1), np.sort(y.reshape(4, 3), axis=1))
    assert len({order.tobytes() for order in orders}) > 1


def test_group_targets_are_permuted_together() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(6), [1, 2, 3, 4, 5, 6])
    classes = (groups % 2).astype(np.int64)
    constant = training_data(21, classes, groups)
    shares = set()
    for _ in range(30):
        permuted = constant.permuted(rng)
        assert all(len(np.unique(permuted.classes[groups == g])) == 1 for g in range(6))
        assert sum(permuted.classes[groups == g][0] for g in range(6)) == 3
        np.testing.assert_array_equal(permuted.y[:, 0], 2 * permuted.classes - 1)
        shares.add(int(permuted.classes.sum()))
    assert len(shares) > 3  # groups of different sizes exchange classes
    mixed = training_data(21, (np.arange(21) % 2).astype(np.int64), groups)
    permuted = mixed.permuted(rng)
    for g in range(6):
        assert permuted.classes[groups == g].sum() == mixed.classes[groups == g].sum()


@pytest.mark.parametrize(("n", "n_folds"), [(300, 10), (302, 5), (600, 5), (602, 3), (2000, 3)])
def test_the_number_of_outer_folds_falls_with_the_number_of_sets(n: int, n_folds: int) -> None:
    assert len(draw_outer_folds(training_data(n), 4000).test_rows) == n_folds
