"""What may go wrong on a cluster, said so that one knows what to do; and waiting for a scheduler that comes back."""

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

RECONNECTIONS = 3  # of one graph
POLL = 0.1  # seconds

KEPT = "What was committed to stores or saved in checkpoints is kept; the same call goes on from there."


def killed_worker(killed: KilledWorker, graph: Mapping[Key, GraphNode]) -> RuntimeError:
    """The error for a task whose workers die, with the rows it was making."""
    node = graph.get(killed.task)
    rows = next(
        (a.where for a in getattr(node, "args", ()) if isinstance(a, (Recipes, Together))), str(killed.task)
    )
    return RuntimeError(
        f"{killed.allowed_failures + 1} workers died that had taken on {rows} (the last was "
        f"{killed.last_worker.address}): most often they ran out of memory. To fix: smaller blocks "
        f"(open_sets(..., block_sets=)), fewer features, or more memory a worker; their logs say more. {KEPT}"
    )


LOST = ("scheduler-connection-lost", "lost dependencies")  # the second is said by a scheduler that is new


def lost_connection(client: Any, error: BaseException) -> bool:
    """Whether work ended because the scheduler went away; Dask has other reasons to cancel.

    A client that gave up while it waited for its scheduler cancels without a reason: its state tells.
    """
    told = isinstance(error, CommClosedError) or any(reason in str(error) for reason in LOST)
    return told or client.status != "running"


def given_up(address: str, error: BaseException) -> RuntimeError:
    """The error for work that the cluster itself cancelled: a graph it cannot read, or somebody who restarted it."""
    return RuntimeError(
        f"the cluster at {address} gave this work up ({error}). To fix: see that your own functions and their modules "
        f"are installed on the scheduler and the workers, and that nobody restarted the cluster. {KEPT}"
    )


def wait_for_scheduler(client: Any) -> bool:
    """Whether a client that lost its scheduler found it again; it gives up after its own connection timeout."""
    while client.status == "connecting" or (client.status == "running" and client.scheduler_comm is None):
        time.sleep(POLL)
    if client.status != "running":
        return False
    warnings.warn(
        "the connection to the Dask scheduler was lost and is back: the blocks that were being made begin again",
        RuntimeWarning,
        stacklevel=user_level(),
    )
    return True


def no_workers(address: str, seconds: float) -> TimeoutError:
    """The error for a run whose workers all went away."""
    return TimeoutError(
        f"all workers of the cluster at {address} are gone, and none has joined within {seconds:g} s. To fix: start "
        f"some with 'dask worker {address}', or wait longer: 'dkdist.wait-for-workers' in Dask's configuration. {KEPT}"
    )


def silent_worker(address: str, seconds: float) -> str:
    """The warning for a worker that is there and does not answer."""
    return (
        f"worker {address} has given no sign of life for {seconds:.0f} s: it is stopped, swapped out, cut off, or held "
        "by a function that never lets go of Python's lock. What it was making is made again by others when the "
        "scheduler gives it up ('distributed.scheduler.worker-ttl' in Dask's configuration, 5 minutes). To fix: let it "
        "go on, or kill it"
    )


def closing_client() -> CommClosedError:
    """The error for a client that no longer knows its workers; where work runs, it counts as a lost scheduler."""
    return CommClosedError(
        f"the Dask client is closing: its scheduler was lost, or it was told to. To fix: make a new Client. {KEPT}"
    )


def lost_scheduler(address: str) -> ConnectionError:
    """The error for a scheduler that is gone."""
    return ConnectionError(
        f"the connection to the Dask scheduler at {address} was lost and did not come back. To fix: start the "
        f"scheduler again, or make a Client of another one. {KEPT}"
    )
