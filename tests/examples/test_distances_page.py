"""The examples of docs/distances.md run in order."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "distances.md"


def test_examples_run():
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names, accuracies = {}, []
    for code in examples:
        exec(compile(code, str(PAGE), "exec"), names)
        accuracies.append(names.pop("accuracy", None))
    learned, median_gap, windows, grams, positions = accuracies
    assert min(learned, windows, grams) > 0.9
    assert median_gap is positions is None
    assert names["positions"].shape == (4, 20)
    assert (names["D"].shape, names["rows"].shape) == ((20, 20), (20, 8))
