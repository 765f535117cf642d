"""Folds and maps on a cluster: the client submits tasks as earlier ones complete and holds the states of folds.

The scheduler has only the tasks in flight. Each task runs some jobs; results are sent to the client as they complete.

    item j     prepared jobs, computed before their step; items are assigned to the threads in turn
    step j     from step j - 1 (or a state that the client holds) and item j, on the worker that has the item

A task costs the scheduler about 1 ms, and each step has a latency of a few milliseconds. Therefore a task
holds as many jobs as the run completes in 0.2 s, limited by the window. The state of a fold is sent to the client after
every four tasks, and the next step starts from it: the death of a worker repeats at most four tasks and those in
flight. Results do not depend on which jobs share a task.
"""

from __future__ import annotations

import copy
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Generic, TypeVar

import dask
import numpy as np
from dask.base import annotate
from dask.typing import Key
from distributed import as_completed
from distributed.scheduler import KilledWorker

from dkdist._runtime._dask_private import DataNode, GraphNode, Task, TaskRef
from dkdist._runtime._tuning import (
    FIRST_TASK_JOBS,
    MAP_TASKS_PER_THREAD,
    MAX_TASK_GROWTH,
    MIN_FOLD_TASKS,
    MIN_MAP_THREADS,
    RATE_WINDOW_SECONDS,
    TARGET_TASK_SECONDS,
    TASKS_PER_SYNC,
    TTL_SECONDS,
)
from dkdist._runtime.blocks import Blocks, Job, TaskKey, TaskResults, Work, batch_task
from dkdist._runtime.cluster import ResultMonitor, killed_worker_error, run_on_cluster
from dkdist._runtime.outcomes import Outcome, combine
from dkdist._runtime.process import has_placement, require_same_cpu
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import resources

# a graph contains the state of a fold; Dask would advise users to load their data otherwise
LARGE_STATES = {"distributed.admin.large-graph-warning-threshold": "1TiB"}

Jobs = Sequence[Job]
Step = Callable[[Any, Any], Any]
Report = Callable[[Any, int], None]
T = TypeVar("T")


def stream_fold(
    client: Any,
    blocks: Blocks,
    jobs: Jobs,
    prepare: Work,
    step: Step,
    state: Any,
    *,
    label: str,
    window: Callable[[], int],
    report: Report,
    observe: Callable[[Any], None] | None,
    progress: Progress,
    in_place: bool = False,
) -> Any:
    """Fold the jobs into ``state``; call ``observe`` and ``report(state, n_jobs)`` for every state sent to the client.

    At most ``window()`` jobs are in flight: being computed, or waiting for their step. With
    ``in_place``, steps modify a copy of the state.
    """
    n_done = 0
    step = require_same_cpu(partial(_fold_batch, step, in_place))

    def start() -> Any:
        first = n_done

        def keep_state(new_state: Any, n: int) -> None:
            nonlocal state, n_done
            state, n_done = new_state, first + n
            if observe is not None:
                observe(state)
            report(state, n_done)

        return _Fold(client, blocks, jobs[first:], prepare, label, progress).run(
            state, step, window, keep_state
        )

    if not len(jobs):
        return state
    return run_on_cluster(client, start, progress)


def _fold_batch(step: Step, in_place: bool, state: Outcome, items: TaskResults) -> Outcome:
    if in_place:
        state = copy.deepcopy(state)
    for item in items.results:
        state = combine(step, state, item)
    return state


def stream_map(
    client: Any, blocks: Blocks, jobs: Jobs, work: Work, *, label: str, progress: Progress
) -> list[Any]:
    """Return the results of ``work`` for every job, in the order of the jobs."""
    outcomes: dict[int, Outcome] = {}
    run_on_cluster(client, lambda: _Map(client, blocks, jobs, work, label, progress).run(outcomes), progress)
    return [progress.settle(outcomes[j]) for j in sorted(outcomes)]  # up to the first error


