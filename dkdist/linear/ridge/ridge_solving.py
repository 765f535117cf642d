"""What ridge regression finds from the sums of its rows, or from the rows: a penalty, a solution, and values unseen.

Values unseen are decision values of rows by models that had not learned from them: what probabilities are fitted on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dkdist.base.bad_sets import require_rows
from dkdist.learners.kept_rows import KeptRows
from dkdist.learners.ridge_leave_one_out import values_without
from dkdist.learners.ridge_rows import DualProblem, dual_held_out_errors
from dkdist.learners.ridge_solutions import held_out_errors, inverse_of, solution
from dkdist.learners.ridge_statistics import Centred, centred, merge
from dkdist.learners.ridge_sums import Sums
from dkdist.loops.array_types import F64

GIVEN, HELD_OUT, LEAVE_ONE_OUT = "given", "held-out", "leave-one-out"


@dataclass(frozen=True)
class Ask:
    """Penalties to choose from, by what (``way``), for models with an intercept or not; whether for unseen values."""

    alphas: F64
    way: str
    centre: bool
    unseen: bool

    @property
    def split(self) -> bool:
        """Whether rows are held out."""
        return self.way == HELD_OUT


@dataclass(frozen=True)
class Found:
    """The penalty, its coefficients (n_features, k) and intercepts, every alpha's error, and values (m, k) unseen.

    ``targets`` (m, k) and ``weights`` (m,) are those of the rows whose values these are.
    """

    alpha: float
    errors: F64
    coef: F64
    intercept: F64
    unseen: F64
    targets: F64
    weights: F64


def _chosen(ask: Ask, errors: F64) -> float:
    return float(ask.alphas[int(np.argmin(errors))])


def found_from_rows(rows: KeptRows, ask: Ask) -> Found:
    """By the dual problem."""
    require_rows(rows.n if not ask.split else min(int(rows.held_out.sum()), int((~rows.held_out).sum())))
    errors, problem = np.full(len(ask.alphas), np.nan), DualProblem.of(rows, ask.centre)
    if ask.split:
        errors = dual_held_out_errors(rows, ask.alphas, ask.centre)
    elif ask.way == LEAVE_ONE_OUT:
        errors = problem.leave_one_out_errors(ask.alphas)
    alpha = _chosen(ask, errors)
    unseen = problem.values_without(alpha) if ask.unseen else rows.y[:0]
    m = len(unseen)
    return Found(alpha, errors, *problem.solution(alpha), unseen, rows.y[:m], rows.weights[:m])


def found_from_sums(sums: Sums, ask: Ask, errors_of: Callable[[Centred], F64] | None = None) -> Found:
    """By the normal equations; ``errors_of`` is the second look that leave-one-out errors take."""
    require_rows(int(min(part.n for part in sums.parts) > 0))
    equations, errors = centred(sums.parts[0], ask.centre), np.full(len(ask.alphas), np.nan)
    if errors_of is not None:
        errors = errors_of(equations)
    if ask.split:
        errors = held_out_errors(equations, sums.parts[1], ask.alphas)
        equations = centred(merge(*sums.parts), ask.centre)
    alpha = _chosen(ask, errors)
    inverse = inverse_of(equations, alpha)
    coef, intercept = solution(equations, inverse)
    rows = sums.sample
    unseen = values_without(rows, equations, inverse, ask.centre) if rows.n else rows.y
    return Found(alpha, errors, coef, intercept, unseen, rows.y, rows.weights)


def found_from_stream(sums: Sums, ask: Ask) -> Found:
    """What sums that are still growing say: the largest penalty until rows are held out and others are not."""
    if all(part.n > 0 for part in sums.parts):
        return found_from_sums(sums, ask)
    whole = replace(sums, parts=(merge(*sums.parts),))
    found = found_from_sums(whole, replace(ask, alphas=ask.alphas.max(keepdims=True), way=GIVEN))
    return replace(found, errors=np.full(len(ask.alphas), np.nan))
