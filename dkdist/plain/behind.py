"""Work that threads do behind whoever gives it, which goes on meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from dkdist.plain.crew import Crew


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
