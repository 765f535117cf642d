"""Row maps: functions that compute rows independently. Rows that no block uses are not computed.

Row slices are pushed down below row maps:

    map(params, block)[rows]  =  map(params, block[rows])

After a split of features (`Z[:cut]`, `Z[train]`), the last node of each block is a row map again. Its rows can be
computed lazily, and blocks share rows of its input, which are smaller than features. Results are bitwise identical,
because a row map computes each row independently. Slices of columns and other operations stay unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from dask.typing import Key

from dkdist._runtime._dask_private import Alias, DataNode, GraphNode, List, Task, TaskRef
from dkdist._runtime.process import SameCpuTask


class RowMap(Protocol):
    """Function of (params, block) that computes rows independently, so that it can also compute them on request.

    The block is an array (n, m) with one row for each row of the result.
    """

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the block that the function is applied to."""

    def __call__(self, params: Any, block: Any) -> Any:
        """Return all rows of the block."""

    def lazy_rows(self, params: Any, block: Any) -> Any:
        """Return an object that computes rows on request."""


def find_row_map(node: GraphNode) -> RowMap | None:
    """Return the row map that a node calls, or None."""
    function: Any = getattr(node, "func", None)
    function = function.function if isinstance(function, SameCpuTask) else function
    return function if hasattr(function, "lazy_rows") else None


class _RowMapCall(NamedTuple):
    """Call of a row map, ``map(params, block)``, in a graph node."""

    map: Any
    params: Any
    block: TaskRef


def push_down_slices(graph: Mapping[Key, GraphNode], keys: Sequence[Key]) -> dict[Key, GraphNode]:
    """Return the graph of ``keys`` with row slices before row maps."""
    return _SlicePushdown(graph, keys).graph


class _SlicePushdown:
    def __init__(self, graph: Mapping[Key, GraphNode], keys: Sequence[Key]) -> None:
        self.graph = dict(graph)
        self._call_by_key: dict[Key, _RowMapCall | None] = {}
        stack: list[tuple[Key, bool]] = [(key, False) for key in keys]
        while stack:  # in topological order
            key, ready = stack.pop()
            if key in self._call_by_key:
                continue
            if ready:
                self._call_by_key[key] = self._rewrite(key, self.graph[key])
            else:
                stack.append((key, True))
                stack.extend((dependency, False) for dependency in self.graph[key].dependencies)

    def _rewrite(self, key: Key, node: GraphNode) -> _RowMapCall | None:
        """Make a node that slices or calls a row map a call on sliced rows, and return it; None for other nodes."""
        if isinstance(node, Alias):
            call = self._call_by_key[node.target]
            return call and self._replace(key, call, Alias(_sliced_key(key), call.block.key))
        if not isinstance(node, Task) or node.kwargs:
            return None
        if find_row_map(node) is not None:
            params, block = node.args
            return _RowMapCall(node.func, params, block) if isinstance(block, TaskRef) else None
        name = _dask_function_name(node)
        if name in ("getitem", "_getitem") and isinstance(node.args[0], TaskRef):
            call = self._call_by_key[node.args[0].key]
            if call is None or not self._is_row_slice(node.args[1], is_nested=name == "_getitem"):
                return None
            return self._replace(key, call, Task(_sliced_key(key), node.func, call.block, node.args[1]))
        if name == "concatenate_arrays":
            parts, sorter, axis = node.args
            return None if axis != 0 else self._rewrite_concatenation(key, node, parts, sorter)
        return None

    def _rewrite_concatenation(self, key: Key, node: Task, parts: Any, sorter: Any) -> _RowMapCall | None:
        """Concatenate rows of several blocks before the row map, if all have the same one."""
        references = list(getattr(parts, "args", ())) if isinstance(parts, List) else []
        calls = [self._call_by_key[part.key] if isinstance(part, TaskRef) else None for part in references]
        first = calls[0] if calls else None
        if first is None or any(call is None or call[:2] != first[:2] for call in calls):
            return None
        blocks = List(*(call.block for call in calls if call is not None))
        return self._replace(key, first, Task(_sliced_key(key), node.func, blocks, sorter, 0))

    def _replace(self, key: Key, call: _RowMapCall, sliced: GraphNode) -> _RowMapCall:
        """Make ``key`` a call of the row map on the result of ``sliced``, which no other key uses."""
        self.graph[sliced.key] = sliced
        call = call._replace(block=TaskRef(sliced.key))
        self.graph[key] = Task(key, call.map, call.params, call.block)
        return call

    def _is_row_slice(self, index: Any, is_nested: bool) -> bool:
        """Return whether an index (if nested, the second item of a pair) selects rows and all columns."""
        if isinstance(index, TaskRef):
            node = self.graph[index.key]
            index = node.value if isinstance(node, DataNode) else None
        if is_nested:
            index = index[1] if isinstance(index, tuple) else None
        if not isinstance(index, (tuple, list)) or len(index) != 2:
            return False
        rows, columns = index
        has_all_columns = isinstance(columns, slice) and columns == slice(None)
        return has_all_columns and (isinstance(rows, slice) or getattr(rows, "ndim", None) == 1)


def _sliced_key(key: Key) -> Key:
    return ("rows-before-a-map", *key) if isinstance(key, tuple) else ("rows-before-a-map", key)


def _dask_function_name(node: Task) -> str:
    """Return the name of a function of dask.array, or "": nodes of unknown functions stay unchanged."""
    module = getattr(node.func, "__module__", None) or ""
    return str(getattr(node.func, "__name__", "")) if module.startswith("dask.array") else ""
