"""Folds and maps through a client: the same results, few items alive, errors that name rows."""

import gc
import os
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, get_worker

from dkdist._runtime import futures as stream
from dkdist._runtime.blocks import Job, row_blocks
from dkdist._runtime.futures import (
    RATE_WINDOW_SECONDS,
    TARGET_TASK_SECONDS,
    TASKS_PER_SYNC,
    ThroughputEstimator,
    jobs_per_task,
)
from dkdist._runtime.map_reduce import fold, map_blocks
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import resources

from .counted import Item, LoggedItem, most_alive

X = np.random.default_rng(0).random((60, 4))


def blocks():
    cosines = da.from_array(X, chunks=(5, 4)).map_blocks(np.cos)
    return row_blocks(cosines + cosines.sum())  # every block also needs one shared value


def joined(output, extra):
    return np.concatenate(list(output)), extra


def append(state, item):
    rows, extra = item
    return 0.9 * state + extra * rows.sum(axis=0)


def jobs_of(n):
    return [Job((j % 12, (5 * j) % 12), 1.0 + j) for j in range(n)]


@pytest.fixture(scope="module")
def client():
    with Client(
        processes=False, n_workers=2, threads_per_worker=2, dashboard_address="127.0.0.1:0"
    ) as client:
        yield client


@pytest.mark.parametrize(
    "n", [1, 2, TASKS_PER_SYNC - 1, TASKS_PER_SYNC, TASKS_PER_SYNC + 1, 5 * TASKS_PER_SYNC + 3]
)
@pytest.mark.parametrize("window", [1, 3, 50, None])
def test_a_fold_is_the_sequential_one(client, n, window):
    with dask.config.set(scheduler="sync"):
        expected = fold(blocks(), jobs_of(n), joined, append, np.zeros(4), window=1)
    result = fold(blocks(), jobs_of(n), joined, append, np.zeros(4), window=window)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_which_jobs_share_a_task_changes_nothing(client, monkeypatch, size):
    monkeypatch.setattr(stream, "jobs_per_task", lambda before, n, seconds: before % 5 + 1)
    monkeypatch.setattr(stream._Fold, "task_jobs", size)
    with dask.config.set(scheduler="sync"):
        expected = fold(blocks(), jobs_of(43), joined, append, np.zeros(4), window=1)
    reports = []
    message = {"window": 60, "on_segment": lambda state, n: reports.append(n)}
    result = fold(blocks(), jobs_of(43), joined, append, np.zeros(4), **message)
    np.testing.assert_array_equal(result, expected)
    assert reports == [43]


def test_a_thread_has_one_task_of_a_fold_ahead(client, monkeypatch):
    under_way, add = [], stream._Fold._add_items

    def noted(self, graph, width, threads):
        items = add(self, graph, width, threads)
        under_way.append((self.n_items - self.n_done, threads))
        return items

    monkeypatch.setattr(stream._Fold, "_add_items", noted)
    monkeypatch.setattr(stream._Fold, "task_jobs", 3)
    monkeypatch.setattr(stream, "jobs_per_task", lambda before, n, seconds: 3)
    fold(blocks(), jobs_of(100), joined, append, np.zeros(4), window=60)
    assert max(under_way) == (4, 4)


def test_items_go_to_threads_in_turn(client, monkeypatch):
    monkeypatch.setattr(stream._Fold, "task_jobs", 1)
    monkeypatch.setattr(stream, "jobs_per_task", lambda before, n, seconds: 1)

    def where(output, extra):
        time.sleep(0.01)  # so that a thread is busy when the next item is handed out
        return get_worker().address

    def seen(places, place):
        return [*places, place]

    one, two = client.scheduler_info()["workers"]
    assert resources().workers == (one, two, one, two)  # each has two threads
    assert fold(blocks(), jobs_of(40), where, seen, [], window=60) == 20 * [one, two]
    with dask.annotate(workers=[two]):
        assert fold(blocks(), jobs_of(10), where, seen, [], window=60) == 10 * [two]


def test_tasks_are_as_long_as_their_time_and_change_by_and_by():
    assert jobs_per_task(10, 30, 30 * TARGET_TASK_SECONDS / 12) == 12
    assert jobs_per_task(2, 10**6, 1.0) == 8
    assert jobs_per_task(100, 1, 1e3) == 25
    assert jobs_per_task(1, 1, 1e3) == 1


