"""Event simulation of task graphs on workers, a scheduler and a client.

The client submits tasks and receives results, the scheduler assigns tasks, workers run them. Each process handles one
event at a time; a worker runs the first task of the graph among those that are ready. Inputs of a task are sent to its
worker, each result once.

Busy processes share the processors equally. There are two clocks: wall time for messages and transfers, and the
processor time of a process that is always busy for everything that needs a processor.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from operator import attrgetter
from typing import NamedTuple


class Costs(NamedTuple):
    """Overhead seconds per task of client, scheduler and worker; seconds per message; bandwidth in bytes/s."""

    client: float
    scheduler: float
    worker: float
    message: float
    bandwidth: float


class Node(NamedTuple):
    """A task of some ``seconds``, or an action of the client (``by_client``), that starts after nodes ``after``.

    Results of the nodes ``takes``, of ``n_bytes`` each, are sent to it unless they are local. A task runs on the worker
    of its dependency ``same_worker_as``, or on worker ``on``, otherwise on the worker with the smallest load.
    """

    seconds: float = 0.0
    after: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    same_worker_as: int | None = None
    n_bytes: float = 0.0
    by_client: bool = False
    on: int | None = None


class Clocks:
    """Queues of events by wall time and by processor time; processors=None means one processor per process."""

    def __init__(self, processors: int | None) -> None:
        self.processors = float("inf") if processors is None else processors
        self.now = self.done = 0.0  # wall time; processor time of a process that is always busy
        self._timed: list[tuple[float, int, Callable[[], None]]] = []
        self._busy: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def after(self, seconds: float, callback: Callable[[], None]) -> None:
        """Schedule an event that needs no processor."""
        heapq.heappush(self._timed, (self.now + seconds, next(self._numbers), callback))

    def work(self, seconds: float, callback: Callable[[], None]) -> None:
        """Schedule the end of work on a processor, which takes longer if processors are shared."""
        heapq.heappush(self._busy, (self.done + seconds, next(self._numbers), callback))

    def run(self) -> float:
        """Process all events and return the wall time."""
        while self._timed or self._busy:
            speed = min(1.0, self.processors / max(1, len(self._busy)))
            ends = self.now + (self._busy[0][0] - self.done) / speed if self._busy else float("inf")
            queue = self._busy if not self._timed or ends <= self._timed[0][0] else self._timed
            event_time = ends if queue is self._busy else self._timed[0][0]
            self.now, self.done = event_time, self.done + (event_time - self.now) * speed
            heapq.heappop(queue)[2]()
        return self.now


class Process:
    """The client, the scheduler or a worker: handles one event at a time, the smallest number first."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks, self.busy = clocks, False
        self.queue: list[tuple[int, float, float, Callable[[], None]]] = []
        self.load = 0.0

    def enqueue(self, number: int, wait_seconds: float, seconds: float, callback: Callable[[], None]) -> None:
        """Add an event: seconds of waiting, seconds of work, and a callback."""
        heapq.heappush(self.queue, (number, wait_seconds, seconds, callback))
        self._begin()

    def _begin(self) -> None:
        if self.queue and not self.busy:
            self.busy = True
            _, wait_seconds, seconds, callback = heapq.heappop(self.queue)
            self.clocks.after(wait_seconds, partial(self.clocks.work, seconds, partial(self._end, callback)))

    def _end(self, callback: Callable[[], None]) -> None:
        self.busy = False
        callback()
        self._begin()


def seconds_of(nodes: Sequence[Node], costs: Costs, n_workers: int, processors: int | None = None) -> float:
    """Return the seconds until the last node has ended; processes share ``processors``, or have one each."""
    n_dependencies = [len({*node.after, *node.takes}) for node in nodes]
    followers: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for j in {*node.after, *node.takes}:
            followers[j].append(i)
    clocks, numbers = Clocks(processors), count()
    client, scheduler = Process(clocks), Process(clocks)
    workers = [Process(clocks) for _ in range(n_workers)]
    process_by_node: dict[int, Process] = {}

    def ready(i: int) -> None:
        """Submit a node whose dependencies have ended."""
        if nodes[i].by_client:
            process_by_node[i] = client
            clocks.after(costs.message, partial(begin, i, next(numbers), costs.client))
        else:
            scheduler.enqueue(next(numbers), 0.0, costs.scheduler, partial(decide, i))

    def decide(i: int) -> None:
        """Assign a task to a worker."""
        same_worker_as, on = nodes[i].same_worker_as, nodes[i].on
        chosen = workers[on] if on is not None else min(workers, key=attrgetter("load"))
        process_by_node[i] = chosen if same_worker_as is None else process_by_node[same_worker_as]
        process_by_node[i].load += nodes[i].seconds + costs.worker
        clocks.after(costs.message, partial(begin, i, i, nodes[i].seconds + costs.worker))

    def begin(i: int, number: int, seconds: float) -> None:
        """Enqueue a node in its process; inputs from other processes are sent first."""
        transfers = [nodes[j].n_bytes for j in nodes[i].takes if process_by_node[j] is not process_by_node[i]]
        wait_seconds = len(transfers) * costs.message + sum(transfers) / costs.bandwidth
        process_by_node[i].enqueue(number, wait_seconds, seconds, partial(end, i))

    def end(i: int) -> None:
        """End a node and notify its followers."""
        process_by_node[i].load -= nodes[i].seconds + costs.worker
        clocks.after(costs.message, partial(notify, i))

    def notify(i: int) -> None:
        for k in followers[i]:
            n_dependencies[k] -= 1
            if not n_dependencies[k]:
                ready(k)

    for i, n in enumerate(n_dependencies):
        if not n:
            ready(i)
    return clocks.run()
