"""Candidates tried by cross-validation: every representation with every kernel and penalty, the best on more rows.

few rows, all of them ──> the best dozen on all rows ──> an average of those that complete each other
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from dkdist.automatic.budgets import Budget
from dkdist.automatic.views.representation_rows import View
from dkdist.automatic.views.row_kernels import RowKernel, kernels_on
from dkdist.learners.kernel_ridge import left_out
from dkdist.loops.array_types import F32, F64, I64

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
NEARBY = (0.1, 0.3, 1.0, 3.0)  # times the penalty that was best on fewer rows
FEW_ROWS = 400  # on which all are tried
FINALISTS, OF_A_FAMILY, OF_A_VIEW = 10, 4, 2
MOST_STEPS, LEAST_GAIN = 10, 2e-3  # of averaging: candidates, and what one must gain, relative to the loss
BESIDE = (0.5**0.5, 2**0.5)  # times the width of a kernel: half way to those that were tried

Repeats = Sequence[Sequence[I64]]


@dataclass(frozen=True)
class Truth:
    """What is predicted: targets (n, t), weights (n,) with a mean of one, and the folds that are left out.

    ``rows`` are the sets it speaks of. A ``criterion`` of (predictions, rows), if there is one, is to be large.
    """

    y: F64
    weights: F64
    repeats: Repeats
    rows: I64
    criterion: Callable[[F64, I64], float] | None = None

    def loss(self, values: F64) -> float:
        """Mean squared error of predictions (n_repeats, n, t), or what the criterion says, with a minus."""
        if self.criterion is not None:
            return -float(np.mean([self.criterion(own, self.rows) for own in values]))
        return float((((values - self.y) ** 2).sum(axis=2) @ self.weights).mean() / len(self.y))


@dataclass(frozen=True)
class Trial:
    """A representation with a kernel and a penalty, and what it predicted for rows left out: (n_repeats, n, t)."""

    view: View
    kernel: RowKernel
    alpha: float
    values: F64
    loss: float
    seconds: float

    def alone(self) -> Trial:
        """Without its predictions."""
        return replace(self, values=np.empty(0))


Rows = Mapping[int, F32]


def rows_of_view(view: View, rows: Rows, some: I64 | slice) -> list[F32]:
    """Its rows, and those of its images."""
    return [rows[leaf][some] for leaf in (view.leaf, *view.image_leaves)]


def try_all(
    views: Sequence[View], rows: Rows, truth: Truth, first: Truth, few: I64, budget: Budget
) -> list[Trial]:
    """The best trial of every pair of view and kernel that came to the end, best first.

    All are tried on the rows ``few``, whose truth is the ``first``, and the best on all rows; baselines always.
    """
    found: list[Trial] = []
    for view in views:
        found += _tried(view, rows, few, first)
        budget.require_left("the first was tried")
        if budget.used_up:
            break
    found.sort(key=lambda trial: trial.loss)
    if len(few) == len(truth.y):
        return found
    last: list[Trial] = []
    for trial in _finalists(found):
        alphas = [factor * trial.alpha for factor in NEARBY]
        better = _best(trial.view, rows, slice(None), truth, trial.kernel, alphas, trial.seconds)
        last += [] if better is None else [better]
        if budget.used_up:
            break
    return sorted(last, key=lambda trial: trial.loss)


def _finalists(found: Sequence[Trial]) -> list[Trial]:
    """The best ones, no more than a few of one family, and every baseline's best."""
    families: Counter[str] = Counter()
    views: Counter[str] = Counter()
    chosen: list[Trial] = []
    for trial in found:
        entry = trial.view.entry
        own = entry.baseline and not any(other.view is trial.view for other in chosen)
        few = families[entry.family] < OF_A_FAMILY and views[entry.name] < OF_A_VIEW
        if own or (few and len(chosen) < FINALISTS):
            families[entry.family] += 1
            views[entry.name] += 1
            chosen.append(trial)
    return chosen


def _tried(view: View, rows: Rows, some: I64, truth: Truth) -> list[Trial]:
    own = rows_of_view(view, rows, some)
    tried = (_best(view, rows, some, truth, kernel, PENALTIES, 0.0) for kernel in kernels_on(own))
    return [trial for trial in tried if trial is not None]


def _best(
    view: View, rows: Rows, some: I64 | slice, truth: Truth, kernel: RowKernel, alphas: Sequence[float], before: float
) -> Trial | None:  # fmt: skip
    """The trial of the best penalty; None for a kernel that no penalty makes positive definite."""
    start = perf_counter()
    A, *images = rows_of_view(view, rows, some)
    X = A.astype(np.float64)
    K = kernel.of(X, [X, *images], X.mean(axis=0))
    best: Trial | None = None
    for alpha in alphas:
        try:
            values = left_out(K, truth.y, truth.weights, alpha, truth.repeats)
        except np.linalg.LinAlgError:
            continue
        loss = truth.loss(values)
        if best is None or loss < best.loss:
            best = Trial(view, kernel, alpha, values, loss, 0.0)
    return best and replace(best, seconds=before + perf_counter() - start)


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
        """With kernels of widths between those that were tried, beside its best members, up to so many in all.

        These have no share, and nothing of their own was predicted: they are for who chooses anew on more rows.
        """
        between = [
            replace(trial, kernel=replace(trial.kernel, sigma=factor * trial.kernel.sigma))
            for trial in self.members
            if trial.kernel.sigma is not None
            for factor in BESIDE
        ]
        members = (*self.members, *between[: max(0, most - len(self.members))])
        shares = (*self.shares, *[0.0] * (len(members) - len(self.members)))
        return Average(members, shares, self.values)

    @property
    def leaves(self) -> list[int]:
        """Those that rows are needed of."""
        return sorted({leaf for t in self.members for leaf in (t.view.leaf, *t.view.image_leaves)})


def best_average(trials: Sequence[Trial], truth: Truth) -> Average:
    """Forward selection with repetition: a candidate joins as long as the average's error falls.

    Caruana, Niculescu-Mizil, Crew, Ksikes, "Ensemble selection from libraries of models" (ICML 2004).
    """
    chosen = [trials[0]]
    total, loss = trials[0].values.copy(), trials[0].loss
    for k in range(1, MOST_STEPS):
        losses = [truth.loss((total + trial.values) / (k + 1)) for trial in trials]
        i = int(np.argmin(losses))
        if losses[i] > loss - LEAST_GAIN * abs(loss):
            break
        chosen.append(trials[i])
        total, loss = total + trials[i].values, losses[i]
    members = tuple({id(trial): trial for trial in chosen}.values())
    shares = tuple(sum(trial is other for other in chosen) / len(chosen) for trial in members)
    return Average(members, shares, total / len(chosen))
