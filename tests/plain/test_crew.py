"""Threads that several share, and work behind and ahead of others that they do."""

import threading
from contextlib import closing

import pytest

from dkdist._utils.concurrency import BackgroundWriter, ThreadPool, prefetch_each


def test_one_thread_makes_what_is_ahead_and_does_what_is_behind():
    done, threads = [], set()

    def made(i):
        threads.add(threading.get_ident())
        return i * i

    def use(i):
        threads.add(threading.get_ident())
        done.append(i)

    with closing(ThreadPool(1)) as crew:
        behind = BackgroundWriter(crew, 2)
        for square in prefetch_each(made, range(9), 2, crew):
            behind.submit(use, square)
        behind.wait()
    assert done == [i * i for i in range(9)]
    assert len(threads) == 1


def test_who_stops_drops_its_own_work_and_leaves_that_of_others():
    begun, go, done = threading.Event(), threading.Event(), []

    def first():
        begun.set()
        go.wait(10)
        done.append("first")

    with closing(ThreadPool(1)) as crew:
        one, other = BackgroundWriter(crew, 9), BackgroundWriter(crew, 9)
        one.submit(first)
        one.submit(done.append, "dropped")
        other.submit(done.append, "kept")
        begun.wait(10)
        threading.Timer(0.05, go.set).start()
        one.close()
        assert done[0] == "first"  # which was under way, and was waited for
        other.wait()
        assert done == ["first", "kept"]


def test_an_error_is_told_to_who_gave_the_work_and_the_crew_goes_on():
    def fails(i):
        raise ValueError(f"no {i}")

    with closing(ThreadPool(2)) as crew:
        behind = BackgroundWriter(crew, 1)
        behind.submit(fails, 3)
        with pytest.raises(ValueError, match="no 3"):
            behind.wait()
        with pytest.raises(ValueError, match="no 0"):
            list(prefetch_each(fails, range(5), 2, crew))
        assert crew.submit(int, "7").result() == 7
