"""The quick run of the simulated studies with batches."""

from __future__ import annotations

import json
from pathlib import Path

from scripts import run_script

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_simulated_batches_are_reported(tmp_path: Path) -> None:
    output = tmp_path / "studies.json"
    code, text = run_script(
        FOLDER / "studies_adjust.py", "--quick", "--output", str(output), log_file=tmp_path / "log.txt"
    )
    assert code == 0, text
    report = json.loads(output.read_text())["adjust"]
    assert len(report["runs"]) == 2
    assert all(0.5 < run["adjusted"] <= 1 for run in report["runs"])
    assert report["confounded"] == [[True, False, 1.0]]
    assert "batch equal to the disease: 1 of 1 warned, 0 claims" in text
