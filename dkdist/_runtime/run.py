"""Where graphs run, what is there, and the plan of a run: on an active client's cluster, or the cores of this machine.

One thread for every BLAS call, set once around a run: Dask already uses every core, and a matrix product
that is split among threads would not always give the same bits. (Nor would processors of several kinds: `processors`.)

A plan is made before a run starts: blocks, bytes, passes and peak memory; a run that cannot fit is refused, and one
that is asked for its plan alone (`plan_of`) ends there.

    peak of a process = base + work,    work ~ (threads + items waiting) x one block + state

The base is what the process holds when the plan is made: the interpreter, libraries and data in memory. Blocks are
counted at their finished size; what is read for one is added. Items that wait are spread over the processes. Limits
are those of `memory_budget`.
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
from dask._task_spec import GraphNode
from dask.base import get_scheduler
from dask.callbacks import Callback
from dask.system import CPU_COUNT
from dask.typing import Key
from dask.utils import format_bytes

from dkdist._runtime.process import keep_freed_memory, one_blas_thread, require_clean_fork, require_own_client
from dkdist._runtime.progress import Progress, show_progress
from dkdist._utils.memory_budget import configured_limit, memory_limit, resident_bytes

if TYPE_CHECKING:
    from dkdist._runtime.blocks import Blocks

MAX_CONCURRENT_BLOCKS = 4  # pieces of work that each take much memory
N_IO_THREADS = 2
MAX_AUTO_CACHE_BYTES, AUTO_CACHE_MEMORY_DIVISOR = (
    2**28,
    8,
)  # what is kept in memory if nobody says so: at most, and of the limit
_thread = local()
_DRY_RUN: ContextVar[bool] = ContextVar("only_planned", default=False)


def run(
    graph: Mapping[Key, GraphNode],
    keys: Sequence[Key],
    *,
    watch: Mapping[Key, int] | None = None,
    progress: Progress | None = None,
    local: bool = False,
    sequential: bool = False,
) -> list[Any]:
    """Compute ``keys`` of a low-level graph on the active scheduler (``local``: on this machine's threads).

    ``progress`` advances by ``watch[key]`` whenever such a key is done. A ``sequential`` graph, whose tasks
    wait for each other, is run by the calling thread unless the user chose a scheduler: handing each task to another
    thread would take longer than a small task.
    """
    require_clean_fork()
    watch = watch if progress is not None and watch is not None else {}
    client = None if local else active_client()
    if client is not None:
        from dkdist._runtime.cluster import compute  # imports that this machine alone does not need

        return compute(client, graph, keys, watch, progress)

    def told(key: Key, *_: Any) -> None:
        if progress is not None and key in watch:
            progress.advance(watch[key])

    with one_blas_thread():
        scheduler: Callable[..., Any] = (None if local else get_scheduler()) or (
            dask.local.get_sync if sequential else _run_on_threads
        )
        if not _accepts_callbacks(scheduler):
            with Callback(posttask=told):
                return list(scheduler(dict(graph), list(keys)))
        # given to this run alone: what is set for all is confused by runs in other threads
        return list(
            scheduler(dict(graph), list(keys), callbacks=[*Callback.active, (None, None, None, told, None)])
        )


def _run_on_threads(graph: dict[Key, GraphNode], keys: list[Key], callbacks: list[Any]) -> Any:
    """Dask's threaded scheduler on threads that end with the run: a fork copies none that sleeps."""
    keep_freed_memory()
    ended, n_threads = Event(), min(_n_threads(), len(graph))
    pool = ThreadPoolExecutor(n_threads, "dkdist", initializer=setattr, initargs=(_thread, "ended", ended))
    wait = True
    try:
        return dask.threaded.get(graph, keys, pool=pool, callbacks=callbacks)
    except BaseException as error:
        wait = isinstance(error, Exception)  # Ctrl-C waits for no task
        ended.set()
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)


class RunEndedError(BaseException):
    """The run that this thread works for has ended by an error of another task or by Ctrl-C."""


def require_running() -> None:
    """Raise `RunEndedError` in a thread whose run has ended: long tasks call this from time to time."""
    ended = getattr(_thread, "ended", None)
    if ended is not None and ended.is_set():
        raise RunEndedError


def _n_threads() -> int:
    """Threads of this machine: two more than there are cores, since some wait for a disk."""
    return int(dask.config.get("num_workers", None) or CPU_COUNT + N_IO_THREADS)


