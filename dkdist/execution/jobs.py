"""Jobs: which blocks a task is made from, what it does with them, and the task that carries their recipes.

What a job runs is one shared key of the graph, as what its blocks share is: a large function (a model that predicts,
say) travels once to each worker and not with each task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import Any

from dask._task_spec import DataNode, Task, TaskRef
from dask.typing import Key

from dkdist.execution.blocks import Blocks, Recipe
from dkdist.execution.processes.processors import alike
from dkdist.execution.run import active_client

Work = Callable[[Iterator[Any], Any], Any]
"""Given an iterator over a job's blocks (each made when it is asked for) and the job's extra."""


@dataclass(frozen=True)
class Job:
    """Which blocks a task is made from, and what else its work needs to know of them.

    Work of a ``single`` block is given that block itself, and all ``extra`` one after another.
    """

    blocks: tuple[int, ...]
    extra: Any = None
    single: bool = False


@dataclass(frozen=True)
class Recipes:
    """One job with its recipes, opaque to the scheduler: they run inside the job's own task."""

    recipes: tuple[Recipe, ...]
    rows: tuple[tuple[int, int], ...]
    unit: str
    extra: Any
    single: bool

    @classmethod
    def of(cls, blocks: Blocks, job: Job) -> Recipes:
        """Those of a job."""
        rows = tuple((int(blocks.bounds[i]), int(blocks.bounds[i + 1])) for i in job.blocks)
        return cls(tuple(blocks.recipes[i] for i in job.blocks), rows, blocks.unit, job.extra, job.single)

    @property
    def needs(self) -> tuple[Key, ...]:
        """Keys of shared values."""
        return tuple(dict.fromkeys(key for recipe in self.recipes for key in recipe.needs))

    @property
    def where(self) -> str:
        """The rows that are made, for messages."""
        return f"{self.unit}s " + " and ".join(f"{start} to {stop - 1}" for start, stop in self.rows)

    def used(self, work: Callable[..., Any], shared: Mapping[Key, Any]) -> Any:
        """What ``work`` makes of the blocks."""
        try:
            made = (recipe.run(shared) for recipe in self.recipes)
            return work(next(made), *self.extra) if self.single else work(made, self.extra)
        except Exception as error:
            error.add_note(f"This was raised while {self.where} were made.")
            raise


@dataclass(frozen=True)
class Together:
    """Jobs that share a task."""

    jobs: tuple[Recipes, ...]

    @property
    def where(self) -> str:
        """The rows of all of them."""
        return " and ".join(job.where for job in self.jobs)


@dataclass(frozen=True)
class Made:
    """What jobs that shared a task have made."""

    results: list[Any]

    def __sizeof__(self) -> int:
        """By which a scheduler knows what is cheaper to move."""
        return sum(map(getsizeof, self.results))


def job_task(
    key: Key, work: TaskRef | DataNode, blocks: Blocks, job: Job, after: Sequence[TaskRef] = ()
) -> Task:
    """The task that makes the job's blocks, one at a time, and gives them to ``work``, once ``after`` is done.

    With work of its own a task draws for itself what is shared, and needs nothing that lies anywhere.
    """
    recipes = Recipes.of(blocks, job)
    values = [TaskRef(need) if isinstance(work, TaskRef) else blocks.shared[need] for need in recipes.needs]
    return Task(key, _held(_call, blocks), work, recipes, recipes.needs, *values, *after)


def jobs_task(key: Key, work: TaskRef, blocks: Blocks, jobs: Sequence[Job]) -> Task:
    """The task that does several jobs, one after another; its result is `Made`."""
    together = Together(tuple(Recipes.of(blocks, job) for job in jobs))
    needs = tuple(dict.fromkeys(need for job in together.jobs for need in job.needs))
    return Task(key, _held(_call_each, blocks), work, together, needs, *map(TaskRef, needs))


def _held(call: Callable[..., Any], blocks: Blocks) -> Callable[..., Any]:
    """Held to processors of this one's kind, where it is done by others."""
    return call if blocks.local or active_client() is None else alike(call)


def _call(work: Callable[..., Any], job: Recipes, needs: tuple[Key, ...], *values: Any) -> Any:
    return job.used(work, dict(zip(needs, values, strict=False)))  # what follows the needs are credits


def _call_each(work: Callable[..., Any], together: Together, needs: tuple[Key, ...], *values: Any) -> Made:
    shared = dict(zip(needs, values, strict=True))
    return Made([job.used(work, shared) for job in together.jobs])


def maker(work: Callable[..., Any], blocks: Blocks) -> Callable[[Job], Any]:
    """What gives the result of a job at once, without a task; only for blocks that are `Blocks.share_all`."""
    shared = {key: node({}) for key, node in blocks.shared.items()}
    return lambda job: Recipes.of(blocks, job).used(work, shared)
