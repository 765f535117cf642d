"""The examples of docs/distances.md run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "distances.md"


def test_the_examples_run():
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    for code in examples:
        exec(compile(code, str(PAGE), "exec"), names)
        assert names.pop("accuracy") > 0.9
    assert len(examples) == 2
