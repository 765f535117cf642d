"""A graph on a cluster: results gathered, workers that die and schedulers that go away lived through or explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

from dask._task_spec import GraphNode
from dask.typing import Key
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker

from dkdist.execution import failures
from dkdist.execution.progress import Progress


def get(
    client: Any,
    graph: Mapping[Key, GraphNode],
    keys: Sequence[Key],
    watch: Mapping[Key, int],
    progress: Progress | None,
) -> list[Any]:
    """Results from a cluster; if its scheduler goes away and comes back, the graph is sent to it again."""
    address = client.scheduler.address
    told = _Told(watch, progress)
    for _ in range(1 + failures.RECONNECTIONS):
        try:
            return _gathered(client, graph, keys, told)
        except KilledWorker as killed:
            raise failures.killed_worker(killed, graph) from None
        except (CancelledError, CommClosedError) as lost:
            if not failures.wait_for_scheduler(client):
                raise failures.lost_scheduler(address) from lost
    raise failures.lost_scheduler(address)


def _gathered(client: Any, graph: Mapping[Key, GraphNode], keys: Sequence[Key], told: _Told) -> list[Any]:
    if told.progress is None or not told.progress.show:
        return list(client.get(dict(graph), list(keys)))
    futures = client.get(dict(graph), [*keys, *told.watch], sync=False)
    for future in futures[len(keys) :]:
        future.add_done_callback(told)
    return list(client.gather(futures[: len(keys)]))


class _Told:
    """Told of every future that ends; each counts once, when it is finished."""

    def __init__(self, watch: Mapping[Key, int], progress: Progress | None) -> None:
        self.watch, self.progress = dict(watch), progress

    def __call__(self, future: Any) -> None:
        if self.progress is not None and future.status == "finished":
            self.progress.advance(self.watch.pop(future.key, 0))