class _FutureQueue:
    """Tasks in flight; the scheduler keeps results as long as this queue holds their futures."""

    item_suffix = ""

    def __init__(
        self, client: Any, blocks: Blocks, jobs: Jobs, work: Work, label: str, progress: Progress
    ) -> None:
        self.client, self.blocks, self.jobs, self.progress = client, blocks, jobs, progress
        token = uuid.uuid4().hex
        self.item, self.step, self.work = (
            f"{label}{suffix}-{token}" for suffix in (self.item_suffix, "_step", "_shared")
        )
        shared: dict[Key, GraphNode] = {**blocks.shared, self.work: DataNode(self.work, work)}
        # the futures keep the shared values in memory for all tasks
        self.shared = client.get(shared, list(shared), sync=False)
        self.completed, self.monitor = as_completed([], loop=client.loop), ResultMonitor(client)
        self.futures: dict[TaskKey, Any] = {}
        self.tasks: dict[Key, GraphNode] = {}
        self.n_blocks: dict[int, int] = {}

    def add_task(self, graph: dict[Key, GraphNode], j: int, jobs: Jobs) -> TaskKey:
        """Add task j, which runs some jobs, to a graph; return its key."""
        key = (self.item, j)
        graph[key] = self.tasks[key] = batch_task(key, TaskRef(self.work), self.blocks, jobs)
        self.n_blocks[j] = sum(len(job.blocks) for job in jobs)
        return key

    def submit(
        self, graph: dict[Key, GraphNode], watched: Sequence[TaskKey], unwatched: Sequence[TaskKey] = ()
    ) -> None:
        """Submit a graph; `next_completed` returns the futures of ``watched`` tasks only."""
        if not graph:
            return
        keys = [*watched, *unwatched]
        futures = self.client.get(graph, keys, sync=False)
        self.futures.update(zip(keys, futures, strict=True))
        self.completed.update(futures[: len(watched)])

    def next_completed(self) -> list[Any]:
        """Return futures that completed since the last call, at least one; raise the error of a failed task."""
        batch = self.monitor.next_batch(self.completed)
        for future in batch:
            if future.status != "finished":
                self._raise(future)
        return batch

    def _raise(self, future: Any) -> None:
        """Raise the error of a task, or that of a shared value, which Dask reports only as lost dependencies."""
        failed = [shared for shared in self.shared if shared.status == "error"]
        try:
            (failed or [future])[0].result()
        except KilledWorker as error:
            raise killed_worker_error(error, self.tasks) from None

    def release(self, key: TaskKey) -> None:
        """Release a task whose result is no longer needed."""
        self.tasks.pop(key, None)
        self.futures.pop(key).release()

    def advance(self, j: int) -> None:
        """Count the blocks of task j as done."""
        self.progress.advance(self.n_blocks.pop(j))


