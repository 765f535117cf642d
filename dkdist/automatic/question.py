"""What is to be learned: sets and their targets, and what is left out together when it is tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.automatic.truth import Truth
from dkdist.automatic.validation import folds
from dkdist.base.inputs import Sets
from dkdist.loops.array_types import F64, I64


@dataclass(frozen=True)
class Question:
    """What is to be learned: sets, targets (n, t), classes (n,) if there are, weights (n,) with a mean of one."""

    sets: Sets
    y: F64
    classes: I64 | None
    weights: F64
    groups: NDArray[Any] | None
    cv: Any
    seed: int
    criterion: Callable[[F64, I64], float] | None = None

    def truth(self, rows: I64) -> Truth:
        """What is predicted of some of the sets, and which of them are left out together."""
        weights = self.weights[rows]
        classes = None if self.classes is None else np.unique(self.classes[rows], return_inverse=True)[1]
        groups = None if self.groups is None else self.groups[rows]
        repeats = folds(len(rows), classes, groups, self.cv, self.seed)
        own = None if self.classes is None else self.classes[rows]
        return Truth(self.y[rows], weights / weights.mean(), repeats, rows, own, self.criterion)
