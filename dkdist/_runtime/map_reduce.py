"""Map and reduce over blocks: a small result of every block, an ordered fold, or a sum in a tree.

    map        f(block 0), f(block 1), ...                    parallel; a block is in memory during its task

    fold       item 0 ─┐   item 1 ─┐   item 2 ─┐              parallel; at most ``window`` items wait for their step
    state ──> step ──────> step ──────> step                  sequential: the state is sent, blocks are not

    tree sum   leaf 0 ─┬─ merge ─┐                            each leaf returns a large partial result; the shape of
               leaf 1 ─┘         ├─ merge                     the tree depends only on the number of leaves, so sums
               leaf 2 ─┬─ merge ─┘                            have a fixed order; at most ``window`` + 2 leaves and
               leaf 3 ─┘                                      one partial sum per level are in memory

Dask's schedulers would let finished blocks accumulate before a slow step. There are two back ends:

    a Dask graph    for threads of this process (the calling thread alone if items need no work) and for any local
                    scheduler that the user chose. An edge from step j - window to item j bounds the memory. The edge
                    carries the result of the step, so a free thread runs the next step before another block. Cost:
                    two tasks per item
    a cluster       results on edges would be lost with their worker, so the client submits items as futures
                    (`_runtime/futures.py`)
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Generic, TypeVar

import dask
import numpy as np
from dask.typing import Key

from dkdist._runtime._dask_private import DataNode, GraphNode, Task, TaskRef
from dkdist._runtime._tuning import (
    MAX_GRAPH_JOBS,
    MAX_LOCAL_BYTES,
    MAX_WAITING_BYTES,
    MAX_WINDOW_BLOCKS,
    MIN_SUBTREES_PER_THREAD,
    WAITING_MEMORY_DIVISOR,
)
from dkdist._runtime.blocks import (
    Blocks,
    Job,
    TaskBatch,
    TaskKey,
    Work,
    batch_task,
    job_task,
    read_ahead_of,
    same_cpu,
    value_tasks,
)
from dkdist._runtime.outcomes import Outcome, combine
from dkdist._runtime.process import active_client, has_placement
from dkdist._runtime.progress import Progress, tracked
from dkdist._runtime.read_ahead import ReadAhead
from dkdist._runtime.run import ended_if, require_running, resources, run

T = TypeVar("T")


def map_blocks(
    blocks: Blocks,
    function: Callable[[Any, Any], Any],
    extras: Sequence[Any] | None = None,
    *,
    only: Sequence[int] | None = None,
    label: str = "map",
    progress: Progress | None = None,
    quiet: bool = False,
    local_if_small: bool = False,
) -> list[Any]:
    """Return ``[function(block, extra) for every block]``; a block is in memory only during its task.

    A ``quiet`` map does not warn about sets. With ``local_if_small``, one small block of a store runs in this process
    also if a cluster is active: messages would take longer than the work.
    """
    numbers = range(len(blocks)) if only is None else only
    extra_args = [(None if extras is None else extras[i],) for i in numbers]
    jobs = [Job((i,), args, single=True, quiet=quiet) for i, args in zip(numbers, extra_args, strict=True)]
    if local_if_small and len(jobs) == 1 and _is_small(blocks):
        blocks = replace(blocks, local=True)
    return _run_jobs(blocks, jobs, function, label, progress)


def _is_small(blocks: Blocks) -> bool:
    """Return whether this process can read the only block quickly, and the user did not choose workers."""
    is_read_from_store = 0 < blocks.read_bytes <= MAX_LOCAL_BYTES and blocks.shares_only_params
    return is_read_from_store and active_client() is not None and not has_placement()


def map_pieces(
    function: Callable[[Any], Any],
    pieces: Sequence[Any],
    *,
    label: str,
    progress: Progress | None = None,
    local: bool = False,
) -> list[Any]:
    """Return ``[function(piece) for piece in pieces]``, one task each; ``local`` pieces never leave this process."""
    bounds = np.arange(len(pieces) + 1)
    blocks = Blocks(label, bounds, value_tasks(label, pieces), local=local, unit="piece")
    return _run_jobs(
        blocks, [Job((i,), (), single=True) for i in range(len(pieces))], function, label, progress
    )


def _run_jobs(
    blocks: Blocks, jobs: Sequence[Job], work: Callable[..., Any], label: str, progress: Progress | None
) -> list[Any]:
    with tracked(progress, len(jobs), label) as run_progress:
        client = None if blocks.local else active_client()
        if client is not None:
            from dkdist._runtime.futures import stream_map  # local runs do not import distributed

            return stream_map(client, blocks, jobs, work, label=label, progress=run_progress)
        results: list[Any] = []
        read_ahead = read_ahead_of(blocks, jobs)
        for start in range(0, len(jobs), MAX_GRAPH_JOBS):
            segment = jobs[start : start + MAX_GRAPH_JOBS]
            graph, keys = _map_graph(blocks, segment, work, label, (read_ahead, start))
            results += run(
                graph, keys, watch=dict.fromkeys(keys, 1), progress=run_progress, local=blocks.local
            )
        return results


def _map_graph(
    blocks: Blocks,
    jobs: Sequence[Job],
    work: Callable[..., Any],
    label: str,
    ahead: tuple[ReadAhead | None, int],
) -> tuple[dict[Key, GraphNode], list[Key]]:
    name, shared = f"{label}-{uuid.uuid4().hex}", f"{label}_shared-{uuid.uuid4().hex}"
    graph: dict[Key, GraphNode] = {**blocks.shared, shared: DataNode(shared, work)}
    failed: list[int] = []  # shared by the threads of this run
    # Dask runs independent tasks in any order, but data are requested ahead in the order of the jobs: a job waits for
    # those of the window before the last
    window = len(jobs) if ahead[0] is None else default_window(blocks.local)
    for j, job in enumerate(jobs):
        after = [TaskRef((name, k)) for k in range(max(0, j - 2 * window), j - window + 1)]
        task = job_task((name, j), TaskRef(shared), blocks, job, after, (ahead[0], ahead[1] + j))
        graph[name, j] = Task(task.key, _run_unless_failed, failed, j, task.func, *task.args)
    return graph, [(name, j) for j in range(len(jobs))]


def _run_unless_failed(failed: list[int], j: int, function: Callable[..., Outcome], *args: Any) -> Outcome:
    """Return the outcome of job j, without work after the error of an earlier job, which is raised."""
    outcome = Outcome()
    with ended_if(lambda: min(failed, default=j) < j):
        require_running()
        outcome = function(*args)
    if outcome.error is not None:
        failed.append(j)
    return outcome


def default_window(local: bool = False) -> int:
    """Return the number of blocks that may be in memory: one per thread, and two that wait for their step.

    On a cluster the number is twice as large, so that the client can submit several blocks at once.
    """
    n_threads = resources(local).all_threads
    is_remote = not local and active_client() is not None
    return int(np.clip(2 * n_threads + 4 if is_remote else n_threads + 2, 4, MAX_WINDOW_BLOCKS))


def fold_window(blocks: Blocks) -> int:
    """Return the number of blocks of a fold in memory; on a cluster larger for small blocks, which share tasks."""
    min_window = default_window(blocks.local)
    if blocks.local or active_client() is None:
        return min_window
    cluster, block_bytes = resources(), blocks.row_bytes * int(np.diff(blocks.bounds).max(initial=0))
    n_waiting = min(MAX_WAITING_BYTES, cluster.free // WAITING_MEMORY_DIVISOR) // max(1, block_bytes)
    return max(min_window, cluster.processes * min(n_waiting, MAX_WINDOW_BLOCKS))


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
    observe: Callable[[Any], None] | None = None,
    window: int | None = None,
    progress: Progress | None = None,
    sequential: bool = False,
    in_place: bool = False,
) -> Any:
    """Fold the jobs into ``state``; call ``on_segment(state, n_jobs)`` after every 128 jobs, in any thread.

    ``prepare`` gets an iterator over the job's blocks (each computed on request) and the job's extra argument. ``step``
    returns a new state and does not modify its arguments. States are small: one is held until ``window`` more steps
    are done. ``observe(state)`` gets every state that this process has: all on threads, some of a cluster. ``window``
    is `fold_window` by default, evaluated while the fold runs. With ``sequential``, items need no work and one thread
    runs all tasks.

    With ``in_place``, ``step`` may modify its state and return it. Local runs then hold one state, which is ``state``
    itself; tasks of a cluster copy the state before their first step, because a lost task runs again from its input.
    """

    def n_items() -> int:
        return window or max(2, fold_window(blocks) // blocks_per_job)

    client = None if blocks.local else active_client()
    if in_place and client is None:
        holder = fold(
            blocks, jobs, prepare, _step_in_place, _StateHolder(state, step),
            label=label, blocks_per_job=blocks_per_job, window=window, progress=progress, sequential=sequential,
            on_segment=None if on_segment is None else partial(_report_held_state, on_segment),
        )  # fmt: skip
        return holder.state
    with tracked(progress, blocks_per_job * len(jobs), label) as run_progress:
        if client is not None:
            from dkdist._runtime.futures import stream_fold  # local runs do not import distributed

            report = throttle(MAX_GRAPH_JOBS, len(jobs), on_segment)
            return stream_fold(
                client, blocks, jobs, prepare, step, state,
                label=label, window=n_items, report=report, observe=observe, progress=run_progress, in_place=in_place,
            )  # fmt: skip
        read_ahead = read_ahead_of(blocks, jobs)
        for start in range(0, len(jobs), MAX_GRAPH_JOBS):
            segment = jobs[start : start + MAX_GRAPH_JOBS]
            graph, steps = _segment_graph(
                blocks, segment, prepare, step, state, label, n_items(), (read_ahead, start)
            )
            weights = {key: len(job.blocks) for key, job in zip(steps, segment, strict=True)}
            state = run(
                graph, steps[-1:], watch=weights, progress=run_progress, observe=observe, local=blocks.local,
                sequential=sequential,
            )[0]  # fmt: skip
            if on_segment is not None:
                on_segment(state, start + len(segment))
        return state


@dataclass
class _StateHolder:
    """Holder of the only state of a local fold: all steps return this object."""

    state: Any
    step: Callable[[Any, Any], Any]


def _step_in_place(holder: _StateHolder, item: Any) -> _StateHolder:
    holder.state = holder.step(holder.state, item)
    return holder


def _report_held_state(on_segment: Callable[[Any, int], None], holder: _StateHolder, n_jobs: int) -> None:
    on_segment(holder.state, n_jobs)


def throttle(
    distance: int, end: int, on_segment: Callable[[Any, int], None] | None
) -> Callable[[Any, int], None]:
    """Return a callback that calls ``on_segment`` every ``distance`` jobs and for the last state."""
    n_reported = 0

    def report(state: Any, n_jobs: int) -> None:
        nonlocal n_reported
        if on_segment is not None and (n_jobs - n_reported >= distance or n_jobs == end):
            n_reported = n_jobs
            on_segment(state, n_jobs)

    return report


def _segment_graph(
    blocks: Blocks,
    jobs: Sequence[Job],
    prepare: Work,
    step: Callable[[Any, Any], Any],
    state: Any,
    label: str,
    window: int,
    ahead: tuple[ReadAhead | None, int],
) -> tuple[dict[Key, GraphNode], list[Key]]:
    token = uuid.uuid4().hex
    item, new_state, work = (f"{label}_{part}-{token}" for part in ("block", "step", "shared"))
    graph: dict[Key, GraphNode] = dict(blocks.shared)
    graph[work] = DataNode(work, prepare)
    graph[(new_state, -1)] = DataNode((new_state, -1), Outcome(state))
    step = partial(combine, step)
    for j, job in enumerate(jobs):
        after = [TaskRef((new_state, j - window))] if j >= window else []
        graph[(item, j)] = job_task((item, j), TaskRef(work), blocks, job, after, (ahead[0], ahead[1] + j))
        graph[(new_state, j)] = Task((new_state, j), step, TaskRef((new_state, j - 1)), TaskRef((item, j)))
    return graph, [(new_state, j) for j in range(len(jobs))]


class PairwiseSum(Generic[T]):
    """Sum in the order of a binary tree: the largest full tree first, then the remainder.

    ``parts`` are (number of items, sum of these), with decreasing numbers.
    """

    def __init__(self, merge: Callable[[T, T], T], parts: Sequence[tuple[int, T]] = ()) -> None:
        self.parts, self._merge = list(parts), merge

    def add(self, item: T) -> T:
        """Add an item; return the last partial sum."""
        self.parts.append((1, item))
        while len(self.parts) > 1 and self.parts[-1][0] == self.parts[-2][0]:
            self._merge_last()
        return self.parts[-1][1]

    def total(self) -> T:
        """Return the sum of all items."""
        while len(self.parts) > 1:
            self._merge_last()
        return self.parts[0][1]

    def _merge_last(self) -> None:
        (n, right), (m, left) = self.parts.pop(), self.parts.pop()
        self.parts.append((m + n, self._merge(left, right)))


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
    """Return the ``merge`` of all ``work(blocks, extra)``; ``merge`` does not modify its arguments.

    On a cluster, a task computes a subtree, which sends one result instead of one per leaf. Dask runs tasks on the
    worker that has a dependency, and uses idle workers only for many similar tasks. Therefore a small number of leaves
    carry their function and parameters.
    """
    if window < 2:
        raise ValueError(f"window must be at least 2 leaves; got {window}.")
    token = uuid.uuid4().hex
    leaf, sums, done, shared = (f"{label}_{part}-{token}" for part in ("part", "sum", "done", "shared"))
    graph: dict[Key, GraphNode] = {}
    work_node = DataNode(shared, work)
    is_remote = not blocks.local and active_client() is not None
    n_threads = resources().all_threads if is_remote else 1
    is_independent = is_remote and blocks.shares_only_params and len(jobs) <= 2 * n_threads
    if not is_independent:
        graph |= {**blocks.shared, shared: work_node}
    size = _subtree_size(len(jobs) // (MIN_SUBTREES_PER_THREAD * n_threads)) if is_remote else 1
    sum_subtree = same_cpu(partial(_sum_subtree, merge), blocks)
    merge = same_cpu(partial(combine, merge), blocks)
    read_ahead = None if is_remote else read_ahead_of(blocks, jobs)
    keys = PairwiseSum[Key](partial(_add_task, graph, sums, merge))
    weights: dict[Key, int] = {}
    for j, first in enumerate(range(0, len(jobs), size)):
        pair = (j - window - 1) // 2
        after = [TaskRef((done, pair))] if pair >= 0 else []
        function = work_node if is_independent else TaskRef(shared)
        if size == 1:
            graph[(leaf, j)] = job_task((leaf, j), function, blocks, jobs[j], after, (read_ahead, j))
        else:
            task = batch_task((leaf, j), TaskRef(shared), blocks, jobs[first : first + size])
            graph[(leaf, j)] = Task(task.key, sum_subtree, *task.args, *after)
        weights[leaf, j] = sum(len(job.blocks) for job in jobs[first : first + size])
        last_sum = keys.add((leaf, j))
        if j % 2:
            graph[(done, j // 2)] = Task((done, j // 2), _completion_marker, TaskRef(last_sum))
    root = keys.total()
    with tracked(progress, sum(weights.values()), label) as run_progress:
        return run(graph, [root], watch=weights, progress=run_progress, local=blocks.local)[0]


def _subtree_size(max_leaves: int) -> int:
    """Return the largest power of two up to ``max_leaves``, at least 1: sums of such subtrees have the tree's order."""
    return 1 << max(0, max_leaves.bit_length() - 1)


