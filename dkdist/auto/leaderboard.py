"""The leaderboard: scores of the model and of baselines on outer folds, and selection scores of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dkdist.auto.evaluation_set import EvaluationSet
from dkdist.auto.outer_predictions import OuterPredictions, standard_error
from dkdist.auto.training_data import Score
from dkdist.loops.array_types import F64
from dkdist.plain.html_text import grid_table
from dkdist.plain.kept import kept

CHOSEN = "this model"
OUTER, SELECTION = "outer folds", "selection"
"""What a score comes from: sets that nothing was selected on, or the sets that selected the model."""


@kept
class Leaderboard(list[dict[str, Any]]):
    """Entries, best first: those scored on outer folds, then those with selection scores. Notebooks show a table."""

    def check_loaded(self) -> None:
        """Raise ValueError unless every entry is a dict of plain values with a name."""
        for entry in self:
            named = isinstance(entry, dict) and isinstance(entry.get("name"), str)
            if not named or any(not isinstance(value, (str, int, float)) for value in entry.values()):
                raise ValueError(
                    f"a leaderboard has the entry {entry!r:.80}, expected a dict of plain values"
                )

    def _repr_html_(self) -> str:
        columns = "candidate", "score", "standard error", "evaluated on", "seconds", "features", "kernel", ""
        rows = [
            (
                entry["name"], f"{entry['score']:.4f}", f"{entry['std_error']:.4f}", entry["evaluation"],
                f"{entry['seconds']:.1f}", f"{entry['n_features']:,}", entry["kernel"],
                "baseline" if entry["baseline"] else "",
            )
            for entry in self
        ]  # fmt: skip
        return grid_table("Leaderboard", columns, rows)


def make_leaderboard(
    outer: OuterPredictions, trials: Sequence[Any], evaluation: EvaluationSet, score: Score
) -> tuple[Leaderboard, dict[str, tuple[float, float]]]:
    """The leaderboard, and by baseline the lead of the model with its standard error, paired on the outer folds."""
    best = {trial.name: trial for trial in reversed(trials)}
    predictions = outer.predictions
    whole, without = outer.score(predictions.model, score)
    entries = [
        _entry(
            CHOSEN, whole, standard_error(without), OUTER, seconds=sum(trial.seconds for trial in trials),
            n_features=sum(trial.n_features for trial in trials),
        )
    ]  # fmt: skip
    leads = {}
    for name, values in predictions.baselines.items():
        own, own_without = outer.score(values, score)
        leads[name] = whole - own, standard_error(without - own_without)
        entries.append(_entry(name, own, standard_error(own_without), OUTER, best.get(name), baseline=True))
    entries.sort(key=lambda entry: -entry["score"])
    others = [trial for name, trial in best.items() if name not in predictions.baselines]
    selected = [
        _entry(trial.name, *_selection_score(trial.values, evaluation, score), SELECTION, trial)
        for trial in others
    ]
    return Leaderboard(entries + sorted(selected, key=lambda entry: -entry["score"])), leads


def _entry(
    name: str, score: float, std_error: float, evaluation: str, trial: Any = None, **more: Any
) -> dict[str, Any]:  # fmt: skip
    entry = {
        "name": name, "score": score, "std_error": std_error, "evaluation": evaluation, "seconds": 0.0, "n_features": 0,
        "kernel": "", "alpha": np.nan, "baseline": False,
    }  # fmt: skip
    if trial is not None:
        entry |= {
            "seconds": trial.seconds, "n_features": trial.n_features, "kernel": trial.kernel_name, "alpha": trial.alpha,
        }  # fmt: skip
    return entry | more


def _selection_score(values: F64, evaluation: EvaluationSet, score: Score) -> tuple[float, float]:
    """Mean score over repeats of the inner folds, and its standard error by leaving out each fold."""
    every = np.arange(len(evaluation.rows))
    whole = float(np.mean([score(one, evaluation.rows) for one in values]))
    errors = []
    for one, folds in zip(values, evaluation.repeats, strict=True):
        kept = [np.setdiff1d(every, fold) for fold in folds]
        errors.append(
            standard_error(np.array([score(one[rows], evaluation.rows[rows]) for rows in kept])) ** 2
        )
    return whole, float(np.sqrt(np.mean(errors)))