def uses_local_threads(local: bool = False) -> bool:
    """Whether tasks run on threads of this process: there is no client and no other scheduler was chosen."""
    chosen = None if local else get_scheduler()
    return chosen in (None, dask.threaded.get, dask.local.get_sync)


def _accepts_callbacks(scheduler: Callable[..., Any]) -> bool:
    """Whether this is one of Dask's local schedulers, and not a function of the user's."""
    function = getattr(scheduler, "func", scheduler)  # an executor's is partial
    return function is _run_on_threads or str(function.__module__).startswith("dask.")


def active_client() -> Any | None:
    """The client of the cluster that work goes to, if there is one.

    RuntimeError if it cannot be waited for: it is asynchronous here, or of the process that this one was forked from.
    """
    try:
        scheduler = get_scheduler()
    except RuntimeError as error:
        if "asynchronous" not in str(error):
            raise
        raise RuntimeError(
            "the active Dask client is asynchronous here, and this call waits for its results, which would stop the "
            "event loop that makes them. To fix: call it in a thread, as 'await asyncio.to_thread(model.fit, X, y)'; "
            "as a task of the cluster, give it to a plain function and not to an 'async def'"
        ) from error
    client = getattr(scheduler, "__self__", None)
    if not hasattr(client, "scheduler_info"):
        return None
    require_own_client(client)
    return client


class Resources(NamedTuple):
    """``threads`` are those of the largest process, ``memory`` the limit of the smallest in bytes.

    ``base`` are the bytes that a process holds already, at most. ``workers`` are the addresses of those that a cluster
    has, one for each thread.
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
    """How many pieces of work that each take much memory are done at once, by `resources`."""
    return min(resources(local).all_threads, MAX_CONCURRENT_BLOCKS)


def resources(local: bool = False) -> Resources:
    """Ask the active client's cluster, or this machine (``local``: this machine in any case).

    The memory limit is the configuration ``dkdist.memory-limit`` (bytes, or "2GiB") if it is set, else that of the
    cluster's workers, else the smallest that applies to this process. CommClosedError of a client that is closing.
    """
    client = None if local else active_client()
    if client is None:
        threads = _n_threads()
        return Resources(1, threads, threads, memory_limit(), resident_bytes())
    told = client.scheduler_info(n_workers=-1)
    if "workers" not in told:  # it lost its scheduler, or was told to close
        from distributed.comm.core import CommClosedError  # counts as a lost scheduler where work runs

        raise CommClosedError("the Dask client is closing. To fix: make a new Client")
    workers = told["workers"]
    counts = [w["nthreads"] for w in workers.values()] or [1]
    limits = [w["memory_limit"] for w in workers.values() if w["memory_limit"]]
    limit = min(limits) if limits and configured_limit() is None else memory_limit()
    base = max((w.get("metrics", {}).get("memory", 0) for w in workers.values()), default=0)
    of_threads = [address for t in range(max(counts)) for address, w in workers.items() if t < w["nthreads"]]
    return Resources(len(counts), max(counts), sum(counts), int(limit), int(base), tuple(of_threads))


def n_cores(local: bool = False) -> int:
    """Cores that work goes to: threads of the cluster, or of this machine without those that wait."""
    away = not local and active_client() is not None
    return resources().all_threads if away else int(dask.config.get("num_workers", None) or CPU_COUNT)


@dataclass(frozen=True)
class Plan:
    """What a run will do and take; ``check`` refuses one that does not fit, ``run`` prints it, shows progress.

    A process holds ``base_bytes`` before the run, and ``work_bytes`` more at its peak.
    """

    what: str
    n_blocks: int
    passes: int
    read_bytes: int
    work_bytes: int
    base_bytes: int
    limit_bytes: int

    to_fix: ClassVar[str]

    @property
    def peak_bytes(self) -> int:
        """Memory of a process at its peak."""
        return self.base_bytes + self.work_bytes

    @property
    def memory_text(self) -> str:
        """Base, peak and limit, for messages."""
        return (
            f"peak memory about {format_bytes(self.peak_bytes)} a process (base {format_bytes(self.base_bytes)}, work "
            f"{format_bytes(self.work_bytes)}; limit {format_bytes(self.limit_bytes)})"
        )

    def check(self) -> None:
        """Raise MemoryError if the peak does not fit."""
        if self.peak_bytes > self.limit_bytes:
            raise MemoryError(
                f"{self}. This does not fit. To fix: {self.to_fix}, or raise dask.config 'dkdist.memory-limit' if you "
                "know better"
            )

    @contextmanager
    def run(self, verbose: bool | int) -> Iterator[Progress]:
        """Check the plan, print it if asked to, and give the progress of its blocks; say when loops are compiled."""
        if _DRY_RUN.get():
            raise _DryRunError(self)
        self.check()
        if verbose:
            print(self, file=sys.stderr)
        with show_progress(self.n_blocks * self.passes, self.what, "blocks", bool(verbose)) as progress:
            yield progress


class _DryRunError(Exception):
    """A run has come to its plan, which is all that is wanted."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(str(plan))
        self.plan = plan


