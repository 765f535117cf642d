"""A graph on a cluster: results gathered, workers that die and schedulers that go away lived through or explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

from dask._task_spec import GraphNode
from dask.typing import Key
from distributed import as_completed
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
    left = dict(watch) if progress is not None and progress.show else {}
    for _ in range(1 + failures.RECONNECTIONS):
        try:
            return _gathered(client, graph, keys, left, progress)
        except KilledWorker as killed:
            raise failures.killed_worker(killed, graph) from None
        except (CancelledError, CommClosedError) as lost:
            if not failures.wait_for_scheduler(client):
                raise failures.lost_scheduler(address) from lost
    raise failures.lost_scheduler(address)


def _gathered(
    client: Any,
    graph: Mapping[Key, GraphNode],
    keys: Sequence[Key],
    left: dict[Key, int],
    progress: Progress | None,
) -> list[Any]:
    """Every result is fetched as soon as it is there: one that only a worker holds is lost, and made again, with it.

    What is watched and not a result is let go at once; ``left`` forgets what was counted.
    """
    wanted = dict.fromkeys(keys)
    futures = client.get(dict(graph), list(wanted | left), sync=False)
    results: dict[Key, Any] = {}
    for batch in as_completed(futures).batches():
        ended = [future for future in batch if future.key in wanted]
        results |= zip((future.key for future in ended), client.gather(ended), strict=True)
        for future in batch:
            if progress is not None and future.status == "finished":
                progress.advance(left.pop(future.key, 0))
            future.release()
    return [results[key] for key in keys]
