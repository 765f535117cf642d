"""Folds and maps on a cluster: the client hands out work as results come in, and keeps what must not be lost.

Nothing but the work under way is known to the scheduler. A job is handed out when fewer than a window's width are
unfinished; results come to the client at once.

    item j     some jobs, made from their recipes alone, before it is their turn, by thread j of all in turn
    step j     from step j - 1 (or the state that the client has) and item j, on the worker that has the item

A task costs the scheduler some milliseconds, and so does the way from a step to the next one. So the jobs of a task are
as many as a run does in a fifth of a second, as far as the window has room. A fold's state comes to the client after
every four tasks, and the next step starts from that value: whatever dies, no more than four tasks and those under way
are done again. Which jobs share a task changes no bit.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.base import annotate, get_annotations
from dask.typing import Key
from dask.utils import key_split
from distributed import as_completed
from distributed.scheduler import KilledWorker

from dkdist._runtime import cluster as failures
from dkdist._runtime.blocks import Blocks, Job, TaskResults, Work, batch_task
from dkdist._runtime.cluster import ResultMonitor, run_on_cluster
from dkdist._runtime.dashboard import annotate_stage
from dkdist._runtime.process import require_same_cpu
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import resources

TASKS_PER_SYNC = 4  # tasks of a fold between two states that the client has
FIRST_TASK_JOBS = 2  # jobs of its first tasks
TARGET_TASK_SECONDS = 0.2  # seconds of a run that a task stands for
RATE_WINDOW_SECONDS = (
    10.0  # seconds over which its rate is taken: longer than a worker that died takes to be replaced
)
MAX_TASK_GROWTH = 4  # of a task, from one link to the next
MIN_FOLD_TASKS = 2  # of a fold under way, where threads are fewer
MAP_TASKS_PER_THREAD = 4  # of a map, under way
TTL_SECONDS = 1.0  # seconds

Jobs = Sequence[Job]
Step = Callable[[Any, Any], Any]
Report = Callable[[Any, int], None]
TaskKey = tuple[str, int]
"""The key of a task: its name and its job."""
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
    progress: Progress | None,
) -> Any:
    """Fold the jobs into ``state``; ``report(state, jobs_done)`` for every state that comes to the client.

    ``window()`` jobs at most are made and wait for their step.
    """
    done = 0
    step = require_same_cpu(partial(_fold_batch, step))

    def go_on() -> Any:
        begun = done

        def keep(reached: Any, n: int) -> None:
            nonlocal state, done
            state, done = reached, begun + n
            report(state, done)

        return _Fold(client, blocks, jobs[begun:], prepare, label, progress).run(state, step, window, keep)

    if not len(jobs):
        return state
    return run_on_cluster(client, go_on, name=f"{label}_step", blocks_a_task=1.0, progress=progress)


def _fold_batch(step: Step, state: Any, items: TaskResults) -> Any:
    for item in items.results:
        state = step(state, item)
    return state


def stream_map(
    client: Any, blocks: Blocks, jobs: Jobs, work: Work, *, label: str, progress: Progress | None
) -> list[Any]:
    """``work`` of every job, in the order of the jobs."""
    results: dict[int, Any] = {}

    def go_on() -> list[Any]:
        _Map(client, blocks, jobs, work, label, progress).run(results)
        return [results[j] for j in range(len(jobs))]

    return list(run_on_cluster(client, go_on, name=label, blocks_a_task=1.0, progress=progress))


class _FutureQueue:
    """Tasks under way, known to the scheduler by futures that are held here and nowhere else."""

    item_suffix = ""

    def __init__(
        self, client: Any, blocks: Blocks, jobs: Jobs, work: Work, label: str, progress: Progress | None
    ) -> None:
        self.client, self.blocks, self.jobs, self.progress = client, blocks, jobs, progress
        token = uuid.uuid4().hex
        self.item, self.step, self.work = (
            f"{label}{suffix}-{token}" for suffix in (self.item_suffix, "_step", "_work")
        )
        shared: dict[Key, GraphNode] = {**blocks.shared, self.work: DataNode(self.work, work)}
        self.shared = client.get(shared, list(shared), sync=False)  # held, so that every task finds them
        self.ended, self.watch = as_completed([], loop=client.loop), ResultMonitor(client)
        self.futures: dict[TaskKey, Any] = {}
        self.tasks: dict[Key, GraphNode] = {}
        self.n_blocks: dict[int, int] = {}

    def add_task(self, graph: dict[Key, GraphNode], j: int, jobs: Jobs) -> TaskKey:
        """Task j, which does some jobs."""
        key = (self.item, j)
        graph[key] = self.tasks[key] = batch_task(key, TaskRef(self.work), self.blocks, jobs)
        self.n_blocks[j] = sum(len(job.blocks) for job in jobs)
        return key

    def hand_out(
        self, graph: dict[Key, GraphNode], watched: Sequence[TaskKey], held: Sequence[TaskKey] = ()
    ) -> None:
        """Send a graph; the end of ``watched`` tasks will be told, ``held`` ones are only kept."""
        if not graph:
            return
        keys = [*watched, *held]
        futures = self.client.get(graph, keys, sync=False)
        self.futures.update(zip(keys, futures, strict=True))
        self.ended.update(futures[: len(watched)])

    def next_ended(self) -> list[Any]:
        """Futures that ended since it was last asked, at least one; an error of one of them is raised."""
        batch = self.watch.next_batch(self.ended)
        for future in batch:
            if future.status != "finished":
                self._raise(future)
        return batch

    def _raise(self, future: Any) -> None:
        """The error of a task, or of what all of them share: Dask then says only that something is lost."""
        failed = [shared for shared in self.shared if shared.status == "error"]
        try:
            (failed or [future])[0].result()
        except KilledWorker as killed:
            raise failures.killed_worker_error(killed, self.tasks) from None

    def let_go(self, key: TaskKey) -> None:
        """Forget a task whose result is not needed any more."""
        self.tasks.pop(key, None)
        self.futures.pop(key).release()

    def advance(self, j: int) -> None:
        """Count the blocks of task j as done."""
        n = self.n_blocks.pop(j)
        if self.progress is not None:
            self.progress.advance(n)


class TTLCache(Generic[T]):
    """What is so on the cluster now: asked at most once a second."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask, self._answer, self._asked = ask, ask(), time.monotonic()

    def now(self) -> T:
        """The answer."""
        if time.monotonic() - self._asked > TTL_SECONDS:
            self._answer, self._asked = self._ask(), time.monotonic()
        return self._answer


