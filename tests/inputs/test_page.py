"""The page docs/inputs.md: its table lists every tested kind, and its examples run in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dkdist as dk
from inputs.kinds import make
from inputs.table import rows

PAGE = Path(__file__).parents[2] / "docs" / "inputs.md"


def test_table_is_current() -> None:
    assert re.findall(r"^\| .* \| (?:lazy|in memory) \|$", PAGE.read_text(), re.MULTILINE) == rows()


def test_examples_run() -> None:
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        assert code.count("\n") <= 10
        exec(compile(code, str(PAGE), "exec"), names)
    assert (len(names["sets"]), names["sets"].names) == (3, ("x", "y"))
    assert names["jets"].ids.tolist() == ["a", "b"]
    assert names["jets"].names == ("pt", "eta")
    assert isinstance(names["simulated"], dk.LazySets)
    assert names["rows"].shape == (40, 3)
    assert names["names"] == ("temperature", "salinity")


def test_tensors_equal_arrays(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensors, sets, _ = make("PyTorch", tmp_path)
    nested = torch.nested.nested_tensor(tensors)
    for kind in (tensors, nested, dk.as_sets(tensors)):
        np.testing.assert_array_equal(dk.as_sets(kind).points, np.concatenate(sets))
    stacked = torch.zeros((3, 4, 2))
    assert len(dk.as_sets(stacked)) == 3
