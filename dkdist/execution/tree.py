"""A bounded sum in a tree: every job gives a large partial result, and pairs are merged as they come.

    leaf 0 ─┬─ merge ─┐
    leaf 1 ─┘         ├─ merge ──     the shape follows from the number of jobs alone, so sums have a fixed order
    leaf 2 ─┬─ merge ─┘
    leaf 3 ─┘

Leaf j may start only when the last pair before leaf j - window + 1 is merged, and all that this completes: at most
``window`` + 2 leaves and one partial sum for each level of the tree are alive, over all workers.

A scheduler sends a task to where something lies that it needs, and looks at who is idle only where there are many of a
kind. Few leaves on a cluster, such as lanes of descent, therefore need nothing: each has its work and draws for itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.typing import Key

from dkdist.execution.blocks import Blocks, Job, Work, job_task
from dkdist.execution.processes.processors import alike
from dkdist.execution.progress import Progress
from dkdist.execution.run import active_client, resources, run


def tree_sum(
    blocks: Blocks,
    jobs: Sequence[Job],
    work: Work,
    merge: Callable[[Any, Any], Any],
    *,
    window: int,
    label: str = "sum",
    progress: Progress | None = None,
) -> Any:
    """``merge`` of all ``work(blocks, extra)``; ``merge`` leaves its arguments as they are."""
    if window < 2:
        raise ValueError(f"a tree needs a window of at least 2 leaves, found {window}")
    token = uuid.uuid4().hex
    leaf, sums, done, shared = (f"{label}_{what}-{token}" for what in ("leaf", "merge", "done", "work"))
    graph: dict[Key, GraphNode] = {}
    own = DataNode(shared, work)
    away = not blocks.local and active_client() is not None
    apart = away and blocks.draws_all and len(jobs) <= 2 * resources().all_threads
    if not apart:
        graph |= {**blocks.shared, shared: own}
    merge = alike(merge) if away else merge
    waiting: list[tuple[int, Key]] = []  # (leaves, key) of sums without a partner, as the digits of a counter
    for j, job in enumerate(jobs):
        pair = (j - window - 1) // 2
        after = [TaskRef((done, pair))] if pair >= 0 else []
        graph[(leaf, j)] = job_task((leaf, j), own if apart else TaskRef(shared), blocks, job, after)
        waiting.append((1, (leaf, j)))
        while len(waiting) > 1 and waiting[-1][0] == waiting[-2][0]:
            _merge_last(graph, sums, merge, waiting)
        if j % 2:
            graph[(done, j // 2)] = Task((done, j // 2), _nothing, TaskRef(waiting[-1][1]))
    while len(waiting) > 1:
        _merge_last(graph, sums, merge, waiting)
    weights: dict[Key, int] = {(leaf, j): len(job.blocks) for j, job in enumerate(jobs)}
    return run(graph, [waiting[0][1]], watch=weights, progress=progress, local=blocks.local)[0]


def _merge_last(
    graph: dict[Key, GraphNode], sums: str, merge: Callable[[Any, Any], Any], waiting: list[tuple[int, Key]]
) -> None:
    (n, right), (m, left) = waiting.pop(), waiting.pop()
    key = (sums, len(graph))
    graph[key] = Task(key, merge, TaskRef(left), TaskRef(right))
    waiting.append((m + n, key))


def _nothing(partial: Any) -> None:
    """Says that a sum is there and holds nothing of it."""
