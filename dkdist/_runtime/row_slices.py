"""Whole rows that are taken after a map of rows are taken before it: rows that nobody asks for are not made.

    map(tables, block)[rows]  =  map(tables, block[rows])

Who splits features (`Z[:cut]`, `Z[train]`) then has blocks whose last step is the map, as those of Z: rows can still be
made when a step comes to them, and what several new blocks need of an old one are its rows before the map, which are
smaller. Bits are the same, since a map makes each row by itself. Columns, and whatever else is done, stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dask._task_spec import Alias, DataNode, GraphNode, List, Task, TaskRef
from dask.typing import Key

from dkdist._runtime.blocks import find_row_map


class _RowMapCall(NamedTuple):
    """A node as what is done to the value of ``block``: ``map(tables, block)``."""

    map: Any
    tables: Any
    block: TaskRef


def push_down_slices(graph: Mapping[Key, GraphNode], keys: Sequence[Key]) -> dict[Key, GraphNode]:
    """The graph of ``keys``, in which whole rows are taken before maps of rows."""
    return _SlicePushdown(graph, keys).graph


class _SlicePushdown:
    def __init__(self, graph: Mapping[Key, GraphNode], keys: Sequence[Key]) -> None:
        self.graph = dict(graph)
        self._seen: dict[Key, _RowMapCall | None] = {}
        stack: list[tuple[Key, bool]] = [(key, False) for key in keys]
        while stack:  # what a node needs comes before it
            key, ready = stack.pop()
            if key in self._seen:
                continue
            if ready:
                self._seen[key] = self._mapped(key, self.graph[key])
            else:
                stack.append((key, True))
                stack.extend((need, False) for need in self.graph[key].dependencies)

    def _mapped(self, key: Key, node: GraphNode) -> _RowMapCall | None:
        """What a node maps, after rows that it takes have been moved; None if it is no map of rows."""
        if isinstance(node, Alias):
            found = self._of(node.target)
            return found and self._moved(key, found, Alias(_sliced_key(key), found.block.key))
        if not isinstance(node, Task) or node.kwargs:
            return None
        if find_row_map(node) is not None:
            tables, block = node.args
            return _RowMapCall(node.func, tables, block) if isinstance(block, TaskRef) else None
        name = _dask_function_name(node)
        if name in ("getitem", "_getitem") and isinstance(node.args[0], TaskRef):
            found = self._of(node.args[0].key)
            if found is None or not self._whole_rows(node.args[1], within=name == "_getitem"):
                return None
            return self._moved(key, found, Task(_sliced_key(key), node.func, found.block, node.args[1]))
        if name == "concatenate_arrays":
            parts, sorter, axis = node.args
            return None if axis != 0 else self._joined(key, node, parts, sorter)
        return None

    def _joined(self, key: Key, node: Task, parts: Any, sorter: Any) -> _RowMapCall | None:
        """Rows of several blocks, in an order, of one map."""
        references = list(getattr(parts, "args", ())) if isinstance(parts, List) else []
        found = [self._of(part.key) if isinstance(part, TaskRef) else None for part in references]
        first = found[0] if found else None
        if first is None or any(one is None or one[:2] != first[:2] for one in found):
            return None
        blocks = List(*(one.block for one in found if one is not None))
        return self._moved(key, first, Task(_sliced_key(key), node.func, blocks, sorter, 0))

    def _moved(self, key: Key, found: _RowMapCall, before: GraphNode) -> _RowMapCall:
        """A map as the last step of ``key``, of what ``before`` makes, which is for this key alone."""
        self.graph[before.key] = before
        found = found._replace(block=TaskRef(before.key))
        self.graph[key] = Task(key, found.map, found.tables, found.block)
        return found

    def _of(self, key: Key) -> _RowMapCall | None:
        return self._seen[key]

    def _whole_rows(self, index: Any, within: bool) -> bool:
        """Whether an index, or the second of a pair ``within`` which it stands, takes rows and all columns."""
        if isinstance(index, TaskRef):
            there = self.graph[index.key]
            index = there.value if isinstance(there, DataNode) else None
        if within:
            index = index[1] if isinstance(index, tuple) else None
        if not isinstance(index, (tuple, list)) or len(index) != 2:
            return False
        rows, columns = index
        return (
            isinstance(columns, slice)
            and columns == slice(None)
            and (isinstance(rows, slice) or _is_1d(rows))
        )


def _is_1d(rows: Any) -> bool:
    return getattr(rows, "ndim", None) == 1


def _sliced_key(key: Key) -> Key:
    return ("rows-before-a-map", *key) if isinstance(key, tuple) else ("rows-before-a-map", key)


def _dask_function_name(node: Task) -> str:
    """The name of a function of dask.array, whose names are its own matter: an unknown one is left alone."""
    module = getattr(node.func, "__module__", None) or ""
    return str(getattr(node.func, "__name__", "")) if module.startswith("dask.array") else ""
