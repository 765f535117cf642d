"""Leaderboard of an automatic model, verdicts against baselines, and the summary text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._utils.serialization import serializable
from dkdist._utils.text import html_table
from dkdist.auto._tuning import EQUIVALENCE_MARGIN, SIGNIFICANCE_Z
from dkdist.auto.outer_predictions import CONSTANT, OuterPredictions, standard_error
from dkdist.auto.scoring import EvaluationSet, Score
from dkdist.auto.study_design import COVARIATES

MODEL_NAME = "this model"
OUTER, SELECTION = "outer folds", "selection"
"""Origin of a score: outer folds, which selected nothing, or the sets that selected the model."""
BETTER, NOT_BETTER, NOT_ESTABLISHED = "better", "not better", "not established"
BASELINE_TEXTS = {
    CONSTANT: "the constant baseline",
    COVARIATES: "the covariates alone",
    "sizes": "set sizes alone",
    "means": "the means of the sets",
    "moments": "means and covariances",
    "positions": "the symbol at each position",
}


@serializable("Leaderboard")
class Leaderboard(list[dict[str, Any]]):
    """Entries by descending score: first outer-fold scores, then selection scores. Notebooks show a table."""

    def check_loaded(self) -> None:
        """Raise ValueError unless every entry is a dict of plain values with a name."""
        for entry in self:
            has_name = isinstance(entry, dict) and isinstance(entry.get("name"), str)
            if not has_name or any(not isinstance(value, (str, int, float)) for value in entry.values()):
                raise ValueError(
                    f"A leaderboard entry must be a dict of plain values with a name; got {entry!r:.80}."
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
        return html_table("Leaderboard", columns, rows)


def make_leaderboard(
    outer: OuterPredictions, trials: Sequence[Any], evaluation: EvaluationSet, score: Score
) -> tuple[Leaderboard, dict[str, tuple[float, float]]]:
    """Return the leaderboard, and the lead over each baseline with its paired standard error."""
    best = {trial.name: trial for trial in reversed(trials)}
    predictions = outer.predictions
    model_score, jackknife_scores = outer.score(predictions.model, score)
    entries = [
        _entry(
            MODEL_NAME, model_score, standard_error(jackknife_scores), OUTER,
            seconds=sum(trial.seconds for trial in trials), n_features=sum(trial.n_features for trial in trials),
        )
    ]  # fmt: skip
    leads = {}
    for name, values in predictions.baselines.items():
        baseline_score, baseline_jackknife = outer.score(values, score)
        leads[name] = model_score - baseline_score, standard_error(jackknife_scores - baseline_jackknife)
        entries.append(
            _entry(
                name, baseline_score, standard_error(baseline_jackknife), OUTER, best.get(name), baseline=True
            )
        )
    entries.sort(key=lambda entry: -entry["score"])
    other_trials = [trial for name, trial in best.items() if name not in predictions.baselines]
    selected = [
        _entry(
            trial.name, *_selection_score(evaluation.total(trial.values), evaluation, score), SELECTION, trial
        )
        for trial in other_trials
    ]
    return Leaderboard(entries + sorted(selected, key=lambda entry: -entry["score"])), leads


def _entry(
    name: str, score: float, std_error: float, evaluation: str, trial: Any = None, **fields: Any
) -> dict[str, Any]:  # fmt: skip
    entry = {
        "name": name, "score": score, "std_error": std_error, "evaluation": evaluation, "seconds": 0.0, "n_features": 0,
        "kernel": "", "alpha": np.nan, "baseline": False,
    }  # fmt: skip
    if trial is not None:
        entry |= {
            "seconds": trial.seconds, "n_features": trial.n_features, "kernel": trial.kernel_name, "alpha": trial.alpha,
        }  # fmt: skip
    return entry | fields


def _selection_score(values: F64, evaluation: EvaluationSet, score: Score) -> tuple[float, float]:
    """Return the mean score over repeats of the inner folds, and its jackknife standard error over folds."""
    all_rows = np.arange(len(evaluation.rows))
    mean_score = float(np.mean([score(repeat_values, evaluation.rows) for repeat_values in values]))
    errors = []
    for repeat_values, folds in zip(values, evaluation.repeats, strict=True):
        rows_without_fold = [np.setdiff1d(all_rows, fold) for fold in folds]
        errors.append(
            standard_error(
                np.array([score(repeat_values[rows], evaluation.rows[rows]) for rows in rows_without_fold])
            )
            ** 2
        )
    return mean_score, float(np.sqrt(np.mean(errors)))


@serializable("Evidence")
@dataclass(frozen=True)
class Evidence:
    """Inputs of verdicts besides the leads: p-value, equivalence margin, and whether the model does not use the sets.

    With a design (``has_design``), the p-value is conditional on it.
    """

    p_value: float
    margin: float
    is_constant: bool
    has_design: bool = False


def equivalence_margin(baseline_score: float, has_unit_scale: bool) -> float:
    """Return the largest negligible lead: 0.02 for accuracy and R^2, otherwise 2 % of the baseline's score."""
    return EQUIVALENCE_MARGIN if has_unit_scale else EQUIVALENCE_MARGIN * abs(baseline_score)


