"""Candidates tried by cross-validation: every representation with every kernel and penalty, the best on more rows.

few rows, all of them ──> more rows, those that may be the best, or add to it ──> an average that does best
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist._utils.serialization import serializable
from dkdist.auto.bagged_trees import BaggedTrees, fit_bagged_trees
from dkdist.auto.budgets import Budget
from dkdist.auto.representation_rows import ComparedRows, FittedRepresentation, RowKernel
from dkdist.auto.scoring import EvaluationSet
from dkdist.linear.kernel_ridge import left_out

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
NEARBY = (0.1, 0.3, 1.0, 3.0)  # times the penalty that was best on few rows
FEW_ROWS, MORE_ROWS = 400, 900  # on which all are tried, and those that are left, before all rows
MOST_STEPS, LEAST_GAIN = 10, 1e-3  # of averaging: candidates, and what one must gain, relative to the loss
NEIGHBOUR_SCALES = (0.5**0.5, 2**0.5)  # times the width of a kernel: half way to those that were tried


@serializable("Trial")
@dataclass(frozen=True)
class Trial:
    """A representation with a kernel and a penalty, and what it predicted for rows left out: (n_repeats, n, t).

    ``duals`` (n, t) are its weights of all rows. ``seconds`` are those of the kernel's matrix and of all
    ``n_penalties`` that were tried.
    """

    view: FittedRepresentation
    kernel: RowKernel | None
    alpha: float
    values: F64
    duals: F64
    loss: float
    seconds: float
    n_penalties: int = 1
    trees: BaggedTrees | None = None

    @property
    def name(self) -> str:
        """The name of the representation."""
        return self.view.entry.name

    @property
    def kernel_name(self) -> str:
        """The kernel in words."""
        return "trees" if self.kernel is None else self.kernel.name

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        return self.view.n_features

    @property
    def row_kernel(self) -> RowKernel:
        """The kernel of a trial that is not of trees."""
        if self.kernel is None:
            raise TypeError(f"{self.name} has no kernel")
        return self.kernel

    def alone(self) -> Trial:
        """Without what it has of every row."""
        return replace(self, values=np.empty(0), duals=np.empty(0))


Rows = Mapping[int, F32]


class HalvingRound(NamedTuple):
    """What a further round tries: views in all and of one family, kernels of a view, and penalties, times the best."""

    views: int
    of_a_family: int
    kernels: int
    nearby: tuple[float, ...]


HALVING_ROUNDS = (
    HalvingRound(6, 2, 3, NEARBY),
    HalvingRound(4, 1, 1, (1.0,)),
)  # in the second round, and in the third


def rounds(n: int) -> list[int]:
    """How many of n rows candidates are tried on, one round after another: all in the last."""
    return [size for size in (FEW_ROWS, MORE_ROWS) if 1.5 * size < n] + [n]


def leaves_of(seen: Sequence[Trial | Survivor]) -> list[int]:
    """Those that rows are needed of."""
    return sorted({one.view.leaf for one in seen})


def try_all(
    views: Sequence[FittedRepresentation], rows: Rows, evaluation: EvaluationSet, budget: Budget
) -> list[Trial]:
    """The best trial of every pair of view and kernel, best first; of as many views as there is time for."""
    found: list[Trial] = []
    with closing(
        budget.at_once(partial(_tried, rows=rows, evaluation=evaluation), views, len(evaluation.y))
    ) as made:
        for own in made:
            found += own
            budget.require_left("the first was tried")
            if budget.used_up:
                break
    return sorted(found, key=lambda trial: trial.loss)


def _tried(view: FittedRepresentation, rows: Rows, evaluation: EvaluationSet) -> list[Trial]:
    """The best trial of each kernel of a view, or that of its trees."""
    if view.entry.tree_seed is not None:
        return [tree_trial(view, rows, evaluation)]
    start, found = perf_counter(), list[Trial]()
    compared = ComparedRows(view.of(rows))
    kernels = compared.kernels()
    matrices, place = compared.matrices(kernels), len(PENALTIES) // 2
    shared = (perf_counter() - start) / max(1, len(kernels))
    for kernel, K in zip(kernels, matrices, strict=True):
        penalties = _Penalties(view, kernel, K, evaluation, PENALTIES, shared)
        place = penalties.line_search(place)  # kernels of like widths want like penalties
        found += penalties.trial(place)
    return found


def tree_trial(view: FittedRepresentation, rows: Rows, evaluation: EvaluationSet) -> Trial:
    """Bagged trees on the rows of a view, with their out-of-bag predictions in every repeat."""
    start = perf_counter()
    trees, out_of_bag = fit_view_trees(
        view, rows, evaluation.y, evaluation.weights, evaluation.groups, evaluation.classes
    )
    values = np.broadcast_to(out_of_bag, (len(evaluation.repeats), *out_of_bag.shape))
    loss = evaluation.loss(values)
    return Trial(view, None, np.nan, values, np.empty(0), loss, perf_counter() - start, trees=trees)


def fit_view_trees(
    view: FittedRepresentation, rows: Rows, y: F64, weights: F64, groups: Any, classes: Any
) -> tuple[BaggedTrees, F64]:
    """Trees on the rows of a view, and their out-of-bag predictions (n, t)."""
    max_features = 1.0 if classes is None else 1 / 3
    assert view.entry.tree_seed is not None
    return fit_bagged_trees(
        rows[view.leaf], y, weights, groups, view.entry.tree_seed, max_features=max_features
    )


@dataclass(frozen=True)
class Survivor:
    """A view's trials on few rows that are worth others on more; ``leads`` if it may be the best of all."""

    view: FittedRepresentation
    trials: tuple[Trial, ...]
    leads: bool


