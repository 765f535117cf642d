"""The examples of docs/guarantees.md run as they stand; coresets that are merged are as near as the page says."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"


def test_the_examples_run():
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    assert (names["random"], names["grid"]) == (39_648, 37)
    assert len(names["points"]) == 256
    assert abs(names["weights"].sum() - 60_000) < 1e-6
    assert 0 < names["whole"] <= names["distance"] < 0.02 * 60_000