def _sum_subtree(
    merge: Callable[[Any, Any], Any],
    work: Work,
    batch: TaskBatch,
    keys: tuple[Key, ...],
    *values: Any,
) -> Outcome:
    """Return the sum of the jobs of a batch; ``values`` are shared values, then results that precede it."""
    for earlier in values[len(keys) :]:
        if earlier.error is not None:
            return Outcome(error=earlier.error)
    shared, outcomes = dict(zip(keys, values, strict=False)), PairwiseSum[Outcome](partial(combine, merge))
    for job in batch.jobs:
        outcome = job.run(work, shared)
        if outcome.error is not None:
            return outcome
        outcomes.add(outcome)
    return outcomes.total()


def run_rounds(
    blocks: Blocks,
    rounds: Sequence[tuple[Sequence[Job], Callable[[Any, Any], Any]]],
    work: Callable[[Any, Iterator[Any], Any], Any],
    merge: Callable[[Any, Any], Any],
    state: Any,
    *,
    label: str,
    observe: Callable[[Any], None],
    progress: Progress,
) -> Any:
    """Return the state after all rounds, in one graph. A round is its jobs and a function ``update``:

        state = update(state, tree sum of work(state, blocks, extra) for all jobs)

    ``observe`` gets the state after each round from local threads. On a cluster, job l of all rounds is assigned to the
    same thread: a scheduler would run all jobs of a round on the worker that has the state.
    """
    token = uuid.uuid4().hex
    part, sums, step, shared = (f"{label}_{name}-{token}" for name in ("part", "sum", "step", "shared"))
    start = (step, -1)
    graph: dict[Key, GraphNode] = {
        **blocks.shared,
        shared: DataNode(shared, work),
        start: DataNode(start, Outcome(state)),
    }
    merge_outcomes = same_cpu(partial(combine, merge), blocks)
    parts: list[TaskKey] = []
    for r, (jobs, update) in enumerate(rounds):
        keys = PairwiseSum[Key](partial(_add_task, graph, sums, merge_outcomes))
        for lane, job in enumerate(jobs):
            parts.append((f"{part}-{r}", lane))
            graph[parts[-1]] = job_task(parts[-1], TaskRef(shared), blocks, job, state=TaskRef((step, r - 1)))
            keys.add(parts[-1])
        root = keys.total()
        # the last merge is part of the update: each task of a round adds messages that the next round waits for
        parts_of_root = graph.pop(root).args if len(jobs) > 1 else (TaskRef(root),)  # type: ignore[attr-defined]
        update_outcomes = same_cpu(partial(combine, partial(_merge_and_update, merge, update)), blocks)
        graph[step, r] = Task((step, r), update_outcomes, TaskRef((step, r - 1)), *parts_of_root)
    weights: dict[Key, int] = {
        (step, r): sum(len(job.blocks) for job in jobs) for r, (jobs, _) in enumerate(rounds)
    }
    last = (step, len(rounds) - 1)
    with assigned_in_turn(blocks, parts):
        return run(graph, [last], watch=weights, progress=progress, observe=observe, local=blocks.local)[0]


def _merge_and_update(
    merge: Callable[[Any, Any], Any], update: Callable[[Any, Any], Any], state: Any, *parts: Any
) -> Any:
    return update(state, reduce(merge, parts))


def assigned_in_turn(blocks: Blocks, keys: Sequence[TaskKey]) -> AbstractContextManager[Any]:
    """Return a context that assigns tasks to the threads of a cluster by the numbers in their keys."""
    if blocks.local or active_client() is None:
        return nullcontext()
    from dkdist._runtime.futures import LARGE_STATES, round_robin  # local runs do not import distributed

    stack = ExitStack()
    stack.enter_context(dask.config.set(LARGE_STATES))
    stack.enter_context(round_robin(keys, resources().workers))
    return stack


def _add_task(
    graph: dict[Key, GraphNode], name: str, function: Callable[..., Any], left: Key, right: Key
) -> Key:
    """Add the task that merges the results of two tasks; return its key."""
    key = (name, len(graph))
    graph[key] = Task(key, function, TaskRef(left), TaskRef(right))
    return key


def _completion_marker(partial_sum: Outcome) -> Outcome:
    """Return the error of a sum, if any: an edge that orders tasks without keeping the sum in memory."""
    return Outcome(error=partial_sum.error)
