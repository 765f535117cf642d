"""The example of the page on studies gives the documented results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "studies.md"


def test_cells_add_to_the_age_beyond_the_batch() -> None:
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    model = names["model"]
    assert model.verdicts_["covariates"] == "better"
    scores = model.nuisance_scores_["batch"]
    assert scores["adjusted"] < 0.5 < 0.95 < scores["unadjusted"]
