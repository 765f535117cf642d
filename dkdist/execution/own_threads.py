"""Runs on threads of this process without a scheduler: a free thread looks what is to be done next, and does it.

    a step whose item is there, if nobody is stepping     else an item, if the window has room
    else a piece of the step under way that others can make (`ahead`)     else it waits

There are more threads than cores, since some wait for a disk. In a fold, whose steps all others depend on, only as many
compute at a time as there are cores (`processes.process`), and a thread looks what is next when it has one.

The threads are made for one run and end with it, so that a fork copies none that sleeps, and a run inside a task of
another waits for nobody's place. The caller only waits: an error of a thread is raised there when all have ended, and
Ctrl-C at once, while the threads end with what they are making: where that may take long it is made in runs of rows
(`paced`), between which they look whether anybody waits for them. Cost: some .1 ms a run, some .01 ms an item.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from threading import Condition, RLock, Thread, local
from typing import Any

from dkdist.execution.processes.process import Cores

WAKE = (
    0.5  # seconds between two looks of the caller: where a wait cannot be interrupted, Ctrl-C is heard then
)

PACE = 0.5  # seconds between two looks of a thread that makes an item in runs
PIECES = 8  # of a step that wait for it, or are in the making

Told = Callable[[int], None]
_mine = local()


class Ended(BaseException):
    """The run is over before this piece of it is made: an error elsewhere, or Ctrl-C. Nobody is told of it."""


def paced(n: int, first: int, least: int) -> Iterator[slice]:
    """Rows 0 .. n - 1 in runs that take about `PACE`, the first of so many; `Ended` when nobody waits for them.

    None has fewer than ``least`` rows but the last.
    """
    start, size = 0, max(first, least)
    while start < n:
        crew = getattr(_mine, "crew", None)
        if crew is not None and crew.over:
            raise Ended
        begun = time.monotonic()
        yield slice(start, min(start + size, n))
        start, taken = start + size, time.monotonic() - begun
        if taken < PACE / 2:
            size *= 2
        elif taken > 2 * PACE:
            size = max(least, size // 2)


class _Crew:
    """Threads at one piece of work; a subclass says in ``take``, under the lock, what a free one does now."""

    def __init__(self, n_cores: int | None = None) -> None:
        self.lock, self.over = RLock(), False
        self.changed = Condition(self.lock)  # its threads wait for it
        self._ended = Condition(self.lock)  # and the caller for this
        self._cores = None if n_cores is None else Cores(n_cores)
        self._error: BaseException | None = None

    def take(self) -> Callable[[], None] | None:
        """What to do now, or None where that depends on what others are doing."""
        raise NotImplementedError

    def work(self, n_threads: int) -> None:
        """Return when it is over; the first error of any thread is raised here."""
        threads = [Thread(target=self._take_all, name=f"dkdist-{i}") for i in range(n_threads)]
        try:
            for thread in threads:
                thread.start()
            with self.lock:
                while not self.over:
                    self._ended.wait(WAKE)
        except BaseException:  # Ctrl-C
            self.end()
            raise
        for thread in threads:
            thread.join()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # a cycle would keep what is alive in its frames

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more is begun."""
        with self.lock:
            self.over, self._error = True, self._error or error
            self.changed.notify_all()
            self._ended.notify()

    def _take_all(self) -> None:
        _mine.crew = self
        self._take_core()
        try:
            while (task := self._next()) is not None:
                task()
        except BaseException as error:
            self.end(error)
        finally:
            self._give_back()

    def _next(self) -> Callable[[], None] | None:
        """What to do on this thread's core, which is others' while there is nothing; None when it is over."""
        while True:
            with self.lock:
                if self.over or (task := self.take()) is not None:
                    return None if self.over else task
                self._give_back()
                self.changed.wait()
            self._take_core()

    def _take_core(self) -> None:
        if self._cores is not None:
            self._cores.take()

    def _give_back(self) -> None:
        if self._cores is not None:
            self._cores.give_back()


class _Map(_Crew):
    def __init__(self, make: Callable[[int], Any], n: int, told: Told) -> None:
        super().__init__()
        self._make, self._told, self._begun, self._left = make, told, 0, n
        self.results: list[Any] = [None] * n

    def take(self) -> Callable[[], None] | None:
        if self._begun == len(self.results):
            return None
        self._begun += 1
        return partial(self._fill, self._begun - 1)

    def _fill(self, j: int) -> None:
        self.results[j] = self._make(j)
        self._told(j)
        with self.lock:
            self._left -= 1
            if not self._left:
                self.end()


