"""The benchmarks run in their quick form, and the accuracies they print are those that are claimed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def run(name: str, *arguments: str, output: Path) -> Any:
    command = [sys.executable, str(FOLDER / name), *arguments, "--quick", "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return json.loads(output.read_text())


def test_speed_prints_accuracy_beside_time(tmp_path: Path) -> None:
    figures = run("speed.py", "embedding", "rivals", "mean", "road", output=tmp_path / "speed.json")
    assert [row["d"] for row in figures["embedding"]] == [1, 2, 3]
    assert all(row["rms_error"] < 0.01 and row["sets_per_s"] > 0 for row in figures["embedding"])
    assert all(row["error"] < 1e-5 and row["ratio"] > 0 for row in figures["rivals"])
    assert {row["method"] for row in figures["mean"]} == {"fourier", "orthogonal", "sobol", "iid"}
    for row in figures["mean"]:
        assert row["ratio"] > 0
        assert row["rms_error"] < (1e-3 if row["method"] == "fourier" else 0.2)
    assert figures["road"]["ratio"] > 0


def test_a_search_costs_less_than_its_candidates(tmp_path: Path) -> None:
    figures = run("search.py", output=tmp_path / "search.json")
    assert figures["cost"]["search"] > 0
    assert figures["gain"]["searched"] < 2.9  # a constant


def test_gram_matrices(tmp_path: Path) -> None:
    corr2 = run("papers/gram.py", output=tmp_path / "gram.json")["corr2"]
    assert corr2["A"]["mean"] > 0.99
    assert corr2["z of A, structured"]["mean"] > 0.99
    assert corr2["entropy"]["mean"] > 0.99
    assert corr2["entropy"]["mean"] > corr2["entropy, halves"]["mean"] + 0.01


@pytest.mark.slow
def test_the_million_in_small(tmp_path: Path) -> None:
    output = tmp_path / "million.json"
    command = [
        sys.executable,
        str(FOLDER / "million.py"),
        "--sets",
        "6000",
        "--compare",
        "3000",
        "--workers",
        "2",
    ]
    command += ["--huge", "--huge-points", "2000", "--folder", str(tmp_path), "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    report = json.loads(output.read_text())
    small, large = report["runs"]
    assert (small["sets"], large["sets"]) == (3000, 6000)
    for run in report["runs"]:
        assert set(run["seconds"]) == {"generate", "verify", "prepare", "sgd", "ridge", "predict"}
        assert run["rmse"]["ridge on A"] < 0.8 * run["rmse"]["constant"]
        assert run["rmse"]["sgd"] < 0.8 * run["rmse"]["constant"]
        assert run["peak_mb"]["worker"] < 2000
    assert report["time_ratio"] > 0
    assert report["huge"]["points"] == 2000
    assert not list(tmp_path.rglob("*.zarr"))


@pytest.mark.slow
def test_what_a_cluster_costs(tmp_path: Path) -> None:
    report = run("cluster.py", output=tmp_path / "cluster.json")
    assert report["graph"]["blocks"] == 10_000
    assert report["scheduler"].keys() == {"map", "fold"}
    assert 0 < report["bytes"]["mb_a_block"] < 0.1
    assert report["lanes"]["mixtures"]["8 lanes, 5 passes"] > 0.6
