"""Runs on local threads: number of threads, errors, interrupts, and nested runs."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from types import SimpleNamespace
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback

from dkdist._runtime.blocks import Blocks, Job, row_blocks
from dkdist._runtime.map_reduce import fold, map_blocks, map_pieces
from dkdist._runtime.run import uses_local_threads
from dkdist.pairwise_matrices.distance_matrix import interruptible_runs

from .counted import Item

X = np.random.default_rng(0).random((60, 4))


def blocks(step: int = 5) -> Blocks:
    return row_blocks(da.from_array(X, chunks=(step, 4)) + 1)


def thread_name(*_: Any) -> str:
    return threading.current_thread().name


def fold_sum(selected_blocks: Blocks, work: Any = lambda calls, _: next(calls)) -> Any:
    return fold(
        selected_blocks,
        [Job((i,)) for i in range(len(selected_blocks))],
        work,
        lambda s, item: s + item.sum(),
        0.0,
    )


def test_runs_use_own_threads_that_end() -> None:
    n_threads_before = threading.active_count()
    assert {name.split("_")[0] for name in map_blocks(blocks(), thread_name)} == {"dkdist"}
    assert {name.split("_")[0] for name in map_pieces(thread_name, range(9), label="names")} == {"dkdist"}
    assert fold_sum(blocks()) == pytest.approx((X + 1).sum())
    assert threading.active_count() == n_threads_before


def test_num_workers_sets_the_number_of_threads() -> None:
    with dask.config.set(num_workers=1):
        assert set(map_blocks(blocks(), thread_name)) == {"dkdist_0"}


def test_selected_dask_schedulers_and_callbacks_are_used() -> None:
    assert uses_local_threads()
    with dask.config.set(scheduler="synchronous"):
        assert set(map_blocks(blocks(), thread_name)) == {threading.current_thread().name}
        assert uses_local_threads()
        assert {
            name.split("_")[0] for name in map_pieces(thread_name, range(9), label="names", local=True)
        } == {"dkdist"}
    started_keys = []
    with Callback(pretask=lambda key, *_: started_keys.append(key)):
        assert fold_sum(blocks()) == pytest.approx((X + 1).sum())
    assert len(started_keys) > 12
    with dask.config.set(scheduler="processes"):
        assert not uses_local_threads()
        assert uses_local_threads(local=True)


def test_shared_values_are_kept_until_their_last_use() -> None:
    lazy = da.from_array(X, chunks=(5, 4)).map_blocks(np.cos)
    for shared in (lazy + lazy.sum(), da.concatenate([lazy, lazy]), lazy.rechunk((7, 4))):
        assert fold_sum(row_blocks(shared)) == pytest.approx(shared.sum().compute())


def test_errors_end_the_run_and_name_rows() -> None:
    def fail(calls: Any, extra: Any) -> None:
        raise LookupError(next(calls).shape)

    with pytest.raises(LookupError) as error:
        fold_sum(blocks(), fail)
    assert error.value.__notes__[0].startswith("Raised while computing rows ")
    with pytest.raises(SystemExit):
        map_blocks(blocks(), lambda *_: (_ for _ in ()).throw(SystemExit))


def test_keyboard_interrupt_ends_the_run() -> None:
    calls, is_finished = [], threading.Event()

    def interrupt(output: Any, _: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        if len(calls) >= 3:
            is_finished.wait(30)
        return next(output)

    # SIGINT is ignored when tests run in the background
    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with dask.config.set(num_workers=2), pytest.raises(KeyboardInterrupt):
            fold_sum(blocks(), interrupt)
    finally:
        is_finished.set()
        signal.signal(signal.SIGINT, previous_handler)
    assert 3 <= len(calls) <= 4


def test_nested_runs() -> None:
    def sum_recursively(block: Any, depth: int) -> float:
        return (
            float(block.sum())
            if depth == 0
            else sum(map_blocks(blocks(20), sum_recursively, [depth - 1] * 3))
        )

    with dask.config.set(num_workers=1):
        result = map_blocks(blocks(20), sum_recursively, [2] * 3)
    np.testing.assert_allclose(result, 3 * (X + 1).sum())


@pytest.mark.parametrize("window", [1, 2, 4, None])
def test_number_of_living_items_is_limited_by_window(window: int | None) -> None:
    gc.collect()
    Item.alive = Item.max_alive = 0

    def slow_step(count: int, item: Item) -> int:
        time.sleep(0.005)
        return count + 1

    with dask.config.set(num_workers=8):
        assert uses_local_threads()
        jobs = [Job((i % 12,)) for i in range(40)]
        assert fold(blocks(), jobs, lambda calls, _: Item(), slow_step, 0, window=window) == 40
    assert Item.max_alive == (window or 8 + 2)  # the limit is reached; by default two more than threads


def test_every_item_is_computed_once() -> None:
    for n in (1, 2, 200):
        counts = np.zeros(n, int)

        def count_call(calls: Any, extra: int, counts: Any = counts) -> int:
            counts[extra] += 1
            return extra

        order: list[int] = fold(
            blocks(60), [Job((0,), j) for j in range(n)], count_call, lambda s, j: [*s, j], [], window=7
        )
        assert order == list(range(n))
        assert (counts == 1).all()


def test_interruptible_runs_cover_rows_and_adapt_to_time(monkeypatch: Any) -> None:
    clock = iter(np.cumsum([0, 0.1, 0, 0.1, 0, 3.0, 0, 3.0, 0, 0.4, 0, 0.4, 0, 0.4, 0, 0.4]))
    monkeypatch.setattr(
        "dkdist.pairwise_matrices.distance_matrix.time", SimpleNamespace(monotonic=lambda: next(clock))
    )
    result = [(rows.start, rows.stop) for rows in interruptible_runs(30, 2, 4)]
    assert result == [(0, 4), (4, 12), (12, 28), (28, 30)]


def test_interruptible_runs_end_after_an_error(monkeypatch: Any) -> None:
    monkeypatch.setattr("dkdist.pairwise_matrices.distance_matrix.TARGET_RUN_SECONDS", 0.0)  # runs stay short
    started_rows, is_started = [], threading.Event()

    def make(j: int) -> None:
        if j == 0:
            assert is_started.wait(30)
            raise ValueError("the first item")
        for rows in interruptible_runs(1000, 1, 1):
            started_rows.append(rows.start)
            is_started.set()
            time.sleep(0.01)

    with dask.config.set(num_workers=2), pytest.raises(ValueError, match="first item"):
        map_pieces(make, range(2), label="make")
    assert len(started_rows) < 1000
