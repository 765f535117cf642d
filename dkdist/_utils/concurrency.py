"""Threads and memory: a shared thread pool, prefetching, a background writer, and reused buffers."""

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
Result = TypeVar("Result")
END_OF_ITEMS: Any = object()


class ThreadPool:
    """Shared pool of threads that start on demand. A task must not wait for another task of the same pool."""

    def __init__(self, n_threads: int, name: str = "dkdist-pool") -> None:
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix=name)

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Call the function on the next free thread."""
        return self._pool.submit(function, *arguments)

    def cancel(self, futures: Collection[Future[Any]]) -> None:
        """Cancel tasks that have not started, and wait for the others."""
        wait([future for future in futures if not future.cancel()])

    def close(self) -> None:
        """Cancel tasks that have not started, and wait for the others."""
        self._pool.shutdown(cancel_futures=True)


def prefetch(items: Iterator[Item], n_ahead: int = 1) -> Generator[Item]:
    """Yield the items, computed on another thread up to ``n_ahead`` items before their use."""
    with closing(
        prefetch_each(lambda _: next(items, END_OF_ITEMS), itertools.repeat(None), n_ahead, threads=1)
    ) as results:
        for item in results:
            if item is END_OF_ITEMS:
                return
            yield item


def prefetch_each(
    function: Callable[[Item], Result], items: Iterable[Item], n_ahead: int, threads: int | ThreadPool
) -> Generator[Result]:
    """Yield ``function(item)`` in order, computed on threads; up to ``n_ahead`` results wait for their use.

    ``threads`` is a number of threads, or a pool that is shared with other work.
    """
    iterator = iter(items)
    pool = threads if isinstance(threads, ThreadPool) else ThreadPool(threads, "dkdist-prefetch")
    futures = deque[Future[Result]]()

    def submit(n: int) -> None:  # in a copy of the context, which has the active Dask client
        items_ahead = itertools.islice(iterator, n)
        futures.extend(pool.submit(copy_context().run, function, item) for item in items_ahead)

    try:
        submit(n_ahead)
        while futures:
            result = futures.popleft().result()
            submit(1)
            yield result
    finally:
        pool.cancel(futures)
        if pool is not threads:
            pool.close()


class BackgroundWriter:
    """Bounded queue of calls on other threads, started in order; at most ``max_pending`` are unfinished.

    ``threads`` is a number of threads, or a pool that is shared with other work.
    """

    def __init__(self, threads: int | ThreadPool, max_pending: int) -> None:
        self._owns_pool = not isinstance(threads, ThreadPool)
        self._pool = threads if isinstance(threads, ThreadPool) else ThreadPool(threads, "dkdist-writer")
        self._max_pending, self._futures = max_pending, deque[Future[Any]]()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Add a call; wait while the queue is full, and raise the error of an earlier call."""
        self._wait(self._max_pending - 1)
        self._futures.append(self._pool.submit(function, *arguments))

    def wait(self) -> None:
        """Wait for all calls; raise the first error."""
        self._wait(0)

    def close(self) -> None:
        """Cancel calls that have not started, and wait for the others."""
        self._pool.cancel(self._futures)
        if self._owns_pool:
            self._pool.close()

    def _wait(self, max_pending: int) -> None:
        while len(self._futures) > max_pending:
            self._futures.popleft().result()


Bytes = NDArray[np.uint8]


class BufferPool:
    """Thread-safe pool of buffers for large arrays of similar size.

    The system zeroes new pages, which takes as long as filling them, so the pool reuses the memory of released arrays.
    It holds at most the memory that was in use at the same time. Buffers of more than twice the requested size are not
    reused.
    """

    def __init__(self) -> None:
        self._free = deque[Bytes]()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an uninitialized array, like `np.empty`; the pool reuses it when the last view is freed."""
        dtype = np.dtype(dtype)
        n_bytes = math.prod(shape) * dtype.itemsize
        return np.asarray(_BorrowedMemory(self._free, self._take(n_bytes), shape, dtype))

    def _take(self, n_bytes: int) -> Bytes:
        """Return a buffer of at least ``n_bytes``; free buffers of unsuitable sizes are released."""
        while self._free:
            try:
                memory = self._free.popleft()
            except IndexError:  # another thread took the last buffer
                break
            if n_bytes <= len(memory) <= 2 * n_bytes:
                return memory
        return np.empty(n_bytes + n_bytes // 8, np.uint8)  # later arrays may be slightly larger


class _BorrowedMemory:
    """Owner of the memory of an array, which it returns to the pool when it is deleted."""

    def __init__(
        self, free: deque[Bytes], memory: Bytes, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._free, self._memory = free, memory
        address = memory.__array_interface__["data"]
        self.__array_interface__ = {"version": 3, "data": address, "shape": shape, "typestr": dtype.str}

    def __del__(self) -> None:
        self._free.append(self._memory)
