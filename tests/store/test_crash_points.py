"""The last commit survives a process that dies at any file change and a power loss at any moment.

Every operation is killed before each of its file changes and in the middle of each write. Power losses use a model of
a disk that keeps flushed data and loses other changes at random. The remaining store must open, verify, and have the
bits of the commit before or after the operation; the operation can be rerun; and the next writer removes all leftovers.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dkdist

from .disk_model import Disk

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="the harness forks, and reads /proc"
)


def outcomes(program, folder, n, seed):
    env = {**os.environ, "PYTHONPATH": str(Path(dkdist.__file__).parents[1])}
    command = [sys.executable, str(HERE / program), str(folder), str(n), str(seed)]
    run = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert run.returncode == 0, run.stderr
    result = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(result) >= n
    assert len({outcome["operation"] for outcome in result}) == 7
    return result


def assert_nothing_wrong(result):
    wrong = [outcome for outcome in result if outcome["wrong"] is not None]
    assert not wrong, f"{len(wrong)} of {len(result)}: {json.dumps(wrong[:3], indent=1)}"


def test_last_commit_survives_a_crash_at_sampled_file_changes(tmp_path):
    assert_nothing_wrong(outcomes("crashing.py", tmp_path, 14, 1))


def test_last_commit_survives_some_power_losses(tmp_path):
    assert_nothing_wrong(outcomes("losing_power.py", tmp_path, 7, 1))


@pytest.mark.chaos
def test_last_commit_survives_a_crash_at_every_file_change(tmp_path):
    result = outcomes("crashing.py", tmp_path, 0, 0)
    assert_nothing_wrong(result)
    assert len(result) >= 500


@pytest.mark.chaos
def test_last_commit_survives_two_hundred_power_losses(tmp_path):
    assert_nothing_wrong(outcomes("losing_power.py", tmp_path, 200, 0))


def files_after_power_loss(root, changes, seed, target):
    disk = Disk(root)
    for change in changes:
        disk.follow(*change)
    disk.lose_power(np.random.default_rng(seed), target)
    return {p.name: p.read_bytes() for p in target.iterdir()}


def test_the_disk_model_loses_only_unflushed_changes(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "old").write_bytes(b"old")
    a, new = str(root / "a"), str(root / "new")
    begun = [("create", a), ("write", a, b"abcd"), ("rename", a, new)]
    seen = {
        name: [files_after_power_loss(root, changes, seed, tmp_path / f"{name} {seed}") for seed in range(60)]
        for name, changes in {
            "nothing": begun,
            "names": [*begun, ("fsync", str(root))],
            "content": [*begun[:2], ("fsync", a), begun[2]],
            "both": [*begun[:2], ("fsync", a), begun[2], ("fsync", str(root))],
        }.items()
    }
    assert all(result["old"] == b"old" for group in seen.values() for result in group)
    assert {result.get("new") for result in seen["nothing"]} >= {None, b"", b"abcd", b"\0\0\0\0", b"ab"}
    assert {result.get("new") for result in seen["names"]} >= {b"", b"abcd", b"\0\0\0\0"}
    assert None not in {result.get("new") for result in seen["names"]}
    assert {result.get("new") for result in seen["content"]} == {None, b"abcd"}
    assert {result.get("new") for result in seen["both"]} == {b"abcd"}
