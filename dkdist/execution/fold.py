"""A bounded fold over blocks: state = step(state, prepare(block)), in a given order.

    prepare(0) ─┐   prepare(1) ─┐   prepare(2) ─┐        parallel, at most ``window`` unfolded items alive
    state ──> step ──────────> step ──────────> step     one after another: the state travels, blocks never do

Item j may start only when step j - window is done: an edge of the graph (a credit) says so, because
schedulers by themselves would let finished blocks pile up before a slow step. Cost: three tasks a job,
about 50 us.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dask._task_spec import DataNode, GraphNode, Task, TaskRef
from dask.typing import Key

from dkdist.execution.blocks import Blocks, Recipe
from dkdist.execution.progress import Progress
from dkdist.execution.run import run

WINDOW = 4
SEGMENT = 128


@dataclass(frozen=True)
class Job:
    """One item of a fold: the blocks it is made from, and what else ``prepare`` needs to know of them."""

    blocks: tuple[int, ...]
    extra: Any = None


def fold(
    blocks: Blocks,
    jobs: Sequence[Job],
    prepare: Callable[[Iterator[Any], Any], Any],
    step: Callable[[Any, Any], Any],
    state: Any,
    *,
    label: str = "fit",
    window: int = WINDOW,
    on_segment: Callable[[Any, int], None] | None = None,
    progress: Progress | None = None,
) -> Any:
    """Fold the jobs into ``state``; ``on_segment(state, jobs_done)`` is called after every 128 of them.

    ``prepare`` is given an iterator over the job's blocks (each made when it is asked for) and the job's
    extra; ``step`` returns a new state and leaves its arguments as they are.
    """
    for start in range(0, len(jobs), SEGMENT):
        segment = jobs[start : start + SEGMENT]
        graph, last = _segment_graph(blocks, segment, prepare, step, state, label, window)
        state = run(graph, [last], local=blocks.local)[0]
        if progress is not None:
            progress.advance(len(segment))
        if on_segment is not None:
            on_segment(state, start + len(segment))
    return state


def _segment_graph(
    blocks: Blocks,
    jobs: Sequence[Job],
    prepare: Callable[[Iterator[Any], Any], Any],
    step: Callable[[Any, Any], Any],
    state: Any,
    label: str,
    window: int,
) -> tuple[dict[Key, GraphNode], Key]:
    token = uuid.uuid4().hex
    item, new_state, credit = (f"{label}_{what}-{token}" for what in ("block", "step", "done"))
    graph: dict[Key, GraphNode] = dict(blocks.shared)
    graph[(new_state, -1)] = DataNode((new_state, -1), state)
    for j, job in enumerate(jobs):
        recipes = Recipes(tuple(blocks.recipes[i] for i in job.blocks))
        after = [TaskRef((credit, j - window))] if j >= window else []
        graph[(item, j)] = make_task((item, j), prepare, recipes, job.extra, after)
        graph[(new_state, j)] = Task((new_state, j), step, TaskRef((new_state, j - 1)), TaskRef((item, j)))
        graph[(credit, j)] = Task((credit, j), _done, TaskRef((new_state, j)))
    return graph, (new_state, len(jobs) - 1)


@dataclass(frozen=True)
class Recipes:
    """The recipes of one job, opaque to the scheduler: they run inside the job's own task."""

    recipes: tuple[Recipe, ...]

    @property
    def needs(self) -> list[Key]:
        """Shared keys that any of the recipes uses, each once."""
        return list(dict.fromkeys(key for recipe in self.recipes for key in recipe.needs))


def make_task(
    key: Key,
    function: Callable[[Iterator[Any], Any], Any],
    recipes: Recipes,
    extra: Any,
    after: Sequence[TaskRef] = (),
) -> Task:
    """The task that makes the recipes' blocks, one at a time, and gives them to ``function``."""
    needs = recipes.needs
    refs = [TaskRef(need) for need in needs]
    return Task(key, _call, function, recipes, extra, tuple(needs), *refs, *after)


def _call(
    function: Callable[[Iterator[Any], Any], Any],
    recipes: Recipes,
    extra: Any,
    needs: tuple[Key, ...],
    *values: Any,
) -> Any:
    shared = dict(zip(needs, values, strict=False))  # what follows the needs are credits
    return function((recipe.run(shared) for recipe in recipes.recipes), extra)


def _done(state: Any) -> None:
    """A credit: says that a step is over and holds nothing of its result."""
