"""Work that threads do behind whoever gives it, which goes on meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Behind:
    """Threads that do what they are given, in this order; at most ``most`` pieces wait or are being done."""

    def __init__(self, threads: int, most: int) -> None:
        self._pool, self._most = ThreadPoolExecutor(threads, thread_name_prefix="dkdist-behind"), most
        self._given = deque[Future[Any]]()

    def give(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a call done; waits while there are many, and raises the error of one before that failed."""
        self._wait(self._most - 1)
        self._given.append(self._pool.submit(function, *arguments))

    def wait(self) -> None:
        """Wait until all is done; raises the first error."""
        self._wait(0)

    def close(self) -> None:
        """Begin no more of what was given, and wait for what is being done."""
        self._pool.shutdown(cancel_futures=True)

    def _wait(self, left: int) -> None:
        while len(self._given) > left:
            self._given.popleft().result()
