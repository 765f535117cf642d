"""Folds and maps on a cluster: the client hands out work as results come in, and keeps what must not be lost.

Nothing but the work under way is known to the scheduler. A job is handed out when fewer than a window's width are
unfinished; results come to the client at once. A fold's state comes to the client after every eight jobs, and the
next step starts from that value: whatever dies, no more than eight jobs and those under way are done again.

    item j     one job, or two where the window has room, from their recipes alone; ``window`` jobs at most are unfolded
    step j     from step j - 1 (or the value that the client has) and item j, wherever item j was made
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.typing import Key
from distributed import as_completed
from distributed.scheduler import KilledWorker

from dkdist.execution.blocks import Blocks, Job, Work, job_task
from dkdist.execution.cluster import failures
from dkdist.execution.cluster.on_cluster import work_on
from dkdist.execution.cluster.waiting import Watch
from dkdist.execution.processes.processors import alike
from dkdist.execution.progress import Progress
from dkdist.execution.run import resources

LINK = 8  # jobs between two states that the client has
PAIR = 2  # jobs a task of a fold: a task costs the scheduler as much time as a small block takes
TASKS_A_THREAD = 4  # of a map, under way
REFRESH = 1.0  # seconds

Jobs = Sequence[Job]
Step = Callable[[Any, Any], Any]
Report = Callable[[Any, int], None]
Place = tuple[str, int]
"""The key of a task: its name and its job."""


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
    """Fold the jobs into ``state``; ``report(state, jobs_done)`` for every state that comes to the client."""
    done, size = 0, min(PAIR, window())
    links = together(jobs, size)
    prepare, step = partial(_prepare_each, prepare), alike(partial(_step_each, step))

    def go_on() -> Any:
        begun = done

        def keep(reached: Any, n: int) -> None:
            nonlocal state, done
            state, done = reached, begun + n
            report(state, min(done * size, len(jobs)))

        run = _Fold(client, blocks, links[begun:], prepare, label, progress)
        return run.run(state, step, Width(lambda: window() // size), keep, LINK // size)

    if not len(jobs):
        return state
    blocks_a_task = sum(len(link.blocks) for link in links) / len(links)
    return work_on(client, go_on, name=f"{label}_step", blocks_a_task=blocks_a_task, progress=progress)


def together(jobs: Jobs, size: int) -> list[Job]:
    """Jobs of ``size`` neighbours each; their extras say how many blocks are whose."""
    return [
        Job(tuple(i for job in some for i in job.blocks), tuple((len(job.blocks), job.extra) for job in some))
        for some in (jobs[start : start + size] for start in range(0, len(jobs), size))
    ]


def _prepare_each(work: Work, made: Iterator[Any], extras: Sequence[tuple[int, Any]]) -> list[Any]:
    return [work(islice(made, n), extra) for n, extra in extras]


def _step_each(step: Step, state: Any, items: Sequence[Any]) -> Any:
    for item in items:
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

    return list(work_on(client, go_on, name=label, blocks_a_task=1.0, progress=progress))


class _Stream:
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
        self.ended, self.watch = as_completed([], loop=client.loop), Watch(client)
        self.futures: dict[Place, Any] = {}
        self.tasks: dict[Key, GraphNode] = {}
        self.n_blocks: dict[int, int] = {}

    def add_job(self, graph: dict[Key, GraphNode], j: int) -> Place:
        """The task that makes job j's blocks."""
        key, job = (self.item, j), self.jobs[j]
        graph[key] = self.tasks[key] = job_task(key, TaskRef(self.work), self.blocks, job)
        self.n_blocks[j] = len(job.blocks)
        return key

    def hand_out(
        self, graph: dict[Key, GraphNode], watched: Sequence[Place], held: Sequence[Place] = ()
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
            raise failures.killed_worker(killed, self.tasks) from None

    def let_go(self, key: Place) -> None:
        """Forget a task whose result is not needed any more."""
        self.tasks.pop(key, None)
        self.futures.pop(key).release()

    def advance(self, j: int) -> None:
        """Count job j's blocks as done."""
        n = self.n_blocks.pop(j)
        if self.progress is not None:
            self.progress.advance(n)


class Width:
    """How many tasks may be under way, as the cluster is now: asked at most once a second."""

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask, self._width, self._asked = ask, 0, float("-inf")

    def room(self, n_under_way: int, n_left: int) -> int:
        """Tasks to hand out now: none, or at least half of what may be under way, since every graph has its cost."""
        if time.monotonic() - self._asked > REFRESH:
            self._width, self._asked = self._ask(), time.monotonic()
        room = max(0, self._width - n_under_way)
        return 0 if room < self._width // 2 and room < n_left else min(room, n_left)


class _Map(_Stream):
    """Every result comes to the client as soon as it is there."""

    def run(self, results: dict[int, Any]) -> None:
        left = [j for j in range(len(self.jobs)) if j not in results]
        width = Width(lambda: TASKS_A_THREAD * max(4, resources().all_threads))
        while left or self.futures:
            room = width.room(len(self.futures), len(left))
            graph: dict[Key, GraphNode] = {}
            now, left = left[:room], left[room:]
            self.hand_out(graph, [self.add_job(graph, j) for j in now])
            batch = self.next_ended()
            for future, value in zip(batch, self.watch.gather(batch), strict=True):
                results[future.key[1]] = value
                self.let_go(future.key)
                self.advance(future.key[1])


class _Fold(_Stream):
    """Items ahead of steps, steps in links that begin with a state of the client's."""

    item_suffix = "_block"
    n_items = n_steps = n_done = 0

    def run(self, state: Any, step: Step, width: Width, report: Report, link: int) -> Any:
        while self.n_done < len(self.jobs):
            room = width.room(self.n_items - self.n_done, len(self.jobs) - self.n_items)
            self._hand_out(state, step, room, link)
            reached = 1 + max(future.key[1] for future in self.next_ended())
            for j in range(self.n_done, reached):  # a step that is done has all before it done
                self.advance(j)
            self.n_done = reached
            if reached % link == 0 or reached == len(self.jobs):
                (state,) = self.watch.gather([self.futures[self.step, reached - 1]])
                self.let_go((self.step, reached - 1))
                report(state, reached)
            self._tidy()
        return state

    def _hand_out(self, state: Any, step: Step, room: int, link: int) -> None:
        graph: dict[Key, GraphNode] = {}
        items = [self.add_job(graph, j) for j in range(self.n_items, self.n_items + room)]
        self.n_items += room
        steps: list[Place] = []
        while self.n_steps < self.n_items:
            j, key = self.n_steps, (self.step, self.n_steps)
            before = TaskRef((self.step, j - 1))
            if j % link == 0:
                if self.n_done < j:
                    break  # the state it starts from is still on its way
                start = (self.step, -1 - j)
                before, graph[start] = TaskRef(start), DataNode(start, state)
            graph[key] = Task(key, step, before, TaskRef((self.item, j)))
            steps.append(key)
            self.n_steps += 1
        ends = [key for key in steps if (key[1] + 1) % link == 0 or key == steps[-1]]
        self.hand_out(graph, ends, [key for key in items if key[1] >= self.n_steps])

    def _tidy(self) -> None:
        """Let go of items whose step came later, and of states that ended and whose successor was handed out."""
        for key in list(self.futures):
            name, j = key
            used = j < self.n_steps if name == self.item else j + 1 < self.n_steps and j < self.n_done
            if used:
                self.let_go(key)
