"""Random cross-validation folds: stratified by class, with undivided groups, repeated for small collections."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from dkdist._base.parameter_checks import is_literal
from dkdist._numba.arrays import I64
from dkdist.auto._tuning import MAX_INNER_FOLDS, MAX_REPEATS, MIN_PREDICTIONS
from dkdist.linear.held_out import choose_held_out

Labels = NDArray[Any] | None


def check_cv(cv: Any) -> None:
    """Raise ValueError unless ``cv`` is "auto", an integer >= 2 or a splitter."""
    is_integer = isinstance(cv, (int, np.integer)) and not isinstance(cv, bool)
    if is_literal(cv, "auto") or (is_integer and cv >= 2):
        return
    if is_integer or isinstance(cv, str) or not hasattr(cv, "split"):
        raise ValueError(
            f"cv must be 'auto', a number of folds >= 2, or a splitter of scikit-learn; got {cv!r}."
        )


def fold_labels(cv: Any, n: int, classes: Labels, groups: Labels) -> I64 | None:
    """Return the fold (n,) of each row for a splitter of scikit-learn; None if ``cv`` is "auto" or an integer."""
    check_cv(cv)
    if isinstance(cv, (str, int, np.integer)):
        return None
    test_rows = [np.asarray(test, np.int64) for _, test in cv.split(np.empty(n), classes, groups)]
    if not np.array_equal(np.sort(np.concatenate(test_rows)), np.arange(n)):
        raise ValueError(
            f"cv must hold out every set exactly once; got {cv!r}. Use a splitter such as KFold."
        )
    labels = np.empty(n, np.int64)
    for fold, rows in enumerate(test_rows):
        labels[rows] = fold
    return labels


def repeated_folds(
    n: int, classes: Labels, groups: Labels, cv: Any, labels: I64 | None, seed: int
) -> list[list[I64]]:
    """Return repeated folds of n rows; each row is in one fold of every repeat.

    ``cv`` is "auto" (up to ten folds, repeated up to five times below 1,000 rows) or a number of folds. ``labels`` (n,)
    are folds of a splitter; they are used if they contain at least two distinct folds.
    """
    if labels is not None and len(present := np.unique(labels)) > 1:
        return [[np.flatnonzero(labels == fold) for fold in present]]
    automatic = labels is not None or is_literal(cv, "auto")
    n_folds = max_folds(n, classes, groups, MAX_INNER_FOLDS if automatic else int(cv))
    n_repeats = int(np.clip(MIN_PREDICTIONS // n, 1, MAX_REPEATS)) if automatic else 1
    return [draw_folds(n, classes, groups, n_folds, seed + r) for r in range(n_repeats)]


def max_folds(n: int, classes: Labels, groups: Labels, n_folds: int) -> int:
    """Return the minimum of ``n_folds``, the number of sets or groups, and (without groups) the smallest class."""
    n_units = n if groups is None else len(np.unique(groups))
    if n_units < 2:
        what = "sets" if groups is None else "groups"
        raise ValueError(f"Cross-validation requires at least 2 {what}; got {n_units}.")
    if classes is not None and groups is None and (smallest := int(np.bincount(classes).min())) >= 2:
        n_units = min(n_units, smallest)
    return min(n_folds, n_units)


def draw_folds(n: int, classes: Labels, groups: Labels, n_folds: int, seed: int) -> list[I64]:
    """Return the test rows of each fold.

    Groups are never divided. If every class has at least 2 rows, folds are stratified by class as closely as groups
    allow.
    """
    stratified = classes is not None and int(np.bincount(classes).min()) >= 2
    kinds = {
        (False, False): KFold, (True, False): StratifiedKFold, (False, True): GroupKFold,
        (True, True): StratifiedGroupKFold,
    }  # fmt: skip
    splitter = kinds[stratified, groups is not None](
        n_splits=n_folds, shuffle=True, random_state=seed % 2**32
    )
    # StratifiedGroupKFold may yield empty folds.
    return [test.astype(np.int64) for _, test in splitter.split(np.empty(n), classes, groups) if len(test)]


def draw_hold_out(n: int, classes: I64 | None, groups: Labels, share: float, seed: int, stream: int) -> I64:
    """Return a fraction ``share`` of n rows, ascending: stratified by class, or whole groups."""
    if groups is None:
        return np.flatnonzero(choose_held_out(n, share, (seed, stream), classes))
    splitter = GroupShuffleSplit(1, test_size=share, random_state=(seed + stream) % 2**32)
    _, test = next(splitter.split(np.empty(n), groups=groups))
    return np.sort(test).astype(np.int64)


def sample_positions(rng: np.random.Generator, n: int, max_size: int) -> I64:
    """Return all positions below n, or ``max_size`` random ones, ascending."""
    return np.arange(n) if n <= max_size else np.sort(rng.choice(n, max_size, replace=False))
