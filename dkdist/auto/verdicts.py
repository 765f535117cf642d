"""Verdicts on the lead over each baseline, and the summary of a fitted automatic model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dkdist.auto._tuning import EQUIVALENCE_MARGIN, SIGNIFICANCE_Z
from dkdist.auto.leaderboard import OUTER
from dkdist.auto.outer_predictions import CONSTANT
from dkdist.plain.kept import kept

BETTER, NOT_BETTER, NOT_ESTABLISHED = "better", "not better", "not established"
BASELINE_TEXTS = {
    CONSTANT: "the constant baseline",
    "sizes": "set sizes alone",
    "means": "the means of the sets",
    "moments": "means and covariances",
}


@kept
@dataclass(frozen=True)
class Evidence:
    """What verdicts rest on besides the leads: the p-value, the equivalence margin and the fallback of the model."""

    p_value: float
    margin: float
    is_constant: bool


def equivalence_margin(baseline_score: float, has_unit_scale: bool) -> float:
    """The lead that a verdict treats as none: 0.02 of accuracy or R^2, else 2 % of the baseline's score."""
    return EQUIVALENCE_MARGIN if has_unit_scale else EQUIVALENCE_MARGIN * abs(baseline_score)


def verdict(name: str, lead: float, error: float, evidence: Evidence) -> str:
    """Whether the model is better than a baseline: "better", "not better" or "not established".

    "better": the lead exceeds two standard errors and, over the constant, the p-value is at most 0.05. "not better":
    the lead plus two standard errors is below the equivalence margin. A model that fell back to the constant
    establishes nothing, as it makes no use of the sets.
    """
    if evidence.is_constant:
        return NOT_ESTABLISHED
    if lead > SIGNIFICANCE_Z * error and (name != CONSTANT or evidence.p_value <= 0.05):
        return BETTER
    return NOT_BETTER if lead + SIGNIFICANCE_Z * error < evidence.margin else NOT_ESTABLISHED


def verdict_sentence(name: str, lead: float, error: float, evidence: Evidence) -> str:
    """The verdict with the lead, its standard error and their ratio."""
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
    """The leaderboard and the verdicts as text."""
    outer = [entry for entry in entries if entry["evaluation"] == OUTER]
    selection = [entry for entry in entries if entry["evaluation"] != OUTER]
    width = max(len(entry["name"]) for entry in entries)
    lines = [title, "", f"{score_name} on {evaluated_on}, with standard errors:"]
    lines += [_line(entry, width) for entry in outer]
    if selection:
        lines += [
            "",
            f"Candidates were selected by {selected_by}. Scores on the sets that selected them (optimistic):",
        ]
        lines += [_line(entry, width) for entry in selection]
    lines += ["", f"p-value of the model: {evidence.p_value:.3g}."]
    best = next(entry["name"] for entry in outer if entry["baseline"])
    order = [best, *(name for name in leads if name != best)]
    lines += [f"Best baseline: {BASELINE_TEXTS.get(best, best)}."]
    lines += [verdict_sentence(name, *leads[name], evidence) for name in order]
    return "\n".join([*lines, *notes])


def _line(entry: Mapping[str, Any], width: int) -> str:
    mark = "  (baseline)" if entry["baseline"] else ""
    return f"  {entry['name']:<{width}}  {entry['score']: .4f} ± {entry['std_error']:.4f}{mark}"
