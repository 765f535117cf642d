"""Where graphs run: an active client's cluster, or the cores of this machine.

One thread for every BLAS call, set once around a run: Dask already uses every core, and a matrix product
that is split among threads would not always give the same bits. (Nor would processors of several kinds: `processors`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dask.threaded
from dask._task_spec import GraphNode
from dask.base import get_scheduler
from dask.callbacks import Callback
from dask.system import CPU_COUNT
from dask.typing import Key

from dkdist.execution.blas import one_blas_thread
from dkdist.execution.forked import require_own, require_whole_process
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
    require_whole_process()
    watch = watch if progress is not None and watch is not None else {}
    client = None if local else active_client()
    if client is not None:
        from dkdist.execution.on_cluster import get  # imports that this machine alone does not need

        return get(client, graph, keys, watch, progress)
    told = _Advance(watch, progress)
    with one_blas_thread():
        scheduler: Callable[..., Any] = (None if local else get_scheduler()) or _own_threads
        if not _takes_callbacks(scheduler):
            with Callback(posttask=told):
                return list(scheduler(dict(graph), list(keys)))
        # given to this run alone: what is set for all is confused by runs in other threads
        return list(
            scheduler(dict(graph), list(keys), callbacks=[*Callback.active, (None, None, None, told, None)])
        )


def _own_threads(graph: dict[Key, GraphNode], keys: list[Key], callbacks: list[Any]) -> Any:
    """Dask's threads, two more than there are cores: somebody always waits, for a disk or for Dask."""
    keep_freed_memory()
    threads = dask.config.get("num_workers", None) or CPU_COUNT + SPARE_THREADS
    return dask.threaded.get(graph, keys, num_workers=threads, callbacks=callbacks)


def _takes_callbacks(scheduler: Callable[..., Any]) -> bool:
    """Whether this is one of Dask's local schedulers, and not a function of the user's."""
    function = getattr(scheduler, "func", scheduler)  # an executor's is partial
    return function is _own_threads or str(function.__module__).startswith("dask.")


def active_client() -> Any | None:
    """The client of the cluster that work goes to, if there is one.

    Raises
    ------
    RuntimeError
        If it cannot be waited for: it is asynchronous here, or belongs to the process that this one was forked from.
    """
    try:
        scheduler = get_scheduler()
    except RuntimeError as error:
        if "asynchronous" not in str(error):
            raise
        raise RuntimeError(
            "the active Dask client is asynchronous here, and this call waits for its results, which would stop the "
            "event loop that makes them. To fix: call it in a thread, as 'await asyncio.to_thread(model.fit, X, y)'; "
            "as a task of the cluster, give it to a plain function and not to an 'async def'"
        ) from error
    client = getattr(scheduler, "__self__", None)
    if not hasattr(client, "scheduler_info"):
        return None
    require_own(client)
    return client


class _Advance:
    """Told of every finished task by Dask's local schedulers."""

    def __init__(self, watch: Mapping[Key, int], progress: Progress | None) -> None:
        self.watch, self.progress = watch, progress

    def __call__(self, key: Key, *_: Any) -> None:
        if self.progress is not None and key in self.watch:
            self.progress.advance(self.watch[key])
