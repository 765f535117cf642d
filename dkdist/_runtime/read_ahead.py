"""Reading ahead: a run requests the data of later blocks while earlier ones are computed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dkdist._runtime._dask_private import DataNode

if TYPE_CHECKING:
    from dkdist._runtime.blocks import BlockTask


class ReadAhead:
    """Tasks of the blocks of each job of a run; the views in later tasks are requested before they are read.

    A view has ``prefetch()``, which requests its data and returns their bytes, and ``read_ahead_bytes``.
    """

    def __init__(self, jobs: Sequence[Sequence[BlockTask]], max_bytes: int) -> None:
        self._jobs, self._max_bytes = jobs, max_bytes
        self._n_requested, self._bytes = 0, dict[int, int]()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, jobs: Sequence[Sequence[BlockTask]]) -> ReadAhead | None:
        """Return the tasks of each job, or None if their data need not be requested ahead."""
        first = [view for task in jobs[0] for view in _views(task)] if jobs else []
        max_bytes = max((view.read_ahead_bytes for view in first), default=0)
        return None if max_bytes == 0 else cls(jobs, max_bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return _none, ()  # other processes read their own blocks only

    def start(self, job: int) -> None:
        """Request the views of this and later jobs, as long as the bytes of jobs to come are within the limit."""
        with self._lock:
            self._bytes.pop(job, None)
            while self._n_requested < len(self._jobs) and sum(self._bytes.values()) < self._max_bytes // 2:
                views = [view for task in self._jobs[self._n_requested] for view in _views(task)]
                n_bytes = 0
                with suppress(ValueError, OSError):  # raised again, with its sets, when the block is read
                    n_bytes = sum(view.prefetch() for view in views)
                if self._n_requested != job:
                    self._bytes[self._n_requested] = n_bytes
                self._n_requested += 1


def _none() -> None:
    return None


def _views(task: BlockTask) -> list[Any]:
    """Return the views among the constants of a task that it will read."""
    views = []
    for node in task.nodes:
        function: Any = getattr(node, "func", None)
        if hasattr(function, "uncached_task"):
            views += [] if function.uncached_task is None else _views(function.uncached_task)
        values = (node.value,) if isinstance(node, DataNode) else getattr(node, "args", ())
        views += [value for value in values if hasattr(value, "prefetch")]
    return views