class TTLCache(Generic[T]):
    """Result of a function, refreshed at most once per second."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function, self._value, self._updated = function, function(), time.monotonic()

    def get(self) -> T:
        """Return the value, at most a second old."""
        if time.monotonic() - self._updated > TTL_SECONDS:
            self._value, self._updated = self._function(), time.monotonic()
        return self._value


def available_slots(width: int, n_in_flight: int, n_remaining: int) -> int:
    """Return how many tasks to submit: 0, or at least half of ``width``, since every graph has a fixed cost."""
    free = max(0, width - n_in_flight)
    return 0 if free < width // 2 and free < n_remaining else min(free, n_remaining)


class ThroughputEstimator:
    """Throughput of the last ten seconds, or since the second-last sync if that is earlier.

    After a worker died, all tasks wait for its jobs, and the tasks after them complete at once. The last interval alone
    would overestimate the throughput, and its tasks would be too long to end before the next worker dies.
    """

    def __init__(self, now: float) -> None:
        self._samples = deque([(now, 0)])

    def update(self, now: float, n_done: int) -> tuple[int, float]:
        """Add a sample; return jobs done and seconds in the window."""
        self._samples.append((now, n_done))
        while len(self._samples) > 2 and now - self._samples[1][0] >= RATE_WINDOW_SECONDS:
            self._samples.popleft()
        first_time, first_done = self._samples[0]
        return n_done - first_done, now - first_time


def jobs_per_task(previous: int, n_done: int, seconds: float) -> int:
    """Return the number of jobs in a task of the target duration; it changes by at most a factor of 4."""
    n = TARGET_TASK_SECONDS * n_done / seconds
    return int(np.clip(n, max(1, previous // MAX_TASK_GROWTH), previous * MAX_TASK_GROWTH))


def round_robin(items: Sequence[TaskKey], threads: Sequence[str]) -> Any:
    """Return a context that assigns items to threads in turn: the thread whose step is done gets the next one.

    A scheduler would choose any idle thread, including one whose item waits for its step. That step and all later
    steps would then wait for the next item. The user's annotations take precedence. Other workers replace missing ones.
    """
    if not threads or has_placement():
        return nullcontext()
    workers: defaultdict[Key, Sequence[str]] = defaultdict(tuple)  # the scheduler may not have dkdist
    workers |= {key: [threads[key[1] % len(threads)]] for key in items}
    return annotate(workers=workers.__getitem__, allow_other_workers=True)


class _Map(_FutureQueue):
    """Map whose results are sent to the client as they complete."""

    task_jobs = 1  # jobs in each of the next tasks

    def run(self, outcomes: dict[int, Outcome]) -> None:
        """Add the outcomes of all jobs by number; after an error, of all earlier jobs and some later ones."""
        remaining = [j for j in range(len(self.jobs)) if j not in outcomes]
        n_threads = TTLCache(lambda: max(MIN_MAP_THREADS, resources().all_threads))
        jobs_by_task: dict[int, list[int]] = {}
        started, n_tasks, n_done = time.monotonic(), 0, 0
        while remaining or self.futures:
            width = MAP_TASKS_PER_THREAD * n_threads.get()
            graph: dict[Any, GraphNode] = {}
            size = int(np.clip(len(remaining) // width, 1, self.task_jobs))
            for _ in range(available_slots(width, len(self.futures), -(-len(remaining) // size))):
                jobs_by_task[n_tasks], remaining = remaining[:size], remaining[size:]
                self.add_task(graph, n_tasks, [self.jobs[j] for j in jobs_by_task[n_tasks]])
                n_tasks += 1
            self.submit(graph, list(graph))
            batch = self.next_completed()
            for future, output in zip(batch, self.monitor.gather(batch), strict=True):
                completed_jobs = jobs_by_task.pop(future.key[1])
                outcomes.update(zip(completed_jobs, output.results, strict=True))
                if any(outcome.error is not None for outcome in output.results):
                    remaining = [j for j in remaining if j < completed_jobs[0]]
                n_done += len(completed_jobs)
                self.release(future.key)
                self.advance(future.key[1])
            n = TARGET_TASK_SECONDS * n_done / (time.monotonic() - started) / n_threads.get()
            self.task_jobs = int(np.clip(n, 1, self.task_jobs + 1))


class _Fold(_FutureQueue):
    """Fold with prefetched items; every `TASKS_PER_SYNC`-th step starts from a state that the client holds."""

    item_suffix = "_block"
    task_jobs = FIRST_TASK_JOBS  # jobs in each of the next tasks
    n_items = n_steps = n_done = 0  # counted in tasks

    def run(self, state: Any, step: Step, window: Callable[[], int], report: Report) -> Any:
        self.jobs_before = [0]  # total number of jobs in the tasks before each task
        width, threads = TTLCache(window), TTLCache(lambda: resources().workers)
        throughput = ThroughputEstimator(time.monotonic())
        while self.jobs_before[self.n_done] < len(self.jobs):
            self._submit_next(state, step, width.get(), threads.get())
            n_done = 1 + max(future.key[1] for future in self.next_completed())
            for j in range(self.n_done, n_done):  # a completed step implies all steps before it
                self.advance(j)
            self.n_done, n_jobs = n_done, self.jobs_before[n_done]
            if n_done % TASKS_PER_SYNC == 0 or n_jobs == len(self.jobs):
                (outcome,) = self.monitor.gather([self.futures[self.step, n_done - 1]])
                self.release((self.step, n_done - 1))
                state = self.progress.settle(outcome)
                report(state, n_jobs)
                self.task_jobs = jobs_per_task(self.task_jobs, *throughput.update(time.monotonic(), n_jobs))
            self._release_used()
        return state

    def _submit_next(self, state: Any, step: Step, width: int, threads: Sequence[str]) -> None:
        graph: dict[Key, GraphNode] = {}
        items = self._add_items(graph, width, len(threads))
        steps: list[TaskKey] = []
        while self.n_steps < self.n_items:
            j, key = self.n_steps, (self.step, self.n_steps)
            previous = TaskRef((self.step, j - 1))
            if j % TASKS_PER_SYNC == 0:
                if self.n_done < j:
                    break  # the client does not have the state yet
                start = (self.step, -1 - j)
                previous, graph[start] = TaskRef(start), DataNode(start, Outcome(state))
            graph[key] = Task(key, step, previous, TaskRef((self.item, j)))
            steps.append(key)
            self.n_steps += 1
        with round_robin(items, threads), dask.config.set(LARGE_STATES):
            self.submit(graph, steps, [key for key in items if key[1] >= self.n_steps])

    def _add_items(self, graph: dict[Key, GraphNode], width: int, n_threads: int) -> list[TaskKey]:
        """Add the next items: at most ``width`` jobs in flight, one task per thread.

        With more tasks, a step could wait for a later item that its worker has started.
        """
        first, n_tasks = self.jobs_before[-1], max(MIN_FOLD_TASKS, n_threads)
        n_remaining = len(self.jobs) - first
        size = int(np.clip(width // n_tasks, 1, self.task_jobs))
        in_flight = first - self.jobs_before[self.n_done]
        n = min(max(0, min(width, n_tasks * max(FIRST_TASK_JOBS, size)) - in_flight), n_remaining)
        n -= 0 if n == n_remaining else n % size
        items: list[TaskKey] = []
        for start in range(first, first + n, size):
            jobs = list(self.jobs[start : min(start + size, first + n)])  # a slice may create its jobs lazily
            items.append(self.add_task(graph, self.n_items, jobs))
            self.jobs_before.append(start + len(jobs))
            self.n_items += 1
        return items

    def _release_used(self) -> None:
        """Release items whose step was submitted, and completed states whose next step was submitted."""
        for key in list(self.futures):
            name, j = key
            is_used = j < self.n_steps if name == self.item else j + 1 < self.n_steps and j < self.n_done
            if is_used:
                self.release(key)
