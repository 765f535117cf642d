"""Where graphs run: an active client's cluster, or the cores of this machine.

One thread for every BLAS call, set once around a run: Dask already uses every core, and a matrix product
that is split among threads would not always give the same bits. (Nor would processors of several kinds: `processors`.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dask.threaded
from dask._task_spec import GraphNode
from dask.base import get_scheduler
from dask.callbacks import Callback
from dask.system import CPU_COUNT
from dask.typing import Key
from threadpoolctl import threadpool_limits

from dkdist.execution.process import keep_freed_memory
from dkdist.execution.progress import Progress

SPARE_THREADS = 2


def run(
    graph: Mapping[Key, GraphNode],
    keys: Sequence[Key],
    *,
    watch: Mapping[Key, int] | None = None,
    progress: Progress | None = None,
    local: bool = False,
) -> list[Any]:
    """Compute ``keys`` of a low-level graph on the active scheduler (``local``: on this machine's threads).

    ``progress`` advances by ``watch[key]`` whenever such a key is done.
    """
    watch = watch if progress is not None and watch is not None else {}
    client = None if local else active_client()
    if client is not None:
        from dkdist.execution.on_cluster import get  # imports that this machine alone does not need

        return get(client, graph, keys, watch, progress)
    with threadpool_limits(1):
        scheduler = (None if local else get_scheduler()) or _own_threads
        with Callback(posttask=_Advance(watch, progress)):
            return list(scheduler(dict(graph), list(keys)))


def _own_threads(graph: dict[Key, GraphNode], keys: list[Key]) -> Any:
    """Dask's threads, two more than there are cores: somebody always waits, for a disk or for Dask."""
    keep_freed_memory()
    return dask.threaded.get(
        graph, keys, num_workers=dask.config.get("num_workers", None) or CPU_COUNT + SPARE_THREADS
    )


def active_client() -> Any | None:
    """The client of the cluster that work goes to, if there is one."""
    client = getattr(get_scheduler(), "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


class _Advance:
    """Told of every finished task by Dask's local schedulers."""

    def __init__(self, watch: Mapping[Key, int], progress: Progress | None) -> None:
        self.watch, self.progress = watch, progress

    def __call__(self, key: Key, *_: Any) -> None:
        if self.progress is not None and key in self.watch:
            self.progress.advance(self.watch[key])
