"""The quick run of benchmarks/studies_survival.py, with and without scikit-survival."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from scripts import run_script

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "studies_survival.py"


def test_quick_run_compares_solvers_bounds_and_models(tmp_path: Path) -> None:
    output = tmp_path / "survival.json"
    code, text = run_script(SCRIPT, "--quick", "--output", str(output), log_file=tmp_path / "log.txt")
    assert code == 0, text
    report = json.loads(output.read_text())
    for row in report["streaming"]:
        assert abs(row["relative_likelihood_of_equal_columns"]) < 1e-5
        assert abs(row["scores"][0] - row["scores"][1]) < 0.01
    assert {row["censoring"] for row in report["coverage"]} == {"none", "independent", "by risk"}
    assert {row["method"] for row in report["concordance"]} >= {"SetSurvival()", "true risk"}
    if find_spec("sksurv") is None:
        assert report["solver"] is None
        assert "solver: skipped, scikit-survival is not installed" in text
    else:
        assert max(row["difference"] for row in report["solver"]) < 1e-3
