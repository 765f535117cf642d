"""From sets and targets to a machine, with no choice left to anybody.

sets ─ a sample ─> views fitted ─> rows of 400 sets ─> trials of all ─> rows of 900 ─> trials of the best
                                              ─> rows of up to 2,000 ─> trials of the best of these ─> average
average ─┬─ up to 4,000 sets: exact kernels
         └─ more: one pass of random features

How long the fit of what was chosen will take, and how much of it a budget of time has room for.

Kernels of n sets take n^3 operations where a trial took n_tried^3 for each penalty; rows take as long a set as they
took for those that were compared. One pass of random features multiplies rows of D features with each other, n D^2
operations for each member, and solves for five penalties; how fast this machine multiplies is measured. All is a guess
of some factor: where not even the least has room, a warning says what to expect.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkdist._base.inputs import Sets, load_points
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.process import one_blas_thread
from dkdist._utils.validation import find_stacklevel
from dkdist.auto.budgets import Budget
from dkdist.auto.ensemble import Ensemble, KernelMember, LinearMember, Member, TreeMember
from dkdist.auto.large_collections import learn_streamed
from dkdist.auto.outer_predictions import CONSTANT, FoldPredictions
from dkdist.auto.representation_rows import ComparedRows, Views, fitted_views, more_rows, rows_of
from dkdist.auto.representations import (
    FAMILIES,
    Representation,
    is_text,
    own_representations,
    representations,
)
from dkdist.auto.scoring import EvaluationSet, TrainingData
from dkdist.auto.successive_halving import (
    HALVING_ROUNDS,
    Average,
    Rows,
    Trial,
    best_average,
    evaluate_round,
    finalists,
    fit_view_trees,
    leaves_of,
    rounds,
    try_all,
)
from dkdist.embeddings.set_scaler import SetScaler
from dkdist.linear.calibration import log_probabilities
from dkdist.linear.kernel_ridge import duals
from dkdist.sets import SampleSets
from dkdist.sets.labels import Labels

MEASURED = 768  # rows of the matrices that are multiplied to see how fast that is
FEWEST = 512  # random features, below which members are given up instead
SOLUTIONS = 5  # penalties of each member in a pass: D^3 / 3 multiplications each, and an inverse's some more


@dataclass(frozen=True)
class BudgetPlanner:
    """A fit on ``n`` sets, after ``n_tried`` of them were compared, whose rows took ``row_seconds``."""

    budget: Budget
    n: int
    n_tried: int
    row_seconds: float

    def trim_kernels(self, average: Average) -> Average:
        """As many members, the best first, as there is time for; one at least."""
        if np.isinf(self.budget.seconds):
            return average
        rows = self._rows * (1 - self.n_tried / self.n)  # the others are there
        for k in range(len(average.members), 0, -1):
            kept = average.first(k)
            needed = rows + sum(map(self._kernel, kept.members))
            if needed <= self.budget.left:
                return kept
        self._tell(needed)
        return kept

    def trim_features(self, average: Average, most: int) -> tuple[Average, int]:
        """As many members, and as many random features of each up to ``most``, as there is time for."""
        if np.isinf(self.budget.seconds):
            return average, most
        each = seconds_a_product()
        for k in range(len(average.members), 0, -1):
            for D in _halves(most):
                needed = self._rows + k * each * (self.n * D**2 + SOLUTIONS * D**3)
                if needed <= self.budget.left:
                    return average.first(k), D
        self._tell(needed)
        return average.first(1), D

    @property
    def _rows(self) -> float:
        return self.row_seconds * self.n / self.n_tried

    def _kernel(self, trial: Trial) -> float:
        return trial.seconds / trial.n_penalties * (self.n / self.n_tried) ** 3

    def _tell(self, needed: float) -> None:
        warnings.warn(
            f"the fit of the best candidate on {self.n} sets will take some {needed:.2g} s, and {self.budget.left:.2g} "
            f"of the budget of {self.budget.seconds:.3g} s are left: give more, fewer sets, or candidates that take "
            "less",
            stacklevel=find_stacklevel(),
        )


def _halves(most: int) -> list[int]:
    """Even numbers: the most, its half, and so on while there are some five hundred."""
    found = [most]
    while found[-1] >= 2 * FEWEST:
        found.append(found[-1] // 4 * 2)
    return found


def seconds_a_product() -> float:
    """Of one multiplication and addition within a product of matrices, on this machine."""
    A = np.ones((MEASURED, MEASURED))
    _ = A @ A  # wakes what has to be woken
    start = time.perf_counter()
    _ = A @ A
    return (time.perf_counter() - start) / MEASURED**3


SAMPLE_SETS, SAMPLE_POINTS = 512, 2**21  # that representations are fitted on
SAMPLE_STRINGS = 2**14  # the same of strings: which n-grams are frequent takes more of them
CHOICE_SETS = 2000  # by which candidates are compared
EXACT_SETS = 4000  # up to which kernels are exact
N_COMPONENTS = 4096  # random features of each member beyond
BACKGROUND_SETS, BACKGROUND_POINTS = 16, 512  # that are kept, and of each set
FEW_MEMBERS = 4  # up to which kernels of widths between those that were tried are learned too


@dataclass(frozen=True)
class SelectedModel:
    """The result of one selection: scaler, predictors, and the trials with the rows that compared them.

    ``machine`` predicts: ``ensemble``, or the constant where ``is_constant``. ``baselines`` are the best trials of
    simple representations, by name. ``best`` is the best single candidate, and ``best_part`` its fitted predictor.
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

    def fold_predictions(self, sets: Sets) -> FoldPredictions:
        """Predictions of held-out sets."""
        with one_blas_thread():
            scaled = sets if self.scaler is None else self.scaler.transform(sets)
            constant = np.tile(self.constant, (len(sets), 1))
            ensemble = self.ensemble.values(scaled)
            baselines = {name: machine.values(scaled) for name, machine in self.baselines.items()}
        model = constant if self.is_constant else ensemble
        if self.calibration is not None:
            ensemble = log_probabilities(ensemble, self.calibration)
        return FoldPredictions(model, ensemble, {CONSTANT: constant, **baselines})


