"""Items come as they are, one is made while another is used, and what goes wrong in the making is raised in turn."""

import threading
from contextvars import ContextVar

import pytest

from dkdist._utils.concurrency import prefetch, prefetch_each


def test_the_items_in_their_order_whatever_they_are():
    assert list(prefetch(iter([]))) == []
    assert list(prefetch(iter([3, None, False, 1]))) == [3, None, False, 1]


def test_one_is_made_while_another_is_used_and_no_more():
    output, second = [], threading.Event()

    def items():
        for i in range(5):
            output.append(i)
            if i == 1:
                second.set()
            yield i

    taken = prefetch(items())
    assert next(taken) == 0
    assert second.wait(60)  # made while item 0 is used here
    taken.close()
    assert output == [0, 1]


def test_an_error_comes_after_the_items_before_it():
    def items():
        yield 1
        raise ValueError("the second")

    taken = prefetch(items())
    assert next(taken) == 1
    with pytest.raises(ValueError, match="the second"):
        next(taken)


def test_the_context_goes_along_and_no_thread_stays():
    chosen = ContextVar("chosen", default="none")
    chosen.set("here")
    threads = threading.active_count()
    assert list(prefetch(chosen.get() for _ in range(3))) == ["here"] * 3
    assert threading.active_count() == threads


def test_several_are_made_at_once_and_come_in_their_order():
    both = threading.Barrier(2, timeout=60)

    def made(i):
        if i < 2:
            both.wait()  # passes if the first two are made at once
        return i * i

    assert list(prefetch_each(made, range(5), 2, 2)) == [0, 1, 4, 9, 16]
    assert list(prefetch_each(made, [], 2, 2)) == []


def test_no_more_are_begun_than_may_be_alive_and_none_after_an_error():
    begun = []

    def made(i):
        begun.append(i)
        if i == 1:
            raise ValueError("the second")
        return i

    taken = prefetch_each(made, range(9), 3, 1)
    assert next(taken) == 0
    with pytest.raises(ValueError, match="the second"):
        next(taken)
    assert max(begun) <= 4
