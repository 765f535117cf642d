"""A bounded fold over blocks: state = step(state, prepare(block)), in a given order.

    prepare(0) ─┐   prepare(1) ─┐   prepare(2) ─┐        parallel, at most ``window`` unfolded items alive
    state ──> step ──────────> step ──────────> step     one after another: the state travels, blocks never do

Item j may start only when step j - window is done, because schedulers by themselves would let finished blocks pile
up before a slow step. On this machine an edge of the graph (a credit) says so; it is the step's own result, so that
a freed thread takes the next step before another block. On a cluster an edge would be one more result that can be
lost with its worker, and with it everything since the graph began: there the client hands items out (`stream`).
Cost: two tasks a job.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.typing import Key

from dkdist.execution.blocks import Blocks
from dkdist.execution.jobs import Job, Work, job_task
from dkdist.execution.progress import Progress
from dkdist.execution.resources import resources
from dkdist.execution.run import active_client, run

__all__ = ["Job", "fold"]

LARGEST_WINDOW = 64
SEGMENT = 128  # jobs of one graph, and between two reports of the state


def default_window(local: bool = False) -> int:
    """Blocks that may be alive: one in the making for every thread, and two that wait for their step.

    A cluster has twice that, so that the client need not hand out each one by itself.
    """
    threads = resources(local).all_threads
    away = not local and active_client() is not None
    return int(np.clip(2 * threads + 4 if away else threads + 2, 4, LARGEST_WINDOW))


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
    """Fold the jobs into ``state``; ``on_segment(state, jobs_done)`` is called after every 128 of them.

    ``prepare`` is given an iterator over the job's blocks (each made when it is asked for) and the job's
    extra; ``step`` returns a new state and leaves its arguments as they are. States are small: one is kept until
    ``window`` more steps are done. Without a ``window`` given it is `default_window`, as the cluster is at that time.
    """

    def width() -> int:
        return window or max(2, default_window(blocks.local) // blocks_per_job)

    client = None if blocks.local else active_client()
    if client is not None:
        from dkdist.execution.stream import stream_fold  # imports that this machine alone does not need

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
