"""Cache of blocks between the passes of a run, in memory or in files of a folder.

Blocks are cached before their row map (rows of an embedding before random features, an eighth of the bytes), or whole
if there is no row map. Values are not rounded: float16 would halve the memory, but results would then depend on the
free memory.
"""

from __future__ import annotations

import os
import platform
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from dask.typing import Key

from dkdist._numba.arrays import Array
from dkdist._runtime._dask_private import GraphNode, Task, TaskRef
from dkdist._runtime.blocks import Blocks, BlockTask
from dkdist._runtime.run import MEMORY_CACHE, CachePolicy
from dkdist._utils.archives import ArchiveError, as_archive_error, read_header


class BlockCache(Protocol):
    """Cache of blocks by index."""

    def __contains__(self, i: object) -> bool:
        """Return whether block i is in the cache."""

    def get(self, i: int) -> Array | None:
        """Return block i, or None."""

    def put(self, i: int, block: Array) -> None:
        """Store block i."""


class _MemoryCache(dict[int, Array]):
    put = dict.__setitem__


class _FolderCache:
    """One file per block, renamed when complete; files are not flushed, because they are deleted after the run."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __contains__(self, i: object) -> bool:
        return os.path.exists(self._file(i))

    def get(self, i: int) -> Array | None:
        path = self._file(i)
        try:
            with open(path, "rb") as file, as_archive_error():
                header = read_header("the array", file, os.fstat(file.fileno()).st_size)
                return np.fromfile(file, header.dtype).reshape(header.shape, order=header.order)
        except FileNotFoundError:
            return None
        except ArchiveError as error:
            raise ArchiveError(f"the cached rows in {path} are damaged ({error}). Fit again.") from error

    def put(self, i: int, block: Array) -> None:
        partial_file = self._file(uuid.uuid4().hex)
        try:
            np.save(partial_file, block, allow_pickle=False)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                error.errno,
                f"the cache folder {self.path} does not exist on {platform.node()}. To fix: pass cache= a folder that "
                "this process and all workers share, or False",
            ) from error
        os.replace(partial_file, self._file(i))

    def _file(self, name: Any) -> str:
        return os.path.join(self.path, f"{name}.npy")


@dataclass(frozen=True)
class CachedBlock:
    """Function that returns block i from the cache, or computes and stores it."""

    cache: BlockCache
    i: int
    task: BlockTask

    @property
    def uncached_task(self) -> BlockTask | None:
        """Task of a block that is not in the cache, else None."""
        return None if self.i in self.cache else self.task

    def __call__(self, *values: Any) -> Any:
        block = self.cache.get(self.i)
        if block is None:
            block = np.asarray(self.task.run(dict(zip(self.task.shared_keys, values, strict=True))))
            self.cache.put(self.i, block)
        return block


@contextmanager
def cached_blocks(blocks: Blocks, policy: CachePolicy) -> Iterator[Blocks]:
    """Yield blocks that are cached when they are first computed; remove the files at the end.

    Two tasks that need an uncached block at the same time, in adjacent epochs of few blocks, both compute it.
    """
    if policy.location == MEMORY_CACHE:
        yield _with_cache(blocks, _MemoryCache())
        return
    folder = os.path.join(os.path.abspath(policy.location), f"dkdist-rows-{uuid.uuid4().hex}")
    os.makedirs(folder)
    try:
        yield _with_cache(blocks, _FolderCache(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_cache(blocks: Blocks, cache: BlockCache) -> Blocks:
    return replace(blocks, tasks=[_cached_task(task, cache, i) for i, task in enumerate(blocks.tasks)])


def _cached_task(task: BlockTask, cache: BlockCache, i: int) -> BlockTask:
    if task.row_map is None:
        function = CachedBlock(cache, i, task)
        return replace(task, nodes=(Task(task.key, function, *map(TaskRef, task.shared_keys)),))
    last: Any = task.nodes[-1]
    params, block = last.args  # only the block is cached, because several blocks may share the parameters
    function = CachedBlock(cache, i, replace(task, key=block.key, nodes=_nodes_needed_by(block.key, task)))
    cached = Task(block.key, function, *map(TaskRef, task.shared_keys))
    params_nodes = _nodes_needed_by(params.key, task) if isinstance(params, TaskRef) else ()
    return replace(task, nodes=(*params_nodes, cached, last))


def _nodes_needed_by(key: Key, task: BlockTask) -> tuple[GraphNode, ...]:
    """Return the nodes of a task that a key depends on, in topological order."""
    needed: set[Key] = {key}
    nodes = []
    for node in reversed(task.nodes):
        if node.key in needed:
            needed |= node.dependencies
            nodes.append(node)
    return tuple(reversed(nodes))
