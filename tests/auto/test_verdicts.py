"""Verdicts with three outcomes, and the text of the summary."""

from __future__ import annotations

import pytest

from dkdist.auto.leaderboard import Evidence, equivalence_margin, format_summary, verdict, verdict_sentence

SURE = Evidence(p_value=0.001, margin=0.02, is_constant=False)


@pytest.mark.parametrize(
    ("lead", "error", "expected"),
    [
        (0.12, 0.075, "not established"),  # 1.6 standard errors
        (0.12, 0.05, "better"),
        (0.1, 0.05, "not established"),  # exactly two
        (0.0, 0.009, "not better"),  # below 0.018
        (0.0, 0.011, "not established"),  # up to 0.022
        (-0.1, 0.04, "not better"),
        (-0.1, 0.07, "not established"),
    ],
)
def test_verdict_has_three_outcomes(lead: float, error: float, expected: str) -> None:
    assert verdict("means", lead, error, SURE) == expected


def test_verdict_over_constant_requires_small_p_value() -> None:
    unsure = Evidence(p_value=0.051, margin=0.02, is_constant=False)
    assert verdict("constant", 0.2, 0.05, SURE) == "better"
    assert verdict("constant", 0.2, 0.05, unsure) == "not established"
    assert verdict("means", 0.2, 0.05, unsure) == "better"


def test_verdict_of_constant_model_is_not_established() -> None:
    constant = Evidence(p_value=1.0, margin=0.02, is_constant=True)
    for lead, error in ((0.0, 0.0), (-0.5, 0.01), (0.5, 0.01)):
        assert verdict("constant", lead, error, constant) == "not established"
        assert verdict_sentence("constant", lead, error, constant).startswith("Not established")


def test_sentences_state_lead_error_and_ratio() -> None:
    assert verdict_sentence("sizes", 0.185, 0.04, SURE) == (
        "Better than set sizes alone: +0.185 ± 0.040 (4.6 standard errors)."
    )
    assert verdict_sentence("means", -0.05, 0.01, SURE) == (
        "Significantly worse than the means of the sets: -0.050 ± 0.010 (5.0 standard errors). "
        "Use that baseline instead."
    )
    assert verdict_sentence("moments", 0.001, 0.005, SURE) == (
        "Not better than means and covariances: +0.001 ± 0.005 (0.2 standard errors); "
        "a lead of 0.02 or more is excluded."
    )


def test_equivalence_margin_has_the_unit_of_the_score() -> None:
    assert equivalence_margin(0.5, True) == 0.02
    assert equivalence_margin(-30.0, False) == pytest.approx(0.6)


def test_summary_separates_outer_and_selection_scores() -> None:
    def entry(name: str, score: float, evaluation: str, baseline: bool = False) -> dict[str, object]:
        return {
            "name": name,
            "score": score,
            "std_error": 0.01,
            "evaluation": evaluation,
            "baseline": baseline,
        }

    entries = [
        entry("this model", 0.9, "outer folds"), entry("means", 0.6, "outer folds", True),
        entry("constant", 0.5, "outer folds", True), entry("Hellinger", 0.95, "selection"),
    ]  # fmt: skip
    text = format_summary(
        entries, {"constant": (0.4, 0.01), "means": (0.3, 0.01)}, SURE, title="title", score_name="accuracy",
        evaluated_on="10 outer folds", selected_by="log loss", notes=["A note."],
    )  # fmt: skip
    outer_part, candidates, verdict_part = (
        text.split("Candidates were selected by log loss.")[0],
        *text.split("\n\n")[2:],
    )
    assert "accuracy on 10 outer folds" in outer_part
    assert "Hellinger" not in outer_part
    assert "Hellinger" in candidates
    assert verdict_part.splitlines() == [
        "p-value of the model: 0.001.",
        "Best baseline: the means of the sets.",
        "Better than the means of the sets: +0.300 ± 0.010 (30.0 standard errors).",
        "Better than the constant baseline: +0.400 ± 0.010 (40.0 standard errors).",
        "A note.",
    ]