def evaluate_round(
    finalists: Sequence[Survivor],
    rows: Rows,
    evaluation: EvaluationSet,
    budget: Budget,
    nearby: Sequence[float],
) -> list[Trial]:
    """Finalists on more rows, best first, under penalties ``nearby``, times their own.

    Penalties beside their own are tried where that is not clearly behind: other kernels of the view, and those that
    lead, which are tried first.
    """
    found: list[Trial] = []
    for leads in (True, False):  # whom the others are compared with
        tried = partial(_tried_again, rows=rows, evaluation=evaluation, nearby=nearby, leading=tuple(found))
        own = [one for one in finalists if one.leads == leads]
        with closing(budget.at_once(tried, own, len(evaluation.y))) as made:
            for trials in made:
                found += trials
                if budget.used_up:
                    break
        if budget.used_up:
            break
    return sorted(found, key=lambda trial: trial.loss)


def _tried_again(
    finalist: Survivor,
    rows: Rows,
    evaluation: EvaluationSet,
    nearby: Sequence[float],
    leading: Sequence[Trial],
) -> list[Trial]:
    """A finalist's trials on more rows, beside those that lead."""
    start, view = perf_counter(), finalist.view
    if view.entry.tree_seed is not None:
        return [tree_trial(view, rows, evaluation)]
    kernels = [trial.kernel for trial in finalist.trials if trial.kernel is not None]
    matrices = ComparedRows(view.of(rows)).matrices(kernels)
    shared = (perf_counter() - start) / len(matrices)
    own: list[Trial] = []
    for trial, kernel, K in zip(finalist.trials, kernels, matrices, strict=True):
        alphas, place = [factor * trial.alpha for factor in nearby], nearby.index(1.0)
        penalties = _Penalties(view, kernel, K, evaluation, alphas, shared)
        first = penalties.trial(place)
        best = min([*own, *first, *leading], key=lambda other: other.loss, default=None)
        if best is None or not first or not evaluation.is_significantly_worse(first[0].values, best.values):
            place = penalties.line_search(place)
        own += penalties.trial(place)
    return own


class _Penalties:
    """A kernel matrix under one penalty after another, each of them once."""

    def __init__(
        self,
        view: FittedRepresentation,
        kernel: RowKernel,
        K: F64,
        evaluation: EvaluationSet,
        alphas: Sequence[float],
        seconds: float,
    ) -> None:
        self._view, self._kernel, self._K, self._evaluation, self._alphas = (
            view,
            kernel,
            K,
            evaluation,
            alphas,
        )
        self._seconds, self._made = seconds, dict[int, list[Trial]]()

    def trial(self, place: int) -> list[Trial]:
        """The trial of one penalty; none where the penalised matrix is not positive definite."""
        made = self._found(place)
        return [replace(trial, seconds=self._seconds, n_penalties=len(self._made)) for trial in made]

    def line_search(self, place: int) -> int:
        """Where the loss is lower than on both sides, from a place on; larger penalties where there is none."""
        while True:
            beside = range(max(0, place - 1), min(len(self._alphas), place + 2))
            best = min(beside, key=lambda i: (min((t.loss for t in self._found(i)), default=np.inf), -i))
            if best == place:
                return place
            place = best

    def _found(self, place: int) -> list[Trial]:
        if place not in self._made:
            start, alpha, evaluation = perf_counter(), self._alphas[place], self._evaluation
            try:
                values, own = left_out(
                    self._K, evaluation.y, evaluation.weights, alpha, evaluation.folds_by_length
                )
            except np.linalg.LinAlgError:
                self._made[place] = []
            else:
                self._made[place] = [
                    Trial(self._view, self._kernel, alpha, values, own, evaluation.loss(values), 0.0)
                ]
            self._seconds += perf_counter() - start
        return self._made[place]


