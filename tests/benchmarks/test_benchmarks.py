"""The benchmarks run in their quick form, and the accuracies they print are those that are claimed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "benchmarks"


def run(name: str, *arguments: str, output: Path) -> Any:
    command = [sys.executable, str(FOLDER / name), *arguments, "--quick", "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return json.loads(output.read_text())


def test_speed_prints_accuracy_beside_time(tmp_path: Path) -> None:
    figures = run("speed.py", "embedding", "road", output=tmp_path / "speed.json")
    assert [row["d"] for row in figures["embedding"]] == [1, 2, 3]
    assert all(row["rms_error"] < 0.01 and row["sets_per_s"] > 0 for row in figures["embedding"])
    assert figures["road"]["ratio"] > 0


def test_gram_matrices(tmp_path: Path) -> None:
    corr2 = run("papers/gram.py", output=tmp_path / "gram.json")["corr2"]
    assert corr2["A"]["mean"] > 0.99
    assert corr2["z of A, structured"]["mean"] > 0.99
