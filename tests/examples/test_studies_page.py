"""The examples of the pages on studies and on times to an event give the documented results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def run_page(name: str) -> dict[str, Any]:
    """Run the Python blocks of a page; return their variables."""
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL):
        exec(compile(code, name, "exec"), names)
    return names


def test_cells_add_to_the_age_beyond_the_batch_and_visits_differ() -> None:
    names = run_page("studies.md")
    model = names["model"]
    assert model.verdicts_["covariates"] == "better"
    scores = model.nuisance_scores_["batch"]
    assert scores["adjusted"] < 0.5 < 0.95 < scores["unadjusted"]
    assert names["treatment"].p_value <= 0.01
    assert names["treatment"].design == "labels permuted within 12 blocks, contrast +1 after -1 before"
    power = names["curve"].power
    assert power[0] < 0.5 < 0.8 <= power[-1]


def test_risk_scores_order_new_patients() -> None:
    names = run_page("survival.md")
    assert names["model"].score(names["sets"][150:], names["y"][150:]) > 0.7
    assert (names["death"][150:] > names["bounds"]).mean() > 0.8  # 0.9 of the events, standard error 0.03
    assert names["curves"].shape == (150, len(names["model"].unique_times_))
    assert names["study"].verdicts_["covariates"] == "better"
    assert names["study"].score(names["patients"][150:], names["y_study"][150:]) > 0.75
