"""Memory that serves again: large arrays, made one after another, of which few are held at once.

The system clears every page that a process has not had before, which takes as long as to fill it.

Threads that several who give work share; items made ahead of their use, and work done behind whoever gives it.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from contextvars import copy_context
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Made = TypeVar("Made")
END: Any = object()


class Crew:
    """Some threads, which begin when there is work. No work that is given may wait for other work of the same crew."""

    def __init__(self, threads: int, name: str = "dkdist-crew") -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def begin(self, function: Callable[..., Made], *arguments: Any) -> Future[Made]:
        """Have a call done when a thread is free."""
        return self._pool.submit(function, *arguments)

    def drop(self, given: Collection[Future[Any]]) -> None:
        """Begin no more of some work, and wait for what is being done of it."""
        wait([work for work in given if not work.cancel()])

    def close(self) -> None:
        """Begin nothing more, and wait for what is being done."""
        self._pool.shutdown(cancel_futures=True)


def prefetch(items: Iterator[Item], most: int = 1) -> Iterator[Item]:
    """The items, made by a thread of its own; beside the one in use at most ``most`` are made or in the making."""
    with closing(prefetch_each(lambda _: next(items, END), itertools.repeat(None), most, threads=1)) as made:
        for item in made:
            if item is END:
                return
            yield item


def prefetch_each(
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


class Behind:
    """Threads that do what they are given, in this order; at most ``most`` pieces wait or are being done.

    ``threads`` is how many there are, or a crew that does other work too.
    """

    def __init__(self, threads: int | Crew, most: int) -> None:
        self._own = not isinstance(threads, Crew)
        self._crew = threads if isinstance(threads, Crew) else Crew(threads, "dkdist-behind")
        self._most, self._given = most, deque[Future[Any]]()

    def give(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a call done; waits while there are many, and raises the error of one before that failed."""
        self._wait(self._most - 1)
        self._given.append(self._crew.begin(function, *arguments))

    def wait(self) -> None:
        """Wait until all is done; raises the first error."""
        self._wait(0)

    def close(self) -> None:
        """Begin no more of what was given, and wait for what is being done."""
        self._crew.drop(self._given)
        if self._own:
            self._crew.close()

    def _wait(self, left: int) -> None:
        while len(self._given) > left:
            self._given.popleft().result()


Bytes = NDArray[np.uint8]


class BufferPool:
    """Memory of arrays that nobody holds any more, for those that follow; any thread may ask for some.

    What is kept is at most what was in use at once; arrays of less than half the size get memory of their own.
    """

    def __init__(self) -> None:
        self._free = deque[Bytes]()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An array of any values, like `np.empty`; its memory comes back when it and all views of it are gone."""
        kind = np.dtype(dtype)
        n_bytes = math.prod(shape) * kind.itemsize
        return np.asarray(_Lent(self._free, self._found(n_bytes), shape, kind))

    def _found(self, n_bytes: int) -> Bytes:
        """Memory of at least so many bytes; what was kept and does not fit is forgotten."""
        while self._free:
            try:
                memory = self._free.popleft()
            except IndexError:  # another thread had it
                break
            if n_bytes <= len(memory) <= 2 * n_bytes:
                return memory
        return np.empty(n_bytes + n_bytes // 8, np.uint8)  # what follows may be a little larger


class _Lent:
    """What owns the memory of an array, and gives it back at its end."""

    def __init__(
        self, free: deque[Bytes], memory: Bytes, shape: tuple[int, ...], kind: np.dtype[Any]
    ) -> None:
        self._free, self._memory = free, memory
        place = memory.__array_interface__["data"]
        self.__array_interface__ = {"version": 3, "data": place, "shape": shape, "typestr": kind.str}

    def __del__(self) -> None:
        self._free.append(self._memory)
