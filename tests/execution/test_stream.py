"""Folds and maps through a client: identical results, few living items, errors that name rows."""

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

from .counted import Item, LoggedItem, max_alive

X = np.random.default_rng(0).random((60, 4))


def blocks():
    cosines = da.from_array(X, chunks=(5, 4)).map_blocks(np.cos)
    return row_blocks(cosines + cosines.sum())  # all blocks need a shared value


def join_blocks(output, extra):
    return np.concatenate(list(output)), extra


def append(state, item):
    rows, extra = item
    return 0.9 * state + extra * rows.sum(axis=0)


def make_jobs(n):
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
def test_fold_matches_sequential_result(client, n, window):
    with dask.config.set(scheduler="sync"):
        expected = fold(blocks(), make_jobs(n), join_blocks, append, np.zeros(4), window=1)
    result = fold(blocks(), make_jobs(n), join_blocks, append, np.zeros(4), window=window)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_jobs_per_task_do_not_change_the_result(client, monkeypatch, size):
    monkeypatch.setattr(stream, "jobs_per_task", lambda before, n, seconds: before % 5 + 1)
    monkeypatch.setattr(stream._Fold, "task_jobs", size)
    with dask.config.set(scheduler="sync"):
        expected = fold(blocks(), make_jobs(43), join_blocks, append, np.zeros(4), window=1)
    reports = []
    options = {"window": 60, "on_segment": lambda state, n: reports.append(n)}
    result = fold(blocks(), make_jobs(43), join_blocks, append, np.zeros(4), **options)
    np.testing.assert_array_equal(result, expected)
    assert reports == [43]


def test_threads_have_one_task_queued(client, monkeypatch):
    in_flight, add_items = [], stream._Fold._add_items

    def recording_add_items(self, graph, width, threads):
        items = add_items(self, graph, width, threads)
        in_flight.append((self.n_items - self.n_done, threads))
        return items

    monkeypatch.setattr(stream._Fold, "_add_items", recording_add_items)
    monkeypatch.setattr(stream._Fold, "task_jobs", 3)
    monkeypatch.setattr(stream, "jobs_per_task", lambda before, n, seconds: 3)
    fold(blocks(), make_jobs(100), join_blocks, append, np.zeros(4), window=60)
    assert max(in_flight) == (4, 4)


def test_items_are_assigned_to_threads_in_turn(client, monkeypatch):
    monkeypatch.setattr(stream._Fold, "task_jobs", 1)
    monkeypatch.setattr(stream, "jobs_per_task", lambda before, n, seconds: 1)

    def worker_address(output, extra):
        time.sleep(0.01)  # keeps the thread busy when the next item is assigned
        return get_worker().address

    def append_address(addresses, address):
        return [*addresses, address]

    first, second = client.scheduler_info()["workers"]
    assert resources().workers == (first, second, first, second)  # each has two threads
    assert fold(blocks(), make_jobs(40), worker_address, append_address, [], window=60) == 20 * [
        first,
        second,
    ]
    with dask.annotate(workers=[second]):
        assert fold(blocks(), make_jobs(10), worker_address, append_address, [], window=60) == 10 * [second]


def test_jobs_per_task_follow_target_time_gradually():
    assert jobs_per_task(10, 30, 30 * TARGET_TASK_SECONDS / 12) == 12
    assert jobs_per_task(2, 10**6, 1.0) == 8
    assert jobs_per_task(100, 1, 1e3) == 25
    assert jobs_per_task(1, 1, 1e3) == 1


def test_throughput_estimate_is_robust_to_bursts():
    rate, now, n_done = ThroughputEstimator(0.0), 0.0, 0
    for _ in range(20):
        now, n_done = now + 0.5, n_done + 10
        n, seconds = rate.update(now, n_done)
        assert n / seconds == pytest.approx(20)
    n, seconds = rate.update(now + 3.0, n_done + 10)  # a worker died and its jobs were repeated
    assert n / seconds < 20
    for burst in range(1, 8):  # results that other workers computed meanwhile arrive in bursts
        n, seconds = rate.update(now + 3.0 + 0.01 * burst, n_done + 10 + 10 * burst)
        assert n / seconds < 20 * (RATE_WINDOW_SECONDS + 3.0) / RATE_WINDOW_SECONDS


