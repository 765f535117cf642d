"""Errors of a cluster, and reconnection to a scheduler."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

from dask._task_spec import GraphNode
from dask.typing import Key
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker

from dkdist.execution.blocks import Recipes, Together
from dkdist.plain.user_line import user_level

MAX_RECONNECTIONS = 3  # of one graph
POLL_SECONDS = 0.1
KEPT = "Committed stores and saved checkpoints are kept; the same call continues from them."
LOST = ("scheduler-connection-lost", "lost dependencies")  # the second comes from a restarted scheduler


def killed_worker(killed: KilledWorker, graph: Mapping[Key, GraphNode]) -> RuntimeError:
    """Return the error for a task whose workers died, with the rows of its blocks."""
    arguments = getattr(graph.get(killed.task), "args", ())
    rows = next((a.where for a in arguments if isinstance(a, (Recipes, Together))), str(killed.task))
    return RuntimeError(
        f"{killed.allowed_failures + 1} workers died while they computed {rows} (the last was "
        f"{killed.last_worker.address}), most often for lack of memory. To fix: smaller blocks "
        f"(open_sets(..., block_sets=)), fewer features, or more memory per worker. {KEPT}"
    )


def lost_connection(client: Any, error: BaseException) -> bool:
    """Return whether work ended because the scheduler went away; Dask has other reasons to cancel.

    A client that gave up its scheduler cancels without a reason; its status shows it.
    """
    is_lost = isinstance(error, CommClosedError) or any(reason in str(error) for reason in LOST)
    return is_lost or client.status != "running"


def wait_for_scheduler(client: Any) -> bool:
    """Return whether the client reconnects to its scheduler within its own connection timeout."""
    while client.status == "connecting" or (client.status == "running" and client.scheduler_comm is None):
        time.sleep(POLL_SECONDS)
    if client.status != "running":
        return False
    message = (
        "the connection to the Dask scheduler was lost and is back: blocks in progress are computed again"
    )
    warnings.warn(message, RuntimeWarning, stacklevel=user_level())
    return True


def no_workers(address: str, seconds: float) -> TimeoutError:
    """Return the error for a cluster without workers."""
    return TimeoutError(
        f"the cluster at {address} has had no worker for {seconds:g} s. To fix: start some with 'dask worker "
        f"{address}', or wait longer: 'dkdist.wait-for-workers' in Dask's configuration. {KEPT}"
    )


def lost_scheduler(address: str) -> ConnectionError:
    """Return the error for a scheduler that is gone."""
    return ConnectionError(
        f"the connection to the Dask scheduler at {address} was lost. To fix: start the scheduler again, or make a "
        f"Client of another one. {KEPT}"
    )
