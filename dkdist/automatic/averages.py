"""Averages of trials that complete each other, and which trials on few rows are worth others on more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dkdist.auto.evaluation_set import EvaluationSet
from dkdist.automatic.trials import Again, Finalist, Trial
from dkdist.loops.array_types import F64

MOST_STEPS, LEAST_GAIN = 10, 1e-3  # of averaging: candidates, and what one must gain, relative to the loss
BESIDE = (0.5**0.5, 2**0.5)  # times the width of a kernel: half way to those that were tried


def finalists(found: Sequence[Trial], evaluation: EvaluationSet, again: Again) -> list[Finalist]:
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
        chosen += [Finalist(view, tuple(kept), stays)] if kept else []
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
        """With kernels of widths between those that were tried, beside its best members, up to so many in all.

        These have no share, and nothing of their own was predicted: they are for who chooses anew on more rows.
        """
        between = [
            replace(trial, kernel=replace(trial.kernel, sigma=factor * trial.kernel.sigma))
            for trial in self.members
            if trial.kernel is not None and trial.kernel.sigma is not None
            for factor in BESIDE
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
