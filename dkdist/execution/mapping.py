"""One small result for every block, in order: surveys of a collection, predictions, rows written to a store."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from dask._task_spec import DataNode, GraphNode, TaskRef
from dask.typing import Key

from dkdist.execution.blocks import Blocks
from dkdist.execution.jobs import job_task
from dkdist.execution.progress import Progress
from dkdist.execution.run import run

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
    which = list(range(len(blocks))) if only is None else list(only)
    progress = progress or Progress(len(which), label, show=False)
    results: list[Any] = []
    for start in range(0, len(which), SEGMENT):
        name = f"{label}-{uuid.uuid4().hex}"
        work = f"{label}_work-{uuid.uuid4().hex}"
        graph: dict[Key, GraphNode] = {**blocks.shared, work: DataNode(work, partial(_apply, function))}
        keys: list[Key] = [(name, i) for i in which[start : start + SEGMENT]]
        for key, i in zip(keys, which[start : start + SEGMENT], strict=True):
            graph[key] = job_task(
                key, TaskRef(work), [blocks.recipes[i]], None if extras is None else extras[i]
            )
        results += run(graph, keys, watch=dict.fromkeys(keys, 1), progress=progress, local=blocks.local)
    return results


def _apply(function: Callable[[Any, Any], Any], made: Iterator[Any], extra: Any) -> Any:
    return function(next(made), extra)
