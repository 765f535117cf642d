"""What the active scheduler has: processes, threads, and the memory of one process."""

from __future__ import annotations

from dataclasses import dataclass

import dask
import psutil
from dask.system import CPU_COUNT
from dask.utils import parse_bytes

from dkdist.execution.run import SPARE_THREADS, active_client


@dataclass(frozen=True)
class Resources:
    """``threads`` are those of the largest process, ``memory`` the limit of the smallest in bytes."""

    processes: int
    threads: int
    all_threads: int
    memory: int


def resources(local: bool = False) -> Resources:
    """Ask the active client's cluster, or this machine (``local``: this machine in any case).

    The memory limit is the configuration ``dkdist.memory-limit`` (bytes, or "2GiB") if it is set, else what the
    cluster's workers were given, else the memory that is free here.
    """
    configured = dask.config.get("dkdist.memory-limit", None)
    limit = parse_bytes(configured) if configured is not None else psutil.virtual_memory().available
    client = None if local else active_client()
    if client is None:
        threads = dask.config.get("num_workers", None) or CPU_COUNT + SPARE_THREADS
        return Resources(1, threads, threads, int(limit))
    workers = list(client.scheduler_info(n_workers=-1)["workers"].values())
    counts = [w["nthreads"] for w in workers] or [1]
    limits = [w["memory_limit"] for w in workers if w["memory_limit"]]
    if configured is None and limits:
        limit = min(limits)
    return Resources(len(counts), max(counts), sum(counts), int(limit))
