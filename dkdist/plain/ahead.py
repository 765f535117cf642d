"""The next items are made while the last one is used."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from typing import Any, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")
END: Any = object()


def ahead(items: Iterator[Item], most: int = 1) -> Iterator[Item]:
    """The items, made by a thread of its own; beside the one in use at most ``most`` are made or in the making."""
    with closing(each_ahead(lambda _: next(items, END), itertools.repeat(None), most, threads=1)) as made:
        for item in made:
            if item is END:
                return
            yield item


def each_ahead(
    function: Callable[[Item], Made], items: Iterable[Item], most: int, threads: int
) -> Generator[Made]:
    """``function(item)`` of each in turn, made by some threads; beside the one in use at most ``most`` are alive."""
    given = iter(items)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="dkdist-ahead")

    def begun(n: int) -> list[Future[Made]]:
        # the client that is active here is active there
        return [pool.submit(copy_context().run, function, item) for item in itertools.islice(given, n)]

    try:
        coming = deque(begun(most))
        while coming:
            made = coming.popleft().result()
            coming += begun(1)
            yield made
    finally:
        pool.shutdown(cancel_futures=True)
