"""Graph of a Dask collection as nodes, with a node for each future.

Persisted arrays and arrays of futures have keys that only the scheduler of their cluster can resolve. Instead of
tasks, their graphs contain futures, directly or among the arguments of a task.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from dask.typing import Key

from dkdist._runtime._dask_private import Alias, GraphNode, TaskRef, convert_legacy_graph
from dkdist._runtime.process import active_client


class FutureNode(GraphNode):
    """Node of a task graph whose value is the result of a future; holds a reference to the future.

    In this process a call waits for the result. In a graph for the scheduler of the future, the node is pickled as an
    alias of its own key, which Dask resolves to the key of the scheduler.
    """

    __slots__ = ("future",)

    def __init__(self, future: Any) -> None:
        self.key = future.key
        self.future = future
        self._dependencies = frozenset()

    def __call__(self, values: Any = ()) -> Any:
        """Wait for the result and return it."""
        return self.future.result()

    def __reduce__(self) -> tuple[Any, ...]:
        return Alias, (self.key,)


def graph_nodes(values: Mapping[Key, Any], keys: Sequence[Key]) -> dict[Key, GraphNode]:
    """Return the graph ``values`` of Dask collections, with a node for every dependency of ``keys``.

    ValueError if the result of a future is lost, or is on another cluster than that of the active client.
    """
    values = dict(values)
    graph: dict[Key, GraphNode] = convert_legacy_graph(values)
    absent = _missing_keys(graph, keys)
    if absent:
        futures = {
            future.key: future for future in chain(_client_futures(absent), _iter_futures(values.values()))
        }
        client = active_client()
        for key in absent:
            _require_result(key, futures.get(key), client)
        # a worker that receives a future connects as a client
        references = {key: TaskRef(key) for key in absent}
        for key, node in graph.items():
            if not isinstance(node, Alias) and not node.dependencies.isdisjoint(absent):
                graph[key] = node.substitute(references)  # type: ignore[arg-type]
        graph |= {key: FutureNode(futures[key]) for key in absent}
    return graph


def _missing_keys(graph: Mapping[Key, GraphNode], keys: Iterable[Key]) -> list[Key]:
    """Return the dependencies of ``keys`` that the graph does not contain."""
    stack, visited_keys, absent = list(keys), set(keys), []
    while stack:
        key = stack.pop()
        node = graph.get(key)
        if node is None:
            absent.append(key)
            continue
        for need in node.dependencies:
            if need not in visited_keys:
                visited_keys.add(need)
                stack.append(need)
    return absent


def _client_futures(keys: Iterable[Key]) -> list[Any]:
    """Return futures of the current client by key, because `dask.optimize` removes futures from graphs."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return []
    try:
        client = distributed.Client.current()
    except ValueError:  # there is no active client
        return []
    return [distributed.Future(key, client) for key in keys if key in client.futures]


def _iter_futures(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the futures among the values of a graph and the arguments of its tasks."""
    for value in values:
        if isinstance(value, TaskRef):
            if hasattr(value, "result"):
                yield value
        elif isinstance(value, GraphNode):
            yield from _iter_futures(getattr(value, "args", ()))
            yield from _iter_futures(getattr(value, "kwargs", {}).values())
        elif isinstance(value, (list, tuple)):
            yield from _iter_futures(value)
        elif isinstance(value, dict):
            yield from _iter_futures(value.values())


def _require_result(key: Key, future: Any, client: Any | None) -> None:
    if future is None:
        raise ValueError(
            f"the dask collection needs {key!r}, which its graph does not contain. Create it again."
        )
    if future.status in ("cancelled", "lost"):
        raise ValueError(
            f"the dask collection needs the result {key!r} of a cluster, which is {future.status}: its client was "
            "closed or restarted, or the result was cancelled. Persist it again."
        )
    if client is not None and future.client.scheduler.address != client.scheduler.address:
        raise ValueError(
            f"the dask collection was persisted on the cluster at {future.client.scheduler.address}, but the active "
            f"client is connected to {client.scheduler.address}. Persist it there, or activate the other client."
        )
