"""Successive halving: candidates compared by cross-validation, the best of them on more rows.

few rows, all candidates ──> more rows, candidates that may be best or improve an average ──> weighted average

A candidate (trial) is a representation with a kernel and a penalty, or with trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist._utils.serialization import serializable
from dkdist.auto import _tuning
from dkdist.auto.bagged_trees import BaggedTrees, fit_bagged_trees
from dkdist.auto.budgets import Budget
from dkdist.auto.representation_rows import FittedRepresentation, PairwiseRows, RowKernel
from dkdist.auto.scoring import EvaluationSet
from dkdist.linear.kernel_ridge import cross_validated_values


@serializable("Trial")
@dataclass(frozen=True)
class Trial:
    """A representation with a kernel and a penalty, and cross-validated predictions ``values`` (n_repeats, n, t).

    ``duals`` (n, t) are the dual coefficients of the fit on all rows. ``seconds`` is the time of the kernel matrix
    and of all ``n_penalties``.
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
        """Name of the representation."""
        return self.view.entry.name

    @property
    def kernel_name(self) -> str:
        """Name of the kernel on the leaderboard."""
        return "trees" if self.kernel is None else self.kernel.name

    @property
    def n_features(self) -> int:
        """Number of columns of a row."""
        return self.view.n_features

    @property
    def row_kernel(self) -> RowKernel:
        """Kernel; raises TypeError for trees."""
        if self.kernel is None:
            raise TypeError(f"{self.name} has no kernel")
        return self.kernel

    def without_values(self) -> Trial:
        """Return the trial without arrays of all rows."""
        return replace(self, values=np.empty(0), duals=np.empty(0))


Rows = Mapping[int, F32]


class HalvingRound(NamedTuple):
    """Limits of a later round: views in total and per family, kernels per view, and penalty factors."""

    views: int
    views_per_family: int
    kernels: int
    penalty_factors: tuple[float, ...]


# Limits of the second and third rounds.
HALVING_ROUNDS = (HalvingRound(6, 2, 3, _tuning.PENALTY_FACTORS), HalvingRound(4, 1, 1, (1.0,)))
# Limits of the members of large collections: each takes about 0.1 ms a set (python benchmarks/automatic_large.py).
STREAMED_ROUND = HalvingRound(2, 1, 1, _tuning.STREAMED_PENALTY_FACTORS)


def round_sizes(n: int) -> list[int]:
    """Return the number of rows of each round; the last round has all n rows."""
    return [size for size in (_tuning.FIRST_ROUND_SETS, _tuning.SECOND_ROUND_SETS) if 1.5 * size < n] + [n]


def required_leaves(candidates: Sequence[Trial | Survivor]) -> list[int]:
    """Return the leaves whose rows the candidates use, ascending."""
    return sorted({candidate.view.leaf for candidate in candidates})


def evaluate_all(
    views: Sequence[FittedRepresentation], rows: Rows, evaluation: EvaluationSet, budget: Budget
) -> list[Trial]:
    """Return the best trial of every view and kernel, best first; stop when the time for candidates has passed."""
    trials: list[Trial] = []
    with closing(
        budget.map(partial(_evaluate_view, rows=rows, evaluation=evaluation), views, len(evaluation.y))
    ) as results:
        for view_trials in results:
            trials += view_trials
            budget.require_remaining("the first candidate was evaluated")
            if budget.is_exhausted:
                break
    return sorted(trials, key=lambda trial: trial.loss)


def _evaluate_view(view: FittedRepresentation, rows: Rows, evaluation: EvaluationSet) -> list[Trial]:
    """Return the best trial of each kernel of a view, or its trial of bagged trees."""
    if view.entry.tree_seed is not None:
        return [tree_trial(view, rows, evaluation)]
    start, trials = perf_counter(), list[Trial]()
    pairwise = PairwiseRows(view.of(rows))
    kernels = pairwise.kernels()
    matrices, index = pairwise.matrices(kernels), len(_tuning.PENALTIES) // 2
    matrix_seconds = (perf_counter() - start) / max(1, len(kernels))
    for kernel, K in zip(kernels, matrices, strict=True):
        penalties = _PenaltySearch(view, kernel, K, evaluation, _tuning.PENALTIES, matrix_seconds)
        index = penalties.line_search(index)  # neighbouring widths have similar best penalties
        trials += penalties.trial(index)
    return trials


