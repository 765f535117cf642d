"""Sets with their targets, weights, groups and folds: all that a fit may see of some rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.auto.evaluation_set import EvaluationSet
from dkdist.auto.folds import repeated_folds
from dkdist.loops.array_types import F64, I64

Score = Callable[[F64, I64], float]
"""Score of predictions (n, t), larger is better, for the sets at some positions of the call of ``fit``."""


@dataclass(frozen=True)
class TrainingData:
    """Sets (None where only targets count), targets (n, t), weights (n,) with mean 1, classes and groups (n,) if any.

    ``positions`` (n,) are those of the sets in the call of ``fit``. ``fold_labels`` (n,) are folds that the user's
    splitter chose, or None. ``criterion`` is what a choice maximises; None means squared error or log loss.
    """

    sets: Any
    y: F64
    classes: I64 | None
    weights: F64
    groups: NDArray[Any] | None
    positions: I64
    cv: Any
    fold_labels: I64 | None
    seed: int
    criterion: Score | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: I64) -> TrainingData:
        """The same for some rows, ascending."""
        if len(rows) == len(self):
            return self
        weights = self.weights[rows]
        optional: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[rows]
            for name in ("sets", "classes", "groups", "fold_labels")
        }
        return replace(
            self, y=self.y[rows], weights=weights / weights.mean(), positions=self.positions[rows], **optional
        )

    def permuted(self, rng: np.random.Generator) -> TrainingData:
        """Targets, with their weights, permuted among sets; among groups of one target each, else within groups."""
        order = self._permutation(rng)
        classes = None if self.classes is None else self.classes[order]
        return replace(
            self,
            y=self.y[order],
            classes=classes,
            weights=self.weights[order],
            positions=self.positions[order],
        )

    def _permutation(self, rng: np.random.Generator) -> I64:
        if self.groups is None:
            return rng.permutation(len(self))
        _, first, group = np.unique(self.groups, return_index=True, return_inverse=True)
        if (self.y == self.y[first][group]).all():
            return first[rng.permutation(len(first))[group]]
        order = np.arange(len(self))
        for g in range(len(first)):
            rows = np.flatnonzero(group == g)
            order[rows] = rng.permutation(rows)
        return order

    def evaluation_set(self, rows: I64) -> EvaluationSet:
        """Targets and inner folds of some rows, which candidates are compared by."""
        some = replace(self, sets=None).take(rows)
        classes = None if some.classes is None else np.unique(some.classes, return_inverse=True)[1]
        repeats = repeated_folds(len(some), classes, some.groups, some.cv, some.fold_labels, some.seed)
        return EvaluationSet(
            some.y, some.weights, repeats, some.positions, some.classes, some.criterion, some.groups
        )

    @property
    def constant(self) -> F64:
        """The weighted mean target (t,): what is predicted without looking at the sets."""
        return np.average(self.y, axis=0, weights=self.weights)