def finalists(found: Sequence[Trial], evaluation: EvaluationSet, again: HalvingRound) -> list[Survivor]:
    """Trials that may turn out best on more rows, or that join an average, by view; and of baselines the best.

    A view stays, with its best kernels, if it is not clearly behind, or if its mean with the best is better than that;
    those that add most come first, as many of them, and of one family, as are tried ``again``.
    """
    best, joined = found[0], {id(trial) for trial in best_average(found, evaluation).members}
    of_views: dict[int, list[Trial]] = {}
    for trial in found:
        of_views.setdefault(id(trial.view), []).append(trial)
    together = {of: evaluation.loss((best.values + own[0].values) / 2) for of, own in of_views.items()}
    families: Counter[str] = Counter()
    chosen = []
    for of in sorted(of_views, key=lambda of: (of != id(best.view), together[of])):
        own = of_views[of]
        view, entry = own[0].view, own[0].view.entry
        room = families.total() < again.views and families[entry.family] < again.of_a_family
        adds = together[of] < best.loss
        stays = room and (adds or not evaluation.is_significantly_worse(own[0].values, best.values))
        families[entry.family] += stays
        most = again.kernels if stays else int(entry.baseline)
        kept = [trial for i, trial in enumerate(own) if i < most or id(trial) in joined]
        chosen += [Survivor(view, tuple(kept), stays)] if kept else []
    return chosen


@dataclass(frozen=True)
class Average:
    """Trials and their shares, which sum to one; what they predict together for rows left out."""

    members: tuple[Trial, ...]
    shares: tuple[float, ...]
    values: F64

    def first(self, k: int) -> Average:
        """Its first k members, the best one and those that joined it, by the shares that they had among themselves."""
        members, shares = self.members[:k], np.array(self.shares[:k])
        shares /= shares.sum()
        values = sum(share * trial.values for share, trial in zip(shares, members, strict=True))
        return Average(members, tuple(shares.tolist()), np.asarray(values)) if k < len(self.members) else self

    def widened(self, most: int) -> Average:
        """Return the average with kernels of intermediate widths added to its best members, ``most`` members in all.

        The added kernels have a share of 0 and no predictions: they are candidates for a selection on more rows.
        """
        between = [
            replace(trial, kernel=replace(trial.kernel, sigma=factor * trial.kernel.sigma))
            for trial in self.members
            if trial.kernel is not None and trial.kernel.sigma is not None
            for factor in NEIGHBOUR_SCALES
        ]
        members = (*self.members, *between[: max(0, most - len(self.members))])
        shares = (*self.shares, *[0.0] * (len(members) - len(self.members)))
        return Average(members, shares, self.values)


def best_average(trials: Sequence[Trial], evaluation: EvaluationSet) -> Average:
    """Forward selection with repetition: a candidate joins as long as the average's error falls.

    Caruana, Niculescu-Mizil, Crew, Ksikes, "Ensemble selection from libraries of models" (ICML 2004).
    """
    chosen = [trials[0]]
    total, loss = trials[0].values.copy(), trials[0].loss
    for k in range(1, MOST_STEPS):
        losses = [evaluation.loss((total + trial.values) / (k + 1)) for trial in trials]
        i = int(np.argmin(losses))
        if losses[i] > loss - LEAST_GAIN * abs(loss):
            break
        chosen.append(trials[i])
        total, loss = total + trials[i].values, losses[i]
    members = tuple({id(trial): trial for trial in chosen}.values())
    shares = tuple(sum(trial is other for other in chosen) / len(chosen) for trial in members)
    return Average(members, shares, total / len(chosen))
