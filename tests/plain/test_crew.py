"""Shared thread pools, background writers and prefetching."""

import threading
from contextlib import closing

import pytest

from dkdist._utils.concurrency import BackgroundWriter, ThreadPool, prefetch_each


def test_one_thread_prefetches_and_writes():
    done, threads = [], set()

    def compute(i):
        threads.add(threading.get_ident())
        return i * i

    def use(i):
        threads.add(threading.get_ident())
        done.append(i)

    with closing(ThreadPool(1)) as pool:
        writer = BackgroundWriter(pool, 2)
        for square in prefetch_each(compute, range(9), 2, pool):
            writer.submit(use, square)
        writer.wait()
    assert done == [i * i for i in range(9)]
    assert len(threads) == 1


def test_close_drops_only_its_own_tasks():
    is_started, may_continue, done = threading.Event(), threading.Event(), []

    def first():
        is_started.set()
        may_continue.wait(10)
        done.append("first")

    with closing(ThreadPool(1)) as pool:
        first_writer, second_writer = BackgroundWriter(pool, 9), BackgroundWriter(pool, 9)
        first_writer.submit(first)
        first_writer.submit(done.append, "dropped")
        second_writer.submit(done.append, "kept")
        is_started.wait(10)
        threading.Timer(0.05, may_continue.set).start()
        first_writer.close()
        assert done[0] == "first"  # the running task was awaited
        second_writer.wait()
        assert done == ["first", "kept"]


def test_errors_are_raised_by_wait_and_the_pool_continues():
    def fail(i):
        raise ValueError(f"no {i}")

    with closing(ThreadPool(2)) as pool:
        writer = BackgroundWriter(pool, 1)
        writer.submit(fail, 3)
        with pytest.raises(ValueError, match="no 3"):
            writer.wait()
        with pytest.raises(ValueError, match="no 0"):
            list(prefetch_each(fail, range(5), 2, pool))
        assert pool.submit(int, "7").result() == 7
