"""Comparison of structured sets with other methods."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from scripts import run_script

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_strings_with_a_motif_are_compared_without_data_files(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("DKDIST_DATA", str(tmp_path))
    output = tmp_path / "peers.json"
    arguments = "strings", "--quick", "--output", str(output)
    code, text = run_script(FOLDER / "structure_peers.py", *arguments, log_file=tmp_path / "log.txt")
    assert code == 0, text
    assert "strings: skipped" in text
    assert "names.npz does not exist" in text
    row = json.loads(output.read_text())["strings"]["strings with a motif"]
    assert row["SetClassifier"]["accuracy"] > 0.7
    difference = row["SetClassifier"]["accuracy"] - row["n-grams"]["accuracy"]
    assert row["n-grams"]["difference"] == pytest.approx(difference)


def test_p_values_are_corrected_by_holm(monkeypatch: Any) -> None:
    """Raw p-values of 2, 3 and 0 standard errors are 0.0455, 0.0027 and 1."""
    monkeypatch.syspath_prepend(str(FOLDER))
    rows = {
        name: {"peer": {"difference": z * 0.1, "std_error": 0.1}}
        for name, z in {"a": -2, "b": 3, "c": 0}.items()
    }
    result = importlib.import_module("structure_peers").holm_p_values(rows, "peer")
    assert result == pytest.approx({"b": 3 * 0.0026998, "a": 2 * 0.0455003, "c": 1.0}, rel=1e-4)
