"""The page docs/inputs.md: its table lists every tested kind, and its examples run in order."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dkdist as dk
from inputs.kinds import ENTRIES, make, run
from inputs.table import rows

PAGE = Path(__file__).parents[2] / "docs" / "inputs.md"


def test_table_is_current() -> None:
    assert re.findall(r"^\| .* \| (?:lazy|in memory) \|$", PAGE.read_text(), re.MULTILINE) == rows()


def test_examples_run() -> None:
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        assert code.count("\n") <= 10
        if "import torch" in code and find_spec("torch") is None:
            continue
        if ".root" in code:
            continue
        exec(compile(code, str(PAGE), "exec"), names)
    assert (len(names["sets"]), names["sets"].names) == (3, ("x", "y"))
    assert names["jets"].ids.tolist() == ["a", "b"]
    assert names["jets"].names == ("pt", "eta")
    assert names["stored"].ids.tolist() == ["a", "b"]
    assert names["stored"].targets["y"].tolist() == [0, 1]
    assert isinstance(names["simulated"], dk.LazySets)
    assert names["rows"].shape == (40, 3)
    assert names["names"] == ("temperature", "salinity")
    if "torch" in names:
        assert names["clouds"].sizes.tolist() == [3, 5]


@pytest.mark.filterwarnings("ignore")  # warnings of uproot itself
def test_examples_of_files_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uproot, h5py = pytest.importorskip("uproot"), pytest.importorskip("h5py")
    import awkward as ak

    monkeypatch.chdir(tmp_path)
    Path("slides").mkdir()
    for name in ("S1", "S2"):
        with h5py.File(f"slides/{name}.h5", "w") as file:
            file["features"] = np.zeros((3, 2), "f4")
    jets = ak.zip({"pt": ak.Array([[1.0, 2.0], [], [3.0]]), "eta": ak.Array([[0.1, 0.2], [], [0.3]])})
    with uproot.recreate("run1.root") as file:
        file["events"] = {
            "jet_pt": jets.pt,
            "jet_eta": jets.eta,
            "event": np.arange(3),
            "signal": np.array([True, False, False]),
        }
    (code,) = [
        code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if ".root" in code
    ]
    names: dict[str, Any] = {"dk": dk}
    exec(code, names)
    assert names["collisions"].ids.tolist() == [0, 2]
    assert names["slides"].ids.tolist() == ["S1", "S2"]


def test_tensors_equal_arrays(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensors, sets, _ = make("PyTorch", tmp_path)
    jagged = torch.nested.nested_tensor(tensors, layout=torch.jagged)
    with pytest.warns(UserWarning, match="prototype stage"):
        strided = torch.nested.nested_tensor(tensors, layout=torch.strided)
    for kind in (tensors, jagged, strided, dk.as_sets(tensors)):
        np.testing.assert_array_equal(dk.as_sets(kind).points, np.concatenate(sets))
    stacked = torch.ones((3, 4, 2), dtype=torch.bfloat16, requires_grad=True)
    np.testing.assert_array_equal(dk.as_sets(stacked).points, np.ones((12, 2)))


@pytest.mark.parametrize("entry", ENTRIES)
def test_results_of_tensors_equal_those_of_arrays(entry: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    tensors, sets, y = make("PyTorch", tmp_path)
    expected = run(entry, sets, y, tmp_path / "b")
    np.testing.assert_array_equal(run(entry, tensors, y, tmp_path / "a"), expected)
