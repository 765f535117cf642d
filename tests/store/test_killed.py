"""A writer killed at any moment leaves a store that opens, verifies, and contains exactly the committed sets."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dkdist.io
from dkdist.io import open_sets, write_sets

from .samples import assert_same_sets, counted_batch

HERE = Path(__file__).parent


def kill_a_writer(kind, path, seed, commits=0):
    """Kill a writer after some commits and a random delay; return the last committed length that it printed."""
    command = [sys.executable, str(HERE / "appending.py"), kind, str(path), str(seed)]
    env = {**os.environ, "PYTHONPATH": str(Path(dkdist.io.__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as writer:
        assert writer.stdout.readline() == "ready\n"
        text = [writer.stdout.readline() for _ in range(commits)]
        time.sleep(np.random.default_rng(seed).uniform(0, 0.8))
        writer.kill()
        text += writer.stdout.read().split()
    return int(text[-1]) if text else 0


def assert_counted_collection(store):
    n = len(store)
    assert_same_sets(store.load(), counted_batch(0, n))
    assert store.targets["y"].tolist() == list(range(n))
    assert store.ids.tolist() == [str(i) for i in range(n)]
    assert store.verify().n_sets == n


def check_killed_appends(path, kills):
    write_sets(path, counted_batch(0, 5), np.arange(5), np.arange(5).astype(str), chunk_rows=256)
    committed = 5
    for seed in range(kills):
        committed = max(committed, kill_a_writer("append", path, seed, commits=seed % 2))
        store = open_sets(path)
        assert len(store) >= committed
        assert_counted_collection(store)
        committed = len(store)
    assert committed > 5


def check_killed_replacements(path, kills):
    first = write_sets(path, counted_batch(0, 5), np.arange(5), np.arange(5).astype(str))
    for seed in range(kills):
        committed = kill_a_writer("replace", path, seed, commits=seed % 2)
        store = open_sets(path)
        assert committed == 0 or store.generation > first.generation
        assert_counted_collection(store)
    assert store.generation > first.generation


def test_killed_appends_keep_the_last_commit(tmp_path):
    check_killed_appends(tmp_path / "s", 5)


def test_killed_replacements_leave_a_complete_store(tmp_path):
    check_killed_replacements(tmp_path / "s", 3)


@pytest.mark.chaos
def test_many_killed_appends_keep_the_last_commit(tmp_path):
    check_killed_appends(tmp_path / "s", 50)


@pytest.mark.chaos
def test_many_killed_replacements_leave_a_complete_store(tmp_path):
    check_killed_replacements(tmp_path / "s", 30)
