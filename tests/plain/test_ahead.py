"""Prefetching: order of items, number of prefetched items, and errors."""

import threading
from contextvars import ContextVar

import pytest

from dkdist._utils.concurrency import prefetch, prefetch_each


def test_prefetch_keeps_order_and_values():
    assert list(prefetch(iter([]))) == []
    assert list(prefetch(iter([3, None, False, 1]))) == [3, None, False, 1]


def test_prefetch_computes_one_item_ahead():
    computed, is_second_computed = [], threading.Event()

    def items():
        for i in range(5):
            computed.append(i)
            if i == 1:
                is_second_computed.set()
            yield i

    prefetched = prefetch(items())
    assert next(prefetched) == 0
    assert is_second_computed.wait(60)  # computed while item 0 is in use
    prefetched.close()
    assert computed == [0, 1]


def test_prefetch_raises_errors_in_order():
    def items():
        yield 1
        raise ValueError("the second")

    prefetched = prefetch(items())
    assert next(prefetched) == 1
    with pytest.raises(ValueError, match="the second"):
        next(prefetched)


def test_prefetch_copies_context_and_ends_its_thread():
    variable = ContextVar("chosen", default="none")
    variable.set("here")
    threads = threading.active_count()
    assert list(prefetch(variable.get() for _ in range(3))) == ["here"] * 3
    assert threading.active_count() == threads


def test_prefetch_each_is_concurrent_and_ordered():
    barrier = threading.Barrier(2, timeout=60)

    def compute(i):
        if i < 2:
            barrier.wait()  # passes if the first two run concurrently
        return i * i

    assert list(prefetch_each(compute, range(5), 2, 2)) == [0, 1, 4, 9, 16]
    assert list(prefetch_each(compute, [], 2, 2)) == []


def test_prefetch_each_limits_items_and_stops_after_an_error():
    started = []

    def compute(i):
        started.append(i)
        if i == 1:
            raise ValueError("the second")
        return i

    prefetched = prefetch_each(compute, range(9), 3, 1)
    assert next(prefetched) == 0
    with pytest.raises(ValueError, match="the second"):
        next(prefetched)
    assert max(started) <= 4
