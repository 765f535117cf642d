"""A process that writes features is killed at random until it finishes: all rows are correct."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dkdist as dk

N_BLOCKS, ROWS, COLUMNS = 400, 8, 50

SCRIPT = """
import sys, time
import dask.array as da, numpy as np
import dkdist as dk

def made(block, block_info=None):
    time.sleep(0.01)
    first = block_info[0]["array-location"][0][0]
    return np.random.default_rng(first).standard_normal(block.shape).astype("f4")

zeros = da.zeros(({rows}, {columns}), chunks=({block}, {columns}), dtype="f4", name="zeros")
features = zeros.map_blocks(made, dtype="f4", name="made")
print("ready", flush=True)
dk.write_features(sys.argv[1], features)
"""


def expected() -> np.ndarray:
    blocks = [
        np.random.default_rng(i * ROWS).standard_normal((ROWS, COLUMNS)).astype("f4") for i in range(N_BLOCKS)
    ]
    return np.concatenate(blocks)


def write_and_kill(path: Path, kills: int, seed: int) -> int:
    """Start the script repeatedly and kill it shortly after it begins to write, except in the last run."""
    rng = np.random.default_rng(seed)
    script = SCRIPT.format(rows=N_BLOCKS * ROWS, columns=COLUMNS, block=ROWS)
    killed = 0
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0.0, 0.25))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
    last = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert last.returncode == 0 or "already holds these features" in last.stderr, last.stderr
    return killed


def check_features(path: Path) -> None:
    np.testing.assert_array_equal(dk.open_features(path).compute(), expected())
    remaining = {file.name for file in path.rglob("*") if file.is_file()}
    assert not [name for name in remaining if "partial" in name or name.endswith(".tmp")]


def test_features_are_complete_after_three_kills(tmp_path: Path) -> None:
    assert write_and_kill(tmp_path / "z.zarr", 3, 0) >= 2
    check_features(tmp_path / "z.zarr")


@pytest.mark.chaos
def test_features_are_complete_after_fifty_kills(tmp_path: Path) -> None:
    killed = 0
    for seed in range(1, 6):
        path = tmp_path / f"{seed}.zarr"
        killed += write_and_kill(path, 10, seed)
        check_features(path)
    assert killed >= 40
