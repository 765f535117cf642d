"""Forked processes reopen stores, because an open zip file would share its position with the parent."""

from __future__ import annotations

import multiprocessing
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import dkdist as dk

from . import problem


def _read(sets: Any, rounds: int, queue: Any) -> None:
    try:
        queue.put(all(np.isfinite(sets[i % 48]).all() for i in range(rounds)))
    except Exception as error:
        queue.put(repr(error))


def _file(sets: Any) -> int:
    return id(sets._reader.store)


def _has_same_file(sets: Any, parent_file: int, queue: Any) -> None:
    queue.put(_file(sets) == parent_file)


def test_forked_processes_read_one_zip_file(tmp_path: Path) -> None:
    problem.write(tmp_path / "bags.zarr")
    shutil.make_archive(str(tmp_path / "bags.zarr"), "zip", tmp_path / "bags.zarr")
    sets = dk.open_sets(tmp_path / "bags.zarr.zip")
    sets.load()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    committed = sets._reader  # kept alive, so that its id is not reused
    processes = [
        context.Process(target=_has_same_file, args=(sets, _file(sets), queue), daemon=True),
        *(context.Process(target=_read, args=(sets, 100, queue), daemon=True) for _ in range(2)),
    ]
    for process in processes:
        process.start()
    assert all(np.isfinite(sets[i % 48]).all() for i in range(100))
    result = [queue.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(20)
    assert sorted(map(str, result)) == ["False", "True", "True"]
    assert committed is sets._reader
