"""Run Dask graphs on the cluster of the active client or on threads of this machine, and plan runs.

BLAS calls use one thread during a run: Dask already uses every core, and splitting a matrix product among threads can
change its last bits.

A plan states blocks, bytes, passes and peak memory before a run starts. A run that does not fit raises MemoryError; the
result of a dry run (`plan_of`) is its plan.

    peak of a process = base + work,    work ~ (threads + waiting items) x one block + state

``base`` is the resident memory of the process when the plan is made. Blocks count with their finished size plus the
bytes read for one. Waiting items are spread over the processes. For limits see `_utils/memory_budget.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from os import PathLike
from threading import Event, local
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import dask.local
import dask.threaded
import numpy as np
from dask.base import get_scheduler
from dask.callbacks import Callback
from dask.system import CPU_COUNT
from dask.typing import Key
from dask.utils import format_bytes

from dkdist._runtime._dask_private import GraphNode
from dkdist._runtime._tuning import (
    AUTO_CACHE_MEMORY_DIVISOR,
    MAX_AUTO_CACHE_BYTES,
    MAX_CONCURRENT_BLOCKS,
    N_IO_THREADS,
)
from dkdist._runtime.process import active_client, keep_freed_memory, one_blas_thread, require_clean_fork
from dkdist._runtime.progress import Progress
from dkdist._utils.memory_budget import configured_limit, memory_limit, resident_bytes

if TYPE_CHECKING:
    from dkdist._runtime.blocks import Blocks

_thread = local()
_DRY_RUN: ContextVar[bool] = ContextVar("dry_run", default=False)


def run(
    graph: Mapping[Key, GraphNode],
    keys: Sequence[Key],
    *,
    watch: Mapping[Key, int] | None = None,
    progress: Progress,
    observe: Callable[[Any], None] | None = None,
    local: bool = False,
    sequential: bool = False,
) -> list[Any]:
    """Compute ``keys`` of a low-level graph on the active scheduler (``local``: on threads of this machine).

    ``progress`` advances by ``watch[key]`` when such a key is done; on threads, ``observe`` gets its value before.
    Results that are outcomes are settled in the order of ``keys``. A ``sequential`` graph, a chain of tasks, runs on
    the calling thread unless the user chose a scheduler: moving a small task to another thread costs more than it.
    """
    require_clean_fork()
    watch = watch or {}
    client = None if local else active_client()
    if client is not None:
        from dkdist._runtime.cluster import compute  # local runs do not import distributed

        return [progress.settle(result) for result in compute(client, graph, keys, watch, progress)]

    def advance(key: Key, result: Any, *_: Any) -> None:
        if key in watch and getattr(result, "error", None) is None:
            if observe is not None:
                observe(result.value)
            progress.advance(watch[key])

    with one_blas_thread():
        scheduler: Callable[..., Any] = (None if local else get_scheduler()) or (
            dask.local.get_sync if sequential else _run_on_threads
        )
        if not _accepts_callbacks(scheduler):
            with Callback(posttask=advance):
                results = scheduler(dict(graph), list(keys))
        else:  # local to this run, because global callbacks would also receive tasks of runs in other threads
            callbacks = [*Callback.active, (None, None, None, advance, None)]
            results = scheduler(dict(graph), list(keys), callbacks=callbacks)
    return [progress.settle(result) for result in results]


def _run_on_threads(graph: dict[Key, GraphNode], keys: list[Key], callbacks: list[Any]) -> Any:
    """Run Dask's threaded scheduler on threads that end with the run, because forks copy idle pools without threads."""
    keep_freed_memory()
    ended, n_threads = Event(), min(_n_threads(), len(graph))
    pool = ThreadPoolExecutor(
        n_threads, "dkdist", initializer=setattr, initargs=(_thread, "is_over", ended.is_set)
    )
    wait = True
    try:
        return dask.threaded.get(graph, keys, pool=pool, callbacks=callbacks)
    except BaseException as error:
        wait = isinstance(error, Exception)  # Ctrl-C does not wait for tasks
        ended.set()
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)


class RunEndedError(BaseException):
    """Error in a thread whose run was ended by an error of another task or by Ctrl-C."""


def require_running() -> None:
    """Raise `RunEndedError` in a thread whose run has ended; long tasks call this periodically."""
    if getattr(_thread, "is_over", bool)():
        raise RunEndedError


