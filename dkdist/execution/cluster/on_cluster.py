"""What all work on a cluster goes through: versions compared, stages named, a lost scheduler waited for.

Here also is the plainest kind of work, one graph whose results come to the client; folds and maps are streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

from dask._task_spec import GraphNode
from dask.typing import Key
from dask.utils import key_split
from distributed import as_completed
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker

from dkdist.execution.cluster import failures
from dkdist.execution.cluster.versions import checked_workers
from dkdist.execution.cluster.waiting import Watch, beside_the_pool
from dkdist.execution.dashboard.stages import stage
from dkdist.execution.processes.process import one_blas_thread, require_whole_process
from dkdist.execution.progress import Progress


def work_on(
    client: Any, go_on: Callable[[], Any], *, name: str, blocks_a_task: float, progress: Progress | None
) -> Any:
    """What ``go_on`` returns; called again when a scheduler that was lost is back.

    Tasks called ``name`` stand for the run on the dashboard; one of them uses up ``blocks_a_task`` blocks.
    """
    require_whole_process()
    with beside_the_pool(), one_blas_thread():
        address = client.scheduler.address
        for _ in range(1 + failures.MAX_RECONNECTIONS):
            try:
                with checked_workers(client), stage(client, name, blocks_a_task, progress):
                    return go_on()
            except (CancelledError, CommClosedError) as lost:
                if not failures.lost_connection(client, lost):
                    raise
                if not failures.wait_for_scheduler(client):
                    raise failures.lost_scheduler(address) from lost
        raise failures.lost_scheduler(address)


def get(
    client: Any,
    graph: Mapping[Key, GraphNode],
    keys: Sequence[Key],
    watch: Mapping[Key, int],
    progress: Progress | None,
) -> list[Any]:
    """Results of a graph; ``progress`` advances by ``watch[key]`` whenever such a key is done."""
    left, name = dict(watch), key_split(next(iter(watch), keys[0]))
    blocks = sum(watch.values()) / len(watch) if watch else 1.0

    def go_on() -> list[Any]:
        """What is watched and not a result is let go at once; ``left`` forgets what was counted."""
        futures = client.get(dict(graph), list(dict.fromkeys(keys) | left), sync=False)
        results: dict[Key, Any] = {}
        look, coming = Watch(client), as_completed(futures, loop=client.loop)
        try:
            while batch := look.next_batch(coming):
                if ended := [future for future in batch if future.key in keys]:
                    results |= zip((future.key for future in ended), look.gather(ended), strict=True)
                for future in batch:
                    if progress is not None and future.status == "finished":
                        progress.advance(left.pop(future.key, 0))
                    future.release()
        except KilledWorker as killed:
            raise failures.killed_worker(killed, graph) from None
        return [results[key] for key in keys]

    return list(work_on(client, go_on, name=name, blocks_a_task=blocks, progress=progress))
