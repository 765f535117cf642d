"""What was tried and how well it did, with its error, and how far ahead of what is simpler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.automatic.trials import Trial
from dkdist.automatic.truth import Truth
from dkdist.automatic.verdicts import CONSTANT
from dkdist.loops.array_types import F64, I64
from dkdist.plain.html_text import grid_table
from dkdist.plain.kept import kept

Score = Callable[[F64, I64], float]
"""Of predictions (n, t) for some sets, and which sets these are."""

CHOSEN = "this model"


@dataclass(frozen=True)
class Judged:
    """Trials and their truth; and what the model predicted, (n_repeats, n, t), with the truth of that."""

    trials: Sequence[Trial]
    truth: Truth
    values: F64
    held: Truth


@kept
class Leaderboard(list[dict[str, Any]]):
    """Entries, best first; a notebook shows them as a table."""

    def check_loaded(self) -> None:
        """Raise ValueError unless every entry is a dict of plain values with a name."""
        for entry in self:
            named = isinstance(entry, dict) and isinstance(entry.get("name"), str)
            if not named or any(not isinstance(value, (str, int, float)) for value in entry.values()):
                raise ValueError(
                    f"a leaderboard has the entry {entry!r:.80}, expected a dict of plain values"
                )

    def _repr_html_(self) -> str:
        columns = "candidate", "score", "standard error", "seconds", "features", "kernel", ""
        rows = [
            (
                entry["name"], f"{entry['score']:.4f}", f"{entry['std_error']:.4f}", f"{entry['seconds']:.1f}",
                f"{entry['n_features']:,}", entry["kernel"], "baseline" if entry["baseline"] else "",
            )
            for entry in self
        ]  # fmt: skip
        return grid_table("Leaderboard", columns, rows)


def entries_of(judged: Judged, score: Score) -> tuple[Leaderboard, dict[str, tuple[float, float]]]:
    """The entries of the leaderboard, best first; and the model's lead over each baseline, with its error."""
    value, without = judge(judged.values, judged.held, score)
    n_features = sum(trial.view.n_features for trial in judged.trials)
    seconds = sum(trial.seconds for trial in judged.trials)
    entries = [_entry(CHOSEN, value, without, seconds, n_features)]
    leads = {}
    constant = np.broadcast_to(
        np.average(judged.truth.y, axis=0, weights=judged.truth.weights), judged.truth.y.shape
    )
    best = {trial.view.entry.name: trial for trial in reversed(judged.trials)}
    values = {CONSTANT: np.broadcast_to(constant, (len(judged.truth.repeats), *constant.shape))}
    values |= {name: trial.values for name, trial in best.items()}
    for name, own in values.items():
        trial = best.get(name)
        entry = _entry(name, *judge(own, judged.truth, score), 0.0, 0)
        if trial is not None:
            told = trial.kernel.name, trial.alpha, trial.seconds, trial.view.n_features
            entry |= dict(zip(("kernel", "alpha", "seconds", "n_features"), told, strict=True))
        if trial is None or trial.view.entry.baseline:
            entry["baseline"] = True
            leads[name] = _lead(value, without, own, judged, score)
        entries.append(entry)
    return Leaderboard(sorted(entries, key=lambda entry: -entry["score"])), leads


def _entry(name: str, score: float, without: F64, seconds: float, n_features: int) -> dict[str, Any]:
    return {
        "name": name, "score": score, "std_error": standard_error(without), "seconds": seconds,
        "n_features": n_features, "kernel": "", "alpha": np.nan, "baseline": False,
    }  # fmt: skip


def _lead(value: float, without: F64, own: F64, judged: Judged, score: Score) -> tuple[float, float]:
    """How far ahead the model is of a baseline; paired where both were judged by the same sets."""
    theirs, theirs_without = judge(own, judged.truth, score)
    if judged.held is judged.truth:
        return value - theirs, standard_error(without - theirs_without)
    return value - theirs, float(np.hypot(standard_error(without), standard_error(theirs_without)))


def judge(values: F64, truth: Truth, score: Score) -> tuple[float, F64]:
    """The score of predictions (n_repeats, n, t), and what it is without each fold: (n_repeats, n_folds)."""
    every = np.arange(len(truth.rows))
    whole = float(np.mean([score(own, truth.rows) for own in values]))
    n_folds = min(len(folds) for folds in truth.repeats)
    without = [
        [
            score(own[kept], truth.rows[kept])
            for fold in folds[:n_folds]
            for kept in [np.setdiff1d(every, fold)]
        ]
        for own, folds in zip(values, truth.repeats, strict=True)
    ]
    return whole, np.array(without)


def standard_error(without: F64) -> float:
    """Of a score, by the jackknife: from its values without each fold (n_repeats, n_folds)."""
    n_folds = without.shape[1]
    spread = ((without - without.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return float(np.sqrt((n_folds - 1) / n_folds * spread.mean()))