def verdict(name: str, lead: float, error: float, evidence: Evidence) -> str:
    """Return whether the model is better than a baseline: "better", "not better" or "not established".

    "better": the lead exceeds two standard errors and, over the constant, the p-value is at most 0.05. "not better":
    the lead plus two standard errors is below the equivalence margin. "not established": otherwise, and always if the
    model does not use the sets. With a design, "better" always requires the p-value: a lead over means of sets may
    come from differences between batches that the adjustment of rows does not remove.
    """
    if evidence.is_constant:
        return NOT_ESTABLISHED
    requires_p_value = evidence.has_design or name == CONSTANT
    if lead > SIGNIFICANCE_Z * error and (evidence.p_value <= 0.05 or not requires_p_value):
        return BETTER
    return NOT_BETTER if lead + SIGNIFICANCE_Z * error < evidence.margin else NOT_ESTABLISHED


def verdict_sentence(name: str, lead: float, error: float, evidence: Evidence) -> str:
    """Return the verdict with the lead, its standard error and their ratio."""
    text = BASELINE_TEXTS.get(name, name)
    figures = f"{lead:+.3f} ± {error:.3f}"
    if error > 0:
        figures += f" ({abs(lead) / error:.1f} standard errors)"
    result = verdict(name, lead, error, evidence)
    if result == BETTER:
        return f"Better than {text}: {figures}."
    if lead < -SIGNIFICANCE_Z * error and not evidence.is_constant:
        return f"Significantly worse than {text}: {figures}. Use that baseline instead."
    if result == NOT_BETTER:
        return f"Not better than {text}: {figures}; a lead of {evidence.margin:.3g} or more is excluded."
    return f"Not established that it is better than {text}: {figures}."


def format_summary(
    entries: Sequence[Mapping[str, Any]],
    leads: Mapping[str, tuple[float, float]],
    evidence: Evidence,
    *,
    title: str,
    score_name: str,
    evaluated_on: str,
    selected_by: str,
    notes: Sequence[str],
) -> str:
    """Return the leaderboard and the verdicts as text."""
    outer = [entry for entry in entries if entry["evaluation"] == OUTER]
    selection = [entry for entry in entries if entry["evaluation"] != OUTER]
    width = max(len(entry["name"]) for entry in entries)
    lines = [title, "", f"{score_name} on {evaluated_on}, with standard errors:"]
    lines += [_format_entry(entry, width) for entry in outer]
    if selection:
        lines += [
            "",
            f"Candidates were selected by {selected_by}. Scores on the sets that selected them (optimistic):",
        ]
        lines += [_format_entry(entry, width) for entry in selection]
    lines += ["", f"p-value of the model: {evidence.p_value:.3g}."]
    best = next(entry["name"] for entry in outer if entry["baseline"])
    order = [best, *(name for name in leads if name != best)]
    lines += [f"Best baseline: {BASELINE_TEXTS.get(best, best)}."]
    lines += [verdict_sentence(name, *leads[name], evidence) for name in order]
    return "\n".join([*lines, *notes])


def _format_entry(entry: Mapping[str, Any], width: int) -> str:
    mark = "  (baseline)" if entry["baseline"] else ""
    return f"  {entry['name']:<{width}}  {entry['score']: .4f} ± {entry['std_error']:.4f}{mark}"