def each(make: Callable[[int], Any], n: int, n_threads: int, told: Told) -> list[Any]:
    """``[make(j) for j in range(n)]``; ``told(j)`` is called after each."""
    if not n:
        return []
    crew = _Map(make, n, told)
    crew.work(min(n, n_threads))
    return crew.results


class _Pieces:
    """Pieces 0 .. n - 1 of a step, which other threads make while it is at those before; all under the crew's lock."""

    def __init__(self, crew: _Crew, make: Callable[[int], Any], n: int) -> None:
        self._crew, self._make, self._n = crew, make, n
        self._at = 0
        self._made: dict[int, Any] = {}  # None for one in the making
        self.done = Condition(crew.lock)

    def begin(self) -> Callable[[], None] | None:
        """The next piece to be made, if there are not enough of them."""
        if len(self._made) < PIECES:
            for i in range(self._at + 1, self._n):
                if i not in self._made:
                    self._made[i] = None
                    return partial(self._fill, i)
        return None

    def _fill(self, i: int) -> None:
        made = self._make(i)
        with self._crew.lock:
            self._made[i] = made
            self.done.notify()

    def reach(self, i: int) -> Any:
        """Piece i, which the step is at now, or None, if nobody has begun it.

        While it is in the making, this thread makes others, too.
        """
        while True:
            with self._crew.lock:
                self._at = i
                if self._crew.over:
                    raise Ended
                if i not in self._made:
                    return None
                if self._made[i] is not None:
                    made = self._made.pop(i)
                    self._crew.changed.notify()  # there is room for another
                    return made
                other = self.begin()
                if other is None:
                    self.done.wait()
            if other is not None:
                other()


def ahead(make: Callable[[int], Any], n: int) -> Iterator[Any]:
    """For each of n pieces of the step that this thread is at: ``make(i)``, if another thread has made it, or None.

    Threads that have nothing else to do make some of those that come later; at most `PIECES` of them wait.
    """
    crew = _mine.crew
    pieces = _Pieces(crew, make, n)
    with crew.lock:
        crew.pieces = pieces
        crew.changed.notify_all()
    try:
        for i in range(n):
            yield pieces.reach(i)
    finally:
        crew.pieces = None


def hands() -> Callable[[Callable[[int], Any], int], Iterator[Any]] | None:
    """`ahead`, if this thread is at a step of a run that has other threads, with cores to compute on."""
    crew = getattr(_mine, "crew", None)
    return ahead if isinstance(crew, _Fold) and crew.n_hands > 1 else None


class _Fold(_Crew):
    def __init__(
        self,
        make: Callable[[int], Any],
        step: Callable[[Any, Any], Any],
        state: Any,
        n: int,
        window: int,
        n_threads: int,
        n_cores: int,
        told: Callable[[Any, int], None],
    ) -> None:
        super().__init__(n_cores if n_threads > n_cores else None)  # else there is a core for each
        self.n_hands = min(n_threads, n_cores)
        self.pieces: _Pieces | None = None
        self._make, self._step, self._told, self.state = make, step, told, state
        self._n, self._window = n, window
        self._items: dict[int, Any] = {}
        self._begun = self._done = 0
        self._stepping = False

    def take(self) -> Callable[[], None] | None:
        if not self._stepping and self._done in self._items:
            self._stepping = True
            return self._take_step
        if self._begun < min(self._n, self._done + self._window):
            self._begun += 1
            return partial(self._make_item, self._begun - 1)
        return None if self.pieces is None else self.pieces.begin()

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more is begun, and the step waits for no piece."""
        with self.lock:
            super().end(error)
            if self.pieces is not None:
                self.pieces.done.notify()

    def _make_item(self, j: int) -> None:
        self._items[j] = self._make(j)  # held here alone: it is let go with its step
        with self.lock:
            self.changed.notify_all()

    def _take_step(self) -> None:
        self.state = self._step(self.state, self._items.pop(self._done))
        self._told(self.state, self._done)
        with self.lock:
            self._done, self._stepping = self._done + 1, False
            self.changed.notify_all()
            if self._done == self._n:
                self.end()


def fold_items(
    make: Callable[[int], Any],
    step: Callable[[Any, Any], Any],
    state: Any,
    n: int,
    *,
    window: int,
    n_threads: int,
    n_cores: int,
    told: Callable[[Any, int], None],
) -> Any:
    """``step(... step(step(state, make(0)), make(1)) ..., make(n - 1))`` with at most ``window`` items alive.

    ``told(state, j)`` is called after each step, before the next one.
    """
    if not n:
        return state
    n_threads = min(n + 1, window + 1, n_threads)
    crew = _Fold(make, step, state, n, window, n_threads, n_cores, told)
    crew.work(n_threads)
    return crew.state
