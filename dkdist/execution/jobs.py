"""Jobs: one task of a graph that makes one or more blocks and uses them up.

What a job runs is one shared key of the graph, so that a large function (a model that predicts, say) travels once to
each worker and not once with each task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dask._task_spec import Task, TaskRef
from dask.typing import Key

from dkdist.execution.blocks import Blocks, Recipe
from dkdist.execution.processors import alike
from dkdist.execution.run import active_client

Work = Callable[[Iterator[Any], Any], Any]
"""Given an iterator over a job's blocks (each made when it is asked for) and the job's extra."""


@dataclass(frozen=True)
class Job:
    """Which blocks a task is made from, and what else its work needs to know of them."""

    blocks: tuple[int, ...]
    extra: Any = None


@dataclass(frozen=True)
class Recipes:
    """The recipes of one job, opaque to the scheduler: they run inside the job's own task."""

    recipes: tuple[Recipe, ...]
    rows: tuple[tuple[int, int], ...]
    unit: str

    @property
    def needs(self) -> list[Key]:
        """Shared keys that any of the recipes uses, each once."""
        return list(dict.fromkeys(key for recipe in self.recipes for key in recipe.needs))

    @property
    def where(self) -> str:
        """The rows that are made, for messages."""
        return f"{self.unit}s " + " and ".join(f"{start} to {stop - 1}" for start, stop in self.rows)


def job_task(key: Key, work: TaskRef, blocks: Blocks, job: Job, after: Sequence[TaskRef] = ()) -> Task:
    """The task that makes the job's blocks, one at a time, and gives them to ``work``, once ``after`` is done."""
    rows = tuple((int(blocks.bounds[i]), int(blocks.bounds[i + 1])) for i in job.blocks)
    together = Recipes(tuple(blocks.recipes[i] for i in job.blocks), rows, blocks.unit)
    needs = together.needs
    call = _call if blocks.local or active_client() is None else alike(_call)
    return Task(key, call, work, together, job.extra, tuple(needs), *map(TaskRef, needs), *after)


def _call(work: Work, recipes: Recipes, extra: Any, needs: tuple[Key, ...], *values: Any) -> Any:
    shared = dict(zip(needs, values, strict=False))  # what follows the needs are credits
    try:
        return work((recipe.run(shared) for recipe in recipes.recipes), extra)
    except Exception as error:
        error.add_note(f"This was raised while {recipes.where} were made.")
        raise
