"""Whether processes make the same last bits: which kernels their BLAS, compiled loops and NumPy chose for a processor.

One installation adds in another order on another processor: OpenBLAS, numba and NumPy each hold code for several and
take what suits the one they start on, or what environment variables say. So bits are promised on processors of one
kind, and a cluster is held to it: workers are asked before they get work (`versions`), and tasks carry the kind that
they were made for, so that workers which join late, come back at an old address or leave again are found out too.

Warnings that reach the user, wherever the code runs that gives them.

What a process that computes should be: one thread for BLAS, freed memory kept, and nothing taken over by a fork.

Workers are made so for as long as they live, by `dkdist.preload` when they start, else when a client first gives them
work.

A fork copies memory and one thread. Pools and connections go on looking alive, and who asks them waits for ever. Dask's
pools are forgotten, so that new ones are made, and so are locks; what cannot be made anew is refused by name.

BLAS has one thread for the whole process while any run is under way, however many threads have one. Each run for itself
would put back what it found: the first of two that overlap gives BLAS its threads back while the second still computes,
and the second leaves one for ever. So runs are counted, and the last puts back what the first found.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock, RLock, get_ident
from typing import Any

import dask
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from dkdist._numba.arrays import LARGE
from dkdist._utils.memory_budget import resident_bytes
from dkdist._utils.validation import find_stacklevel


def warn(message: str) -> None:
    """Warn the user: here, and on the clients of the cluster if this is one of its workers."""
    worker = sys.modules.get("distributed.worker")  # a process that has not imported it is no worker
    if worker is None:
        warnings.warn(message, stacklevel=find_stacklevel())
    else:
        worker.warn(message, stacklevel=3)


class _BlasLimiter:
    """How many are under way in this process, and the limits to take back after the last."""

    def __init__(self) -> None:
        self.lock, self.under_way, self.for_good = Lock(), 0, False
        self.limits: list[tuple[ThreadpoolController, threadpool_limits]] = []

    def begin(self, runs: int = 1) -> int:
        """Count so many more; the BLAS threads that were found, at least 1."""
        with self.lock:
            pools = _blas_libraries(len(sys.modules))
            found = max((pool.num_threads for pool in pools.lib_controllers), default=1)
            if found > 1:  # the first, or a library that was loaded since
                with _take_control(pools):
                    self.limits.append((pools, pools.limit(limits=1)))
            if runs and not self.under_way:
                LARGE.unused = []
            self.under_way += runs
            return found

    def end(self) -> None:
        """Count one less; after the last BLAS has its threads back, and memory of large arrays is let go."""
        with self.lock:
            self.under_way -= 1
            if not self.under_way:
                LARGE.unused = None
            while self.limits and not self.under_way and not self.for_good:
                pools, limit = self.limits.pop()
                with _take_control(pools):
                    limit.restore_original_limits()


@lru_cache(maxsize=1)
def _blas_libraries(n_modules: int) -> ThreadpoolController:
    """The BLAS libraries of this process, looked for (some milliseconds) when modules were loaded since."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def _take_control(pools: ThreadpoolController) -> Iterator[None]:
    """Let this thread set the number of BLAS threads, and any other one after it.

    Since version 3.8 threadpoolctl does nothing, silently, in any but the first thread that set it.
    """
    controllers = [c for c in pools.lib_controllers if hasattr(c, "clear_controlling_thread")]
    for controller in controllers:
        controller.clear_controlling_thread(force=True)
    yield
    for controller in controllers:
        controller.clear_controlling_thread(force=True)


_blas_limiter = _BlasLimiter()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread inside the ``with``, in all threads of this process. Costs some milliseconds."""
    _blas_limiter.begin()
    try:
        yield
    finally:
        _blas_limiter.end()


def materialize_params(spec: Any) -> Any:
    """``spec.materialize()`` on one BLAS thread: a factorisation that is split among threads has other bits."""
    with one_blas_thread():
        return spec.materialize()


def limit_blas_permanently() -> int:
    """Hold BLAS to one thread for as long as this process lives; the threads it had before, at least 1."""
    _blas_limiter.for_good = True
    return _blas_limiter.begin(0)


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h
THIS_PROCESS = uuid.uuid4().hex
DASK_TRIM = ("MALLOC_TRIM_THRESHOLD_", "65536")  # what Dask's nannies give every worker: nobody's choice

FORK_ALTERNATIVES = "start processes with 'spawn' or 'forkserver' (multiprocessing.get_context('spawn')), or with joblib's 'loky'"

LOCKS = (("zarr.core.sync", "_lock", Lock), ("dask.tokenize", "tokenize_lock", RLock))
"""Locks of other libraries that a thread may have held which is not in the child."""

_forked_during_run = False
_inherited_client_ids: set[str] = set()  # ids of clients
_is_fork_during_run = False


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep up to 512 MB that blocks have freed for the blocks that follow; whether it does.

    By default it gives them back to the system, which zeroes every page again: a tenth of a run. Whoever set one
    of glibc's own variables knows better.
    """
    if not any(
        name.startswith("MALLOC_") for name, value in os.environ.items() if (name, value) != DASK_TRIM
    ):
        with suppress(OSError, AttributeError):  # another C library
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
            libc.mallopt(M_TRIM_THRESHOLD, 512 * 2**20)
            return True
    return False