@contextmanager
def ended_if(is_over: Callable[[], bool]) -> Iterator[None]:
    """End work of this thread that calls `require_running` as soon as a condition is true."""
    outer = getattr(_thread, "is_over", bool)
    _thread.is_over = lambda: outer() or is_over()
    try:
        yield
    except RunEndedError:
        if outer():
            raise
    finally:
        _thread.is_over = outer


def _n_threads() -> int:
    return int(dask.config.get("num_workers", None) or CPU_COUNT + N_IO_THREADS)


def uses_local_threads(local: bool = False) -> bool:
    """Return whether tasks run on threads of this process: no client and no other scheduler is active."""
    scheduler = None if local else get_scheduler()
    return scheduler in (None, dask.threaded.get, dask.local.get_sync)


def _accepts_callbacks(scheduler: Callable[..., Any]) -> bool:
    """Return whether this is one of Dask's local schedulers and not a function of the user."""
    function = getattr(scheduler, "func", scheduler)  # for an executor, Dask's scheduler is a partial
    return function is _run_on_threads or str(function.__module__).startswith("dask.")


class Resources(NamedTuple):
    """Processes, threads and memory of a cluster or of this machine.

    ``threads`` of the largest process, ``memory`` limit of the smallest in bytes, largest resident memory ``base`` in
    bytes, and addresses of the ``workers`` of a cluster, one for each thread.
    """

    processes: int
    threads: int
    all_threads: int
    memory: int
    base: int
    workers: tuple[str, ...] = ()

    @property
    def free(self) -> int:
        """Bytes that a process may still allocate."""
        return max(0, self.memory - self.base)


def n_concurrent_blocks(local: bool = False) -> int:
    """Return the number of memory-intensive tasks that run concurrently."""
    return min(resources(local).all_threads, MAX_CONCURRENT_BLOCKS)


def resources(local: bool = False) -> Resources:
    """Return the resources of the active client's cluster, or of this machine (``local``: always of this machine).

    The memory limit is ``dkdist.memory-limit`` of Dask's configuration (bytes, or "2GiB"); by default that of the
    cluster's workers, else the smallest that applies to this process. CommClosedError if the client is closing.
    """
    client = None if local else active_client()
    if client is None:
        n_threads = _n_threads()
        return Resources(1, n_threads, n_threads, memory_limit(), resident_bytes())
    info = client.scheduler_info(n_workers=-1)
    if "workers" not in info:  # the client has lost its scheduler or is closing
        from distributed.comm.core import CommClosedError  # callers handle it like a lost scheduler

        raise CommClosedError("the Dask client is closing. To fix: make a new Client")
    workers = info["workers"]
    counts = [w["nthreads"] for w in workers.values()] or [1]
    limits = [w["memory_limit"] for w in workers.values() if w["memory_limit"]]
    limit = min(limits) if limits and configured_limit() is None else memory_limit()
    base = max((w.get("metrics", {}).get("memory", 0) for w in workers.values()), default=0)
    addresses = [address for t in range(max(counts)) for address, w in workers.items() if t < w["nthreads"]]
    return Resources(len(counts), max(counts), sum(counts), int(limit), int(base), tuple(addresses))


def n_cores(local: bool = False) -> int:
    """Return the number of threads of the cluster, or of this machine without its I/O threads."""
    is_remote = not local and active_client() is not None
    return resources().all_threads if is_remote else int(dask.config.get("num_workers", None) or CPU_COUNT)


@dataclass(frozen=True)
class Plan:
    """Work and peak memory of a run in bytes; a process holds ``base_bytes`` before the run."""

    what: str
    n_blocks: int
    passes: int
    read_bytes: int
    work_bytes: int
    base_bytes: int
    limit_bytes: int

    remedy: ClassVar[str]

    @property
    def peak_bytes(self) -> int:
        """Peak memory of a process."""
        return self.base_bytes + self.work_bytes

    @property
    def memory_text(self) -> str:
        """Base, peak and limit, for messages."""
        return (
            f"peak memory about {format_bytes(self.peak_bytes)} per process (base {format_bytes(self.base_bytes)}, "
            f"work {format_bytes(self.work_bytes)}; limit {format_bytes(self.limit_bytes)})"
        )

    def check(self) -> None:
        """Raise MemoryError if the peak does not fit."""
        if self.peak_bytes > self.limit_bytes:
            raise MemoryError(
                f"{self}. This does not fit. To fix: {self.remedy}, or raise dask.config 'dkdist.memory-limit' if "
                "more memory is available"
            )

    @contextmanager
    def run(self, verbose: bool | int) -> Iterator[Progress]:
        """Check the plan, print it if ``verbose``, and yield the progress of its blocks."""
        if _DRY_RUN.get():
            raise _DryRunError(self)
        self.check()
        if verbose:
            print(self, file=sys.stderr)
        with Progress(self.n_blocks * self.passes, self.what, show=bool(verbose)) as progress:
            yield progress


