"""Graphs of tasks on workers, a scheduler and a client, as events: which process does what when.

A client hands tasks out and takes results in, a scheduler decides about tasks, workers do them: each does one thing at
a time, workers what comes first in their graph before others. What a task depends on is sent to its worker, each result
once, from wherever it is.

Processes that are busy share the processors equally. So time is counted twice: by the clock, for messages and what is
sent, and by what a process has done that was always busy, for all that takes a processor.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from operator import attrgetter
from typing import NamedTuple


class Costs(NamedTuple):
    """Seconds of the client and the scheduler a task, of a worker beside its work, of a message; bytes a second."""

    client: float
    scheduler: float
    worker: float
    message: float
    bandwidth: float


class Node(NamedTuple):
    """A task of so many ``seconds``, or what the client does (``by_client``), after the nodes numbered ``after``.

    ``n_bytes`` are those of its result, sent to nodes elsewhere that name it in ``takes``. A task goes to the worker of
    its dependency ``beside``, or to that ``on`` whose turn it is, else to the one with the least to do.
    """

    seconds: float = 0.0
    after: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    beside: int | None = None
    n_bytes: float = 0.0
    by_client: bool = False
    on: int | None = None


class Clocks:
    """What happens at a time, and what when a busy process has done so much; on so many processors, or one for each."""

    def __init__(self, processors: int | None) -> None:
        self.processors = float("inf") if processors is None else processors
        self.now = self.done = 0.0  # by the clock; by a process that was always busy
        self._timed: list[tuple[float, int, Callable[[], None]]] = []
        self._busy: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        """Something that takes no processor."""
        heapq.heappush(self._timed, (self.now + seconds, next(self._numbers), then))

    def work(self, seconds: float, then: Callable[[], None]) -> None:
        """A process is busy for so long, or longer where it shares its processor."""
        heapq.heappush(self._busy, (self.done + seconds, next(self._numbers), then))

    def run(self) -> float:
        """Until nothing is left to happen; the time."""
        while self._timed or self._busy:
            speed = min(1.0, self.processors / max(1, len(self._busy)))
            ends = self.now + (self._busy[0][0] - self.done) / speed if self._busy else float("inf")
            queue = self._busy if not self._timed or ends <= self._timed[0][0] else self._timed
            then = ends if queue is self._busy else self._timed[0][0]
            self.now, self.done = then, self.done + (then - self.now) * speed
            heapq.heappop(queue)[2]()
        return self.now


class Process:
    """The client, the scheduler or a worker: does one thing at a time, the least number first."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks, self.busy = clocks, False
        self.queue: list[tuple[int, float, float, Callable[[], None]]] = []
        self.load = 0.0

    def give(self, number: int, waits: float, seconds: float, then: Callable[[], None]) -> None:
        """Something to wait for, then to do, and what follows."""
        heapq.heappush(self.queue, (number, waits, seconds, then))
        self._begin()

    def _begin(self) -> None:
        if self.queue and not self.busy:
            self.busy = True
            _, waits, seconds, then = heapq.heappop(self.queue)
            self.clocks.after(waits, partial(self.clocks.work, seconds, partial(self._end, then)))

    def _end(self, then: Callable[[], None]) -> None:
        self.busy = False
        then()
        self._begin()


def seconds_of(nodes: Sequence[Node], costs: Costs, n_workers: int, processors: int | None = None) -> float:
    """Until the last node is known to be done; all share ``processors``, or have one each."""
    waiting = [len({*node.after, *node.takes}) for node in nodes]
    followers: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for j in {*node.after, *node.takes}:
            followers[j].append(i)
    clocks, turns = Clocks(processors), count()
    client, scheduler = Process(clocks), Process(clocks)
    workers = [Process(clocks) for _ in range(n_workers)]
    place: dict[int, Process] = {}

    def ready(i: int) -> None:
        """All that a node waits for is there."""
        if nodes[i].by_client:
            place[i] = client
            clocks.after(costs.message, partial(begin, i, next(turns), costs.client))
        else:
            scheduler.give(next(turns), 0.0, costs.scheduler, partial(decide, i))

    def decide(i: int) -> None:
        """Which worker does a task."""
        beside, on = nodes[i].beside, nodes[i].on
        chosen = workers[on] if on is not None else min(workers, key=attrgetter("load"))
        place[i] = chosen if beside is None else place[beside]
        place[i].load += nodes[i].seconds + costs.worker
        clocks.after(costs.message, partial(begin, i, i, nodes[i].seconds + costs.worker))

    def begin(i: int, number: int, seconds: float) -> None:
        """A node comes to where it is done; what it takes is sent there."""
        away = [nodes[j].n_bytes for j in nodes[i].takes if place[j] is not place[i]]
        waits = len(away) * costs.message + sum(away) / costs.bandwidth
        place[i].give(number, waits, seconds, partial(end, i))

    def end(i: int) -> None:
        """And those that wait for it are told."""
        place[i].load -= nodes[i].seconds + costs.worker
        clocks.after(costs.message, partial(notify, i))

    def notify(i: int) -> None:
        for k in followers[i]:
            waiting[k] -= 1
            if not waiting[k]:
                ready(k)

    for i, n in enumerate(waiting):
        if not n:
            ready(i)
    return clocks.run()
