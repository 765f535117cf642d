"""Blocks that are kept after the first of several passes: in memory, or in files of a folder, as they were made.

What is kept is what a map of rows begins with (rows of an embedding before their random features, an eighth of these),
or whole blocks where there is no such map. Nothing is rounded: 2-byte numbers would take half the room, but results
would then depend on whether there was room, and be others than those of the next machine.
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
from dask._task_spec import GraphNode, Task, TaskRef
from dask.typing import Key

from dkdist._numba.arrays import Array
from dkdist._runtime.blocks import Blocks, BlockTask
from dkdist._runtime.run import MEMORY_CACHE, CachePolicy
from dkdist._utils.archives import ArchiveError, as_value_error, read_header


class BlockCache(Protocol):
    """Where blocks are kept, by their number."""

    def get(self, i: int) -> Array | None:
        """Block i, if it is there."""

    def put(self, i: int, block: Array) -> None:
        """Keep block i."""


class _MemoryCache(dict[int, Array]):
    put = dict.__setitem__


class _FolderCache:
    """A file a block, written whole and not flushed: it need not outlive the run."""

    def __init__(self, path: str) -> None:
        self.path = path

    def get(self, i: int) -> Array | None:
        path = self._file(i)
        try:
            with open(path, "rb") as file, as_value_error():
                header = read_header("the array", file, os.fstat(file.fileno()).st_size)
                return np.fromfile(file, header.dtype).reshape(header.shape, order=header.order)
        except FileNotFoundError:
            return None
        except ArchiveError as error:
            raise ArchiveError(
                f"{path}, where rows were kept, is not as it was written ({error}): fit again"
            ) from error

    def put(self, i: int, block: Array) -> None:
        growing = self._file(uuid.uuid4().hex)
        try:
            np.save(growing, block, allow_pickle=False)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                error.errno,
                f"rows are to be kept in {self.path}, which is not there on {platform.node()}. To fix: give cache= a "
                "folder that this process and all workers share, or False",
            ) from error
        os.replace(growing, self._file(i))

    def _file(self, name: Any) -> str:
        return os.path.join(self.path, f"{name}.npy")


@dataclass(frozen=True)
class CachedBlock:
    """Makes block i by its recipe the first time, and takes it from its place after that."""

    place: BlockCache
    i: int
    recipe: BlockTask

    def __call__(self, *values: Any) -> Any:
        block = self.place.get(self.i)
        if block is None:
            block = np.asarray(self.recipe.run(dict(zip(self.recipe.needs, values, strict=True))))
            self.place.put(self.i, block)
        return block


@contextmanager
def cached_blocks(blocks: Blocks, keep: CachePolicy) -> Iterator[Blocks]:
    """Blocks that are made in the first pass alone; a folder is emptied in the end."""
    if keep.place == MEMORY_CACHE:
        yield _with_cache(blocks, _MemoryCache())
        return
    folder = os.path.join(os.path.abspath(keep.place), f"dkdist-rows-{uuid.uuid4().hex}")
    os.makedirs(folder)
    try:
        yield _with_cache(blocks, _FolderCache(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_cache(blocks: Blocks, place: BlockCache) -> Blocks:
    return replace(
        blocks, recipes=[_cached_task(recipe, place, i) for i, recipe in enumerate(blocks.recipes)]
    )


def _cached_task(recipe: BlockTask, place: BlockCache, i: int) -> BlockTask:
    if recipe.row_map is None:
        first = CachedBlock(place, i, recipe)
        return replace(recipe, nodes=(Task(recipe.key, first, *map(TaskRef, recipe.needs)),))
    last: Any = recipe.nodes[-1]
    tables, block = (
        last.args
    )  # what comes before the map is kept; its tables, which several blocks may share, are not
    first = CachedBlock(place, i, replace(recipe, key=block.key, nodes=_nodes_needed_by(block.key, recipe)))
    made = Task(block.key, first, *map(TaskRef, recipe.needs))
    drawn = _nodes_needed_by(tables.key, recipe) if isinstance(tables, TaskRef) else ()
    return replace(recipe, nodes=(*drawn, made, last))


def _nodes_needed_by(key: Key, recipe: BlockTask) -> tuple[GraphNode, ...]:
    """Those of a recipe's nodes that a value needs, in their order."""
    wanted: set[Key] = {key}
    found = []
    for node in reversed(recipe.nodes):
        if node.key in wanted:
            wanted |= node.dependencies
            found.append(node)
    return tuple(reversed(found))
