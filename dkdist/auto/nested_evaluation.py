"""Nested cross-validation of automatic models: a selection on all sets, and one without each outer fold."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dkdist._base.design_columns import StudyDesign, check_names
from dkdist._base.inputs import Sets
from dkdist._base.parameter_checks import check_int, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.progress import Progress
from dkdist._utils.validation import check_verbose, find_stacklevel
from dkdist.auto import _tuning
from dkdist.auto._tuning import MIN_SETS_WITHOUT_WARNING
from dkdist.auto.budgets import Budget
from dkdist.auto.folds import fold_labels
from dkdist.auto.leaderboard import Evidence, Leaderboard, equivalence_margin, make_leaderboard
from dkdist.auto.leakage import warn_leakage
from dkdist.auto.losses import shift_trials
from dkdist.auto.nuisance import check_confounding, report_design
from dkdist.auto.outer_predictions import (
    CONSTANT,
    OuterFolds,
    OuterPredictions,
    collect_predictions,
    draw_outer_folds,
)
from dkdist.auto.point_order import assumptions, check_ordered, find_point_order
from dkdist.auto.scoring import Score, TrainingData
from dkdist.auto.selection import SelectedModel, select_model

if TYPE_CHECKING:
    from dkdist.auto.set_learner import SetLearner


@dataclass(frozen=True)
class EvaluatedModel:
    """A model that was selected on ``training_data``, predictions for all sets, and a report on these."""

    model: SelectedModel
    training_data: TrainingData
    outer: OuterPredictions
    p_value: float
    leaderboard: Leaderboard
    leads: dict[str, tuple[float, float]]
    evidence: Evidence
    explained: dict[str, float]
    nuisance_scores: dict[str, dict[str, float]]
    is_ordered: bool
    evaluated_on: str
    design_notes: tuple[str, ...]
    assumptions: tuple[str, ...]


def training_data(
    learner: SetLearner, sets: Sets, y: F64, classes: I64 | None, weights: F64, groups: Any, score: Score, survival: Any
) -> TrainingData:  # fmt: skip
    """Return the data of the sets of positive weight; ValueError for invalid parameters of the learner."""
    names = check_names(learner.covariates, learner.adjust)
    design = StudyDesign.of(sets, *names) if any(names) else None
    if learner.n_permutations is not None:
        check_int("n_permutations", learner.n_permutations)
    check_ordered(learner.ordered)
    used = np.flatnonzero(weights)
    if len(used) < 2:
        raise ValueError(f"sample_weight must be above 0 for at least 2 sets; got {len(used)}.")
    if len(used) < MIN_SETS_WITHOUT_WARNING:
        warnings.warn(
            f"X should have at least {MIN_SETS_WITHOUT_WARNING} sets; got {len(used)}. Scores have large standard "
            "errors, and the model may fall back to a constant prediction.",
            stacklevel=find_stacklevel(),
        )
    used_groups = None if groups is None else check_groups(groups, len(sets))[used]
    used_classes = None if classes is None else classes[used]
    event, time = (None, None) if survival is None else (survival[0][used], survival[1][used])
    return TrainingData(
        sets if len(used) == len(sets) else sets[used], y[used], used_classes, weights[used] / weights[used].mean(),
        used_groups, used, learner.cv, fold_labels(learner.cv, len(used), used_classes, used_groups),
        draw_seed(learner.random_state), None if learner.scoring is None else score,
        design=None if design is None else design[used], event=event, time=time, fit_loss=learner._fit_loss,
    )  # fmt: skip


def check_groups(groups: Any, n: int) -> NDArray[Any]:
    """Return group indices (n,); ValueError for fewer than 2 groups."""
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups must have shape ({n},), one label per set; got {labels.shape}.")
    unique_labels, index = np.unique(labels, return_inverse=True)
    if len(unique_labels) < 2:
        raise ValueError(
            f"groups must contain at least 2 distinct values; got {unique_labels.tolist()[0]!r} for every set."
        )
    return index


def select_and_evaluate(learner: SetLearner, data: TrainingData, score: Score) -> EvaluatedModel:
    """Select a model on all sets, or on those outside of the hold-out, and evaluate selections on the outer folds."""
    explained, is_confounded = check_confounding(data)
    order = find_point_order(learner.ordered, data.sets, learner.candidates, data.seed)
    data = replace(data, is_confounded=is_confounded, is_ordered=order.is_used)
    budget = Budget.from_value(learner.budget)
    folds = _outer_folds(data, budget)
    warn_leakage(data.sets, data.groups, folds.test_rows, data.positions)
    with _progress(learner, len(folds.test_rows) + folds.refit, "", "selections") as progress:
        model = None
        if folds.refit:  # before the folds, so that errors name sets by their positions in X
            model = select_model(data, learner.candidates, budget.restart(2 / 3))
            progress.advance(1)
        last_model, train, outer = _evaluate(learner, data, folds, budget, progress)
        model = last_model.refit_sparse(data) if model is None else model
    p_value = outer.p_value()
    if learner.n_permutations is not None:
        p_value = _refitted_p_value(learner, data, outer.statistic)
    used, model = (train, last_model) if model is None else (data, model)
    trials: Sequence[Any] = model.trials
    if data.fit_loss is not None:
        trials = shift_trials(trials, model.evaluation, data.fit_loss)
    leaderboard, leads = make_leaderboard(outer, trials, model.evaluation, score)
    constant_score = next(entry["score"] for entry in leaderboard if entry["name"] == CONSTANT)
    margin = equivalence_margin(constant_score, learner.scoring is None)
    evidence = Evidence(p_value, margin, model.is_constant, data.design is not None)
    nuisance_scores, notes = report_design(model, data, explained)
    return EvaluatedModel(
        model, used, outer, p_value, leaderboard, leads, evidence, explained, nuisance_scores, order.is_used,
        folds.description, notes, assumptions(order, model.omissions),
    )  # fmt: skip


def _progress(learner: SetLearner, n: int, suffix: str, unit: str) -> Progress:
    name = f"{type(learner).__name__}{suffix}"
    return Progress(n, name, show=check_verbose(learner.verbose), unit=unit)


def _outer_folds(data: TrainingData, budget: Budget) -> OuterFolds:
    return draw_outer_folds(data, _tuning.MAX_EXACT_SETS, single=bool(np.isfinite(budget.seconds)))


def _evaluate(
    learner: SetLearner,
    data: TrainingData,
    folds: OuterFolds,
    budget: Budget,
    progress: Progress | None = None,
) -> tuple[SelectedModel, TrainingData, OuterPredictions]:
    """Return the model of the last outer fold, its training data, and the predictions of all folds."""
    parts = []
    for test in folds.test_rows:
        train = data.take(np.setdiff1d(np.arange(len(data)), test))
        model = select_model(train, learner.candidates, budget.restart())
        design = None if data.design is None else data.design[test]
        parts.append(model.fold_predictions(data.sets[test], design))
        if progress is not None:
            progress.advance(1)
    return model, train, collect_predictions(data, folds, parts)


def _refitted_p_value(learner: SetLearner, data: TrainingData, observed: float) -> float:
    """Repeat selection and evaluation with permuted targets."""
    rng = np.random.default_rng([data.seed, RngStream.P_VALUE])
    n_permutations, n_as_large = int(learner.n_permutations or 0), 0
    with _progress(learner, n_permutations, ", permuted targets", "evaluations") as progress:
        for _ in range(n_permutations):
            permuted, budget = data.permuted(rng), Budget.from_value(learner.budget)
            *_, outer = _evaluate(learner, permuted, _outer_folds(permuted, budget), budget)
            n_as_large += outer.statistic >= observed - 1e-9 * abs(observed)
            progress.advance(1)
    return (1 + n_as_large) / (1 + n_permutations)
