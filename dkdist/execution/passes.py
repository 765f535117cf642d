"""Passes over blocks: a small result of every block, or of each of a few things; and a bounded fold, in a given order.

    prepare(0) ─┐   prepare(1) ─┐   prepare(2) ─┐        parallel, at most ``window`` unfolded items alive
    state ──> step ──────────> step ──────────> step     one after another: the state travels, blocks never do

Item j of a fold may start only when step j - window is done, because schedulers by themselves would let finished
blocks pile up before a slow step. There are two back ends:

    a Dask graph    for threads of this process, and for any local scheduler that the user chose. An edge from step
                    j - window to item j bounds what is in memory. It carries the step's own result, so that a free
                    thread takes the next step before another block. Cost: two tasks for each item
    a cluster       an edge would be one more result that can be lost with its worker, and with it everything since
                    the graph began: there the client submits items as futures (`cluster/stream.py`)
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.typing import Key

from dkdist.execution.blocks import Blocks, Job, Work, as_they_are, job_task
from dkdist.execution.progress import Progress
from dkdist.execution.run import active_client, resources, run

SEGMENT = 128  # jobs of one graph, which is what a scheduler has to know at a time; and between two reports of a state


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
    jobs = [Job((i,), (None if extras is None else extras[i],), single=True) for i in which]
    return _each(blocks, jobs, function, label, progress)


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
    blocks = Blocks(label, bounds, as_they_are(label, pieces), local=local, unit="piece")
    return _each(blocks, [Job((i,), (), single=True) for i in range(len(pieces))], function, label, progress)


def _each(
    blocks: Blocks, jobs: Sequence[Job], work: Callable[..., Any], label: str, progress: Progress | None
) -> list[Any]:
    progress = progress or Progress(len(jobs), label, show=False)
    client = None if blocks.local else active_client()
    if client is not None:
        from dkdist.execution.cluster.stream import stream_map  # what this machine alone does not need

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


LARGEST_WINDOW = 64
WAITING_BYTES, WAITING_SHARE = (
    96 * 2**20,
    8,
)  # of small blocks of a fold in a process of a cluster; of its memory


def default_window(local: bool = False) -> int:
    """Blocks that may be alive: one in the making for every thread, and two that wait for their step.

    A cluster has twice that, so that the client need not hand out each one by itself.
    """
    threads = resources(local).all_threads
    away = not local and active_client() is not None
    return int(np.clip(2 * threads + 4 if away else threads + 2, 4, LARGEST_WINDOW))


def fold_window(blocks: Blocks) -> int:
    """Blocks of a fold that may be alive; on a cluster up to 64 small ones a process, so that a task makes several."""
    least = default_window(blocks.local)
    if blocks.local or active_client() is None:
        return least
    there, a_block = resources(), blocks.row_bytes * int(np.diff(blocks.bounds).max(initial=0))
    small = min(WAITING_BYTES, there.free // WAITING_SHARE) // max(1, a_block)
    return max(least, there.processes * min(small, LARGEST_WINDOW))


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
) -> Any:
    """Fold the jobs into ``state``; ``on_segment(state, jobs_done)`` is called after every 128 of them, in any thread.

    ``prepare`` is given an iterator over the job's blocks (each made when it is asked for) and the job's
    extra; ``step`` returns a new state and leaves its arguments as they are. States are small: one is kept until
    ``window`` more steps are done. Without a ``window`` given it is `fold_window`, as the cluster is at that time.
    """

    def width() -> int:
        return window or max(2, fold_window(blocks) // blocks_per_job)

    client = None if blocks.local else active_client()
    if client is not None:
        from dkdist.execution.cluster.stream import stream_fold  # what this machine alone does not need

        return stream_fold(
            client, blocks, jobs, prepare, step, state,
            label=label, window=width, report=_every(SEGMENT, len(jobs), on_segment), progress=progress,
        )  # fmt: skip
    for start in range(0, len(jobs), SEGMENT):
        segment = jobs[start : start + SEGMENT]
        graph, steps = _segment_graph(blocks, segment, prepare, step, state, label, width())
        weights = {key: len(job.blocks) for key, job in zip(steps, segment, strict=True)}
        state = run(graph, steps[-1:], watch=weights, progress=progress, local=blocks.local)[0]
        if on_segment is not None:
            on_segment(state, start + len(segment))
    return state


def _every(
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
