"""Selection of a model: from sets and targets to a fitted ensemble.

sets ─ sample ─> fitted representations ─> rows of 400 sets ─> all candidates ─> rows of 900 ─> the best candidates
                              ─┬─ up to 4,000 sets: rows of up to 2,000 ─> the best ─> weighted average of exact kernels
                               └─ more: kernels of landmarks, in one pass ─> weighted average by held-out sets
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkdist._base.design_columns import StudyDesign
from dkdist._base.inputs import Sets
from dkdist._numba.arrays import F64
from dkdist._runtime.process import one_blas_thread
from dkdist.auto import _tuning
from dkdist.auto.budgets import Budget, BudgetPlanner
from dkdist.auto.candidate_rows import CandidateRows
from dkdist.auto.ensemble import Ensemble, Member
from dkdist.auto.large_collections import FittedAverage, fit_streamed, refit_ngrams, sufficient_ngrams
from dkdist.auto.losses import with_working_response
from dkdist.auto.outer_predictions import CONSTANT, FoldPredictions
from dkdist.auto.preparation import PreparedData, prepare
from dkdist.auto.representations import Omission
from dkdist.auto.scoring import EvaluationSet, TrainingData
from dkdist.auto.study_design import COVARIATES
from dkdist.auto.successive_halving import (
    HALVING_ROUNDS,
    STREAMED_ROUND,
    HalvingRound,
    Trial,
    WeightedAverage,
    best_average,
    evaluate_all,
    evaluate_round,
    round_sizes,
    select_survivors,
)
from dkdist.embeddings.set_scaler import SetScaler
from dkdist.linear.calibration import log_probabilities
from dkdist.sets import SampleSets


@dataclass(frozen=True)
class SelectedModel:
    """Result of a selection: scaler, predictors, and the trials with their evaluation set.

    ``machine`` predicts: it is the constant if ``is_constant``, otherwise ``ensemble``. ``baselines`` maps names to
    ensembles of one simple representation. ``best`` is the best single trial without trees, and ``best_part`` the
    ensemble member that was fitted from it. ``omissions`` are the families that were not tried.
    """

    scaler: SetScaler | None
    machine: Ensemble
    ensemble: Ensemble
    baselines: dict[str, Ensemble]
    trials: list[Trial]
    evaluation: EvaluationSet
    best: Trial
    best_part: Member
    is_constant: bool
    calibration: F64 | None
    background: SampleSets | None
    constant: F64
    omissions: tuple[Omission, ...]

    def fold_predictions(self, sets: Sets, design: StudyDesign | None = None) -> FoldPredictions:
        """Return predictions for held-out sets."""
        fitted = self.machine.design
        Z = None if fitted is None or design is None else fitted.encode(design)
        with one_blas_thread():
            scaled = sets if self.scaler is None else self.scaler.transform(sets)
            constant = np.tile(self.constant, (len(sets), 1))
            ensemble = self.ensemble.values(scaled, Z)
            baselines = {
                name: ensemble if machine is self.ensemble else machine.values(scaled, Z)
                for name, machine in self.baselines.items()
            }
        model = baselines.get(COVARIATES, constant) if self.is_constant else ensemble
        if self.calibration is not None:
            ensemble = log_probabilities(ensemble, self.calibration)
        return FoldPredictions(model, ensemble, {CONSTANT: constant, **baselines})

    def refit_sparse(self, data: TrainingData) -> SelectedModel | None:
        """Return the model with its penalty, fitted on all sets; None unless it is one linear model on sparse n-grams.

        Such a fit takes a small part of the time of a selection.
        """
        if self.is_constant or len(self.ensemble.parts) > 1 or not self.ensemble.trees.roots[0].sparse:
            return None
        view, ensemble = refit_ngrams(self.best, data)
        best = replace(self.best, view=view)
        return replace(self, machine=ensemble, ensemble=ensemble, best=best, best_part=ensemble.parts[0])


@one_blas_thread()  # candidates already run on several threads
def select_model(data: TrainingData, candidates: Any, budget: Budget) -> SelectedModel:
    """Select candidates by cross-validation, and fit their weighted average, or the constant."""
    if data.needs_pilot:
        pilot = select_model(replace(data, fit_loss=None), candidates, budget.restart(_tuning.PILOT_SHARE))
        data = with_working_response(data, pilot)
    prepared = prepare(data, candidates, budget)
    comparison = _compare_all(prepared)
    omissions = (*prepared.omissions, *_untried(prepared, comparison))
    ngrams = sufficient_ngrams(prepared.data, comparison.trials, comparison.rows.by_leaf, budget)
    if ngrams is None:
        comparison = _compare_best(prepared, comparison)
    if all(trial.trees is not None for trial in comparison.trials):
        raise ValueError(
            "X must contain sets with different points; got equal rows for all sets. Check the points."
        )
    if prepared.is_streamed or ngrams is not None:
        rows, fitted = _fit_streamed(prepared, comparison, comparison.trials if ngrams is None else [ngrams])
    else:
        rows, fitted = _fit_exact(prepared, comparison)
    return _with_baselines(prepared, comparison, rows, fitted, omissions)


@dataclass(frozen=True)
class Comparison:
    """Trials on the rows of some sets, best first; the planner has the time that these rows took."""

    rows: CandidateRows
    planner: BudgetPlanner
    evaluation: EvaluationSet
    trials: list[Trial]

    @property
    def baselines(self) -> dict[str, Trial]:
        """The best trial of each simple representation."""
        return {trial.view.entry.name: trial for trial in reversed(self.trials) if trial.view.entry.baseline}


def _compare_all(prepared: PreparedData) -> Comparison:
    """Compare all candidates on the sets of the first round."""
    data, budget = prepared.data, prepared.budget
    positions, start = np.sort(prepared.order[: round_sizes(len(prepared.order))[0]]), budget.elapsed
    rows = CandidateRows.compute(data, prepared.views, prepared.design, prepared.Z, positions)
    planner = BudgetPlanner(budget, len(data), len(rows), budget.elapsed - start)
    budget.require_remaining("the rows were computed")
    evaluation = data.evaluation_set(positions)
    trials = evaluate_all(rows.views.views, rows.adjusted, evaluation, budget)
    return Comparison(rows, planner, evaluation, trials)


def _untried(prepared: PreparedData, comparison: Comparison) -> list[Omission]:
    """Return the families for which no time was left in the first round."""
    if not prepared.budget.is_exhausted:
        return []
    tried = {trial.view.entry.family for trial in comparison.trials}
    families = dict.fromkeys(view.entry.family for view in prepared.views.views)
    return [Omission(family, "no time was left") for family in families if family not in tried]


def _compare_best(prepared: PreparedData, comparison: Comparison) -> Comparison:
    """Compare the best candidates on the sets of the later rounds."""
    sizes = round_sizes(len(prepared.order))[1:]
    if prepared.is_streamed:  # the held-out sets of the final fit replace the last comparison
        sizes = sizes[:-1]
    for size, halving_round in zip(sizes, HALVING_ROUNDS, strict=False):
        if not comparison.trials or prepared.budget.is_exhausted:
            break
        comparison = _next_round(prepared, comparison, size, halving_round)
    return comparison


def _next_round(
    prepared: PreparedData, comparison: Comparison, size: int, halving_round: HalvingRound
) -> Comparison:
    """Compare the survivors of a comparison on more sets."""
    data, budget, n_before = prepared.data, prepared.budget, len(comparison.rows)
    survivors = select_survivors(comparison.trials, comparison.evaluation, halving_round)
    start = budget.elapsed
    rows = comparison.rows.extend(np.sort(prepared.order[:size]), survivors)
    row_seconds = (budget.elapsed - start) / (len(rows) - n_before)
    planner = BudgetPlanner(budget, len(data), len(rows), row_seconds * len(rows))
    evaluation = data.evaluation_set(rows.positions)
    trials = evaluate_round(survivors, rows.adjusted, evaluation, budget, halving_round.penalty_factors)
    return Comparison(rows, planner, evaluation, trials)


def _fit_exact(prepared: PreparedData, comparison: Comparison) -> tuple[CandidateRows, FittedAverage]:
    """Fit the best average with the kernel matrices of all sets; return it with their rows."""
    data, rows, evaluation = prepared.data, comparison.rows, comparison.evaluation
    has_means = data.fit_loss is None  # trees predict means
    average = best_average([t for t in comparison.trials if has_means or t.trees is None], evaluation)
    is_constant = data.is_confounded or not evaluation.beats_constant(average.values)
    calibration = evaluation.calibration(average.values)
    if len(rows) < len(data):
        average = comparison.planner.trim_kernels(average)
        rows = rows.extend(np.arange(len(data)), [*average.members, *comparison.baselines.values()])
    members = zip(average.members, average.shares, strict=True)
    parts = tuple(prepared.budget.map(lambda member: rows.member(*member), members, len(data)))
    return rows, FittedAverage(average, rows.ensemble(parts), is_constant, calibration, {})


def _fit_streamed(
    prepared: PreparedData, comparison: Comparison, trials: Sequence[Trial]
) -> tuple[CandidateRows, FittedAverage]:
    """Fit the best average of trials in one pass over all sets, with kernels of landmarks.

    Return it with the rows of the compared sets.
    """
    data, order, rows, baselines = prepared.data, prepared.order, comparison.rows, comparison.baselines
    average = _streamed_members(
        [trial for trial in trials if trial.trees is None], comparison.evaluation, prepared.avoid_quadratic
    )
    n_landmarks = prepared.budget.max_landmarks(len(average.members), landmark_count(len(data), len(order)))
    average, n_landmarks = comparison.planner.trim_landmarks(average, n_landmarks)
    known = np.sort(order[: max(n_landmarks, len(rows))])
    known_rows = rows.extend(known, [*average.members, *baselines.values()]).by_leaf
    is_landmark = np.isin(known, order[:n_landmarks])
    landmarks = {leaf: leaf_rows[is_landmark] for leaf, leaf_rows in known_rows.items()}
    fitted = fit_streamed(data, average.members, landmarks, baselines)
    # other baselines have as many sets as after all rounds
    others = [trial for name, trial in baselines.items() if name not in fitted.baselines]
    return rows.extend(np.sort(order), others), fitted


def landmark_count(n_sets: int, n_compared: int) -> int:
    """Return the number of landmarks for a collection, at most that of the sets that were drawn for comparisons."""
    n_by_cost = max(_tuning.N_LANDMARKS_OF_MANY_SETS, int(np.sqrt(_tuning.LANDMARK_OPERATIONS / n_sets)))
    return min(_tuning.N_LANDMARKS, n_by_cost, n_compared)


def _streamed_members(
    trials: Sequence[Trial], evaluation: EvaluationSet, avoid_quadratic: bool
) -> WeightedAverage:
    """Return the best average of trials, with other representations that may improve it added with weight 0.

    Trials without quadratic time are preferred unless others reduce the loss considerably.
    """
    average = best_average(trials, evaluation)
    cheaper = [trial for trial in trials if not trial.view.entry.is_quadratic]
    if avoid_quadratic and cheaper:
        cheap_average = best_average(cheaper, evaluation)
        loss = evaluation.loss(cheap_average.values)
        if loss - evaluation.loss(average.values) <= _tuning.MIN_QUADRATIC_GAIN * abs(loss):
            trials, average = cheaper, cheap_average
    survivors = select_survivors(trials, evaluation, STREAMED_ROUND)
    others = [one.trials[0] for one in survivors if one.is_leading]
    return average.take_first(_tuning.MAX_STREAMED_MEMBERS).extend(others, STREAMED_ROUND.views)


def _with_baselines(
    prepared: PreparedData, comparison: Comparison, rows: CandidateRows, fitted: FittedAverage,
    omissions: tuple[Omission, ...],
) -> SelectedModel:  # fmt: skip
    """Fit the other baselines, and the best trial unless it is a member of the average."""
    evaluation, ensemble, calibration = comparison.evaluation, fitted.ensemble, fitted.calibration
    baselines = fitted.baselines | {
        name: rows.ensemble([rows.kernel_member(trial)])
        for name, trial in comparison.baselines.items()
        if name not in fitted.baselines
    }
    kernels = [i for i, trial in enumerate(fitted.average.members) if trial.trees is None]
    if kernels:
        best, best_part = fitted.average.members[kernels[0]], ensemble.parts[kernels[0]]
    else:  # all members are trees: use the best other trial
        best = next(trial for trial in comparison.trials if trial.trees is None)
        best_part = rows.kernel_member(best)
    constant = rows.constant_ensemble()
    if prepared.data.offset is not None:
        baselines[COVARIATES] = constant
        if fitted.is_constant:  # probabilities are those of the covariates
            ensemble, calibration = constant, evaluation.calibration(evaluation.constant_values)
    return SelectedModel(
        prepared.scaler, constant if fitted.is_constant else ensemble, ensemble, baselines, comparison.trials,
        evaluation, best, best_part, fitted.is_constant, calibration, prepared.background, prepared.constant, omissions,
    )  # fmt: skip