class _DryRunError(Exception):
    """Exception that ends a dry run and carries its plan."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(str(plan))
        self.plan = plan


def is_dry_run() -> bool:
    """Return whether the current run ends with its plan."""
    return _DRY_RUN.get()


def plan_of(start: Callable[[], Any]) -> Any:
    """Return the plan of the run that ``start`` begins, without running it; RuntimeError if there is no plan."""
    token = _DRY_RUN.set(True)
    try:
        start()
    except _DryRunError as end:
        return end.plan
    finally:
        _DRY_RUN.reset(token)
    raise RuntimeError("the dry run ended without a plan")


@dataclass(frozen=True)
class BlockPlan(Plan):
    """The plan of a run over blocks of rows."""

    n_rows: int
    block_bytes: int
    cache_text: str = ""
    """Text about cached rows, for messages."""

    remedy = "use fewer features, smaller blocks (open_sets(..., block_sets=))"

    def __str__(self) -> str:
        read = f", reads {format_bytes(self.read_bytes)} per pass" if self.read_bytes else ""
        return (
            f"{self.what}: {self.n_rows:,} rows in {self.n_blocks:,} blocks of up to {format_bytes(self.block_bytes)}"
            f"{read}, {self.passes} pass{'es' if self.passes > 1 else ''}; "
            f"{self.memory_text}{self.cache_text}"
        )


MEMORY_CACHE = "memory"


class CachePolicy(NamedTuple):
    """Location of cached blocks (`MEMORY_CACHE`, a folder, or "" for no cache) and their bytes."""

    location: str = ""
    n_bytes: int = 0

    def add_to(self, plan: BlockPlan) -> BlockPlan:
        """Return the plan of a run with this cache."""
        if not self.location:
            return plan
        in_memory = self.location == MEMORY_CACHE
        text = f"; rows are cached after the first pass, {format_bytes(self.n_bytes)} in {self.location}"
        return replace(plan, work_bytes=plan.work_bytes + in_memory * self.n_bytes, cache_text=text)


def plan_cache(blocks: Blocks, cache: str | PathLike[str] | bool, passes: int) -> CachePolicy:
    """Return where to cache blocks; ``cache`` is "auto", "memory", a folder or False.

    "auto" caches up to 256 MiB in memory and at most an eighth of the free memory. ValueError for "memory" if work runs
    in other processes, because the cache is in the memory of this process.
    """
    if cache is False or blocks.local or passes < 2 or len(blocks) < 2:
        return CachePolicy()
    n_bytes = blocks.n_rows * blocks.source_bytes
    is_local = uses_local_threads()
    if cache == "auto":
        max_bytes = min(MAX_AUTO_CACHE_BYTES, resources(local=True).free // AUTO_CACHE_MEMORY_DIVISOR)
        return CachePolicy(MEMORY_CACHE, n_bytes) if is_local and n_bytes <= max_bytes else CachePolicy()
    if cache == MEMORY_CACHE and not is_local:
        raise ValueError(
            "cache='memory' requires threads of this process, but work runs on a client or in other processes. To fix: "
            "pass a folder that all processes share, cache='auto' or cache=False"
        )
    return CachePolicy(os.path.expanduser(cache), n_bytes)  # type: ignore[arg-type]


def plan_blocks(
    blocks: Blocks,
    *,
    what: str,
    n_blocks: int | None = None,
    passes: int = 1,
    waiting: int = 0,
    state_bytes: int = 0,
) -> BlockPlan:
    """Return the plan of a run over ``n_blocks`` blocks (default: all), each in memory during its task.

    In a fold, ``waiting`` blocks may additionally wait for their step, next to a state of ``state_bytes``.
    """
    rows = np.diff(blocks.bounds).max(initial=0)
    block_bytes = int(rows) * blocks.row_bytes
    read_block = -(-blocks.read_bytes // max(1, len(blocks)))
    machine = resources(blocks.local)
    n_waiting = -(-waiting // machine.processes)
    work = (machine.threads + n_waiting) * block_bytes + machine.threads * read_block + state_bytes
    n = len(blocks) if n_blocks is None else n_blocks
    return BlockPlan(
        what, n, passes, blocks.read_bytes, work, machine.base, machine.memory, blocks.n_rows, block_bytes
    )