@one_blas_thread()  # candidates run on threads of their own, which BLAS threads would wait for
def choose(data: TrainingData, candidates: Any, allowed: Budget) -> SelectedModel:
    """Compare candidates by cross-validation, and fit an average of the best, or the constant."""
    rng = np.random.default_rng(data.seed)
    sets, n = data.sets, len(data)
    sample = load_points(sets[some_of(rng, n, _sample_size(sets))])
    scaler, background = _scaler(sample, candidates), _background(sample, data.seed)
    if scaler is not None:
        sample, sets = load_points(scaler.transform(sample)), scaler.transform(sets)
    data = replace(data, sets=sets)
    views = fitted_views(_entries(candidates, sample, data.seed), sample)
    most = allowed.most_sets(n, views.row_bytes)
    order = rng.permutation(n)[: min(CHOICE_SETS, most)]
    fewest, *more = rounds(len(order))
    tried = np.sort(order[:fewest])
    before = allowed.spent
    views, rows = views.standardised(rows_of(views, sets[tried], range(len(views.specs))))
    last = BudgetPlanner(allowed, n, len(tried), allowed.spent - before)
    allowed.require_left("rows were made")
    evaluation = data.evaluation_set(tried)
    trials = try_all(views.views, rows, evaluation, allowed)
    for size, wanted in zip(more, HALVING_ROUNDS, strict=False):
        if not trials or allowed.used_up:
            break
        again = finalists(trials, evaluation, wanted)
        before, known, tried = allowed.spent, tried, np.sort(order[:size])
        rows = more_rows(views, sets, tried, rows, known, leaves_of(again))
        a_row = (allowed.spent - before) / (len(tried) - len(known))
        last = BudgetPlanner(allowed, n, len(tried), a_row * len(tried))
        evaluation = data.evaluation_set(tried)
        trials = evaluate_round(again, rows, evaluation, allowed, wanted.nearby)
    if all(trial.trees is not None for trial in trials):
        raise ValueError(
            "nothing tells the sets apart: all have the same points, or equal rows. Check the points"
        )
    average = best_average(trials, evaluation)
    is_constant, calibration = (
        not evaluation.beats_constant(average.values),
        evaluation.calibration(average.values),
    )
    simple = {trial.view.entry.name: trial for trial in reversed(trials) if trial.view.entry.baseline}
    if n > min(EXACT_SETS, most):
        average = best_average([trial for trial in trials if trial.trees is None], evaluation)
        average = average.widened(FEW_MEMBERS) if allowed.unlimited else average
        most_components = allowed.most_components(len(average.members), N_COMPONENTS)
        average, n_components = last.trim_features(average, most_components)
        fitted = learn_streamed(data, average.members, n_components)
        ensemble = Ensemble(fitted.trees, tuple(fitted.widths), tuple(fitted.machines), data.y.shape[1])
        average, known_rows, learned = fitted.average, rows, data.take(tried)
        calibration = fitted.calibration
    else:
        if len(tried) < n:
            average = last.trim_kernels(average)
            needed = leaves_of([*average.members, *simple.values()])
            rows = more_rows(views, sets, np.arange(n), rows, tried, needed)
        ensemble, known_rows, learned = _exact(views, rows, average, data, allowed), rows, data
    baselines = {
        name: _machine(views, [_kernel_machine(trial, 1.0, known_rows, learned)], data)
        for name, trial in simple.items()
    }
    machine = _constant(views, data) if is_constant else ensemble
    best = next((trial for trial in average.members if trial.trees is None), None)
    if best is None:  # trees alone: the best of the others is what public parts can express
        best = next(trial for trial in trials if trial.trees is None)
        best_part: Member = _kernel_machine(best, 1.0, known_rows, learned)
    else:
        best_part = ensemble.parts[average.members.index(best)]
    return SelectedModel(
        scaler, machine, ensemble, baselines, trials, evaluation, best, best_part, is_constant, calibration, background,
        data.constant,
    )  # fmt: skip


