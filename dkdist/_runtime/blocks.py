"""Blocks: the rows of a collection cut into pieces that can each be made inside one task; and jobs, the tasks that do.

A block's *recipe* is the part of a graph that only this block needs (read, embed, features). It is carried
whole into the task that uses the block, so nothing between the store and the user of the block is ever held
by a scheduler. What several blocks need, such as drawn parameters, stays one shared key of the graph; so do futures,
whose results workers have; and so does what a job runs, so that a large function (a model that predicts, say) travels
once to each worker and not with each task.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import methodcaller
from sys import getsizeof
from typing import Any, Protocol

import dask.array as da
import numpy as np
from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef
from dask.base import tokenize
from dask.typing import Key

from dkdist._numba.arrays import I64, Array
from dkdist._runtime.dask_graph import FutureNode, graph_nodes
from dkdist._runtime.process import SameCpuTask, materialize_params, require_same_cpu
from dkdist._runtime.run import active_client

MAX_BLOCK_SETS = 1024  # sets in a block at most: 20 MB of features at D = 5000
MIN_SETS_FOR_LARGE_BLOCKS = (
    64 * MAX_BLOCK_SETS
)  # from which on blocks hold twice as many: what comes once a block costs a tenth
MAX_BLOCK_BYTES = 32 * 2**20  # of points, or of an array's rows, in a block


class RowMap(Protocol):
    """A function of (tables, block) that makes each row by itself, and can leave that until rows are asked for.

    The block is an array (n, m) with one row for each that is made.
    """

    @property
    def row_bytes(self) -> int:
        """What is kept of a row until then."""

    def __call__(self, tables: Any, block: Any) -> Any:
        """All rows of the block."""

    def lazy_rows(self, tables: Any, block: Any) -> Any:
        """What makes the rows that it is asked for."""


def find_row_map(node: GraphNode) -> RowMap | None:
    """The map of rows that a node calls, if it does."""
    function: Any = getattr(node, "func", None)
    function = function.function if isinstance(function, SameCpuTask) else function
    return function if hasattr(function, "lazy_rows") else None


@dataclass(frozen=True)
class BlockTask:
    """How to make one block from shared values: nodes in an order in which they can run."""

    key: Key
    nodes: tuple[GraphNode, ...]
    needs: tuple[Key, ...]

    def run(self, shared: Mapping[Key, Any]) -> Any:
        """Make the block; what no later node needs is let go at once."""
        values = {key: shared[key] for key in self.needs}
        last_use = {key: i for i, node in enumerate(self.nodes) for key in node.dependencies}
        for i, node in enumerate(self.nodes):
            values[node.key] = node({key: values[key] for key in node.dependencies})
            for key in node.dependencies:
                if last_use[key] == i:
                    del values[key]
        return values[self.key]

    @property
    def row_map(self) -> RowMap | None:
        """The map of rows that is its last step, if it is one."""
        return find_row_map(self.nodes[-1])

    def lazy_rows(self) -> BlockTask:
        """The recipe of what makes the rows that it is asked for."""
        last: Any = self.nodes[-1]
        left: Any = self.row_map.lazy_rows  # type: ignore[union-attr]
        if isinstance(last.func, SameCpuTask):
            left = replace(last.func, function=left)
        return replace(self, nodes=(*self.nodes[:-1], Task(last.key, left, *last.args)))


@dataclass(frozen=True)
class Blocks:
    """Rows ``bounds[i]:bounds[i + 1]`` are what ``recipes[i]`` makes.

    ``local`` blocks are cut from an array of this process and never leave it. ``row_bytes`` is what a row
    of the finished block takes; ``read_bytes`` what one pass reads from storage, where that is known. ``unit``
    is what messages call a row. ``at_once`` says that rows which are made on request are best made block by block.
    """

    name: str
    bounds: I64
    recipes: Sequence[BlockTask]
    shared: Mapping[Key, GraphNode] = field(default_factory=dict)
    row_bytes: int = 0
    read_bytes: int = 0
    n_columns: int = 0
    local: bool = False
    unit: str = "row"
    at_once: bool = False

    def __len__(self) -> int:
        return len(self.recipes)

    @property
    def n_rows(self) -> int:
        """Rows of all blocks together."""
        return int(self.bounds[-1])

    def rows(self, i: int) -> slice:
        """The rows of block i."""
        return slice(int(self.bounds[i]), int(self.bounds[i + 1]))

    @cached_property
    def source_bytes(self) -> int:
        """What a row takes before a map of rows that is the last step of all recipes, or else when it is finished."""
        maps = [recipe.row_map for recipe in self.recipes]
        found = [each.row_bytes for each in maps if each is not None]
        return max(found) if len(found) == len(maps) > 0 else self.row_bytes

    def lazy_rows(self, *, at_once: bool) -> Blocks:
        """Blocks whose rows are made when they are asked for, if a map of rows is the last step of all recipes.

        With ``at_once`` whoever takes a block asks for all of them: he is told what they are made from.
        """
        if any(recipe.row_map is None for recipe in self.recipes):
            return self
        recipes = [recipe.lazy_rows() for recipe in self.recipes]
        row_bytes = self.row_bytes if at_once else self.source_bytes
        return replace(self, recipes=recipes, row_bytes=row_bytes, at_once=at_once)

    @cached_property
    def draws_all(self) -> bool:
        """Whether all that is shared is drawn from plain numbers, as any task can do for itself."""
        return all(_is_materialization(node) for node in self.shared.values())


def _is_materialization(node: GraphNode) -> bool:
    function = getattr(node, "func", None)
    return (function.function if isinstance(function, SameCpuTask) else function) is materialize_params


def is_lazy(X: object) -> bool:
    """Whether X is a dask array: features that are made when they are asked for."""
    return isinstance(X, da.Array)


def require_known_chunks(X: object, name: str = "X") -> None:
    """Refuse a dask array whose shape is known only once it is computed."""
    if isinstance(X, da.Array) and np.isnan(X.shape).any():
        raise ValueError(
            f"{name} is a dask array of shape {X.shape}, with chunks of unknown length: call "
            f"{name}.compute_chunk_sizes() first"
        )


def row_blocks(X: Any) -> Blocks:
    """The blocks of a 2-D feature array: a NumPy array is cut into views, a dask array keeps its chunks."""
    return _dask_blocks(X) if is_lazy(X) else _array_blocks(X)


def _array_blocks(X: Array) -> Blocks:
    if np.ndim(X) != 2 or 0 in np.shape(X)[1:]:
        raise ValueError(f"expected features of shape (n_sets, n_features), found {np.shape(X)}")
    row_bytes = max(1, X.itemsize * X.shape[1])
    most = max_block_sets(len(X))
    n_bytes = most // MAX_BLOCK_SETS * MAX_BLOCK_BYTES  # views take no memory: the blocks of a store
    made = local_blocks(X, int(np.clip(n_bytes // row_bytes, 1, most)))
    return replace(made, row_bytes=row_bytes, n_columns=X.shape[1])


def max_block_sets(n: int) -> int:
    """Sets (or rows) in a block at most, of so many."""
    return MAX_BLOCK_SETS if n < MIN_SETS_FOR_LARGE_BLOCKS else 2 * MAX_BLOCK_SETS


def local_blocks(X: Any, rows: int) -> Blocks:
    """Blocks of so many rows of what this process holds: an array, or sets in memory."""
    bounds = np.append(np.arange(0, len(X), rows), len(X)).astype(np.int64)
    views = [X[a:b] for a, b in itertools.pairwise(bounds.tolist())]
    return Blocks("rows", bounds, value_tasks("rows", views), local=True)


def value_tasks(name: str, blocks: Sequence[Any]) -> list[BlockTask]:
    """Recipes of blocks that are there already."""
    return [BlockTask((name, i), (DataNode((name, i), block),), ()) for i, block in enumerate(blocks)]


def _dask_blocks(X: da.Array) -> Blocks:
    if X.ndim != 2:
        raise ValueError(f"expected features of shape (n_sets, n_features), found {X.ndim} dimension(s)")
    require_known_chunks(X)
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    keys = [(X.name, i, 0) for i in range(X.numblocks[0])]
    graph: Mapping[Key, GraphNode] = graph_nodes(X, keys)
    mapped = {key for key, node in graph.items() if find_row_map(node) is not None}
    if mapped and not mapped.issuperset(keys):
        from dkdist._runtime.row_slices import push_down_slices  # for rows that were taken of others

        graph = push_down_slices(graph, keys)
    recipes, shared = split_graph(graph, keys)
    bounds = np.concatenate([[0], np.cumsum(X.chunks[0])]).astype(np.int64)
    return Blocks(
        X.name, bounds, recipes, shared, row_bytes=X.dtype.itemsize * X.shape[1],
        read_bytes=_read_bytes(X), n_columns=X.shape[1],
    )  # fmt: skip


def _read_bytes(X: da.Array) -> int:
    """What our own source layers said they read; other people's layers say nothing."""
    layers = getattr(X.dask, "layers", {}).values()
    return sum((layer.annotations or {}).get("dkdist_read_bytes", 0) for layer in layers)