def available_slots(width: int, n_under_way: int, n_left: int) -> int:
    """How much to hand out now: nothing, or at least half of what may be under way, since every graph has its cost."""
    free = max(0, width - n_under_way)
    return 0 if free < width // 2 and free < n_left else min(free, n_left)


class ThroughputEstimator:
    """Jobs done and the seconds that they took, over the last ten seconds or since the link before them.

    After a worker died all wait for its jobs, and those behind them then end at once: the last link alone would
    tell of a run as fast as such a burst, and its tasks would be too long to end before the next worker dies.
    """

    def __init__(self, now: float) -> None:
        self._links = deque([(now, 0)])

    def of(self, now: float, done: int) -> tuple[int, float]:
        """So many jobs in so many seconds, when ``done`` are done ``now``."""
        self._links.append((now, done))
        while len(self._links) > 2 and now - self._links[1][0] >= RATE_WINDOW_SECONDS:
            self._links.popleft()
        since, told = self._links[0]
        return done - told, now - since


def jobs_per_task(before: int, n_done: int, seconds: float) -> int:
    """As many as would be done in the time of a task, if so many were done in some seconds; not all at once."""
    return int(
        np.clip(
            TARGET_TASK_SECONDS * n_done / seconds,
            max(1, before // MAX_TASK_GROWTH),
            before * MAX_TASK_GROWTH,
        )
    )


def _mean(counts: Sequence[int]) -> float:
    return sum(counts) / max(1, len(counts))


def _round_robin(items: Sequence[TaskKey], threads: Sequence[str]) -> Any:
    """Items go to the threads in turn: the one whose step is done gets the next.

    A scheduler would choose any that is idle, and one whose item waits for its step is: the step, and all after it,
    would wait for the next item. Who says himself where tasks shall go is not contradicted, and others do what a worker
    should that is gone.
    """
    if not threads or get_annotations().keys() & {"workers", "resources", "allow_other_workers"}:
        return nullcontext()
    workers: defaultdict[Key, Sequence[str]] = defaultdict(tuple)  # a scheduler may lack this library
    workers |= {key: [threads[key[1] % len(threads)]] for key in items}
    return annotate(workers=workers.__getitem__, allow_other_workers=True)


class _Map(_FutureQueue):
    """Every result comes to the client as soon as it is there."""

    size = 1  # jobs of the next tasks

    def run(self, results: dict[int, Any]) -> None:
        left = [j for j in range(len(self.jobs)) if j not in results]
        threads = TTLCache(lambda: max(4, resources().all_threads))
        of_task: dict[int, list[int]] = {}
        started, n_tasks, n_done = time.monotonic(), 0, 0
        while left or self.futures:
            width = MAP_TASKS_PER_THREAD * threads.now()
            graph: dict[Any, GraphNode] = {}
            size = int(np.clip(len(left) // width, 1, self.size))
            for _ in range(available_slots(width, len(self.futures), -(-len(left) // size))):
                of_task[n_tasks], left = left[:size], left[size:]
                self.add_task(graph, n_tasks, [self.jobs[j] for j in of_task[n_tasks]])
                n_tasks += 1
            with annotate_stage(key_split(self.item), _mean([self.n_blocks[j] for _, j in graph])):
                self.hand_out(graph, list(graph))
            batch = self.next_ended()
            for future, made in zip(batch, self.watch.gather(batch), strict=True):
                done = of_task.pop(future.key[1])
                results.update(zip(done, made.results, strict=True))
                n_done += len(done)
                self.let_go(future.key)
                self.advance(future.key[1])
            a_task = TARGET_TASK_SECONDS * n_done / (time.monotonic() - started) / threads.now()
            self.size = int(np.clip(a_task, 1, self.size + 1))


class _Fold(_FutureQueue):
    """Items ahead of steps, steps in links that begin with a state of the client's."""

    item_suffix = "_block"
    size = FIRST_TASK_JOBS  # jobs of the next tasks
    n_items = n_steps = n_done = 0  # tasks

    def run(self, state: Any, step: Step, window: Callable[[], int], report: Report) -> Any:
        self.reach = [0]  # jobs up to each task
        wide, threads = TTLCache(window), TTLCache(lambda: resources().workers)
        rate = ThroughputEstimator(time.monotonic())
        while self.reach[self.n_done] < len(self.jobs):
            self._hand_out(state, step, wide.now(), threads.now())
            reached = 1 + max(future.key[1] for future in self.next_ended())
            for j in range(self.n_done, reached):  # a step that is done has all before it done
                self.advance(j)
            self.n_done, done = reached, self.reach[reached]
            if reached % TASKS_PER_SYNC == 0 or done == len(self.jobs):
                (state,) = self.watch.gather([self.futures[self.step, reached - 1]])
                self.let_go((self.step, reached - 1))
                report(state, done)
                self.size = jobs_per_task(self.size, *rate.of(time.monotonic(), done))
            self._tidy()
        return state

    def _hand_out(self, state: Any, step: Step, width: int, threads: Sequence[str]) -> None:
        graph: dict[Key, GraphNode] = {}
        items = self._add_items(graph, width, len(threads))
        steps: list[TaskKey] = []
        while self.n_steps < self.n_items:
            j, key = self.n_steps, (self.step, self.n_steps)
            before = TaskRef((self.step, j - 1))
            if j % TASKS_PER_SYNC == 0:
                if self.n_done < j:
                    break  # the state it starts from is still on its way
                start = (self.step, -1 - j)
                before, graph[start] = TaskRef(start), DataNode(start, state)
            graph[key] = Task(key, step, before, TaskRef((self.item, j)))
            steps.append(key)
            self.n_steps += 1
        named = annotate_stage(key_split(self.step), _mean([self.n_blocks[j] for _, j in steps or items]))
        with named, _round_robin(items, threads):
            self.hand_out(graph, steps, [key for key in items if key[1] >= self.n_steps])

    def _add_items(self, graph: dict[Key, GraphNode], width: int, threads: int) -> list[TaskKey]:
        """The next items: at most ``width`` jobs are under way, in a task for each thread.

        With more tasks a step would wait for an item behind it, which its worker has begun.
        """
        first, n_left, tasks = self.reach[-1], len(self.jobs) - self.reach[-1], max(MIN_FOLD_TASKS, threads)
        size = int(np.clip(width // tasks, 1, self.size))
        under_way = first - self.reach[self.n_done]
        n = min(max(0, min(width, tasks * max(FIRST_TASK_JOBS, size)) - under_way), n_left)
        n -= 0 if n == n_left else n % size
        items: list[TaskKey] = []
        for start in range(first, first + n, size):
            jobs = list(
                self.jobs[start : min(start + size, first + n)]
            )  # some are made when they are asked for
            items.append(self.add_task(graph, self.n_items, jobs))
            self.reach.append(start + len(jobs))
            self.n_items += 1
        return items

    def _tidy(self) -> None:
        """Let go of items whose step came later, and of states that ended and whose successor was handed out."""
        for key in list(self.futures):
            name, j = key
            used = j < self.n_steps if name == self.item else j + 1 < self.n_steps and j < self.n_done
            if used:
                self.let_go(key)