def test_jobs_that_end_at_once_after_a_pause_do_not_look_like_a_fast_run():
    rate, now, done = ThroughputEstimator(0.0), 0.0, 0
    for _ in range(20):
        now, done = now + 0.5, done + 10
        n, seconds = rate.update(now, done)
        assert n / seconds == pytest.approx(20)
    n, seconds = rate.update(now + 3.0, done + 10)  # a worker died and its jobs were done again
    assert n / seconds < 20
    for burst in range(1, 8):  # while its replacement started, others did what now is used in an instant
        n, seconds = rate.update(now + 3.0 + 0.01 * burst, done + 10 + 10 * burst)
        assert n / seconds < 20 * (RATE_WINDOW_SECONDS + 3.0) / RATE_WINDOW_SECONDS


def test_a_run_that_becomes_faster_is_told_within_ten_seconds():
    rate = ThroughputEstimator(0.0)
    for second in range(1, 101):
        rate.update(second, second)
    n, seconds = rate.update(110.0, 1100)
    assert n / seconds == pytest.approx(100)


def test_no_jobs_leave_the_state(client):
    state = object()
    assert fold(blocks(), [], joined, append, state) is state


def test_states_are_reported_in_order_and_progress_counts_every_block_once(client):
    reports, progress = [], Progress(260, "test", show=False)
    jobs = [Job((i % 12,), 1.0) for i in range(260)]
    message = {"window": 4, "on_segment": lambda *r: reports.append(r), "progress": progress}
    fold(blocks(), jobs, lambda output, _: 1, lambda s, i: s + i, 0, **message)
    assert reports == [(128, 128), (256, 256), (260, 260)]
    assert progress.done == 260


def test_a_map_keeps_the_order_and_makes_what_is_asked_for(client):
    whole = map_blocks(blocks(), lambda block, extra: (block.sum(), extra), list(range(12)))
    assert [extra for _, extra in whole] == list(range(12))
    some = map_blocks(blocks(), lambda block, extra: (block.sum(), extra), list(range(12)), only=[7, 2, 11])
    assert some == [whole[7], whole[2], whole[11]]
    assert map_blocks(blocks(), lambda block, extra: 1, only=[]) == []


def test_nothing_is_left_with_the_scheduler(client):
    fold(blocks(), jobs_of(30), joined, append, np.zeros(4))
    map_blocks(blocks(), lambda block, extra: 1)
    deadline = time.monotonic() + 10
    while client.cluster.scheduler.tasks and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not client.cluster.scheduler.tasks


@pytest.mark.parametrize("window", [1, 2, 5])
def test_at_most_window_items_are_alive_before_a_slow_step(client, window):
    gc.collect()
    Item.alive = Item.most = 0

    def slow_step(count, item):
        time.sleep(0.005)
        return count + 1

    jobs = [Job((i % 12,)) for i in range(40)]
    assert fold(blocks(), jobs, lambda output, _: Item(), slow_step, 0, window=window) == 40
    workers = 2
    assert (
        window - window % 2 <= Item.most <= window + workers
    )  # a task makes two where there is room for two


@pytest.mark.network
def test_at_most_window_items_are_alive_in_worker_processes(tmp_path):
    path, window, workers = str(tmp_path / "log"), 6, 3

    def prepare(output, extra):
        return LoggedItem(path)

    def slow_step(count, item):
        time.sleep(0.02)
        return count + 1

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        with Client(cluster):
            jobs = [Job((i % 12,)) for i in range(60)]
            assert fold(blocks(), jobs, prepare, slow_step, 0, window=window) == 60
        cluster.scale(0)
    assert window - 1 <= most_alive(path) <= window + workers


class OwnError(Exception):
    pass


def test_errors_keep_their_type_and_say_which_rows(client):
    def prepare(output, extra):
        if extra == 21.0:
            raise OwnError("job 20")
        return next(output), extra

    with pytest.raises(OwnError, match="job 20") as caught:
        fold(blocks(), jobs_of(30), prepare, append, np.zeros(4))
    assert "rows 40 to 44 and 20 to 24" in " ".join(caught.value.__notes__)

    def broken(block, extra):
        raise OwnError("all")

    with pytest.raises(OwnError, match="all") as caught:
        map_blocks(blocks(), broken, only=[3])
    assert "rows 15 to 19" in " ".join(caught.value.__notes__)


@pytest.mark.network
def test_a_block_that_kills_its_workers_is_named():
    def deadly(block, extra):
        if extra == 7:
            os._exit(1)
        return extra

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
        pytest.raises(RuntimeError, match=r"2 workers died .* rows 35 to 39 .* block_sets"),
    ):
        map_blocks(blocks(), deadly, list(range(12)), only=[7])
