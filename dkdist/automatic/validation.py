"""Which sets are left out together: folds drawn from the seed, by class and by group, several times for few sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from dkdist.base.parameter_checks import is_word
from dkdist.loops.array_types import I64

FOLDS = 10
ROWS_IN_ALL = 1000  # predictions, over repeats, that a choice is made by
MOST_REPEATS = 5


def folds(
    n: int, classes: NDArray[Any] | None, groups: NDArray[Any] | None, cv: Any, seed: int
) -> list[list[I64]]:
    """Repeats of folds of n rows, each row in one fold of every repeat.

    ``cv`` is "auto" (ten folds, up to five times for fewer than a thousand rows), a number of folds, or a splitter of
    scikit-learn whose test rows cover all rows once.
    """
    number = isinstance(cv, (int, np.integer)) and not isinstance(cv, bool)
    if not is_word(cv, "auto") and not (number and cv >= 2):
        return [_own(cv, n, classes, groups)]
    n_folds = min(_most_folds(n, groups), FOLDS if cv == "auto" else int(cv))
    repeats = int(np.clip(ROWS_IN_ALL // n, 1, MOST_REPEATS)) if cv == "auto" else 1
    return [_drawn(n, classes, groups, n_folds, seed + r) for r in range(repeats)]


def _most_folds(n: int, groups: NDArray[Any] | None) -> int:
    most = n if groups is None else len(np.unique(groups))
    if most < 2:
        what = "sets" if groups is None else "groups"
        raise ValueError(f"choosing by cross-validation takes 2 {what} at least, found {most}")
    return most


def _drawn(
    n: int, classes: NDArray[Any] | None, groups: NDArray[Any] | None, n_folds: int, seed: int
) -> list[I64]:
    least = 0 if classes is None else int(np.bincount(classes).min())
    stratified = least >= 2
    kinds = {
        (False, False): KFold, (True, False): StratifiedKFold, (False, True): GroupKFold,
        (True, True): StratifiedGroupKFold,
    }  # fmt: skip
    if stratified and groups is None:
        n_folds = min(n_folds, least)
    kind = kinds[stratified, groups is not None]
    splitter = kind(n_splits=n_folds, shuffle=True, random_state=seed % 2**32)
    return [test.astype(np.int64) for _, test in splitter.split(np.empty(n), classes, groups) if len(test)]


def _own(cv: Any, n: int, classes: NDArray[Any] | None, groups: NDArray[Any] | None) -> list[I64]:
    if isinstance(cv, str) or not hasattr(cv, "split"):
        raise ValueError(
            f"cv must be 'auto', a number of folds >= 2, or a splitter of scikit-learn; found {cv!r}"
        )
    found = [np.asarray(test, np.int64) for _, test in cv.split(np.empty(n), classes, groups)]
    if not np.array_equal(np.sort(np.concatenate(found)), np.arange(n)):
        raise ValueError(f"cv={cv!r} must leave out every set once: give KFold or one of its kind")
    return found
