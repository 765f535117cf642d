"""Map and reduce over blocks: a small result of every block, an ordered fold, or a sum in a tree.

    map        f(block 0), f(block 1), ...                    parallel; a block lives as long as its task

    fold       item 0 ─┐   item 1 ─┐   item 2 ─┐              parallel, at most ``window`` items wait for their step
    state ──> step ──────> step ──────> step                  one after another: the state travels, blocks never do

    tree sum   leaf 0 ─┬─ merge ─┐                            every leaf gives a large partial result; the shape follows
               leaf 1 ─┘         ├─ merge                     from the number of leaves alone, so that sums have a fixed
               leaf 2 ─┬─ merge ─┘                            order; at most ``window`` + 2 leaves and one partial sum
               leaf 3 ─┘                                      a level are alive

Schedulers by themselves would let finished blocks pile up before a slow step. There are two back ends:

    a Dask graph    for threads of this process (only the calling thread if the steps are the only work), and for any
                    local scheduler that the user chose. An edge from step
                    j - window to item j bounds what is in memory. It carries the step's own result, so that a free
                    thread takes the next step before another block. Cost: two tasks for each item
    a cluster       an edge would be one more result that can be lost with its worker, and with it everything since
                    the graph began: there the client submits items as futures (`cluster/stream.py`)

A scheduler sends a task to where something lies that it needs, and looks for an idle worker only where there are many
of a kind. Few leaves on a cluster, such as replicas of SGD, therefore carry their work and what they share.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.typing import Key

from dkdist._runtime.blocks import Blocks, Job, Work, job_task, value_tasks
from dkdist._runtime.process import require_same_cpu
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import active_client, resources, run

MAX_GRAPH_JOBS = 128  # jobs of one graph, which is what a scheduler has to know at a time; and between two reports of a state


def map_blocks(
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
    jobs = [Job((i,), (None if extras is None else extras[i],), single=True) for i in which]
    return _run_jobs(blocks, jobs, function, label, progress)


def map_pieces(
    function: Callable[[Any], Any],
    pieces: Sequence[Any],
    *,
    label: str,
    progress: Progress | None = None,
    local: bool = False,
) -> list[Any]:
    """``[function(piece) for piece in pieces]``, each in a task; ``local`` pieces never leave this process."""
    bounds = np.arange(len(pieces) + 1)
    blocks = Blocks(label, bounds, value_tasks(label, pieces), local=local, unit="piece")
    return _run_jobs(
        blocks, [Job((i,), (), single=True) for i in range(len(pieces))], function, label, progress
    )


def _run_jobs(
    blocks: Blocks, jobs: Sequence[Job], work: Callable[..., Any], label: str, progress: Progress | None
) -> list[Any]:
    progress = progress or Progress(len(jobs), label, show=False)
    client = None if blocks.local else active_client()
    if client is not None:
        from dkdist._runtime.futures import stream_map  # what this machine alone does not need

        return stream_map(client, blocks, jobs, work, label=label, progress=progress)
    results: list[Any] = []
    for start in range(0, len(jobs), MAX_GRAPH_JOBS):
        name, shared = f"{label}-{uuid.uuid4().hex}", f"{label}_work-{uuid.uuid4().hex}"
        graph: dict[Key, GraphNode] = {**blocks.shared, shared: DataNode(shared, work)}
        keys: list[Key] = []
        for j, job in enumerate(jobs[start : start + MAX_GRAPH_JOBS]):
            keys.append((name, j))
            graph[name, j] = job_task((name, j), TaskRef(shared), blocks, job)
        results += run(graph, keys, watch=dict.fromkeys(keys, 1), progress=progress, local=blocks.local)
    return results


MAX_WINDOW_BLOCKS = 64
MAX_WAITING_BYTES, WAITING_MEMORY_DIVISOR = (
    96 * 2**20,
    8,
)  # of small blocks of a fold in a process of a cluster; of its memory


def default_window(local: bool = False) -> int:
    """Blocks that may be alive: one in the making for every thread, and two that wait for their step.

    A cluster has twice that, so that the client need not hand out each one by itself.
    """
    threads = resources(local).all_threads
    away = not local and active_client() is not None
    return int(np.clip(2 * threads + 4 if away else threads + 2, 4, MAX_WINDOW_BLOCKS))


def fold_window(blocks: Blocks) -> int:
    """Blocks of a fold that may be alive; on a cluster up to 64 small ones a process, so that a task makes several."""
    least = default_window(blocks.local)
    if blocks.local or active_client() is None:
        return least
    there, a_block = resources(), blocks.row_bytes * int(np.diff(blocks.bounds).max(initial=0))
    small = min(MAX_WAITING_BYTES, there.free // WAITING_MEMORY_DIVISOR) // max(1, a_block)
    return max(least, there.processes * min(small, MAX_WINDOW_BLOCKS))


def fold(
    blocks: Blocks,
    jobs: Sequence[Job],
    prepare: Work,
    step: Callable[[Any, Any], Any],
    state: Any,
    *,
    label: str = "fit",
    blocks_per_job: int = 1,
    on_segment: Callable[[Any, int], None] | None = None,
    window: int | None = None,
    progress: Progress | None = None,
    sequential: bool = False,
) -> Any:
    """Fold the jobs into ``state``; ``on_segment(state, jobs_done)`` is called after every 128 of them, in any thread.

    ``prepare`` is given an iterator over the job's blocks (each made when it is asked for) and the job's
    extra; ``step`` returns a new state and leaves its arguments as they are. States are small: one is kept until
    ``window`` more steps are done. Without a ``window`` given it is `fold_window`, as the cluster is at that time.
    ``sequential`` means that the items need no work: only the steps take time, and no two run in parallel.
    """

    def width() -> int:
        return window or max(2, fold_window(blocks) // blocks_per_job)

    client = None if blocks.local else active_client()
    if client is not None:
        from dkdist._runtime.futures import stream_fold  # what this machine alone does not need

        return stream_fold(
            client, blocks, jobs, prepare, step, state,
            label=label, window=width, report=throttle(MAX_GRAPH_JOBS, len(jobs), on_segment), progress=progress,
        )  # fmt: skip
    for start in range(0, len(jobs), MAX_GRAPH_JOBS):
        segment = jobs[start : start + MAX_GRAPH_JOBS]
        graph, steps = _segment_graph(blocks, segment, prepare, step, state, label, width())
        weights = {key: len(job.blocks) for key, job in zip(steps, segment, strict=True)}
        state = run(
            graph, steps[-1:], watch=weights, progress=progress, local=blocks.local, sequential=sequential
        )[0]
        if on_segment is not None:
            on_segment(state, start + len(segment))
    return state


def throttle(
    distance: int, end: int, on_segment: Callable[[Any, int], None] | None
) -> Callable[[Any, int], None]:
    """Told of every state, passes on one in ``distance`` jobs and the last."""
    told = 0

    def report(state: Any, reached: int) -> None:
        nonlocal told
        if on_segment is not None and (reached - told >= distance or reached == end):
            told = reached
            on_segment(state, reached)

    return report


def _segment_graph(
    blocks: Blocks,
    jobs: Sequence[Job],
    prepare: Work,
    step: Callable[[Any, Any], Any],
    state: Any,
    label: str,
    window: int,
) -> tuple[dict[Key, GraphNode], list[Key]]:
    token = uuid.uuid4().hex
    item, new_state, work = (f"{label}_{what}-{token}" for what in ("block", "step", "work"))
    graph: dict[Key, GraphNode] = dict(blocks.shared)
    graph[work] = DataNode(work, prepare)
    graph[(new_state, -1)] = DataNode((new_state, -1), state)
    for j, job in enumerate(jobs):
        after = [TaskRef((new_state, j - window))] if j >= window else []
        graph[(item, j)] = job_task((item, j), TaskRef(work), blocks, job, after)
        graph[(new_state, j)] = Task((new_state, j), step, TaskRef((new_state, j - 1)), TaskRef((item, j)))
    return graph, [(new_state, j) for j in range(len(jobs))]


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
    merge = require_same_cpu(merge) if away else merge
    waiting: list[tuple[int, Key]] = []  # (leaves, key) of sums without a partner, as the digits of a counter
    for j, job in enumerate(jobs):
        pair = (j - window - 1) // 2
        after = [TaskRef((done, pair))] if pair >= 0 else []
        graph[(leaf, j)] = job_task((leaf, j), own if apart else TaskRef(shared), blocks, job, after)
        waiting.append((1, (leaf, j)))
        while len(waiting) > 1 and waiting[-1][0] == waiting[-2][0]:
            _merge_last(graph, sums, merge, waiting)
        if j % 2:
            graph[(done, j // 2)] = Task((done, j // 2), _completion_marker, TaskRef(waiting[-1][1]))
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


def _completion_marker(partial: Any) -> None:
    """Says that a sum is there and holds nothing of it."""
