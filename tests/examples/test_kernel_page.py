"""The examples of docs/kernel.md run in order."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "kernel.md"


def test_examples_run():
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    assert 0 < names["D2"] < 0.01
    assert names["found"].p_value < 0.05
    assert names["where"][0] > 0 > names["where"][1]
    assert names["few"].distance < 0.02
    assert names["merged"].distance < 0.05
    np.testing.assert_array_equal(names["small"].sizes, 64)
    np.testing.assert_array_equal(names["indices"][:, 0], [0, 1])
    assert (names["indices"] % 2 == [[0], [1]]).all()  # sets of the same class
    assert len(names["fine"][0].points) > 100
    assert names["points"].points.shape == (500, 3)