def _constant(views: Views, data: TrainingData) -> Ensemble:
    """Predict the mean target, from the narrowest rows."""
    leaf = int(np.argmin([spec.n_features for spec in views.specs]))
    weights = np.zeros((data.y.shape[1], views.specs[leaf].n_features))
    return _machine(views, [LinearMember(leaf, weights, data.constant, 1.0)], data)


def _machine(views: Views, parts: Sequence[Member], data: TrainingData) -> Ensemble:
    widths = tuple(spec.n_features for spec in views.specs)
    return Ensemble(
        views.trees.only(sorted({part.leaf for part in parts})), widths, tuple(parts), data.y.shape[1]
    )


def _scaler(sample: SampleSets, candidates: Any) -> SetScaler | None:
    """What puts points into units of their spread; strings, and sets for embeddings of the user's own, stay."""
    as_they_are = is_text(sample) or any(not isinstance(one, str) for one in candidates)
    return None if as_they_are else SetScaler().fit(sample)


def _background(sample: SampleSets, seed: int) -> SampleSets | None:
    """Up to 16 of the sets, of up to 512 points each in their order, that dimensions of others can be compared with.

    None for strings, which have no dimensions.
    """
    if is_text(sample):
        return None
    rng = np.random.default_rng([seed, RngStream.BACKGROUND])
    chosen = sample[some_of(rng, len(sample), BACKGROUND_SETS)]
    rows = [some_of(rng, n, BACKGROUND_POINTS) for n in chosen.sizes.tolist()]
    taken = np.concatenate([start + own for start, own in zip(chosen.offsets, rows, strict=False)])
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in rows])])
    return chosen._of_rows(taken, offsets, Labels(names=chosen.names))


def _entries(candidates: Any, sample: SampleSets, seed: int) -> list[Representation]:
    if isinstance(candidates, str):
        if candidates != "auto":
            raise ValueError(
                f"candidates must be 'auto', or a list of {', '.join(FAMILIES)} or embeddings; found {candidates!r}"
            )
        return representations(sample, None, seed)
    given = list(candidates)
    words = [one for one in given if isinstance(one, str)]
    if (unknown := sorted(set(words) - set(FAMILIES))) or not given:
        raise ValueError(
            f"candidates must be 'auto', or a list of {', '.join(FAMILIES)} or embeddings; found {unknown or given}"
        )
    own = own_representations([one for one in given if not isinstance(one, str)])
    return representations(sample, words, seed) + own


def _exact(views: Views, rows: Rows, average: Average, data: TrainingData, budget: Budget) -> Ensemble:
    """Kernel ridge regression of every member on all sets; a trial on all of them is one."""
    members = zip(average.members, average.shares, strict=True)
    parts = tuple(budget.at_once(lambda member: _fitted_member(*member, rows, data), members, len(data)))
    return _machine(views, parts, data)


def _fitted_member(trial: Trial, share: float, rows: Rows, data: TrainingData) -> Member:
    if trial.trees is None:
        return _kernel_machine(trial, share, rows, data)
    trees = trial.trees
    if trial.values.shape[1] < len(data):
        trees, _ = fit_view_trees(trial.view, rows, data.y, data.weights, data.groups, data.classes)
    return TreeMember(trial.view.leaf, trees, share)


def _kernel_machine(trial: Trial, share: float, rows: Rows, data: TrainingData) -> KernelMember:
    own, a = trial.view.of(rows), trial.duals
    if len(a) < len(data.y):
        (K,) = ComparedRows(own).matrices([trial.row_kernel])
        a = duals(K, data.y, data.weights, trial.alpha)
    centre = own[0].mean(axis=0, dtype=np.float64)
    return KernelMember(trial.view.leaf, trial.row_kernel, tuple(own), a, centre, share)


def some_of(rng: np.random.Generator, n: int, most: int) -> I64:
    """All positions below n, or ``most`` at random, ascending."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _sample_size(sets: Sets) -> int:
    most = SAMPLE_STRINGS if sets.alphabet is not None or sets.points_dtype.kind == "u" else SAMPLE_SETS
    return int(np.clip(SAMPLE_POINTS // max(1, sets.n_points // len(sets)), 16, most))
