"""Graphs of tasks on workers, a scheduler and a client, as events: which resource does what when.

A client hands tasks out and takes results in, a scheduler decides about tasks, both one after the other. A worker does
one task at a time, those that come first in their graph before others. A task goes to the worker of its dependency
``beside``, else to the one with the least to do. Its dependencies are sent there, each once, from wherever they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
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

    ``n_bytes`` are those of its result, sent to nodes elsewhere that name it in ``takes``.
    """

    seconds: float = 0.0
    after: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    beside: int | None = None
    n_bytes: float = 0.0
    by_client: bool = False


CLIENT = -1


def seconds_of(nodes: Sequence[Node], costs: Costs, n_workers: int, processors: int | None = None) -> float:
    """When the last node is done; more workers than ``processors`` share these equally."""
    slower = 1.0 if processors is None else max(1.0, n_workers / processors)
    waiting = [len({*node.after, *node.takes}) for node in nodes]
    followers: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for j in {*node.after, *node.takes}:
            followers[j].append(i)
    place: dict[int, int] = {}
    queues: list[list[int]] = [[] for _ in range(n_workers)]
    busy, load = [False] * n_workers, [0.0] * n_workers
    client = scheduler = now = 0.0
    events: list[tuple[float, int, str]] = []

    def ready(i: int, time: float) -> None:
        nonlocal client, scheduler
        node = nodes[i]
        if node.by_client:
            client = max(client, time + costs.message) + costs.client + _sent(node, CLIENT)
            heapq.heappush(events, (client + costs.message, i, "done"))
            place[i] = CLIENT
            return
        scheduler = max(scheduler, time) + costs.scheduler
        where = place[node.beside] if node.beside is not None else min(range(n_workers), key=load.__getitem__)
        place[i] = where
        load[where] += node.seconds + costs.worker
        heapq.heappush(events, (scheduler + costs.message, i, "arrived"))

    def _sent(node: Node, where: int) -> float:
        return sum(
            costs.message + nodes[j].n_bytes / costs.bandwidth for j in node.takes if place[j] != where
        )

    def begin(where: int, time: float) -> None:
        if queues[where] and not busy[where]:
            i = heapq.heappop(queues[where])
            busy[where] = True
            used = _sent(nodes[i], where) + slower * (nodes[i].seconds + costs.worker)
            heapq.heappush(events, (time + used, i, "done"))

    for i, n in enumerate(waiting):
        if not n:
            ready(i, 0.0)
    while events:
        now, i, what = heapq.heappop(events)
        where = place[i]
        if what == "arrived":
            heapq.heappush(queues[where], i)
        else:
            if where != CLIENT:
                busy[where] = False
                load[where] -= nodes[i].seconds + costs.worker
            for k in followers[i]:
                waiting[k] -= 1
                if not waiting[k]:
                    ready(k, now + (0.0 if where == CLIENT else costs.message))
        if where != CLIENT:
            begin(where, now)
    return now
