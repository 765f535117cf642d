"""The examples of docs/guarantees.md run, and merged coresets have the documented accuracy."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"


def test_examples_run():
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    assert (names["random"], names["grid"]) == (39_648, 37)
    # as in the table of the page
    assert [round(names["apart"](200, d), 3) for d in (1, 2, 3)] == [
        0.006,
        0.017,
        0.043,
    ]
    assert 0 < names["whole"] <= names["few"].distance
    assert names["running"].n_points == 80_000
    assert names["so_far"].points.shape == (64, 2)
    assert names["so_far"].distance < 0.02
