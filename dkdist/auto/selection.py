"""Selection of a model: from sets and targets to a fitted ensemble.

sets ─ sample ─> fitted representations ─> rows of 400 sets ─> all candidates ─> rows of 900 ─> the best candidates
                              ─┬─ up to 4,000 sets: rows of up to 2,000 ─> the best ─> weighted average of exact kernels
                               └─ more: kernels of landmarks, in one pass ─> weighted average by held-out sets

`BudgetPlanner` predicts the time of the final fit from that of the trials, and drops members or landmarks that do not
fit into the budget. Kernels take n^3 operations, rows a constant time per set, m landmarks n m^2 operations per member
plus six solutions of m^3 operations. Predicted times may be wrong by a small factor. A warning is issued if even the
smallest fit exceeds the budget.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkdist._base.design_columns import StudyDesign
from dkdist._base.inputs import Sets, load_points
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64
from dkdist._runtime.process import one_blas_thread
from dkdist._utils.validation import find_stacklevel
from dkdist.auto import _tuning
from dkdist.auto._tuning import (
    BENCHMARK_ROWS,
    MAX_BACKGROUND_POINTS,
    MAX_BACKGROUND_SETS,
    MAX_FIT_COORDINATES,
    MAX_FIT_POINTS,
    MAX_FIT_SETS,
    MAX_FIT_STRINGS,
    MAX_QUADRATIC_SETS,
    MAX_SELECTION_SETS,
    MAX_STREAMED_MEMBERS,
    MAX_STREAMED_SETS,
    MIN_BOUNDED_SETS,
    MIN_QUADRATIC_GAIN,
    MIN_TRIMMED_LANDMARKS,
    N_LANDMARKS,
    N_STREAMED_ALPHAS,
    PILOT_SHARE,
)
from dkdist.auto.adjustment import Adjustment
from dkdist.auto.budgets import Budget
from dkdist.auto.cox_members import cox_member
from dkdist.auto.ensemble import Ensemble, KernelMember, LinearMember, Member, TreeMember
from dkdist.auto.folds import sample_positions
from dkdist.auto.large_collections import StreamedResult, fit_streamed, refit_ngrams, sufficient_ngrams
from dkdist.auto.losses import PoissonLoss, with_working_response
from dkdist.auto.outer_predictions import CONSTANT, FoldPredictions
from dkdist.auto.representation_rows import PairwiseRows, Views, compute_rows, extend_rows, fit_views
from dkdist.auto.representations import (
    FAMILIES,
    Omission,
    Representation,
    is_text,
    representations,
    user_representations,
)
from dkdist.auto.scoring import EvaluationSet, TrainingData
from dkdist.auto.study_design import COVARIATES
from dkdist.auto.successive_halving import (
    HALVING_ROUNDS,
    STREAMED_ROUND,
    Rows,
    Trial,
    WeightedAverage,
    best_average,
    evaluate_all,
    evaluate_round,
    fit_view_trees,
    required_leaves,
    round_sizes,
    select_survivors,
)
from dkdist.embeddings.set_scaler import SetScaler
from dkdist.linear.calibration import log_probabilities
from dkdist.linear.feature_trees import Node, SharedFeatureGraph
from dkdist.linear.held_out import choose_held_out
from dkdist.linear.kernel_ridge import duals
from dkdist.sets import SampleSets
from dkdist.sets.labels import Labels


@dataclass(frozen=True)
class BudgetPlanner:
    """Planner of the fit on ``n`` sets, after computing the rows of ``n_tried`` sets in ``row_seconds``."""

    budget: Budget
    n: int
    n_tried: int
    row_seconds: float

    def trim_kernels(self, average: WeightedAverage) -> WeightedAverage:
        """Return the average of the best members that fit into the remaining time, at least one."""
        if np.isinf(self.budget.seconds):
            return average
        row_seconds = self._all_row_seconds * (1 - self.n_tried / self.n)  # compared sets already have rows
        for k in range(len(average.members), 0, -1):
            trimmed = average.take_first(k)
            seconds = row_seconds + sum(map(self._kernel_seconds, trimmed.members))
            if seconds <= self.budget.remaining:
                return trimmed
        self._warn_over_budget(seconds)
        return trimmed

    def trim_landmarks(self, average: WeightedAverage, max_landmarks: int) -> tuple[WeightedAverage, int]:
        """Return the members and the number of landmarks that fit into the remaining time."""
        if np.isinf(self.budget.seconds):
            return average, max_landmarks
        product_seconds = seconds_per_product()
        for k in range(len(average.members), 0, -1):
            for m in _halving_sequence(max_landmarks):
                seconds = self._all_row_seconds + k * product_seconds * (
                    self.n * m**2 + N_STREAMED_ALPHAS * m**3
                )
                if seconds <= self.budget.remaining:
                    return average.take_first(k), m
        self._warn_over_budget(seconds)
        return average.take_first(1), m

    @property
    def _all_row_seconds(self) -> float:
        return self.row_seconds * self.n / self.n_tried

    def _kernel_seconds(self, trial: Trial) -> float:
        return trial.seconds / trial.n_penalties * (self.n / self.n_tried) ** 3

    def _warn_over_budget(self, seconds: float) -> None:
        warnings.warn(
            f"Fitting the best candidate on {self.n} sets needs about {seconds:.2g} s, but {self.budget.remaining:.2g} "
            f"s of the budget of {self.budget.seconds:.3g} s remain. Increase the budget, or pass fewer sets or "
            "cheaper candidates.",
            stacklevel=find_stacklevel(),
        )


def _halving_sequence(maximum: int) -> list[int]:
    """Return the maximum, its half and so on, down to about 128."""
    sizes = [maximum]
    while sizes[-1] >= 2 * MIN_TRIMMED_LANDMARKS:
        sizes.append(sizes[-1] // 2)
    return sizes


def seconds_per_product() -> float:
    """Measure the seconds per multiply-add of a matrix product on this machine."""
    A = np.ones((BENCHMARK_ROWS, BENCHMARK_ROWS))
    _ = A @ A  # warm-up: starts threads and allocates buffers
    start = time.perf_counter()
    _ = A @ A
    return (time.perf_counter() - start) / BENCHMARK_ROWS**3


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


@one_blas_thread()  # candidates already run on several threads
def select_model(data: TrainingData, candidates: Any, budget: Budget) -> SelectedModel:
    """Select candidates by cross-validation, and fit their weighted average, or the constant."""
    if isinstance(data.fit_loss, PoissonLoss) and data.working is None:
        pilot = select_model(replace(data, fit_loss=None), candidates, budget.restart(PILOT_SHARE))
        data = with_working_response(data, pilot)
    rng = np.random.default_rng(data.seed)
    if not _has_symbols(data.sets) and len(data) > MAX_STREAMED_SETS:
        data = _draw_sets(data, MAX_STREAMED_SETS)
    constant, needs_exact = data.constant_prediction, data.design is not None or data.fit_loss is not None
    if needs_exact and len(data) > _tuning.MAX_EXACT_SETS:  # neither adjusted nor reweighted with landmarks
        data = _draw_sets(data, _tuning.MAX_EXACT_SETS)
    sets, n = data.sets, len(data)
    sampled = sample_positions(rng, n, _sample_size(sets))
    sample = load_points(sets[sampled])
    scaler = _fit_scaler(sample, candidates)
    background = _draw_background(sample, data.seed, None if data.design is None else data.design[sampled])
    if scaler is not None:
        sample, sets = load_points(scaler.transform(sample)), scaler.transform(sets)
    data = replace(data, sets=sets)
    entries, omissions = _make_representations(candidates, sample, data)
    views = fit_views(entries, sample, separate_images=data.design is not None)
    omissions += [Omission(one.family, "no two dimensions are dependent") for one in views.unfitted(entries)]
    max_sets = budget.max_sets(n, views.row_bytes)
    if needs_exact and n > max_sets:
        data = _draw_sets(data, max_sets)
        sets, n = data.sets, len(data)
    adjustment, data = Adjustment.fit(data, views.images_by_leaf)
    order = rng.permutation(n)[: min(MAX_SELECTION_SETS, max_sets)]
    first_size, *later_sizes = round_sizes(len(order))
    compared = np.sort(order[:first_size])
    seconds_before = budget.elapsed
    rows = compute_rows(views, sets[compared], range(len(views.specs)))
    views, rows = views.standardised(rows, adjustment.of(rows, compared))
    planner = BudgetPlanner(budget, n, len(compared), budget.elapsed - seconds_before)
    budget.require_remaining("the rows were computed")
    evaluation = data.evaluation_set(compared)
    trials = evaluate_all(views.views, adjustment.of(rows, compared), evaluation, budget)
    tried = {trial.view.entry.family for trial in trials}
    if budget.is_exhausted:
        skipped = dict.fromkeys(view.entry.family for view in views.views)
        omissions += [Omission(family, "no time was left") for family in skipped if family not in tried]
    is_streamed, ngrams = not needs_exact and n > min(_tuning.MAX_EXACT_SETS, max_sets), None
    if (
        not needs_exact
        and is_text(sample)
        and n > MAX_SELECTION_SETS
        and np.isinf(budget.memory)
        and not budget.is_exhausted
    ):
        ngrams = sufficient_ngrams(data, trials, rows)
    if ngrams is not None:
        is_streamed, later_sizes = True, []
    elif is_streamed:  # the held-out sets of the final fit replace the last comparison
        later_sizes = later_sizes[:-1]
    for size, halving_round in zip(later_sizes, HALVING_ROUNDS, strict=False):
        if not trials or budget.is_exhausted:
            break
        survivors = select_survivors(trials, evaluation, halving_round)
        seconds_before, previous, compared = budget.elapsed, compared, np.sort(order[:size])
        rows = extend_rows(views, sets, compared, rows, previous, required_leaves(survivors))
        row_seconds = (budget.elapsed - seconds_before) / (len(compared) - len(previous))
        planner = BudgetPlanner(budget, n, len(compared), row_seconds * len(compared))
        evaluation = data.evaluation_set(compared)
        adjusted_rows = adjustment.of(rows, compared)
        trials = evaluate_round(survivors, adjusted_rows, evaluation, budget, halving_round.penalty_factors)
    if all(trial.trees is not None for trial in trials):
        raise ValueError(
            "X must contain sets with different points; got equal rows for all sets. Check the points."
        )
    averaged = trials if ngrams is None else [ngrams]
    if data.fit_loss is not None:  # trees predict means
        averaged = [trial for trial in trials if trial.trees is None]
    average = best_average(averaged, evaluation)
    is_constant, calibration = (
        ngrams is None and (data.is_confounded or not evaluation.beats_constant(average.values)),
        evaluation.calibration(average.values),
    )
    baseline_trials = {
        trial.view.entry.name: trial for trial in reversed(trials) if trial.view.entry.baseline
    }
    baselines: dict[str, Ensemble] = {}
    if is_streamed:
        usable = [trial for trial in averaged if trial.trees is None]
        avoid_quadratic = candidates == "auto" and n > MAX_QUADRATIC_SETS
        average = _streamed_members(usable, evaluation, avoid_quadratic=avoid_quadratic)
        most_landmarks = budget.max_landmarks(len(average.members), min(N_LANDMARKS, len(order)))
        average, n_landmarks = planner.trim_landmarks(average, most_landmarks)
        leaves = required_leaves([*average.members, *baseline_trials.values()])
        known = np.sort(order[: max(n_landmarks, len(compared))])
        known_rows = extend_rows(views, sets, known, rows, compared, leaves)
        is_landmark = np.isin(known, order[:n_landmarks])
        landmarks = {leaf: leaf_rows[is_landmark] for leaf, leaf_rows in known_rows.items()}
        streamed = fit_streamed(data, average.members, landmarks, baseline_trials)
        is_constant = streamed.is_constant
        ensemble = _streamed_ensemble(streamed, streamed.machines, data.y.shape[1])
        baselines = {
            name: ensemble
            if member is streamed.machines[0]
            else _streamed_ensemble(streamed, [member], data.y.shape[1])
            for name, member in streamed.baselines.items()
        }
        if len(compared) < len(order):  # other baselines have as many sets as after all rounds
            leaves = required_leaves([t for name, t in baseline_trials.items() if name not in baselines])
            previous, compared = compared, np.sort(order)
            rows = extend_rows(views, sets, compared, rows, previous, leaves)
        average, known_rows, training_data = streamed.average, rows, data.take(compared)
        calibration = streamed.calibration
    else:
        if len(compared) < n:
            average = planner.trim_kernels(average)
            leaves = required_leaves([*average.members, *baseline_trials.values()])
            rows = extend_rows(views, sets, np.arange(n), rows, compared, leaves)
        known_rows, training_data = adjustment.final(rows), data
        ensemble = _fit_exact(views, known_rows, average, data, budget, adjustment)
    baselines |= {
        name: _make_ensemble(
            views, [_fit_kernel_member(trial, 1.0, known_rows, training_data)], data, adjustment
        )
        for name, trial in baseline_trials.items()
        if name not in baselines
    }
    predictor = _constant_ensemble(views, data, adjustment) if is_constant else ensemble
    if data.offset is not None:
        baselines[COVARIATES] = _constant_ensemble(views, data, adjustment)
    best = next((trial for trial in average.members if trial.trees is None), None)
    if best is None:  # all members are trees: use the best other trial
        best = next(trial for trial in trials if trial.trees is None)
        best_part: Member = _fit_kernel_member(best, 1.0, known_rows, training_data)
    else:
        best_part = ensemble.parts[average.members.index(best)]
    if is_constant and data.offset is not None:  # probabilities are those of the covariates
        ensemble, calibration = predictor, evaluation.calibration(evaluation.constant_values)
    return SelectedModel(
        scaler, predictor, ensemble, baselines, trials, evaluation, best, best_part, is_constant, calibration,
        background, constant, tuple(omissions),
    )  # fmt: skip


def _draw_sets(data: TrainingData, max_sets: int) -> TrainingData:
    """Return the data of ``max_sets`` random sets, stratified by class."""
    share = 1 - max_sets / len(data)
    left_out = choose_held_out(len(data), share, (data.seed, RngStream.SAMPLED_SETS), data.classes)
    return data.take(np.flatnonzero(~left_out))


def _streamed_members(
    trials: Sequence[Trial], evaluation: EvaluationSet, *, avoid_quadratic: bool
) -> WeightedAverage:
    """Return the best average of trials, with other representations that may improve it added with weight 0.

    Trials without quadratic time are preferred unless others reduce the loss considerably.
    """
    average = best_average(trials, evaluation)
    cheaper = [trial for trial in trials if not trial.view.entry.is_quadratic]
    if avoid_quadratic and cheaper:
        cheap_average = best_average(cheaper, evaluation)
        loss = evaluation.loss(cheap_average.values)
        if loss - evaluation.loss(average.values) <= MIN_QUADRATIC_GAIN * abs(loss):
            trials, average = cheaper, cheap_average
    survivors = select_survivors(trials, evaluation, STREAMED_ROUND)
    others = [one.trials[0] for one in survivors if one.is_leading]
    return average.take_first(MAX_STREAMED_MEMBERS).extend(others, STREAMED_ROUND.views)


def _constant_ensemble(views: Views, data: TrainingData, adjustment: Adjustment) -> Ensemble:
    """Return an ensemble that predicts the mean target, from the representation with the fewest columns."""
    leaf = int(np.argmin([spec.n_features for spec in views.specs]))
    weights = np.zeros((data.y.shape[1], views.specs[leaf].n_features))
    return _make_ensemble(
        views, [LinearMember(leaf, weights, data.constant_prediction, 1.0)], data, adjustment
    )


def _make_ensemble(
    views: Views, parts: Sequence[Member], data: TrainingData, adjustment: Adjustment
) -> Ensemble:
    widths, leaves = tuple(spec.n_features for spec in views.specs), sorted({part.leaf for part in parts})
    return Ensemble(
        views.trees.only(leaves), widths, tuple(parts), data.y.shape[1], adjustment.design,
        adjustment.coefficients(widths, leaves),
    )  # fmt: skip


def refit_sparse(model: SelectedModel, data: TrainingData) -> SelectedModel | None:
    """Return the model with its penalty, fitted on all sets; None unless it is one linear model on sparse n-grams.

    Such a fit takes a small part of the time of a selection.
    """
    if model.is_constant or len(model.ensemble.parts) > 1 or not model.ensemble.trees.roots[0].sparse:
        return None
    view, part = refit_ngrams(model.best, data)
    graph = SharedFeatureGraph((Node(view.spec, (), 0, sparse=True),))
    ensemble = Ensemble(graph, (view.n_features,), (part,), data.y.shape[1])
    return replace(
        model, machine=ensemble, ensemble=ensemble, best=replace(model.best, view=view), best_part=part
    )


def _streamed_ensemble(streamed: StreamedResult, parts: Sequence[Member], n_outputs: int) -> Ensemble:
    leaves = sorted({part.leaf for part in parts})
    return Ensemble(streamed.trees.only(leaves), streamed.widths, tuple(parts), n_outputs)


def _fit_scaler(sample: SampleSets, candidates: Any) -> SetScaler | None:
    """Return a scaler of the points; None for strings and for user-defined embeddings or transformers."""
    is_unscaled = is_text(sample) or any(not isinstance(one, str) for one in candidates)
    return None if is_unscaled else SetScaler().fit(sample)


def _draw_background(sample: SampleSets, seed: int, design: StudyDesign | None) -> SampleSets | None:
    """Return up to 16 sets with up to 512 points each for explanations by dimension; None for strings."""
    if is_text(sample):
        return None
    rng = np.random.default_rng([seed, RngStream.BACKGROUND])
    positions = sample_positions(rng, len(sample), MAX_BACKGROUND_SETS)
    chosen = sample[positions]
    rows = [sample_positions(rng, n, MAX_BACKGROUND_POINTS) for n in chosen.sizes.tolist()]
    points = np.concatenate([start + set_rows for start, set_rows in zip(chosen.offsets, rows, strict=False)])
    offsets = np.concatenate([[0], np.cumsum([len(set_rows) for set_rows in rows])])
    labels = Labels(names=chosen.names) if design is None else design.labels(positions, chosen.names)
    return chosen._of_rows(points, offsets, labels)


def _make_representations(
    candidates: Any, sample: SampleSets, data: TrainingData
) -> tuple[list[Representation], list[Omission]]:
    if isinstance(candidates, str):
        if candidates != "auto":
            raise ValueError(
                f"candidates must be 'auto', or a list of {', '.join(FAMILIES)} or embeddings; got {candidates!r}."
            )
        return representations(sample, None, data.seed, data.is_ordered)
    entries = list(candidates)
    families = [one for one in entries if isinstance(one, str)]
    if (unknown := sorted(set(families) - set(FAMILIES))) or not entries:
        raise ValueError(
            f"candidates must be 'auto', or a list of {', '.join(FAMILIES)} or embeddings; got {unknown or entries}."
        )
    user_entries = user_representations([one for one in entries if not isinstance(one, str)])
    named_entries, omissions = representations(sample, families, data.seed, data.is_ordered)
    return named_entries + user_entries, omissions


def _fit_exact(
    views: Views,
    rows: Rows,
    average: WeightedAverage,
    data: TrainingData,
    budget: Budget,
    adjustment: Adjustment,
) -> Ensemble:
    """Fit every member on all sets; a trial on all sets is reused."""
    members = zip(average.members, average.shares, strict=True)
    parts = tuple(budget.map(lambda member: _fit_member(*member, rows, data), members, len(data)))
    return _make_ensemble(views, parts, data, adjustment)


def _fit_member(trial: Trial, share: float, rows: Rows, data: TrainingData) -> Member:
    if trial.trees is None:
        return _fit_kernel_member(trial, share, rows, data)
    trees = trial.trees
    if trial.values.shape[1] < len(data):
        trees, _ = fit_view_trees(trial.view, rows, data.y, data.weights, data.groups, data.classes)
    if (
        data.survival is not None
    ):  # near equal hazards, residuals are log hazards times the fraction of events
        share /= max(data.survival.event_fraction, 1 / len(data))
    return TreeMember(trial.view.leaf, trees, share)


def _fit_kernel_member(trial: Trial, share: float, rows: Rows, data: TrainingData) -> KernelMember:
    images, a = trial.view.of(rows), trial.duals
    if data.survival is not None and data.survival.event.any():
        return cox_member(trial, share, images, data.survival)
    if len(a) < len(data.y) or data.fit_loss is not None:
        (K,) = PairwiseRows(images).matrices([trial.row_kernel])
        fit = duals if data.fit_loss is None else data.fit_loss.duals
        a = fit(K, data.y, data.weights, trial.alpha)
    centre = images[0].mean(axis=0, dtype=np.float64)
    return KernelMember(trial.view.leaf, trial.row_kernel, tuple(images), a, centre, share)


def _sample_size(sets: Sets) -> int:
    max_sets = MAX_FIT_STRINGS if _has_symbols(sets) else MAX_FIT_SETS
    set_points = max(1, sets.n_points // len(sets))
    bounded_sets = max(MIN_BOUNDED_SETS, MAX_FIT_COORDINATES // (set_points * sets.n_dims))
    return int(np.clip(MAX_FIT_POINTS // set_points, 16, min(max_sets, bounded_sets)))


def _has_symbols(sets: Sets) -> bool:
    return sets.alphabet is not None or sets.points_dtype.kind == "u"