def tree_trial(view: FittedRepresentation, rows: Rows, evaluation: EvaluationSet) -> Trial:
    """Return the trial of bagged trees; every repeat has the same out-of-bag predictions."""
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
    """Fit trees to the rows of a view; return them and their out-of-bag predictions (n, t)."""
    max_features = 1.0 if classes is None else 1 / 3
    assert view.entry.tree_seed is not None
    return fit_bagged_trees(
        rows[view.leaf], y, weights, groups, view.entry.tree_seed, max_features=max_features
    )


@dataclass(frozen=True)
class Survivor:
    """Trials of a view for the next round; ``is_leading`` if the view may be the best of all."""

    view: FittedRepresentation
    trials: tuple[Trial, ...]
    is_leading: bool


def evaluate_round(
    survivors: Sequence[Survivor],
    rows: Rows,
    evaluation: EvaluationSet,
    budget: Budget,
    penalty_factors: Sequence[float],
) -> list[Trial]:
    """Evaluate survivors on more rows with multiples of their previous best penalty; return the trials, best first.

    If the previous penalty is significantly worse than the best trial of the same view or of the leading views, other
    penalties are skipped. Leading views are evaluated first.
    """
    results: list[Trial] = []
    for is_leading in (True, False):  # leading views first, for comparison
        shared: dict[str, Any] = {"rows": rows, "evaluation": evaluation, "penalty_factors": penalty_factors}
        evaluate = partial(_evaluate_survivor, **shared, leading=tuple(results))
        group = [survivor for survivor in survivors if survivor.is_leading == is_leading]
        with closing(budget.map(evaluate, group, len(evaluation.y))) as evaluations:
            for trials in evaluations:
                results += trials
                if budget.is_exhausted:
                    break
        if budget.is_exhausted:
            break
    return sorted(results, key=lambda trial: trial.loss)


def _evaluate_survivor(
    survivor: Survivor,
    rows: Rows,
    evaluation: EvaluationSet,
    penalty_factors: Sequence[float],
    leading: Sequence[Trial],
) -> list[Trial]:
    """Return one trial per kernel of a survivor on more rows."""
    start, view = perf_counter(), survivor.view
    if view.entry.tree_seed is not None:
        return [tree_trial(view, rows, evaluation)]
    kernels = [trial.kernel for trial in survivor.trials if trial.kernel is not None]
    matrices = PairwiseRows(view.of(rows)).matrices(kernels)
    matrix_seconds = (perf_counter() - start) / len(matrices)
    trials: list[Trial] = []
    for trial, kernel, K in zip(survivor.trials, kernels, matrices, strict=True):
        alphas, index = [factor * trial.alpha for factor in penalty_factors], penalty_factors.index(1.0)
        penalties = _PenaltySearch(view, kernel, K, evaluation, alphas, matrix_seconds)
        kernel_trials = penalties.trial(index)
        best = min([*trials, *kernel_trials, *leading], key=lambda candidate: candidate.loss, default=None)
        if (
            best is None
            or not kernel_trials
            or not evaluation.is_significantly_worse(kernel_trials[0].values, best.values)
        ):
            index = penalties.line_search(index)
        trials += penalties.trial(index)
    return trials


@dataclass
class _PenaltySearch:
    """Trials of one kernel matrix for several penalties, with cached results; ``seconds`` includes the matrix."""

    view: FittedRepresentation
    kernel: RowKernel
    K: F64
    evaluation: EvaluationSet
    alphas: Sequence[float]
    seconds: float
    trials_by_index: dict[int, list[Trial]] = field(default_factory=dict)

    def trial(self, index: int) -> list[Trial]:
        """Return a list with the trial of one penalty, empty if the penalised matrix is not positive definite."""
        trials = self._evaluate(index)
        return [
            replace(trial, seconds=self.seconds, n_penalties=len(self.trials_by_index)) for trial in trials
        ]

    def line_search(self, index: int) -> int:
        """Return the index of a local minimum of the loss, starting from ``index``; prefer larger penalties in ties."""
        while True:
            neighbours = range(max(0, index - 1), min(len(self.alphas), index + 2))
            best = min(
                neighbours, key=lambda i: (min((t.loss for t in self._evaluate(i)), default=np.inf), -i)
            )
            if best == index:
                return index
            index = best

    def _evaluate(self, index: int) -> list[Trial]:
        if index not in self.trials_by_index:
            start, alpha, evaluation = perf_counter(), self.alphas[index], self.evaluation
            try:
                values, dual_weights = cross_validated_values(
                    self.K, evaluation.y, evaluation.weights, alpha, evaluation.folds_by_length
                )
                trial = Trial(
                    self.view, self.kernel, alpha, values, dual_weights, evaluation.loss(values), 0.0
                )
                self.trials_by_index[index] = [trial]
            except np.linalg.LinAlgError:
                self.trials_by_index[index] = []
            self.seconds += perf_counter() - start
        return self.trials_by_index[index]


