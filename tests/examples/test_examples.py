"""Every example runs in its own process with warnings as errors, and prints correct results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
DATA = Path(os.environ.get("DKDIST_DATA", "../shared/data")) / "cifar10_cats_dogs.npz"


def run(name, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", FOLDER / name],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )


def run_output(name, **environment):
    result = run(name, **environment)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def decimals(text):
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def test_all_examples_are_tested():
    tested = {
        "five_lines",
        "your_own_divergence",
        "streaming_ingestion",
        "cluster",
        "cats_and_dogs",
        "extensions",
    }
    assert {path.stem for path in FOLDER.glob("*.py")} == tested
    assert all(len(path.read_text().splitlines()) <= 60 for path in FOLDER.glob("*.py"))


def test_five_lines():
    (accuracy,) = decimals(run_output("five_lines.py"))
    assert accuracy > 0.98


def test_your_own_divergence():
    *lines, refused = run_output("your_own_divergence.py").splitlines()
    assert len(lines) == 3
    for line in lines:
        estimate, expected = decimals(line)
        assert estimate == pytest.approx(expected, rel=0.05)
    assert refused.startswith("refused: kappa must be of negative type")


def test_streaming_ingestion():
    assert run_output("streaming_ingestion.py").startswith("960 sets of ")


def test_cluster():
    # On a busy machine Dask's workers may log failed heartbeats when the scheduler closes.
    text = run_output("cluster.py", DASK_LOGGING__DISTRIBUTED="critical")
    assert decimals(text)[0] > 0.9
    assert "bit-identical without a cluster: True" in text


@pytest.mark.skipif(not DATA.is_file(), reason="DKDIST_DATA names no directory with cifar10_cats_dogs.npz")
def test_cats_and_dogs():
    accuracy = decimals(run_output("cats_and_dogs.py"))[0]
    assert accuracy > 0.7


def test_cats_and_dogs_without_data_names_the_source(tmp_path):
    result = run("cats_and_dogs.py", DKDIST_DATA=str(tmp_path))
    assert result.returncode == 1
    assert "CIFAR-10 (Krizhevsky 2009" in result.stderr
    assert "Traceback" not in result.stderr


def test_extensions_are_equal_on_a_cluster_and_on_threads():
    """Expect ranges and gaps of grids, and the mean of 1 / (1 + r^2) over pairs of points, here 0.32."""
    x, y = [(0, j) for j in range(3)], [(1, j) for j in range(4)]
    pairs = [1 / (1 + (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) for a in x for b in y]
    ranges, gaps = [2.0 + i for i in range(6)], [0.0 + i for i in range(6)]
    line = f"{ranges} {gaps} {round(sum(pairs) / len(pairs), 1)}"
    assert run_output("extensions.py").splitlines() == [line, line]