class _MemoryTrimmer:
    """When a worker gives freed memory back: where it has much more than after it did so last.

    Blocks leave gaps of other sizes, which the next ones do not fill, below some number that lives on; so what is kept
    would grow with the number of blocks, by hundreds of MB in a million sets.
    """

    most = 96 * 2**20  # bytes more: about what a block needs, with all that is made of it

    def __init__(self) -> None:
        self.wanted, self.least = False, 0

    def look(self) -> None:
        """After a task: some microseconds, and some milliseconds in one of fifty."""
        if self.wanted and resident_bytes() > self.least + self.most:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            self.least = resident_bytes()


MEMORY_TRIMMER = _MemoryTrimmer()


def prepare_worker(client: str = "") -> int:
    """Make this process a worker's, for as long as it lives; the BLAS threads it had before, at least 1.

    Nothing is changed if it is the process of the ``client`` that asks: its threads are limited around each run.
    """
    import scipy.linalg  # noqa: F401  its BLAS can only be limited once it is there

    if client == THIS_PROCESS:
        return 1
    MEMORY_TRIMMER.wanted = keep_freed_memory()
    if MEMORY_TRIMMER.wanted:  # only the first arena gives back what is free at its end
        ctypes.CDLL("libc.so.6").mallopt(M_ARENA_MAX, 1)
    return limit_blas_permanently()


def require_clean_fork() -> None:
    """Raise RuntimeError in a process that was forked in the middle of a run: locks may be held by nobody."""
    if _forked_during_run:
        raise RuntimeError(
            f"process {os.getpid()} was forked while another thread was at work in dkdist, and has none of that "
            f"thread's work to end. To fix: fork before or after a run, or {FORK_ALTERNATIVES}"
        )


def require_own_client(client: Any) -> None:
    """Raise RuntimeError for a client of the process that this one was forked from."""
    if client.id in _inherited_client_ids:
        raise RuntimeError(
            f"process {os.getpid()} was forked from one with a Dask client, whose connection does not work here. "
            f"To fix: {FORK_ALTERNATIVES}; or make a Client of the same address here; or compute on this process's own threads, "
            "with dask.config.set(scheduler='threads')"
        )


def _before_fork() -> None:
    """Note who is at work, and hold the lock of `_blas_limiter` until the fork is over.

    Before a fork OpenBLAS waits for its threads to end, and waits for ever for one that a change of their number starts
    at that moment.
    """
    global _is_fork_during_run
    _blas_limiter.lock.acquire()
    _is_fork_during_run = _blas_limiter.under_way > 0 or any(
        _runs_dkdist(thread) for thread in sys._current_frames()
    )


def _runs_dkdist(thread: int) -> bool:
    """Whether another thread is anywhere within dkdist: before and after its runs it may hold locks, too."""
    frame = None if thread == get_ident() else sys._current_frames().get(thread)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("dkdist."):
            return True
        frame = frame.f_back
    return False


def _after_fork() -> None:
    global _forked_during_run
    _forked_during_run = _forked_during_run or _is_fork_during_run
    _blas_limiter.lock, _blas_limiter.under_way = Lock(), 0  # runs of the parent's threads do not go on here
    threaded: Any = sys.modules.get("dask.threaded")
    if threaded is not None:
        threaded.pools.clear()
        threaded.default_pool, threaded.pools_lock = None, Lock()
    for module, name, lock in LOCKS:
        if hasattr(sys.modules.get(module), name):
            setattr(sys.modules[module], name, lock())
    distributed: Any = sys.modules.get("distributed.client")
    if distributed is not None:
        _inherited_client_ids.update(client.id for client in list(distributed.Client._instances))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=lambda: _blas_limiter.lock.release(), after_in_child=_after_fork
    )


ALLOW_MIXED_CPUS_KEY = "dkdist.allow-mixed-processors"
MAX_LISTED_PROCESSES = 3  # processes in a message

CpuFeatures = Mapping[str, Sequence[str]]

REMEDY = f"""To fix: take processors of one kind; or let all work like the least of them, by the environment in which
this process and every worker start, for x86
  OPENBLAS_CORETYPE=Haswell NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES=
  NPY_DISABLE_CPU_FEATURES='X86_V4 AVX512_ICL AVX512_SPR'
or, where last bits may differ from run to run, set {ALLOW_MIXED_CPUS_KEY!r} to true in the Dask configuration of this
process before features are made"""