def test_throughput_estimate_adapts_within_ten_seconds():
    rate = ThroughputEstimator(0.0)
    for second in range(1, 101):
        rate.update(second, second)
    n, seconds = rate.update(110.0, 1100)
    assert n / seconds == pytest.approx(100)


def test_fold_without_jobs_returns_the_state(client):
    state = object()
    assert fold(blocks(), [], join_blocks, append, state) is state


def test_on_segment_is_called_in_order_and_progress_counts_blocks(client):
    reports, progress = [], Progress(260, "test", show=False)
    jobs = [Job((i % 12,), 1.0) for i in range(260)]
    options = {"window": 4, "on_segment": lambda *r: reports.append(r), "progress": progress}
    fold(blocks(), jobs, lambda output, _: 1, lambda s, i: s + i, 0, **options)
    assert reports == [(128, 128), (256, 256), (260, 260)]
    assert progress.done == 260


def test_map_blocks_keeps_order_and_selects_blocks(client):
    all_results = map_blocks(blocks(), lambda block, extra: (block.sum(), extra), list(range(12)))
    assert [extra for _, extra in all_results] == list(range(12))
    selected_results = map_blocks(
        blocks(), lambda block, extra: (block.sum(), extra), list(range(12)), only=[7, 2, 11]
    )
    assert selected_results == [all_results[7], all_results[2], all_results[11]]
    assert map_blocks(blocks(), lambda block, extra: 1, only=[]) == []


def test_tasks_are_released_from_the_scheduler(client):
    fold(blocks(), make_jobs(30), join_blocks, append, np.zeros(4))
    map_blocks(blocks(), lambda block, extra: 1)
    deadline = time.monotonic() + 10
    while client.cluster.scheduler.tasks and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not client.cluster.scheduler.tasks


@pytest.mark.parametrize("window", [1, 2, 5])
def test_number_of_living_items_is_limited_by_window(client, window):
    gc.collect()
    Item.alive = Item.max_alive = 0

    def slow_step(count, item):
        time.sleep(0.005)
        return count + 1

    jobs = [Job((i % 12,)) for i in range(40)]
    assert fold(blocks(), jobs, lambda output, _: Item(), slow_step, 0, window=window) == 40
    workers = 2
    assert window - window % 2 <= Item.max_alive <= window + workers  # a task computes two items if both fit


@pytest.mark.network
def test_number_of_living_items_in_worker_processes_is_limited(tmp_path):
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
    assert window - 1 <= max_alive(path) <= window + workers


class CustomError(Exception):
    pass


def test_errors_keep_their_type_and_name_rows(client):
    def prepare(output, extra):
        if extra == 21.0:
            raise CustomError("job 20")
        return next(output), extra

    with pytest.raises(CustomError, match="job 20") as caught:
        fold(blocks(), make_jobs(30), prepare, append, np.zeros(4))
    assert "rows 40 to 44 and 20 to 24" in " ".join(caught.value.__notes__)

    def fail(block, extra):
        raise CustomError("all")

    with pytest.raises(CustomError, match="all") as caught:
        map_blocks(blocks(), fail, only=[3])
    assert "rows 15 to 19" in " ".join(caught.value.__notes__)


@pytest.mark.network
def test_block_that_kills_workers_is_reported():
    def kill_worker(block, extra):
        if extra == 7:
            os._exit(1)
        return extra

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
        pytest.raises(RuntimeError, match=r"2 workers died .* rows 35 to 39 .* block_sets"),
    ):
        map_blocks(blocks(), kill_worker, list(range(12)), only=[7])
