"""Blocks: ranges of rows, the task that computes each, and jobs: tasks that compute blocks and process them.

A `BlockTask` is the part of a graph that only one block needs (read, embed, features). It is stored inside the task
that uses the block, so no scheduler holds intermediate values. Values that several blocks need remain keys of the
graph: fitted parameters, results of futures, and the function that a job runs. Therefore a large function,
such as a fitted model, is sent once to each worker and not with each task.
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import methodcaller
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.core import flatten
from dask.sizeof import sizeof
from dask.typing import Key

from dkdist._numba.arrays import I64, Array
from dkdist._runtime._dask_private import Alias, DataNode, GraphNode, Task, TaskRef
from dkdist._runtime._tuning import (
    MAX_BLOCK_BYTES,
    MAX_BLOCK_SETS,
    MAX_CHUNK_COPIES,
    MIN_SETS_FOR_LARGE_BLOCKS,
)
from dkdist._runtime.dask_graph import FutureNode, graph_nodes
from dkdist._runtime.outcomes import Outcome, run_job
from dkdist._runtime.process import SameCpuTask, active_client, materialize_params, require_same_cpu
from dkdist._runtime.read_ahead import ReadAhead
from dkdist._runtime.row_maps import RowMap, find_row_map, push_down_slices

DaskArray = da.Array


@dataclass(frozen=True)
class BlockTask:
    """Nodes that compute one block from shared values, in topological order."""

    key: Key
    nodes: tuple[GraphNode, ...]
    shared_keys: tuple[Key, ...]

    def run(self, shared: Mapping[Key, Any]) -> Any:
        """Compute the block; release each value after its last use."""
        values = {key: shared[key] for key in self.shared_keys}
        last_use = {key: i for i, node in enumerate(self.nodes) for key in node.dependencies}
        for i, node in enumerate(self.nodes):
            values[node.key] = node({key: values[key] for key in node.dependencies})
            for key in node.dependencies:
                if last_use[key] == i:
                    del values[key]
        return values[self.key]

    @property
    def row_map(self) -> RowMap | None:
        """Row map of the last node, or None."""
        return find_row_map(self.nodes[-1])

    def lazy_rows(self) -> BlockTask:
        """Return the task whose result computes rows on request."""
        last: Any = self.nodes[-1]
        function: Any = self.row_map.lazy_rows  # type: ignore[union-attr]
        if isinstance(last.func, SameCpuTask):
            function = replace(last.func, function=function)
        return replace(self, nodes=(*self.nodes[:-1], Task(last.key, function, *last.args)))


@dataclass(frozen=True)
class Blocks:
    """Blocks of rows: ``tasks[i]`` computes rows ``bounds[i]:bounds[i + 1]``.

    ``local`` blocks are views of an array of this process and never leave it. ``row_bytes`` is the size of a row of a
    finished block, ``read_bytes`` the bytes that one pass reads from storage (0 if unknown). ``unit`` names a row in
    messages. With ``eager``, lazy rows are computed one whole block at a time.
    """

    name: str
    bounds: I64
    tasks: Sequence[BlockTask]
    shared: Mapping[Key, GraphNode] = field(default_factory=dict)
    row_bytes: int = 0
    read_bytes: int = 0
    n_columns: int = 0
    local: bool = False
    unit: str = "row"
    eager: bool = False

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def n_rows(self) -> int:
        """Number of rows in all blocks."""
        return int(self.bounds[-1])

    def rows(self, i: int) -> slice:
        """Return the rows of block i."""
        return slice(int(self.bounds[i]), int(self.bounds[i + 1]))

    @cached_property
    def source_bytes(self) -> int:
        """Bytes of a row before the row maps if all tasks end with one, else of a finished row."""
        maps = [task.row_map for task in self.tasks]
        row_bytes = [each.row_bytes for each in maps if each is not None]
        return max(row_bytes) if len(row_bytes) == len(maps) > 0 else self.row_bytes

    def lazy_rows(self, *, eager: bool) -> Blocks:
        """Return blocks that compute rows on request, if all tasks end with a row map, else these blocks.

        With ``eager`` the consumer of a block requests all rows at once; the block also holds their inputs.
        """
        if any(task.row_map is None for task in self.tasks):
            return self
        tasks = [task.lazy_rows() for task in self.tasks]
        row_bytes = self.row_bytes if eager else self.source_bytes
        return replace(self, tasks=tasks, row_bytes=row_bytes, eager=eager)

    @cached_property
    def shares_only_params(self) -> bool:
        """Whether all shared values are parameters that any task can materialize for itself."""
        return all(_is_materialization(node) for node in self.shared.values())


def _is_materialization(node: GraphNode) -> bool:
    function = getattr(node, "func", None)
    return (function.function if isinstance(function, SameCpuTask) else function) is materialize_params


def is_lazy(X: object) -> bool:
    """Return whether X is a Dask array."""
    return isinstance(X, da.Array)


def require_known_chunks(X: object, name: str = "X") -> None:
    """Raise ValueError for a Dask array whose shape is unknown before it is computed."""
    if isinstance(X, da.Array) and np.isnan(X.shape).any():
        raise ValueError(
            f"{name} must have chunks of known length; got a dask array of shape {X.shape}. Call "
            f"{name}.compute_chunk_sizes() first."
        )


def row_blocks(X: Any) -> Blocks:
    """Return the blocks of an (n, D) array: views of a NumPy array, or the row chunks of a Dask array."""
    return _dask_blocks(X) if is_lazy(X) else _array_blocks(X)


def _array_blocks(X: Array) -> Blocks:
    if np.ndim(X) != 2 or 0 in np.shape(X)[1:]:
        raise ValueError(f"X must have shape (n_sets, n_features); got {np.shape(X)}.")
    row_bytes = max(1, X.itemsize * X.shape[1])
    max_sets = max_block_sets(len(X))
    # views take no memory, so blocks have the same bounds as those of a store
    n_bytes = max_sets // MAX_BLOCK_SETS * MAX_BLOCK_BYTES
    blocks = local_blocks(X, int(np.clip(n_bytes // row_bytes, 1, max_sets)))
    return replace(blocks, row_bytes=row_bytes, n_columns=X.shape[1])


def max_block_sets(n: int) -> int:
    """Return the maximum number of sets (or rows) in a block of a collection of n."""
    return MAX_BLOCK_SETS if n < MIN_SETS_FOR_LARGE_BLOCKS else 2 * MAX_BLOCK_SETS


def local_blocks(X: Any, n_rows: int) -> Blocks:
    """Return blocks of ``n_rows`` rows of an array, a sparse matrix or sets in this process."""
    n = X.shape[0]  # sparse matrices have no length
    bounds = np.append(np.arange(0, n, n_rows), n).astype(np.int64)
    views = [X[a:b] for a, b in itertools.pairwise(bounds.tolist())]
    return Blocks("rows", bounds, value_tasks("rows", views), local=True)


def value_tasks(name: str, values: Sequence[Any]) -> list[BlockTask]:
    """Return tasks of blocks that are already computed."""
    return [BlockTask((name, i), (DataNode((name, i), value),), ()) for i, value in enumerate(values)]


def _dask_blocks(X: da.Array) -> Blocks:
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n_sets, n_features); got {X.ndim} dimension(s).")
    require_known_chunks(X)
    return chunk_blocks(X)


def chunk_blocks(X: da.Array) -> Blocks:
    """Return the chunks of a dask array along its first axis; each contains the other axes whole.

    If the lengths of the chunks are unknown, the bounds count chunks.
    """
    X = join_columns(X)
    keys = block_keys(X.name, X.numblocks[0], X.ndim)
    graph: Mapping[Key, GraphNode] = graph_nodes(X.__dask_graph__(), keys)
    mapped = {key for key, node in graph.items() if find_row_map(node) is not None}
    if mapped and not mapped.issuperset(keys):
        graph = push_down_slices(graph, keys)
    tasks, shared = split_graph(graph, keys)
    if np.isnan(X.shape).any():
        return Blocks(
            X.name, np.arange(len(keys) + 1), tasks, shared, read_bytes=_read_bytes(X), unit="chunk"
        )
    bounds = np.concatenate([[0], np.cumsum(X.chunks[0])]).astype(np.int64)
    return Blocks(
        X.name, bounds, tasks, shared, row_bytes=X.dtype.itemsize * math.prod(X.shape[1:]),
        read_bytes=_read_bytes(X), n_columns=X.shape[1] if X.ndim > 1 else 1,
    )  # fmt: skip


def join_columns(X: da.Array) -> da.Array:
    """Return X with one chunk along every axis but the first."""
    split = [axis for axis in range(1, X.ndim) if X.numblocks[axis] > 1]
    return X.rechunk(dict.fromkeys(split, -1)) if split else X


def block_keys(name: str, n_blocks: int, n_dims: int) -> list[Key]:
    """Return the keys of an array of ``n_dims`` axes with chunks along the first axis only."""
    return [(name, i, *(0,) * (n_dims - 1)) for i in range(n_blocks)]


def _read_bytes(X: da.Array) -> int:
    """Return the bytes that layers of this library read; other layers do not report them."""
    layers = getattr(X.dask, "layers", {}).values()
    return sum((layer.annotations or {}).get("dkdist_read_bytes", 0) for layer in layers)


def split_graph(
    graph: Mapping[Key, GraphNode], keys: Sequence[Key]
) -> tuple[list[BlockTask], dict[Key, GraphNode]]:
    """Split a graph into one private task per key and the nodes that more than one key needs."""
    graph = copy_shared_chunks(graph)
    owner: dict[Key, Key | None] = {}  # None for shared nodes
    for key in keys:
        _assign_owners(graph, key, owner)
    shared = {k: graph[k] for k, who in owner.items() if who is None}
    tasks = []
    for key in keys:
        if owner[key] is None:  # a private alias of the shared node
            block = ("block", key)
            tasks.append(BlockTask(block, (Alias(block, key),), (key,)))
            continue
        nodes: dict[Key, GraphNode] = {}
        shared_keys: dict[Key, None] = {}
        _collect_private_nodes(graph, key, owner, nodes, shared_keys)
        tasks.append(BlockTask(key, tuple(nodes.values()), tuple(shared_keys)))
    return tasks, shared


def _assign_owners(graph: Mapping[Key, GraphNode], key: Key, owner: dict[Key, Key | None]) -> None:
    """Mark dependencies of ``key`` as private to it, or as shared if they are futures or belong to an earlier key."""
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
    shared_keys: dict[Key, None],
) -> None:
    """Add the private dependencies of ``key`` in topological order, and the shared keys that they use."""
    stack: list[tuple[Key, bool]] = [(key, False)]
    while stack:
        k, ready = stack.pop()
        if owner[k] is None:
            shared_keys[k] = None
        elif ready:
            nodes[k] = graph[k]
        elif k not in nodes:
            stack.append((k, True))
            stack.extend((dep, False) for dep in graph[k].dependencies)


@dataclass(frozen=True)
class RowAssembly:
    """Function that makes a block of sets from rows of chunks; chunks that few blocks need are computed for each."""

    function: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.function(*args)


def copy_shared_chunks(graph: Mapping[Key, GraphNode]) -> Mapping[Key, GraphNode]:
    """Return the graph with a copy of nodes that up to four assemblies of blocks share, for each of them.

    A shared value would be kept in memory until its last block is done, on a cluster even until the end of the run.
    """
    assemblies = [key for key, node in graph.items() if isinstance(getattr(node, "func", None), RowAssembly)]
    if not assemblies:
        return graph
    counts: dict[Key, int] = {}
    for assembly in assemblies:
        stack, visited = list(graph[assembly].dependencies), set[Key]()
        while stack:
            key = stack.pop()
            if key not in visited and counts.get(key, 0) <= MAX_CHUNK_COPIES:
                visited.add(key)
                counts[key] = counts.get(key, 0) + 1
                stack.extend(graph[key].dependencies)
    copied = dict(graph)
    for i, assembly in enumerate(assemblies):
        _copy_dependencies(copied, assembly, counts, i)
    return copied


def _copy_dependencies(graph: dict[Key, GraphNode], assembly: Key, counts: Mapping[Key, int], i: int) -> None:
    """Replace nodes below assembly i that few assemblies share by copies with keys of their own."""
    renamed: dict[Key, Key] = {}
    stack = [(assembly, False)]
    while stack:
        key, ready = stack.pop()
        node, count = graph[key], counts.get(key, 1)
        if count > MAX_CHUNK_COPIES or key in renamed or isinstance(node, (DataNode, FutureNode)):
            continue
        if not ready:
            stack.append((key, True))
            stack.extend((dependency, False) for dependency in node.dependencies)
            continue
        new_key = ("copy", i, key) if count > 1 else key
        renamed[key] = new_key
        graph[new_key] = node.substitute(renamed, key=new_key)  # type: ignore[arg-type]


@dataclass(frozen=True)
class BlockSource:
    """What tasks need of the blocks of a collection of sets.

    ``arguments`` are views that tasks read themselves, or references to nodes of ``layer``, which depends on Dask
    ``arrays``. ``token`` is equal for equal sets.
    """

    arguments: Sequence[Any]
    token: Any
    layer: Mapping[Key, GraphNode] = field(default_factory=dict)
    arrays: Sequence[da.Array] = ()

    @classmethod
    def of_views(cls, views: Sequence[Any]) -> BlockSource:
        """Return the source of views that tasks read themselves."""
        return cls(views, [view.__dask_tokenize__() for view in views])

    @property
    def keys(self) -> list[Key]:
        """Keys of the nodes of all blocks; empty for views."""
        return list(self.layer)


def chunk_source(X: da.Array) -> BlockSource:
    """Return the source of the chunks of a dask array along its first axis."""
    X = join_columns(X)
    keys = block_keys(X.name, X.numblocks[0], X.ndim)
    return BlockSource([TaskRef(key) for key in keys], X.name, arrays=[X])


def source_blocks(source: BlockSource, bounds: I64, read_bytes: int, *, load: bool = True) -> Blocks:
    """Return blocks of whole sets: each view is loaded inside the task that uses it.

    Without ``load`` the blocks are the views: the consumer loads them and handles sets that cannot be read.
    """
    name = "sets_" + tokenize(source.token)
    loader = methodcaller("load")
    if source.layer:
        graph: dict[Key, GraphNode] = {}
        for array in source.arrays:
            graph |= graph_nodes(array.__dask_graph__(), list(flatten(array.__dask_keys__())))
        keys = source.keys
        graph |= source.layer
        if load:
            graph |= {(name, i): Task((name, i), loader, TaskRef(key)) for i, key in enumerate(keys)}
            keys = [(name, i) for i in range(len(keys))]
        tasks, shared = split_graph(graph, keys)
        return Blocks(name, bounds, tasks, shared, read_bytes=read_bytes)
    if not load:
        return Blocks(name, bounds, value_tasks(name, source.arguments), read_bytes=read_bytes)
    tasks = [
        BlockTask((name, i), (Task((name, i), loader, view),), ()) for i, view in enumerate(source.arguments)
    ]
    return Blocks(name, bounds, tasks, read_bytes=read_bytes)


def point_blocks(points: Any, weights: Any) -> Blocks:
    """Return the blocks of a Dask array (n, d), with weights (n,), if any, as an additional column."""
    if weights is not None:
        column = da.asarray(weights).rechunk((points.chunks[0],))
        points = da.concatenate([points.rechunk({1: -1}), column[:, None]], axis=1)
    return _dask_blocks(points)


Work = Callable[[Iterator[Any], Any], Any]
"""Function of an iterator over a job's blocks (each computed on request) and the job's extra argument."""


@dataclass(frozen=True)
class Job:
    """Indices of the blocks that one call of a function processes, and an extra argument of that call.

    A ``single`` job has one block: its function takes that block and the items of ``extra`` as further arguments. A
    ``quiet`` job visits sets that another job of the same call has warned about, or will.
    """

    blocks: tuple[int, ...]
    extra: Any = None
    single: bool = False
    quiet: bool = False


def read_ahead_of(blocks: Blocks, jobs: Sequence[Job]) -> ReadAhead | None:
    """Return the object that requests data of later jobs of a run in this process, or None."""
    return ReadAhead.of([[blocks.tasks[i] for i in job.blocks] for job in jobs])


TaskKey = tuple[str, int]
"""Key of a task: its name and number."""


@dataclass(frozen=True)
class TaskPayload:
    """Block tasks of one job, which run inside the task of the job and are hidden from the scheduler."""

    tasks: tuple[BlockTask, ...]
    rows: tuple[tuple[int, int], ...]
    unit: str
    extra: Any
    single: bool
    quiet: bool
    read_ahead: ReadAhead | None = None
    number: int = 0

    @classmethod
    def from_job(
        cls, blocks: Blocks, job: Job, read_ahead: ReadAhead | None = None, number: int = 0
    ) -> TaskPayload:
        """Return the payload of a job; ``number`` is its index in ``read_ahead``."""
        rows = tuple((int(blocks.bounds[i]), int(blocks.bounds[i + 1])) for i in job.blocks)
        tasks = tuple(blocks.tasks[i] for i in job.blocks)
        return cls(tasks, rows, blocks.unit, job.extra, job.single, job.quiet, read_ahead, number)

    def __dask_tokenize__(self) -> str:
        """Return a unique token: hashing every task would cost more than submitting them."""
        return uuid.uuid4().hex

    @property
    def shared_keys(self) -> tuple[Key, ...]:
        """Keys of the shared values."""
        return tuple(dict.fromkeys(key for task in self.tasks for key in task.shared_keys))

    @property
    def rows_text(self) -> str:
        """Rows of the blocks, for messages."""
        return f"{self.unit}s " + " and ".join(f"{start} to {stop - 1}" for start, stop in self.rows)

    def run(self, work: Callable[..., Any], shared: Mapping[Key, Any]) -> Outcome:
        """Compute the blocks one at a time and return the outcome of ``work``."""
        return run_job(lambda: self._run(work, shared), self.quiet)

    def _run(self, work: Callable[..., Any], shared: Mapping[Key, Any]) -> Any:
        try:
            if self.read_ahead is not None:
                self.read_ahead.start(self.number)
            blocks = (task.run(shared) for task in self.tasks)
            return work(next(blocks), *self.extra) if self.single else work(blocks, self.extra)
        except Exception as error:
            error.add_note(f"Raised while computing {self.rows_text}.")
            raise


@dataclass(frozen=True)
class TaskBatch:
    """Jobs that share a task."""

    jobs: tuple[TaskPayload, ...]

    @property
    def rows_text(self) -> str:
        """Rows of all jobs, for messages."""
        return " and ".join(job.rows_text for job in self.jobs)


@dataclass(frozen=True)
class TaskResults:
    """Outcomes of jobs that share a task."""

    results: list[Outcome]

    def __sizeof__(self) -> int:
        """Return the size in bytes, from which a scheduler estimates the cost of a transfer."""
        return sum(map(sizeof, self.results))


def job_task(
    key: Key,
    work: TaskRef | DataNode,
    blocks: Blocks,
    job: Job,
    after: Sequence[TaskRef] = (),
    ahead: tuple[ReadAhead | None, int] = (None, 0),
    state: TaskRef | None = None,
) -> Task:
    """Return the task that computes a job's blocks and passes them to ``work``, once ``after`` is done.

    With ``state``, the outcome of another task, its value is the first argument of ``work``. If ``work`` is a
    `DataNode`, the task carries it and the nodes of the shared values, and depends on no other task.
    """
    payload = TaskPayload.from_job(blocks, job, *ahead)
    values = [TaskRef(k) if isinstance(work, TaskRef) else blocks.shared[k] for k in payload.shared_keys]
    run = same_cpu(_run_job if state is None else _run_job_with_state, blocks)
    states = () if state is None else (state,)
    return Task(key, run, work, *states, payload, payload.shared_keys, *values, *after)


def batch_task(key: Key, work: TaskRef, blocks: Blocks, jobs: Sequence[Job]) -> Task:
    """Return the task that runs several jobs one after another; its result is a `TaskResults`."""
    batch = TaskBatch(tuple(TaskPayload.from_job(blocks, job) for job in jobs))
    keys = tuple(dict.fromkeys(k for job in batch.jobs for k in job.shared_keys))
    return Task(key, same_cpu(_run_batch, blocks), work, batch, keys, *map(TaskRef, keys))


def same_cpu(function: Callable[..., Any], blocks: Blocks) -> Callable[..., Any]:
    """Return the function, restricted to processors of this kind if other processes run it."""
    return function if blocks.local or active_client() is None else require_same_cpu(function)


def _run_job(work: Callable[..., Any], job: TaskPayload, keys: tuple[Key, ...], *values: Any) -> Outcome:
    for earlier in values[len(keys) :]:  # the results of ``after``; work after an error would be in vain
        if isinstance(earlier, Outcome) and earlier.error is not None:
            return earlier
    return job.run(work, dict(zip(keys, values, strict=False)))


def _run_job_with_state(
    work: Callable[..., Any], state: Outcome, job: TaskPayload, keys: tuple[Key, ...], *values: Any
) -> Outcome:
    return state if state.error is not None else _run_job(partial(work, state.value), job, keys, *values)


def _run_batch(
    work: Callable[..., Any], batch: TaskBatch, keys: tuple[Key, ...], *values: Any
) -> TaskResults:
    shared = dict(zip(keys, values, strict=True))
    read_ahead = ReadAhead.of([job.tasks for job in batch.jobs])
    jobs = [replace(job, read_ahead=read_ahead, number=i) for i, job in enumerate(batch.jobs)]
    return TaskResults([job.run(work, shared) for job in jobs])
