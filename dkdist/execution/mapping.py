"""One small result for every block, in order: surveys of a collection, predictions, rows written to a store."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from dask._task_spec import DataNode, GraphNode, TaskRef
from dask.typing import Key

from dkdist.execution.blocks import Blocks
from dkdist.execution.jobs import Job, job_task
from dkdist.execution.progress import Progress
from dkdist.execution.run import active_client, run

SEGMENT = 128  # tasks of one graph: what a scheduler has to know at a time


def collect(
    blocks: Blocks,
    function: Callable[[Any, Any], Any],
    extras: Sequence[Any] | None = None,
    *,
    only: Sequence[int] | None = None,
    label: str = "map",
    progress: Progress | None = None,
) -> list[Any]:
    """``[function(block, extra) for every block]``; a block lives only as long as its own task runs."""
    which = range(len(blocks)) if only is None else only
    jobs = [Job((i,), None if extras is None else extras[i]) for i in which]
    work = partial(_apply, function)
    progress = progress or Progress(len(jobs), label, show=False)
    client = None if blocks.local else active_client()
    if client is not None:
        from dkdist.execution.stream import stream_map  # imports that this machine alone does not need

        return stream_map(client, blocks, jobs, work, label=label, progress=progress)
    results: list[Any] = []
    for start in range(0, len(jobs), SEGMENT):
        name, shared = f"{label}-{uuid.uuid4().hex}", f"{label}_work-{uuid.uuid4().hex}"
        graph: dict[Key, GraphNode] = {**blocks.shared, shared: DataNode(shared, work)}
        keys: list[Key] = []
        for j, job in enumerate(jobs[start : start + SEGMENT]):
            keys.append((name, j))
            graph[name, j] = job_task((name, j), TaskRef(shared), blocks, job)
        results += run(graph, keys, watch=dict.fromkeys(keys, 1), progress=progress, local=blocks.local)
    return results


def _apply(function: Callable[[Any, Any], Any], made: Iterator[Any], extra: Any) -> Any:
    return function(next(made), extra)
