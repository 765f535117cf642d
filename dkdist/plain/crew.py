"""Threads that several who give work share; what comes first is done first."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

Made = TypeVar("Made")


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
