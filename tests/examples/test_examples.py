"""Every example runs as it stands, in a process of its own with warnings as errors, and says what is true."""

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


def output_of(name, **environment):
    done = run(name, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def numbers(text):
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def test_all_are_tried_here():
    tried = {
        "five_lines",
        "your_own_divergence",
        "streaming_ingestion",
        "cluster",
        "cats_and_dogs",
        "extensions",
    }
    assert {path.stem for path in FOLDER.glob("*.py")} == tried
    assert all(len(path.read_text().splitlines()) <= 60 for path in FOLDER.glob("*.py"))


def test_five_lines():
    (accuracy,) = numbers(output_of("five_lines.py"))
    assert accuracy > 0.98


def test_your_own_divergence():
    *lines, refused = output_of("your_own_divergence.py").splitlines()
    assert len(lines) == 3
    for line in lines:
        result, expected = numbers(line)
        assert result == pytest.approx(expected, rel=0.05)
    assert refused.startswith("refused: kappa is not of negative type")


def test_streaming_ingestion():
    assert output_of("streaming_ingestion.py").startswith("960 sets of ")


def test_cluster():
    # On a busy machine Dask's workers are still sending heartbeats when the scheduler closes, and tell of it.
    text = output_of("cluster.py", DASK_LOGGING__DISTRIBUTED="critical")
    assert numbers(text)[0] > 0.9
    assert "bit-identical without a cluster: True" in text


@pytest.mark.skipif(not DATA.is_file(), reason="DKDIST_DATA names no directory with cifar10_cats_dogs.npz")
def test_cats_and_dogs():
    accuracy = numbers(output_of("cats_and_dogs.py"))[0]
    assert accuracy > 0.7


def test_cats_and_dogs_say_where_the_data_is_from(tmp_path):
    done = run("cats_and_dogs.py", DKDIST_DATA=str(tmp_path))
    assert done.returncode == 1
    assert "CIFAR-10 (Krizhevsky 2009" in done.stderr
    assert "Traceback" not in done.stderr


def test_extensions_give_the_same_on_a_cluster_and_on_threads():
    """Expected: ranges and gaps of grids, and the mean of 1 / (1 + r^2) over pairs of points, here 0.32."""
    x, y = [(0, j) for j in range(3)], [(1, j) for j in range(4)]
    pairs = [1 / (1 + (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) for a in x for b in y]
    ranges, gaps = [2.0 + i for i in range(6)], [0.0 + i for i in range(6)]
    line = f"{ranges} {gaps} {round(sum(pairs) / len(pairs), 1)}"
    assert output_of("extensions.py").splitlines() == [line, line]
