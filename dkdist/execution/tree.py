"""A bounded sum in a tree: every job gives a large partial result, and pairs are merged as they come.

    leaf 0 ─┬─ merge ─┐
    leaf 1 ─┘         ├─ merge ──     the shape follows from the number of jobs alone, so sums have a fixed order
    leaf 2 ─┬─ merge ─┘
    leaf 3 ─┘

Leaf j may start only when the last pair before leaf j - window + 1 is merged, and all that this completes: at most
``window`` + 2 leaves and one partial sum for each level of the tree are alive, over all workers. Threads of our own
(`own_threads`) merge one pair after another, in the same order.

A scheduler sends a task to where something lies that it needs, and looks at who is idle only where there are many of a
kind. Few leaves on a cluster, such as lanes of descent, therefore need nothing: each has its work and draws for itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.typing import Key

from dkdist.execution.blocks import Blocks, Job, Work, job_task, maker
from dkdist.execution.own_threads import fold_items
from dkdist.execution.processes.processors import alike
from dkdist.execution.progress import Progress
from dkdist.execution.run import active_client, n_cores, own_threads, resources, run, without_scheduler


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
    if blocks.share_all and without_scheduler(blocks.local):
        return _on_own_threads(blocks, jobs, work, merge, window, progress)
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


def _on_own_threads(
    blocks: Blocks,
    jobs: Sequence[Job],
    work: Work,
    merge: Callable[[Any, Any], Any],
    window: int,
    progress: Progress | None,
) -> Any:
    """The same tree as a fold, whose state are the sums without a partner."""

    def add(waiting: list[tuple[int, Any]], leaf: Any) -> list[tuple[int, Any]]:
        n = 1
        while waiting and waiting[-1][0] == n:
            n, leaf, waiting = 2 * n, merge(waiting[-1][1], leaf), waiting[:-1]
        return [*waiting, (n, leaf)]

    def told(_: Any, j: int) -> None:
        if progress is not None:
            progress.advance(len(jobs[j].blocks))

    with own_threads() as n_threads:
        make = maker(work, blocks)
        waiting = fold_items(
            lambda j: make(jobs[j]),
            add,
            [],
            len(jobs),
            window=window,
            n_threads=n_threads,
            n_cores=n_cores(local=True),
            told=told,
        )
        total = waiting.pop()[1]
        while waiting:
            total = merge(waiting.pop()[1], total)
    return total


def _merge_last(
    graph: dict[Key, GraphNode], sums: str, merge: Callable[[Any, Any], Any], waiting: list[tuple[int, Key]]
) -> None:
    (n, right), (m, left) = waiting.pop(), waiting.pop()
    key = (sums, len(graph))
    graph[key] = Task(key, merge, TaskRef(left), TaskRef(right))
    waiting.append((m + n, key))


def _nothing(partial: Any) -> None:
    """Says that a sum is there and holds nothing of it."""