def is_dry_run() -> bool:
    """Whether what runs now ends at its plan."""
    return _DRY_RUN.get()


def plan_of(start: Callable[[], Any]) -> Any:
    """The plan of the run that ``start`` begins, which ends before its first task; RuntimeError if it makes no plan."""
    token = _DRY_RUN.set(True)
    try:
        start()
    except _DryRunError as found:
        return found.plan
    finally:
        _DRY_RUN.reset(token)
    raise RuntimeError("what was started has come to its end without a plan")


@dataclass(frozen=True)
class BlockPlan(Plan):
    """The plan of a run over blocks of rows."""

    n_rows: int
    block_bytes: int
    kept: str = ""
    """What is said of rows that are kept after the first pass."""

    to_fix = "use fewer features, smaller blocks (open_sets(..., block_sets=))"

    def __str__(self) -> str:
        read = f", reads {format_bytes(self.read_bytes)} a pass" if self.read_bytes else ""
        return (
            f"{self.what}: {self.n_rows:,} rows in {self.n_blocks:,} blocks of up to {format_bytes(self.block_bytes)}"
            f"{read}, {self.passes} pass{'es' if self.passes > 1 else ''}; "
            f"{self.memory_text}{self.kept}"
        )


MEMORY_CACHE = "memory"


class CachePolicy(NamedTuple):
    """Where blocks are kept after the first pass (`MEMORY_CACHE` or a folder), and how many bytes; nowhere is ""."""

    place: str = ""
    n_bytes: int = 0

    def told(self, plan: BlockPlan) -> BlockPlan:
        """The plan with what is kept."""
        if not self.place:
            return plan
        in_memory = self.place == MEMORY_CACHE
        kept = f"; rows are made once and kept, {format_bytes(self.n_bytes)} in {self.place}"
        return replace(plan, work_bytes=plan.work_bytes + in_memory * self.n_bytes, kept=kept)


def plan_cache(blocks: Blocks, cache: str | PathLike[str] | bool, passes: int) -> CachePolicy:
    """Where blocks are to be kept: ``cache`` is "auto" (256 MiB and an eighth of the limit), "memory", a folder, False.

    ValueError for memory where work goes to a scheduler: there blocks are kept by this process for its threads.
    """
    if cache is False or blocks.local or passes < 2 or len(blocks) < 2:
        return CachePolicy()
    n_bytes = blocks.n_rows * blocks.source_bytes
    here = uses_local_threads()
    if cache == "auto":
        room = min(MAX_AUTO_CACHE_BYTES, resources(local=True).free // AUTO_CACHE_MEMORY_DIVISOR)
        return CachePolicy(MEMORY_CACHE, n_bytes) if here and n_bytes <= room else CachePolicy()
    if cache == MEMORY_CACHE and not here:
        raise ValueError(
            "cache='memory' keeps rows in this process, but work goes to a client or to other processes. To fix: a "
            "folder that all processes share, or cache='auto' or False"
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
    """The plan of a run over ``n_blocks`` blocks, or all: each lives as long as the task that makes it.

    In a fold ``waiting`` blocks may wait for their step, beside a state of some size.
    """
    rows = np.diff(blocks.bounds).max(initial=0)
    block_bytes = int(rows) * blocks.row_bytes
    read_block = -(-blocks.read_bytes // max(1, len(blocks)))
    there = resources(blocks.local)
    waiting_here = -(-waiting // there.processes)
    work = (there.threads + waiting_here) * block_bytes + there.threads * read_block + state_bytes
    n = len(blocks) if n_blocks is None else n_blocks
    return BlockPlan(
        what, n, passes, blocks.read_bytes, work, there.base, there.memory, blocks.n_rows, block_bytes
    )
