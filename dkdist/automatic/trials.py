"""Candidates tried by cross-validation: every representation with every kernel and penalty, the best on more rows.

few rows, all of them ──> more rows, those that may be the best, or add to it ──> an average that does best
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import NamedTuple

import numpy as np

from dkdist.automatic.budgets import Budget
from dkdist.automatic.truth import Truth
from dkdist.automatic.views.representation_rows import View
from dkdist.automatic.views.row_kernels import ComparedRows, RowKernel
from dkdist.learners.kernel_ridge import left_out
from dkdist.loops.array_types import F32, F64
from dkdist.plain.kept import kept

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
NEARBY = (0.1, 0.3, 1.0, 3.0)  # times the penalty that was best on few rows
FEW_ROWS, MORE_ROWS = 400, 900  # on which all are tried, and those that are left, before all rows


@kept
@dataclass(frozen=True)
class Trial:
    """A representation with a kernel and a penalty, and what it predicted for rows left out: (n_repeats, n, t).

    ``duals`` (n, t) are its weights of all rows. ``seconds`` are those of the kernel's matrix and of all
    ``n_penalties`` that were tried.
    """

    view: View
    kernel: RowKernel
    alpha: float
    values: F64
    duals: F64
    loss: float
    seconds: float
    n_penalties: int = 1

    def alone(self) -> Trial:
        """Without what it has of every row."""
        return replace(self, values=np.empty(0), duals=np.empty(0))


Rows = Mapping[int, F32]


class Again(NamedTuple):
    """What a further round tries: views in all and of one family, kernels of a view, and penalties, times the best."""

    views: int
    of_a_family: int
    kernels: int
    nearby: tuple[float, ...]


AGAIN = Again(6, 2, 3, NEARBY), Again(4, 1, 1, (1.0,))  # in the second round, and in the third


def rounds(n: int) -> list[int]:
    """How many of n rows candidates are tried on, one round after another: all in the last."""
    return [size for size in (FEW_ROWS, MORE_ROWS) if 1.5 * size < n] + [n]


def leaves_of(seen: Sequence[Trial | Finalist]) -> list[int]:
    """Those that rows are needed of."""
    return sorted({one.view.leaf for one in seen})


def try_all(views: Sequence[View], rows: Rows, truth: Truth, budget: Budget) -> list[Trial]:
    """The best trial of every pair of view and kernel, best first; of as many views as there is time for."""
    found: list[Trial] = []
    with closing(budget.at_once(partial(_tried, rows=rows, truth=truth), views)) as made:
        for own in made:
            found += own
            budget.require_left("the first was tried")
            if budget.used_up:
                break
    return sorted(found, key=lambda trial: trial.loss)


def _tried(view: View, rows: Rows, truth: Truth) -> list[Trial]:
    """The best trial of each kernel of a view."""
    start, found = perf_counter(), list[Trial]()
    compared = ComparedRows(view.of(rows))
    kernels = compared.kernels()
    matrices, place = compared.matrices(kernels), len(PENALTIES) // 2
    shared = (perf_counter() - start) / max(1, len(kernels))
    for kernel, K in zip(kernels, matrices, strict=True):
        penalties = _Penalties(view, kernel, K, truth, PENALTIES, shared)
        place = penalties.downhill(place)  # kernels of like widths want like penalties
        found += penalties.trial(place)
    return found


@dataclass(frozen=True)
class Finalist:
    """A view's trials on few rows that are worth others on more; ``leads`` if it may be the best of all."""

    view: View
    trials: tuple[Trial, ...]
    leads: bool


def try_again(
    finalists: Sequence[Finalist], rows: Rows, truth: Truth, budget: Budget, nearby: Sequence[float]
) -> list[Trial]:
    """Finalists on more rows, best first, under penalties ``nearby``, times their own.

    Penalties beside their own are tried where that is not clearly behind: other kernels of the view, and those that
    lead, which are tried first.
    """
    found: list[Trial] = []
    for leads in (True, False):  # whom the others are compared with
        tried = partial(_tried_again, rows=rows, truth=truth, nearby=nearby, leading=tuple(found))
        with closing(budget.at_once(tried, [one for one in finalists if one.leads == leads])) as made:
            for trials in made:
                found += trials
                if budget.used_up:
                    break
        if budget.used_up:
            break
    return sorted(found, key=lambda trial: trial.loss)


def _tried_again(
    finalist: Finalist, rows: Rows, truth: Truth, nearby: Sequence[float], leading: Sequence[Trial]
) -> list[Trial]:
    """A finalist's trials on more rows, beside those that lead."""
    start, view = perf_counter(), finalist.view
    matrices = ComparedRows(view.of(rows)).matrices([t.kernel for t in finalist.trials])
    shared = (perf_counter() - start) / len(matrices)
    own: list[Trial] = []
    for trial, K in zip(finalist.trials, matrices, strict=True):
        alphas, place = [factor * trial.alpha for factor in nearby], nearby.index(1.0)
        penalties = _Penalties(view, trial.kernel, K, truth, alphas, shared)
        first = penalties.trial(place)
        best = min([*own, *first, *leading], key=lambda other: other.loss, default=None)
        if best is None or not first or not truth.clearly_behind(first[0].values, best.values):
            place = penalties.downhill(place)
        own += penalties.trial(place)
    return own


class _Penalties:
    """A kernel matrix under one penalty after another, each of them once."""

    def __init__(
        self, view: View, kernel: RowKernel, K: F64, truth: Truth, alphas: Sequence[float], seconds: float
    ) -> None:
        self._view, self._kernel, self._K, self._truth, self._alphas = view, kernel, K, truth, alphas
        self._seconds, self._made = seconds, dict[int, list[Trial]]()

    def trial(self, place: int) -> list[Trial]:
        """The trial of one penalty; none where the penalised matrix is not positive definite."""
        made = self._found(place)
        return [replace(trial, seconds=self._seconds, n_penalties=len(self._made)) for trial in made]

    def downhill(self, place: int) -> int:
        """Where the loss is lower than on both sides, from a place on; larger penalties where there is none."""
        while True:
            beside = range(max(0, place - 1), min(len(self._alphas), place + 2))
            best = min(beside, key=lambda i: (min((t.loss for t in self._found(i)), default=np.inf), -i))
            if best == place:
                return place
            place = best

    def _found(self, place: int) -> list[Trial]:
        if place not in self._made:
            start, alpha, truth = perf_counter(), self._alphas[place], self._truth
            try:
                values, own = left_out(self._K, truth.y, truth.weights, alpha, truth.repeats)
            except np.linalg.LinAlgError:
                self._made[place] = []
            else:
                self._made[place] = [
                    Trial(self._view, self._kernel, alpha, values, own, truth.loss(values), 0.0)
                ]
            self._seconds += perf_counter() - start
        return self._made[place]