def split_graph(
    graph: Mapping[Key, GraphNode], keys: Sequence[Key]
) -> tuple[list[BlockTask], dict[Key, GraphNode]]:
    """Cut a graph into one private recipe per key and the nodes that more than one key needs."""
    owner: dict[Key, Key | None] = {}
    for key in keys:
        _assign_owners(graph, key, owner)
    shared = {k: graph[k] for k, who in owner.items() if who is None}
    recipes = []
    for key in keys:
        if owner[key] is None:  # every recipe ends with a node of its own
            block = ("block", key)
            recipes.append(BlockTask(block, (Alias(block, key),), (key,)))
            continue
        nodes: dict[Key, GraphNode] = {}
        needs: dict[Key, None] = {}
        _collect_private_nodes(graph, key, owner, nodes, needs)
        recipes.append(BlockTask(key, tuple(nodes.values()), tuple(needs)))
    return recipes, shared


def _assign_owners(graph: Mapping[Key, GraphNode], key: Key, owner: dict[Key, Key | None]) -> None:
    """Mark what ``key`` needs as its own, or as shared: futures, and where another key came first."""
    stack = [key]
    while stack:
        k = stack.pop()
        if k not in owner:
            owner[k] = None if isinstance(graph[k], FutureNode) else key
        elif owner[k] is None or owner[k] == key:
            continue
        else:
            owner[k] = None
        stack.extend(graph[k].dependencies)


