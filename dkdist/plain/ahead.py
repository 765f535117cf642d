"""The next items are made while the last one is used."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from contextvars import copy_context
from typing import Any, TypeVar

from dkdist.plain.crew import Crew

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
    function: Callable[[Item], Made], items: Iterable[Item], most: int, threads: int | Crew
) -> Generator[Made]:
    """``function(item)`` of each in turn, made by some threads; beside the one in use at most ``most`` are alive.

    ``threads`` is how many there are, or a crew that does other work too.
    """
    given = iter(items)
    crew = threads if isinstance(threads, Crew) else Crew(threads, "dkdist-ahead")
    coming = deque[Future[Made]]()

    def begin(n: int) -> None:
        # the client that is active here is active there
        coming.extend(crew.begin(copy_context().run, function, item) for item in itertools.islice(given, n))

    try:
        begin(most)
        while coming:
            made = coming.popleft().result()
            begin(1)
            yield made
    finally:
        crew.drop(coming)
        if crew is not threads:
            crew.close()
