"""Outer folds of nested evaluation: which sets are held out from a whole repetition of the selection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist.auto._tuning import (
    HOLD_OUT_SHARE,
    MAX_BALANCED_SETS,
    MAX_HOLD_OUT_SETS,
    MAX_NESTED_SETS,
    MAX_SETS_BY_FOLDS,
    MIN_BALANCED_FOLDS,
    MIN_HOLD_OUT_SETS,
)
from dkdist.auto.folds import draw_folds, draw_hold_out, max_folds
from dkdist.auto.training_data import TrainingData
from dkdist.base.parameter_checks import is_word
from dkdist.base.roles import Role
from dkdist.loops.array_types import I64


@dataclass(frozen=True)
class OuterFolds:
    """Test rows of each outer fold; ``refit`` says whether the final model learns from all sets.

    Without ``refit`` there is one hold-out, and the model that was scored on it is the final one.
    """

    test_rows: tuple[I64, ...]
    refit: bool = True

    @property
    def description(self) -> str:
        """What a summary says of it."""
        if len(self.test_rows) > 1:
            return f"{len(self.test_rows)} outer folds"
        return f"{len(self.test_rows[0])} held-out sets"


def draw_outer_folds(data: TrainingData, max_refit_sets: int, single: bool = False) -> OuterFolds:
    """Folds up to `MAX_NESTED_SETS` sets, beyond or if ``single`` one hold-out; no refit above ``max_refit_sets``.

    A splitter or a number of folds that the user chose is used as it is, up to `MAX_NESTED_SETS` sets.
    """
    n = len(data)
    if single or n > MAX_NESTED_SETS:
        refit = n <= max_refit_sets
        share = HOLD_OUT_SHARE
        if not refit:
            share = min(HOLD_OUT_SHARE, float(np.clip(n // 10, MIN_HOLD_OUT_SETS, MAX_HOLD_OUT_SETS)) / n)
        test = draw_hold_out(n, data.classes, data.groups, share, data.seed, Role.OUTER_FOLDS)
        return OuterFolds((test,), refit)
    if data.fold_labels is not None:
        labels = data.fold_labels
        return OuterFolds(tuple(np.flatnonzero(labels == fold) for fold in np.unique(labels)))
    automatic = is_word(data.cv, "auto")
    default = next(k for k, max_sets in MAX_SETS_BY_FOLDS.items() if n <= max_sets)
    n_folds = max_folds(n, data.classes, data.groups, default if automatic else data.cv)
    if automatic and data.groups is None and data.classes is not None and n <= MAX_BALANCED_SETS:
        n_folds = _balanced_folds(np.bincount(data.classes), n_folds)
    seed = int(np.random.default_rng([data.seed, Role.OUTER_FOLDS]).integers(2**32))
    return OuterFolds(tuple(draw_folds(n, data.classes, data.groups, n_folds, seed)))


def _balanced_folds(class_sizes: I64, n_folds: int) -> int:
    """The largest number of folds, down to `MIN_BALANCED_FOLDS`, that divides every class evenly, else ``n_folds``.

    Uneven folds make the score of noise pessimistic: a class that is rare in training is frequent in the test fold.
    """
    choices = range(n_folds, min(n_folds, MIN_BALANCED_FOLDS) - 1, -1)
    return next((k for k in choices if not (class_sizes % k).any()), n_folds)
