"""Who is told that loops are compiled: a first use of some seconds of silence looks like one that hangs.

Nothing heavy is imported here, so that a command can ask to be told before numba is there; `loops.compile` reports.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 0.5  # seconds of compiling that nobody is told of


class CompileWatch:
    """Counts the loops that this process really compiles, those that a cache gave left out, and the seconds of it."""

    def __init__(self) -> None:
        self.n_loops, self.seconds = 0, 0.0
        self._depth, self._started = 0, 0.0
        self._timer: threading.Timer | None = None
        self._say: Callable[[], None] | None = None
        self._untold = 0.0

    def begins(self) -> None:
        """A loop is compiled now; those that are inlined into it count as part of it."""
        self._depth += 1
        if self._depth == 1:
            self._started = time.perf_counter()
            if self._say is not None:
                self._timer = threading.Timer(max(0.0, PATIENCE - self._untold), self._tell)
                self._timer.daemon = True
                self._timer.start()

    def ends(self) -> None:
        """It is compiled, or could not be."""
        self._depth -= 1
        if self._depth == 0:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            seconds = time.perf_counter() - self._started
            self.n_loops, self.seconds = self.n_loops + 1, self.seconds + seconds
            self._untold += seconds

    @contextmanager
    def telling(self, say: Callable[[], None]) -> Iterator[None]:
        """Within it, ``say`` is called once if more than half a second goes into compiling, while that goes on.

        Where somebody is told already, nobody else is.
        """
        if self._say is not None:
            yield
            return
        self._say, self._untold = say, 0.0
        try:
            yield
        finally:
            self._say = None

    def _tell(self) -> None:
        say = self._say
        if say is not None:  # else what was compiled is done, and who asked is gone
            self._say = _nobody
            say()


def _nobody() -> None:
    """Who is told after the first time."""


WATCH = CompileWatch()
"""Of this process."""
