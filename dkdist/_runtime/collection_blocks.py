"""Blocks of Dask collections other than features: arrays of any dimension, bags, data frames and lists of `Delayed`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from dask.typing import Key

from dkdist._runtime.blocks import Blocks, chunk_blocks, local_blocks, max_block_sets, split_graph
from dkdist._runtime.dask_graph import graph_nodes


def collection_blocks(data: Any) -> Blocks | None:
    """Return the blocks of an array or of a Dask collection; None for anything else, such as sets.

    Blocks are ranges of the first axis of an array, partitions of a bag or data frame, and the results of `Delayed`
    objects and futures in a list.
    """
    if isinstance(data, np.ndarray) and data.ndim:
        return local_blocks(data, max_block_sets(len(data)))
    if isinstance(data, Delayed):
        data = [data]
    if isinstance(data, (list, tuple)):
        return _delayed_blocks(data) if data and all(map(_is_delayed, data)) else None
    if isinstance(data, da.Array):
        if data.ndim:
            return chunk_blocks(data)
    elif is_dask_collection(data) and hasattr(data, "npartitions"):
        data = data.optimize() if hasattr(data, "optimize") else data
        return _partition_blocks("partitions", data.__dask_graph__(), data.__dask_keys__())
    return None


def _is_delayed(value: Any) -> bool:
    return isinstance(value, Delayed) or type(value).__module__.startswith("distributed.")


def _delayed_blocks(values: Sequence[Any]) -> Blocks:
    results = [delayed(value) for value in values]  # a future becomes a graph of itself
    graph = HighLevelGraph.merge(*(result.__dask_graph__() for result in results))
    return _partition_blocks("delayed", graph, [result.key for result in results])


def _partition_blocks(name: str, graph: Mapping[Key, Any], keys: Sequence[Key]) -> Blocks:
    tasks, shared = split_graph(graph_nodes(graph, keys), keys)
    return Blocks(name, np.arange(len(keys) + 1), tasks, shared, unit="partition")
