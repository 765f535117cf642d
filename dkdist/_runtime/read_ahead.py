"""Reading ahead: a run requests the data of later blocks while earlier ones are computed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dkdist._runtime._dask_private import DataNode

if TYPE_CHECKING:
    from dkdist._runtime.blocks import BlockTask


class ReadAhead:
    """Views of the blocks of a run in the order of its jobs, of which some are requested before they are read.

    A view has ``prefetch()``, which requests its data and returns their bytes, and ``read_ahead_bytes``.
    """

    def __init__(self, views: Sequence[Sequence[Any]], max_bytes: int) -> None:
        self._views, self._max_bytes = views, max_bytes
        self._n_requested, self._bytes = 0, dict[int, int]()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, jobs: Sequence[Sequence[BlockTask]]) -> ReadAhead | None:
        """Return the views in the tasks of each job, or None if they need not be requested ahead."""
        first = [view for task in jobs[0] for view in _views(task)] if jobs else []
        max_bytes = max((view.read_ahead_bytes for view in first), default=0)
        if max_bytes == 0:
            return None
        return cls([[view for task in tasks for view in _views(task)] for tasks in jobs], max_bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return _none, ()  # other processes read their own blocks only

    def start(self, job: int) -> None:
        """Request the views of this and later jobs, as long as the bytes of later jobs are within the limit."""
        with self._lock:
            for done in [j for j in self._bytes if j < job]:
                del self._bytes[done]
            while self._n_requested < len(self._views) and sum(self._bytes.values()) < self._max_bytes // 2:
                self._bytes[self._n_requested] = sum(v.prefetch() for v in self._views[self._n_requested])
                self._n_requested += 1


def _none() -> None:
    return None


def _views(task: BlockTask) -> list[Any]:
    """Return the views among the constants of a task."""
    values = [node.value if isinstance(node, DataNode) else getattr(node, "args", ()) for node in task.nodes]
    flat = [v for value in values for v in (value if isinstance(value, (tuple, list)) else (value,))]
    return [value for value in flat if hasattr(value, "prefetch")]