class MixedProcessorsError(ImportError):
    """Processes whose results have other last bits were to work together."""


@cache
def cpu_features() -> CpuFeatures:
    """What decides last bits in this process, each in some words."""
    from numba import config
    from numba.core.registry import cpu_target
    from numpy._core import _multiarray_umath as umath  # type: ignore[attr-defined]

    _, name, features = cpu_target.target_context.codegen().magic_tuple()
    used = [feature[1:] for feature in features.split(",") if feature.startswith("+")]
    svml = ["svml"] if config.USING_SVML else []  # type: ignore[attr-defined]
    return {
        "system": (platform.system(), platform.machine()),
        "BLAS": tuple(sorted(_blas_versions())),
        "compiled loops": (name, *used, *svml),
        "NumPy": tuple(
            word for word in umath.__cpu_baseline__ + umath.__cpu_dispatch__ if umath.__cpu_features__[word]
        ),
    }


def _blas_versions() -> set[str]:
    """The libraries that NumPy and SciPy brought with them, or all that are loaded where they brought none."""
    import scipy.linalg  # noqa: F401  its BLAS is another one
    from llvmlite.binding import get_host_cpu_name

    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    brought = [library for library in loaded if _library_folder(library).startswith(("numpy", "scipy"))]
    return {
        f"{library['internal_api']}-{library['version']}-{library.get('architecture') or get_host_cpu_name()}"
        for library in brought or loaded
    } or {f"unknown-{get_host_cpu_name()}"}


def _library_folder(library: Mapping[str, Any]) -> str:
    """``numpy.libs`` of wheels, ``numpy`` of those that have ``numpy/.dylibs``."""
    folder = Path(library["filepath"]).parent
    return folder.parent.name if folder.name.startswith(".") else folder.name


@cache
def cpu_kind() -> str:
    """The same in two processes if and only if their `cpu_features` are."""
    return hashlib.sha256(repr(sorted(cpu_features().items())).encode()).hexdigest()[:16]


def allows_mixed_cpus() -> bool:
    """Whether ``dkdist.allow-mixed-processors`` says to go on with a warning."""
    found = dask.config.get(ALLOW_MIXED_CPUS_KEY, False)
    if not isinstance(found, bool):
        raise ValueError(
            f"{ALLOW_MIXED_CPUS_KEY!r} in Dask's configuration must be true or false; found {found!r}"
        )
    return found


def require_same_features(client: CpuFeatures, kernels_by_process: Mapping[str, CpuFeatures]) -> None:
    """Refuse processes whose kernels differ from the client's; warn if mixed processors are allowed."""
    table = format_differences(client, kernels_by_process)
    if not table:
        return
    if not allows_mixed_cpus():
        raise MixedProcessorsError(
            "the cluster has processors of another kind than this client, whose results have other last bits, and got "
            f"no work:\n{table}\n{REMEDY}"
        )
    warnings.warn(
        f"last bits of results may differ from run to run, since the cluster has processors of several kinds:\n{table}",
        RuntimeWarning,
        stacklevel=find_stacklevel(),
    )


def format_differences(client: CpuFeatures, kernels_by_process: Mapping[str, CpuFeatures]) -> str:
    """Return a line for each of the first few processes that differ from the client: what only one of the two has."""

    def only(words: Sequence[str], others: Sequence[str]) -> str:
        return " ".join(word for word in words if word not in others) or "nothing more"

    lines = []
    for address, process in kernels_by_process.items():
        topics = [topic for topic in client if set(client[topic]) != set(process[topic])]
        texts = [
            f"{t} {only(client[t], process[t])} here, {only(process[t], client[t])} there" for t in topics
        ]
        lines += [f"  {address}: {'; '.join(texts)}"] if texts else []
    more = [f"  and {len(lines) - MAX_LISTED_PROCESSES} more"] if len(lines) > MAX_LISTED_PROCESSES else []
    return "\n".join(lines[:MAX_LISTED_PROCESSES] + more)


@dataclass(frozen=True)
class SameCpuTask:
    """A function of tasks that refuses to run on processors of another kind than it was made for.

    A worker gives memory back after it.
    """

    function: Callable[..., Any]
    kind: str

    def __call__(self, *args: Any) -> Any:
        """``function(*args)``."""
        if self.kind != cpu_kind():
            raise MixedProcessorsError(
                f"process {os.getpid()} of {platform.node()} received work that began on processors of another kind, "
                f"whose results have other last bits. It has {dict(cpu_features())}\n{REMEDY}"
            )
        try:
            return self.function(*args)
        finally:
            MEMORY_TRIMMER.look()


def require_same_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, held to processors of this one's kind unless mixed ones are allowed."""
    return function if allows_mixed_cpus() else SameCpuTask(function, cpu_kind())
