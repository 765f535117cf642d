"""Runs on threads of this process: how many, how they end, and runs within their tasks."""

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


def folded(some: Blocks, work: Any = lambda output, _: next(output)) -> Any:
    return fold(some, [Job((i,)) for i in range(len(some))], work, lambda s, item: s + item.sum(), 0.0)


def test_work_has_threads_of_its_own_that_end_with_it() -> None:
    before = threading.active_count()
    assert {name.split("_")[0] for name in map_blocks(blocks(), thread_name)} == {"dkdist"}
    assert {name.split("_")[0] for name in map_pieces(thread_name, range(9), label="names")} == {"dkdist"}
    assert folded(blocks()) == pytest.approx((X + 1).sum())
    assert threading.active_count() == before


def test_as_many_as_the_user_says() -> None:
    with dask.config.set(num_workers=1):
        assert set(map_blocks(blocks(), thread_name)) == {"dkdist_0"}


def test_a_scheduler_a_pool_or_callbacks_of_dask_are_used_where_they_are_chosen() -> None:
    assert uses_local_threads()
    with dask.config.set(scheduler="synchronous"):
        assert set(map_blocks(blocks(), thread_name)) == {threading.current_thread().name}
        assert uses_local_threads()
        assert {
            name.split("_")[0] for name in map_pieces(thread_name, range(9), label="names", local=True)
        } == {"dkdist"}
    begun = []
    with Callback(pretask=lambda key, *_: begun.append(key)):
        assert folded(blocks()) == pytest.approx((X + 1).sum())
    assert len(begun) > 12
    with dask.config.set(scheduler="processes"):
        assert not uses_local_threads()
        assert uses_local_threads(local=True)


def test_what_some_blocks_share_is_kept_as_long_as_they_need_it() -> None:
    lazy = da.from_array(X, chunks=(5, 4)).map_blocks(np.cos)
    for shared in (lazy + lazy.sum(), da.concatenate([lazy, lazy]), lazy.rechunk((7, 4))):
        assert folded(row_blocks(shared)) == pytest.approx(shared.sum().compute())


def test_an_error_ends_the_run_and_says_which_rows_were_made() -> None:
    def refuse(output: Any, extra: Any) -> None:
        raise LookupError(next(output).shape)

    with pytest.raises(LookupError) as error:
        folded(blocks(), refuse)
    assert error.value.__notes__[0].startswith("Raised while computing rows ")
    with pytest.raises(SystemExit):
        map_blocks(blocks(), lambda *_: (_ for _ in ()).throw(SystemExit))


def test_ctrl_c_ends_it() -> None:
    output, heard = [], threading.Event()

    def interrupt(some: Any, _: Any) -> Any:
        output.append(1)
        if len(output) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        if len(output) >= 3:
            heard.wait(30)
        return next(some)

    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored where tests run in the background
    try:
        with dask.config.set(num_workers=2), pytest.raises(KeyboardInterrupt):
            folded(blocks(), interrupt)
    finally:
        heard.set()
        signal.signal(signal.SIGINT, before)
    assert 3 <= len(output) <= 4


def test_runs_within_tasks_of_runs() -> None:
    def deeper(block: Any, depth: int) -> float:
        return float(block.sum()) if depth == 0 else sum(map_blocks(blocks(20), deeper, [depth - 1] * 3))

    with dask.config.set(num_workers=1):
        result = map_blocks(blocks(20), deeper, [2] * 3)
    np.testing.assert_allclose(result, 3 * (X + 1).sum())


@pytest.mark.parametrize("window", [1, 2, 4, None])
def test_at_most_window_items_are_alive_before_a_slow_step(window: int | None) -> None:
    gc.collect()
    Item.alive = Item.most = 0

    def slow_step(count: int, item: Item) -> int:
        time.sleep(0.005)
        return count + 1

    with dask.config.set(num_workers=8):
        assert uses_local_threads()
        jobs = [Job((i % 12,)) for i in range(40)]
        assert fold(blocks(), jobs, lambda output, _: Item(), slow_step, 0, window=window) == 40
    assert Item.most == (window or 8 + 2)  # the bound holds, and is used; by default two more than threads


def test_an_item_is_made_again_by_no_one_and_none_is_left_out() -> None:
    for n in (1, 2, 200):
        counts = np.zeros(n, int)

        def note(output: Any, extra: int, counts: Any = counts) -> int:
            counts[extra] += 1
            return extra

        order: list[int] = fold(
            blocks(60), [Job((0,), j) for j in range(n)], note, lambda s, j: [*s, j], [], window=7
        )
        assert order == list(range(n))
        assert (counts == 1).all()


def test_runs_of_rows_cover_all_and_follow_the_time_they_take(monkeypatch: Any) -> None:
    clock = iter(np.cumsum([0, 0.1, 0, 0.1, 0, 3.0, 0, 3.0, 0, 0.4, 0, 0.4, 0, 0.4, 0, 0.4]))
    monkeypatch.setattr(
        "dkdist.pairwise_matrices.distance_matrix.time", SimpleNamespace(monotonic=lambda: next(clock))
    )
    result = [(rows.start, rows.stop) for rows in interruptible_runs(30, 2, 4)]
    assert result == [(0, 4), (4, 12), (12, 28), (28, 30)]


def test_an_item_that_is_made_in_runs_ends_when_another_fails(monkeypatch: Any) -> None:
    monkeypatch.setattr("dkdist.pairwise_matrices.distance_matrix.TARGET_RUN_SECONDS", 0.0)  # runs stay short
    reached, begun = [], threading.Event()

    def make(j: int) -> None:
        if j == 1:
            assert begun.wait(30)
            raise ValueError("the second item")
        for rows in interruptible_runs(1000, 1, 1):
            reached.append(rows.start)
            begun.set()
            time.sleep(0.01)

    with dask.config.set(num_workers=2), pytest.raises(ValueError, match="second item"):
        map_pieces(make, range(2), label="make")
    assert len(reached) < 1000
