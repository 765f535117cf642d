"""Lazy rows whose blocks write to a log, count living arrays, and fail once on request.

``python -m execution.logged_blocks FOLDER BACK_END`` fits a model on them, for tests that kill that process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np

import dkdist as dk

N_BLOCKS, BLOCK_ROWS, N_COLUMNS, N_EPOCHS = 40, 32, 50, 8
N_BATCHES = N_BLOCKS * N_EPOCHS
FAIL_AFTER_BLOCKS = (
    240  # a checkpoint is saved after 128 batches; steps may lag a few tasks behind the blocks
)
SLOW_BLOCK_SECONDS = 0.02
NAME = "logged_blocks"  # the same in every process, so that a checkpoint belongs to these rows
LOCAL_BACK_ENDS: dict[str, dict[str, Any]] = {
    "own_threads": {"num_workers": 2},
    "dask_threads": {"scheduler": "threads", "num_workers": 2},
    "dask_synchronous": {"scheduler": "synchronous"},
}


def append(path: Path, text: str) -> int:
    """Append to a file that several processes share, and return its size in bytes."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, text.encode())
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def fail_on_request(folder: Path) -> None:
    """Raise, or kill this process, if the folder has a file "raise" or "kill"; only one block does."""
    for action in ("raise", "kill"):
        try:
            (folder / action).unlink()
        except FileNotFoundError:
            continue
        if action == "raise":
            raise InterruptedError("a block that fails on request")
        os.kill(os.getpid(), signal.SIGKILL)


def block_rows(numbers: Any, folder: Path, shape: tuple[int, int]) -> Any:
    """Return the rows of one block, which depend on its number only."""
    if append(folder / "computed", ".") >= FAIL_AFTER_BLOCKS:
        fail_on_request(folder)
    if (folder / "slow").exists():
        time.sleep(SLOW_BLOCK_SECONDS)
    distinct_rows = np.random.default_rng(int(numbers[0])).standard_normal((16, shape[1]), dtype=np.float32)
    rows = np.repeat(distinct_rows, shape[0] // 16, axis=0)
    append(folder / "alive", "+")
    weakref.finalize(rows, append, folder / "alive", "-")
    return rows


def lazy_rows(folder: Path, shape: tuple[int, int] = (BLOCK_ROWS, N_COLUMNS)) -> Any:
    """Return all rows, as a dask array."""
    chunks = ((shape[0],) * N_BLOCKS, (shape[1],))
    work = partial(block_rows, folder=folder, shape=shape)
    meta = np.empty((0, 0), np.float32)
    numbers = da.arange(N_BLOCKS, chunks=1)
    return numbers.map_blocks(work, chunks=chunks, new_axis=1, dtype=np.float32, meta=meta, name=NAME)


def classes(block_rows: int = BLOCK_ROWS) -> Any:
    """Return labels of three classes."""
    return np.random.default_rng(0).integers(0, 3, N_BLOCKS * block_rows)


def fit(folder: Path) -> Any:
    """Fit a model with a checkpoint in the folder, and return its coefficients."""
    model = dk.IncrementalSGDClassifier(
        n_epochs=N_EPOCHS, cache=False, checkpoint=folder / "checkpoint", random_state=0
    )
    return model.fit(lazy_rows(folder), classes()).coef_


def n_computed(folder: Path) -> int:
    """Return the number of computed blocks."""
    return (folder / "computed").stat().st_size


def max_alive(folder: Path) -> int:
    """Return the largest number of blocks alive at a time."""
    changes = [1 if change == "+" else -1 for change in (folder / "alive").read_text()]
    return int(np.cumsum(changes).max())


if __name__ == "__main__":
    with dask.config.set(LOCAL_BACK_ENDS[sys.argv[2]]):
        fit(Path(sys.argv[1]))
