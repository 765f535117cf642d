"""The examples of docs/frames.md run in order."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

PAGE = Path(__file__).parents[2] / "docs" / "frames.md"


def test_examples_run():
    rng = np.random.default_rng(0)
    ids, outcome = [f"p{i:02d}" for i in range(30)], np.arange(30) % 2
    rows = [
        pd.DataFrame({"donor": i, "cd3": rng.normal(2 * c, 1, 20)}) for i, c in zip(ids, outcome, strict=True)
    ]
    cells = pd.concat(rows).assign(cd4=rng.normal(size=600)).sample(frac=1, random_state=0)
    donors = pd.DataFrame({"outcome": outcome, "age": rng.normal(50, 9, 30)}, index=ids).sample(
        frac=1, random_state=1
    )
    names = {"cells": cells, "donors": donors}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    assert names["model"].score(names["sets"], names["sets"].targets["outcome"]) > 0.9