def _collect_private_nodes(
    graph: Mapping[Key, GraphNode],
    key: Key,
    owner: Mapping[Key, Key | None],
    nodes: dict[Key, GraphNode],
    needs: dict[Key, None],
) -> None:
    """The private nodes below ``key``, dependencies first, and the shared keys they use."""
    stack: list[tuple[Key, bool]] = [(key, False)]
    while stack:
        k, ready = stack.pop()
        if owner[k] is None:
            needs[k] = None
        elif ready:
            nodes[k] = graph[k]
        elif k not in nodes:
            stack.append((k, True))
            stack.extend((dep, False) for dep in graph[k].dependencies)


def source_blocks(views: Sequence[Any], bounds: I64, read_bytes: int, *, unread: bool = False) -> Blocks:
    """Blocks of whole sets: each view of a store is loaded inside the task that uses it.

    ``unread`` blocks are the views: who uses one reads it, and can tell which of its sets cannot be read.
    """
    name = "sets_" + tokenize([view.__dask_tokenize__() for view in views])
    load = methodcaller("load")
    recipes = [BlockTask((name, i), (Task((name, i), load, view),), ()) for i, view in enumerate(views)]
    return Blocks(name, bounds, value_tasks(name, views) if unread else recipes, read_bytes=read_bytes)


def point_blocks(points: Any, weights: Any) -> Blocks:
    """The blocks of a dask array (n, d) by its chunks of rows, with weights (n,), if any, as one more column."""
    if weights is not None:
        column = da.asarray(weights).rechunk((points.chunks[0],))
        points = da.concatenate([points.rechunk({1: -1}), column[:, None]], axis=1)
    return _dask_blocks(points)


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
class TaskPayload:
    """One job with its recipes, opaque to the scheduler: they run inside the job's own task."""

    recipes: tuple[BlockTask, ...]
    rows: tuple[tuple[int, int], ...]
    unit: str
    extra: Any
    single: bool

    @classmethod
    def of(cls, blocks: Blocks, job: Job) -> TaskPayload:
        """Those of a job."""
        rows = tuple((int(blocks.bounds[i]), int(blocks.bounds[i + 1])) for i in job.blocks)
        return cls(tuple(blocks.recipes[i] for i in job.blocks), rows, blocks.unit, job.extra, job.single)

    def __dask_tokenize__(self) -> str:
        """As no other: whoever asks would go through all recipes, which takes longer than to hand them out."""
        return uuid.uuid4().hex

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
class TaskBatch:
    """Jobs that share a task."""

    jobs: tuple[TaskPayload, ...]

    @property
    def where(self) -> str:
        """The rows of all of them."""
        return " and ".join(job.where for job in self.jobs)


@dataclass(frozen=True)
class TaskResults:
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
    recipes = TaskPayload.of(blocks, job)
    values = [TaskRef(need) if isinstance(work, TaskRef) else blocks.shared[need] for need in recipes.needs]
    return Task(key, _checks_cpu(_run_job, blocks), work, recipes, recipes.needs, *values, *after)


def batch_task(key: Key, work: TaskRef, blocks: Blocks, jobs: Sequence[Job]) -> Task:
    """The task that does several jobs, one after another; its result is `TaskResults`."""
    together = TaskBatch(tuple(TaskPayload.of(blocks, job) for job in jobs))
    needs = tuple(dict.fromkeys(need for job in together.jobs for need in job.needs))
    return Task(key, _checks_cpu(_run_batch, blocks), work, together, needs, *map(TaskRef, needs))


def _checks_cpu(call: Callable[..., Any], blocks: Blocks) -> Callable[..., Any]:
    """Held to processors of this one's kind, where it is done by others."""
    return call if blocks.local or active_client() is None else require_same_cpu(call)


def _run_job(work: Callable[..., Any], job: TaskPayload, needs: tuple[Key, ...], *values: Any) -> Any:
    return job.used(work, dict(zip(needs, values, strict=False)))  # what follows the needs are credits


def _run_batch(
    work: Callable[..., Any], together: TaskBatch, needs: tuple[Key, ...], *values: Any
) -> TaskResults:
    shared = dict(zip(needs, values, strict=True))
    return TaskResults([job.used(work, shared) for job in together.jobs])
