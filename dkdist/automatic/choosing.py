"""From sets and targets to a machine, with no choice left to anybody.

sets ─ a sample ─> views fitted ─> rows of 400 sets ─> trials of all ─> rows of 900 ─> trials of the best
                                              ─> rows of up to 2,000 ─> trials of the best of these ─> average
average ─┬─ up to 4,000 sets: exact kernels
         └─ more: one pass of random features
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkdist.automatic.averages import Average, best_average, finalists
from dkdist.automatic.budgets import Budget
from dkdist.automatic.final_fit import FinalFit
from dkdist.automatic.leaderboard import Judged
from dkdist.automatic.learned.kept_background import kept_background
from dkdist.automatic.learned.machines import KernelMachine, Machine
from dkdist.automatic.learned.streamed import learn_streamed
from dkdist.automatic.question import Question
from dkdist.automatic.trials import AGAIN, Rows, Trial, leaves_of, rounds, try_again, try_all
from dkdist.automatic.truth import Truth
from dkdist.automatic.views.representation_rows import Views, fitted_views, more_rows, rows_of
from dkdist.automatic.views.representations import (
    FAMILIES,
    Representation,
    is_text,
    own_representations,
    representations,
)
from dkdist.automatic.views.row_kernels import ComparedRows
from dkdist.base.inputs import Sets
from dkdist.execution.processes.process import one_blas_thread
from dkdist.learners.kernel_ridge import duals
from dkdist.loops.array_types import I64
from dkdist.scaling.set_scaler import SetScaler
from dkdist.sets import SampleSets
from dkdist.store import SetStore

SAMPLE_SETS, SAMPLE_POINTS = 1024, 2**21  # that representations are fitted on
CHOICE_SETS = 2000  # by which candidates are compared
EXACT_SETS = 4000  # up to which kernels are exact
N_COMPONENTS = 4096  # random features of each member beyond
FEW_MEMBERS = 4  # up to which kernels of widths between those that were tried are learned too


@dataclass(frozen=True)
class Learned:
    """What predicts, what was tried on the way, the best of it, that of the machine's first part, and a few sets."""

    scaler: SetScaler | None
    machine: Machine
    judged: Judged
    best: Trial
    background: SampleSets | None


def choose(question: Question, candidates: Any, budget: Any) -> Learned:
    """Try what the sets allow, or the ``candidates``, and learn an average of the best."""
    # Threads of BLAS wait for each other in matrices of a thousand rows; candidates do not.
    with one_blas_thread():
        return _chosen(question, candidates, Budget.of(budget))


def _chosen(question: Question, candidates: Any, allowed: Budget) -> Learned:
    rng = np.random.default_rng(question.seed)
    sets, n = question.sets, len(question.sets)
    sample = _loaded(sets[some_of(rng, n, _sample_size(sets))])
    scaler, background = _scaler(sample, candidates), kept_background(sample, question.seed)
    if scaler is not None:
        sample, sets = _loaded(scaler.transform(sample)), scaler.transform(sets)
    question = replace(question, sets=sets)
    views = fitted_views(_entries(candidates, sample, question.seed), sample)
    most = allowed.most_sets(n, views.row_bytes)
    order = rng.permutation(n)[: min(CHOICE_SETS, most)]
    fewest, *more = rounds(len(order))
    tried = np.sort(order[:fewest])
    before = allowed.spent
    views, rows = views.standardised(rows_of(views, _some(sets, tried), range(len(views.specs))))
    last = FinalFit(allowed, n, len(tried), allowed.spent - before)
    allowed.require_left("rows were made")
    truth = question.truth(tried)
    trials = try_all(views.views, rows, truth, allowed)
    for size, wanted in zip(more, AGAIN, strict=False):
        if not trials or allowed.used_up:
            break
        again = finalists(trials, truth, wanted)
        before, known, tried = allowed.spent, tried, np.sort(order[:size])
        rows = more_rows(views, sets, tried, rows, known, leaves_of(again))
        a_row = (allowed.spent - before) / (len(tried) - len(known))
        last = FinalFit(allowed, n, len(tried), a_row * len(tried))
        truth = question.truth(tried)
        trials = try_again(again, rows, truth, allowed, wanted.nearby)
    if not trials:
        raise ValueError(
            "nothing tells the sets apart: all have the same points, or equal rows. Check the points"
        )
    average = best_average(trials, truth)
    if n > min(EXACT_SETS, most):
        average = average.widened(FEW_MEMBERS) if allowed.unlimited else average
        most_components = allowed.most_components(len(average.members), N_COMPONENTS)
        average, n_components = last.of_features(average, most_components)
        machine, judged, best = _streamed(question, trials, truth, average, n_components)
        return Learned(scaler, machine, judged, best, background)
    if len(tried) < n:
        average = last.of_kernels(average)
        rows = more_rows(views, sets, np.arange(n), rows, tried, leaves_of(average.members))
    machine = _exact(views, rows, average, question, allowed)
    judged = Judged(trials, truth, average.values, truth)
    return Learned(scaler, machine, judged, average.members[0], background)


def _scaler(sample: SampleSets, candidates: Any) -> SetScaler | None:
    """What puts points into units of their spread; strings, and sets for embeddings of the user's own, stay."""
    as_they_are = is_text(sample) or any(not isinstance(one, str) for one in candidates)
    return None if as_they_are else SetScaler().fit(sample)


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


def _exact(views: Views, rows: Rows, average: Average, question: Question, budget: Budget) -> Machine:
    """Kernel ridge regression of every member, on all sets; a trial on all of them is one."""
    members = zip(average.members, average.shares, strict=True)
    parts = tuple(budget.at_once(lambda member: _kernel_machine(*member, rows, question), members))
    trees = views.trees.only(leaves_of(average.members))
    return Machine(trees, tuple(spec.n_features for spec in views.specs), parts, question.y.shape[1])


def _kernel_machine(trial: Trial, share: float, rows: Rows, question: Question) -> KernelMachine:
    own, a = trial.view.of(rows), trial.duals
    if len(a) < len(question.y):
        (K,) = ComparedRows(own).matrices([trial.kernel])
        a = duals(K, question.y, question.weights, trial.alpha)
    centre = own[0].mean(axis=0, dtype=np.float64)
    return KernelMachine(trial.view.leaf, trial.kernel, tuple(own), a, centre, share)


def _streamed(
    question: Question, trials: Sequence[Trial], truth: Truth, average: Average, n_components: int
) -> tuple[Machine, Judged, Trial]:
    """Random features of the members' kernels, from one pass over all sets."""
    found = learn_streamed(question, average.members, n_components)
    machine = Machine(found.trees, tuple(found.widths), tuple(found.machines), question.y.shape[1])
    return machine, Judged(trials, truth, found.average.values, found.held), found.average.members[0]


def _some(sets: Sets, rows: I64) -> Sets:
    """The sets of some rows; where these are all, as they are."""
    return sets if len(rows) == len(sets) else sets[rows]


def some_of(rng: np.random.Generator, n: int, most: int) -> I64:
    """All of n, or as many at random as there may be, in their order."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _sample_size(sets: Sets) -> int:
    return int(np.clip(SAMPLE_POINTS // max(1, sets.n_points // len(sets)), 16, SAMPLE_SETS))


def _loaded(sets: Sets) -> SampleSets:
    return sets.points_alone() if isinstance(sets, SetStore) else sets