def select_survivors(
    trials: Sequence[Trial], evaluation: EvaluationSet, halving_round: HalvingRound
) -> list[Survivor]:
    """Return the trials for the next round: candidates for the best, members of the average, and baselines.

    A view is leading if it is not significantly worse than the best trial, or if its mean with the best trial has a
    smaller loss. Views are taken by the loss of this mean, up to the limits of the round.
    """
    best, member_ids = trials[0], {id(trial) for trial in best_average(trials, evaluation).members}
    trials_by_view: dict[int, list[Trial]] = {}
    for trial in trials:
        trials_by_view.setdefault(id(trial.view), []).append(trial)
    mean_losses = {
        view_id: evaluation.loss((best.values + view_trials[0].values) / 2)
        for view_id, view_trials in trials_by_view.items()
    }
    families: Counter[str] = Counter()
    survivors = []
    for view_id in sorted(
        trials_by_view, key=lambda view_id: (view_id != id(best.view), mean_losses[view_id])
    ):
        view_trials = trials_by_view[view_id]
        view, entry = view_trials[0].view, view_trials[0].view.entry
        has_room = (
            families.total() < halving_round.views and families[entry.family] < halving_round.views_per_family
        )
        improves_mean = mean_losses[view_id] < best.loss
        is_leading = has_room and (
            improves_mean or not evaluation.is_significantly_worse(view_trials[0].values, best.values)
        )
        families[entry.family] += is_leading
        max_trials = halving_round.kernels if is_leading else int(entry.baseline)
        selected = [trial for i, trial in enumerate(view_trials) if i < max_trials or id(trial) in member_ids]
        survivors += [Survivor(view, tuple(selected), is_leading)] if selected else []
    return survivors


@dataclass(frozen=True)
class WeightedAverage:
    """Trials with weights (``shares``) that sum to 1, and their averaged cross-validated predictions."""

    members: tuple[Trial, ...]
    shares: tuple[float, ...]
    values: F64

    def take_first(self, k: int) -> WeightedAverage:
        """Return the average of the first k members, with weights rescaled to sum to 1."""
        members, shares = self.members[:k], np.array(self.shares[:k])
        shares /= shares.sum()
        values = sum(share * trial.values for share, trial in zip(shares, members, strict=True))
        return (
            WeightedAverage(members, tuple(shares.tolist()), np.asarray(values))
            if k < len(self.members)
            else self
        )

    def extend(self, trials: Sequence[Trial], n_members: int) -> WeightedAverage:
        """Add trials of other representations, up to ``n_members`` members in total, with weight 0.

        A selection on more rows may use them.
        """
        used = {id(trial.view) for trial in self.members}
        others = [trial for trial in trials if id(trial.view) not in used]
        others = others[: max(0, n_members - len(self.members))]
        return WeightedAverage((*self.members, *others), (*self.shares, *[0.0] * len(others)), self.values)


def best_average(trials: Sequence[Trial], evaluation: EvaluationSet) -> WeightedAverage:
    """Select an ensemble by forward selection with replacement, while the error of the average decreases.

    Caruana, Niculescu-Mizil, Crew, Ksikes, "Ensemble selection from libraries of models" (ICML 2004).
    """
    chosen = [trials[0]]
    total, loss = trials[0].values.copy(), trials[0].loss
    for k in range(1, _tuning.MAX_ENSEMBLE_STEPS):
        losses = [evaluation.loss((total + trial.values) / (k + 1)) for trial in trials]
        i = int(np.argmin(losses))
        if losses[i] > loss - _tuning.MIN_RELATIVE_GAIN * abs(loss):
            break
        chosen.append(trials[i])
        total, loss = total + trials[i].values, losses[i]
    members = tuple({id(trial): trial for trial in chosen}.values())
    shares = tuple(sum(trial is other for other in chosen) / len(chosen) for trial in members)
    return WeightedAverage(members, shares, total / len(chosen))
