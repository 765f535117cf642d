"""Where graphs run: an active client's cluster, or the cores of this machine.

One thread for every BLAS call, set once around a run: Dask already uses every core, and a matrix product
that is split among threads would not always give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dask.threaded
from dask._task_spec import GraphNode
from dask.base import get_scheduler
from dask.typing import Key
from threadpoolctl import threadpool_limits


def run(graph: Mapping[Key, GraphNode], keys: Sequence[Key], *, local: bool = False) -> list[Any]:
    """Compute ``keys`` of a low-level graph on the active scheduler (``local``: on this machine's threads)."""
    scheduler = None if local else get_scheduler()
    with threadpool_limits(1):
        return list((scheduler or dask.threaded.get)(dict(graph), list(keys)))
