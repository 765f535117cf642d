"""What a search is to learn, and how rows are weighted: candidates with another ``class_weight`` have a column each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.linear.problems import class_factors, of_mean_one, times_factors
from dkdist.linear.search.search_candidates import Candidate
from dkdist.loops.array_types import F64


@dataclass(frozen=True)
class Problem:
    """What is to be learned: targets of the learners, class indices (None for regression), and what is held out."""

    y: NDArray[Any]
    classes: NDArray[Any] | None
    weights: F64 | None
    held_out: NDArray[np.bool_]
    seed: int
    verbose: bool

    @property
    def trained(self) -> NDArray[np.bool_]:
        """(n,): the rows that candidates learn from."""
        return ~self.held_out if self.weights is None else ~self.held_out & (self.weights > 0)


@dataclass(frozen=True)
class Weightings:
    """``columns`` (n, c) of weights, and the column of each ``class_weight``; None where all rows count one."""

    columns: F64 | None
    places: dict[str, int]

    @classmethod
    def of(cls, candidates: Sequence[Candidate], problem: Problem) -> Weightings:
        """Those of some candidates: weights of rows times those of classes, counted where they are learned from."""
        asked = {_name(c): getattr(c.learner, "class_weight", None) for c in candidates}
        places = {name: i for i, name in enumerate(asked)}
        plain = problem.weights is None and all(class_weight is None for class_weight in asked.values())
        if plain or not candidates:
            return cls(None, places)
        own = np.where(problem.trained, 1.0 if problem.weights is None else problem.weights, 0.0)
        columns = []
        for class_weight in asked.values():
            weights: F64 | None = own
            if problem.classes is not None:
                factors = class_factors(class_weight, problem.classes, problem.y, own)
                weights = times_factors(own, factors, problem.y)
            columns.append(weights)
        return cls(np.stack([column for column in columns if column is not None], axis=1), places)

    def __len__(self) -> int:
        return len(self.places)

    def column(self, candidate: Candidate) -> int:
        """The column that counts for a candidate."""
        return self.places[_name(candidate)]

    def of_mean_one(self) -> F64 | None:
        """The columns, each with mean 1 over the rows that are learned from."""
        if self.columns is None:
            return None
        return np.stack([np.asarray(of_mean_one(column)) for column in self.columns.T], axis=1)

    def longer(self) -> F64:
        """By how much each column's longest steps must be shortened: E c^2 / E c."""
        columns = self.of_mean_one()
        return np.ones(len(self)) if columns is None else (columns**2).sum(axis=0) / columns.sum(axis=0)


def _name(candidate: Candidate) -> str:
    """A ``class_weight`` as text, which tells equal ones."""
    class_weight = getattr(candidate.learner, "class_weight", None)
    return repr(sorted(map(repr, class_weight.items())) if isinstance(class_weight, dict) else class_weight)
