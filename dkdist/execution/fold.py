"""A bounded fold over blocks: state = step(state, prepare(block)), in a given order.

    prepare(0) ─┐   prepare(1) ─┐   prepare(2) ─┐        parallel, at most ``window`` unfolded items alive
    state ──> step ──────────> step ──────────> step     one after another: the state travels, blocks never do

Item j may start only when step j - window is done: an edge of the graph (a credit) says so, because
schedulers by themselves would let finished blocks pile up before a slow step. The credit is the step's own
result, so that a freed thread takes the next step before another block. Cost: two tasks a job.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.typing import Key

from dkdist.execution.blocks import Blocks
from dkdist.execution.jobs import Job, Work, job_task
from dkdist.execution.progress import Progress
from dkdist.execution.run import run

__all__ = ["Job", "fold"]

WINDOW = 4
SEGMENT = 128


def fold(
    blocks: Blocks,
    jobs: Sequence[Job],
    prepare: Work,
    step: Callable[[Any, Any], Any],
    state: Any,
    *,
    label: str = "fit",
    window: int = WINDOW,
    large_state: bool = False,
    on_segment: Callable[[Any, int], None] | None = None,
    progress: Progress | None = None,
) -> Any:
    """Fold the jobs into ``state``; ``on_segment(state, jobs_done)`` is called after every 128 of them.

    ``prepare`` is given an iterator over the job's blocks (each made when it is asked for) and the job's
    extra; ``step`` returns a new state and leaves its arguments as they are. A state is kept until ``window`` more
    steps are done, unless it is a ``large_state``: then a task of its own says that a step is over.
    """
    for start in range(0, len(jobs), SEGMENT):
        segment = jobs[start : start + SEGMENT]
        graph, last, credits = _segment_graph(
            blocks, segment, prepare, step, state, label, window, large_state
        )
        weights = {credit: len(job.blocks) for credit, job in zip(credits, segment, strict=True)}
        state = run(graph, [last], watch=weights, progress=progress, local=blocks.local)[0]
        if on_segment is not None:
            on_segment(state, start + len(segment))
    return state


def _segment_graph(
    blocks: Blocks,
    jobs: Sequence[Job],
    prepare: Work,
    step: Callable[[Any, Any], Any],
    state: Any,
    label: str,
    window: int,
    large_state: bool,
) -> tuple[dict[Key, GraphNode], Key, list[Key]]:
    token = uuid.uuid4().hex
    item, new_state, done, work = (f"{label}_{what}-{token}" for what in ("block", "step", "done", "work"))
    credit = done if large_state else new_state
    graph: dict[Key, GraphNode] = dict(blocks.shared)
    graph[work] = DataNode(work, prepare)
    graph[(new_state, -1)] = DataNode((new_state, -1), state)
    for j, job in enumerate(jobs):
        recipes = [blocks.recipes[i] for i in job.blocks]
        after = [TaskRef((credit, j - window))] if j >= window else []
        graph[(item, j)] = job_task((item, j), TaskRef(work), recipes, job.extra, after)
        graph[(new_state, j)] = Task((new_state, j), step, TaskRef((new_state, j - 1)), TaskRef((item, j)))
        if large_state:
            graph[(done, j)] = Task((done, j), _nothing, TaskRef((new_state, j)))
    return graph, (new_state, len(jobs) - 1), [(credit, j) for j in range(len(jobs))]


def _nothing(state: Any) -> None:
    """Says that a step is over and holds nothing of its result."""
