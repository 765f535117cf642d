"""Blocks: the rows of a collection cut into pieces that can each be made inside one task.

A block's *recipe* is the part of a graph that only this block needs (read, embed, features). It is carried
whole into the task that uses the block, so nothing between the store and the user of the block is ever held
by a scheduler. What several blocks need, such as drawn parameters, stays one shared key of the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import GraphNode, Task, convert_legacy_graph
from dask.base import tokenize
from dask.typing import Key
from numpy.typing import NDArray

BLOCK_SETS = 1024  # sets in a block at most: 20 MB of features at D = 5000
BLOCK_BYTES = 32 * 2**20  # of points, or of an array's rows, in a block


@dataclass(frozen=True)
class Recipe:
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


@dataclass(frozen=True)
class Blocks:
    """Rows ``bounds[i]:bounds[i + 1]`` are what ``recipes[i]`` makes.

    ``local`` blocks are cut from an array of this process and never leave it. ``row_bytes`` is what a row
    of the finished block takes; ``read_bytes`` what one pass reads from storage, where that is known. ``unit``
    is what messages call a row.
    """

    name: str
    bounds: NDArray[np.int64]
    recipes: Sequence[Recipe]
    shared: Mapping[Key, GraphNode] = field(default_factory=dict)
    row_bytes: int = 0
    read_bytes: int = 0
    n_columns: int = 0
    local: bool = False
    unit: str = "row"

    def __len__(self) -> int:
        return len(self.recipes)

    @property
    def n_rows(self) -> int:
        """Rows of all blocks together."""
        return int(self.bounds[-1])

    def rows(self, i: int) -> slice:
        """The rows of block i."""
        return slice(int(self.bounds[i]), int(self.bounds[i + 1]))


def is_lazy(X: object) -> bool:
    """Whether X is a dask array: features that are made when they are asked for."""
    return isinstance(X, da.Array)


def row_blocks(X: Any) -> Blocks:
    """The blocks of a 2-D feature array: a NumPy array is cut into views, a dask array keeps its chunks."""
    return _dask_blocks(X) if is_lazy(X) else _array_blocks(X)


def _array_blocks(X: NDArray[Any]) -> Blocks:
    if np.ndim(X) != 2 or 0 in np.shape(X)[1:]:
        raise ValueError(f"expected features of shape (n_sets, n_features), found {np.shape(X)}")
    row_bytes = max(1, X.itemsize * X.shape[1])
    made = local_blocks(X, int(np.clip(BLOCK_BYTES // row_bytes, 1, BLOCK_SETS)))
    return replace(made, row_bytes=row_bytes, n_columns=X.shape[1])


def local_blocks(X: Any, rows: int) -> Blocks:
    """Blocks of so many rows of what this process holds: an array, or sets in memory."""
    bounds = np.append(np.arange(0, len(X), rows), len(X)).astype(np.int64)
    views = [X[a:b] for a, b in itertools.pairwise(bounds.tolist())]
    recipes = [call_recipe(("rows", i), _view, view) for i, view in enumerate(views)]
    return Blocks("rows", bounds, recipes, local=True)


def _view(rows: Any) -> Any:
    return rows


def call_recipe(key: Key, function: Callable[..., Any], *args: Any) -> Recipe:
    """A block that one call makes from nothing shared."""
    return Recipe(key, (Task(key, function, *args),), ())


def _dask_blocks(X: da.Array) -> Blocks:
    if X.ndim != 2:
        raise ValueError(f"expected features of shape (n_sets, n_features), found {X.ndim} dimension(s)")
    if np.isnan(X.shape[0]):
        raise ValueError(
            "these dask features have chunks of unknown length: call X.compute_chunk_sizes() first"
        )
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    keys = [(X.name, i, 0) for i in range(X.numblocks[0])]
    graph = convert_legacy_graph(dict(X.__dask_graph__()))
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
) -> tuple[list[Recipe], dict[Key, GraphNode]]:
    """Cut a graph into one private recipe per key and the nodes that more than one key needs."""
    owner: dict[Key, Key | None] = {}
    for key in keys:
        _claim(graph, key, owner)
    shared = {k: graph[k] for k, who in owner.items() if who is None}
    recipes = []
    for key in keys:
        nodes: dict[Key, GraphNode] = {}
        needs: dict[Key, None] = {}
        _collect(graph, key, owner, nodes, needs)
        recipes.append(Recipe(key, tuple(nodes.values()), tuple(needs)))
    return recipes, shared


def _claim(graph: Mapping[Key, GraphNode], key: Key, owner: dict[Key, Key | None]) -> None:
    """Mark what ``key`` needs as its own, or as shared where another key came first."""
    stack = [key]
    while stack:
        k = stack.pop()
        if k not in owner:
            owner[k] = key
        elif owner[k] is None or owner[k] == key:
            continue
        else:
            owner[k] = None
        stack.extend(graph[k].dependencies)


def _collect(
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


def source_blocks(views: Sequence[Any], bounds: NDArray[np.int64], read_bytes: int) -> Blocks:
    """Blocks of whole sets: each view of a store is loaded inside the task that uses it."""
    name = "sets_" + tokenize([view.__dask_tokenize__() for view in views])
    recipes = [call_recipe((name, i), _load, view) for i, view in enumerate(views)]
    return Blocks(name, bounds, recipes, read_bytes=read_bytes)


def _load(view: Any) -> Any:
    return view.load()


def point_blocks(points: Any, weights: Any) -> Blocks:
    """The blocks of a dask array (n, d) by its chunks of rows, with weights (n,), if any, as one more column."""
    if weights is not None:
        column = da.asarray(weights).rechunk((points.chunks[0],))
        points = da.concatenate([points.rechunk({1: -1}), column[:, None]], axis=1)
    return _dask_blocks(points)
