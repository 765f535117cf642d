"""Process state that results depend on: BLAS threads, freed memory, forks and the CPU type.

BLAS uses one thread while any run is active. Active runs are counted: if each run restored the previous limit, the
first of two overlapping runs would return the threads to BLAS while the second is still active.

A fork copies memory and only the calling thread. Thread pools, connections and locks of other threads do not work in
the child: Dask's pools and some locks are replaced, and everything else raises an error.

OpenBLAS, Numba and NumPy select code for the processor, so last bits depend on its type. Tasks carry the CPU type of
the client, and workers of another type raise an error, also if they join late or return to an old address.
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

from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from dkdist._numba.arrays import LARGE
from dkdist._runtime._tuning import MAX_UNTRIMMED_BYTES, MMAP_THRESHOLD_BYTES, TRIM_THRESHOLD_BYTES
from dkdist._utils.memory_budget import resident_bytes
from dkdist._utils.validation import find_stacklevel


def current_worker() -> Any | None:
    """Return the Dask worker whose task calls this, or None outside of tasks of a cluster."""
    distributed: Any = sys.modules.get(
        "distributed.worker"
    )  # a process that has not imported it is not a worker
    try:
        return None if distributed is None else distributed.get_worker()
    except ValueError:
        return None


def warn(message: str) -> None:
    """Warn at the line of the user, or on the clients of the cluster inside a task of a worker."""
    if current_worker() is None:
        warnings.warn(message, stacklevel=find_stacklevel())
    else:
        sys.modules["distributed.worker"].warn(message, stacklevel=3)


class _BlasLimiter:
    """Number of active runs of this process, and the limits to restore after the last one."""

    def __init__(self) -> None:
        self.lock, self.n_runs, self.is_permanent = Lock(), 0, False
        self.limits: list[tuple[ThreadpoolController, threadpool_limits]] = []

    def begin(self, n_runs: int = 1) -> int:
        """Count more runs; return the previous number of BLAS threads, at least 1."""
        with self.lock:
            pools = _blas_libraries(len(sys.modules))
            n_threads = max((pool.num_threads for pool in pools.lib_controllers), default=1)
            if n_threads > 1:  # for the first run, or after another library was loaded
                with _take_control(pools):
                    self.limits.append((pools, pools.limit(limits=1)))
            if n_runs and not self.n_runs:
                LARGE.unused = []
            self.n_runs += n_runs
            return n_threads

    def end(self) -> None:
        """Count one run as ended; after the last one, restore BLAS threads and release memory of large arrays."""
        with self.lock:
            self.n_runs -= 1
            if not self.n_runs:
                LARGE.unused = None
            while self.limits and not self.n_runs and not self.is_permanent:
                pools, limit = self.limits.pop()
                with _take_control(pools):
                    limit.restore_original_limits()


@lru_cache(maxsize=1)
def _blas_libraries(n_modules: int) -> ThreadpoolController:
    """Return the BLAS libraries of this process; searched again (a few milliseconds) after imports."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def _take_control(pools: ThreadpoolController) -> Iterator[None]:
    """Allow this thread, and later other threads, to set the number of BLAS threads.

    Since version 3.8, threadpoolctl silently ignores all threads but the first that set the number.
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
    """Limit BLAS to one thread in this process inside the ``with`` block; costs a few milliseconds."""
    _blas_limiter.begin()
    try:
        yield
    finally:
        _blas_limiter.end()


def materialize_params(spec: Any) -> Any:
    """Return ``spec.materialize()`` on one BLAS thread, because more would change the last bits of factorizations."""
    with one_blas_thread():
        return spec.materialize()


def limit_blas_permanently() -> int:
    """Limit BLAS to one thread until this process ends; return the previous number of threads, at least 1."""
    _blas_limiter.is_permanent = True
    return _blas_limiter.begin(0)


# Parameters of mallopt in glibc's malloc.h: https://man7.org/linux/man-pages/man3/mallopt.3.html
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
THIS_PROCESS = uuid.uuid4().hex
# default of Dask's nannies, not set by the user
NANNY_TRIM_SETTING = ("MALLOC_TRIM_THRESHOLD_", "65536")

FORK_ALTERNATIVES = (
    "start processes with 'spawn' or 'forkserver' (multiprocessing.get_context('spawn')), or with joblib's "
    "'loky'"
)

LOCKS = (("zarr.core.sync", "_lock", Lock), ("dask.tokenize", "tokenize_lock", RLock))
"""Locks of other libraries that a thread of the parent process may hold during a fork."""

_forked_during_run = False
_inherited_client_ids: set[str] = set()
_is_fork_during_run = False


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep up to 512 MiB of freed memory for later blocks; return whether it does.

    By default glibc returns it to the system, which zeroes every page again; this costs 10 % of a run. If the user
    set a ``MALLOC_`` variable, nothing changes.
    """
    settings = [item for item in os.environ.items() if item[0].startswith("MALLOC_")]
    if all(item == NANNY_TRIM_SETTING for item in settings):
        with suppress(OSError, AttributeError):  # the C library is not glibc
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
            libc.mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
            return True
    return False


class _MemoryTrimmer:
    """Returns freed memory of a worker to the system if the process has grown since the last trim.

    Freed blocks leave gaps below longer-lived allocations, and later blocks of other sizes do not fill them. Without
    trimming the process grows by hundreds of MB in a million sets.
    """

    max_growth_bytes = MAX_UNTRIMMED_BYTES

    def __init__(self) -> None:
        self.is_enabled, self.trimmed_bytes = False, 0

    def trim(self) -> None:
        """Trim after a task if necessary; takes microseconds, or milliseconds in one of 50 calls."""
        if self.is_enabled and resident_bytes() > self.trimmed_bytes + self.max_growth_bytes:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            self.trimmed_bytes = resident_bytes()


MEMORY_TRIMMER = _MemoryTrimmer()


def prepare_worker(client: str = "") -> int:
    """Prepare this process as a worker until it ends; return its previous number of BLAS threads, at least 1.

    The process of the ``client`` itself does not change: its threads are limited around each run.
    """
    import scipy.linalg  # noqa: F401  loads the BLAS of SciPy, which is limited below

    if client == THIS_PROCESS:
        return 1
    MEMORY_TRIMMER.is_enabled = keep_freed_memory()
    if MEMORY_TRIMMER.is_enabled:  # only the first arena returns free memory at its top to the system
        ctypes.CDLL("libc.so.6").mallopt(M_ARENA_MAX, 1)
    return limit_blas_permanently()


def require_clean_fork() -> None:
    """Raise RuntimeError in a process that was forked during a run: locks may be held by missing threads."""
    if _forked_during_run:
        raise RuntimeError(
            f"process {os.getpid()} was forked while another thread was running dkdist; that thread does not exist in "
            f"this process. To fix: fork before or after a run, or {FORK_ALTERNATIVES}"
        )


def active_client() -> Any | None:
    """Return the active Dask client, or None.

    RuntimeError if the client is asynchronous, or belongs to the process that this one was forked from.
    """
    from dask.base import get_scheduler  # functions of points in memory do not import Dask

    try:
        scheduler = get_scheduler()
    except RuntimeError as error:
        if "asynchronous" not in str(error):
            raise
        raise RuntimeError(
            "the active Dask client is asynchronous; waiting for its results here would block its event loop. To fix: "
            "call this function in a thread, as in 'await asyncio.to_thread(model.fit, X, y)'; in a task of the "
            "cluster, use a plain function instead of 'async def'"
        ) from error
    client = getattr(scheduler, "__self__", None)
    if not hasattr(client, "scheduler_info"):
        return None
    require_own_client(client)
    return client


def require_own_client(client: Any) -> None:
    """Raise RuntimeError for a client of the process that this one was forked from."""
    if client.id in _inherited_client_ids:
        raise RuntimeError(
            f"process {os.getpid()} was forked from a process with a Dask client; its connection does not work here. "
            f"To fix: {FORK_ALTERNATIVES}; or make a Client of the same address in this process; or compute on threads "
            "of this process with dask.config.set(scheduler='threads')"
        )


def _before_fork() -> None:
    """Record whether another thread runs dkdist, and hold the lock of `_blas_limiter` until the fork is over.

    Before a fork, OpenBLAS joins its threads. It would never return if the number of threads changed at that moment.
    """
    global _is_fork_during_run
    _blas_limiter.lock.acquire()
    _is_fork_during_run = _blas_limiter.n_runs > 0 or any(
        _runs_dkdist(thread) for thread in sys._current_frames()
    )


def _runs_dkdist(thread: int) -> bool:
    """Return whether another thread is inside dkdist; it may also hold locks before and after its runs."""
    frame = None if thread == get_ident() else sys._current_frames().get(thread)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("dkdist."):
            return True
        frame = frame.f_back
    return False


def _after_fork() -> None:
    global _forked_during_run
    _forked_during_run = _forked_during_run or _is_fork_during_run
    _blas_limiter.lock, _blas_limiter.n_runs = Lock(), 0  # the child has only the thread that forked
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
MAX_LISTED_PROCESSES = 3  # number of processes in a message (tests/clusters/test_processors.py)

CpuFeatures = Mapping[str, Sequence[str]]

REMEDY = f"""To fix: use processors of one type; or restrict all processes to the oldest type with environment variables
that are set before this process and every worker start, for x86
  OPENBLAS_CORETYPE=Haswell NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES=
  NPY_DISABLE_CPU_FEATURES='X86_V4 AVX512_ICL AVX512_SPR'
or, if last bits may differ from run to run, set {ALLOW_MIXED_CPUS_KEY!r} to true in the Dask configuration of this
process before the features are created"""


class MixedProcessorsError(ImportError):
    """Error for a run on CPU types whose results differ in the last bits."""


@cache
def cpu_features() -> CpuFeatures:
    """Return the properties of this process that determine last bits, by library."""
    from numba import config
    from numpy._core import _multiarray_umath as umath  # type: ignore[attr-defined]

    from dkdist._numba._numba_private import cpu_target

    _, name, features = cpu_target.target_context.codegen().magic_tuple()
    enabled = [feature[1:] for feature in features.split(",") if feature.startswith("+")]
    svml = ["svml"] if config.USING_SVML else []  # type: ignore[attr-defined]
    return {
        "system": (platform.system(), platform.machine()),
        "BLAS": tuple(sorted(_blas_versions())),
        "Numba": (name, *enabled, *svml),
        "NumPy": tuple(
            word for word in umath.__cpu_baseline__ + umath.__cpu_dispatch__ if umath.__cpu_features__[word]
        ),
    }


def _blas_versions() -> set[str]:
    """Return the BLAS libraries bundled with NumPy and SciPy, or all loaded ones if none are bundled."""
    import scipy.linalg  # noqa: F401  has its own BLAS
    from llvmlite.binding import get_host_cpu_name

    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    bundled = [library for library in loaded if _library_folder(library).startswith(("numpy", "scipy"))]
    return {
        f"{library['internal_api']}-{library['version']}-{library.get('architecture') or get_host_cpu_name()}"
        for library in bundled or loaded
    } or {f"unknown-{get_host_cpu_name()}"}


def _library_folder(library: Mapping[str, Any]) -> str:
    """Return ``numpy.libs`` for Linux and Windows wheels, ``numpy`` for macOS wheels (``numpy/.dylibs``)."""
    folder = Path(library["filepath"]).parent
    return folder.parent.name if folder.name.startswith(".") else folder.name


@cache
def cpu_kind() -> str:
    """Return a hash of `cpu_features`."""
    return hashlib.sha256(repr(sorted(cpu_features().items())).encode()).hexdigest()[:16]


def allows_mixed_cpus() -> bool:
    """Return whether ``dkdist.allow-mixed-processors`` is true: then a warning replaces the error."""
    import dask  # not needed for sets in memory

    value = dask.config.get(ALLOW_MIXED_CPUS_KEY, False)
    if not isinstance(value, bool):
        raise ValueError(
            f"{ALLOW_MIXED_CPUS_KEY!r} in Dask's configuration must be true or false; got {value!r}."
        )
    return value


def require_same_features(client: CpuFeatures, features_by_process: Mapping[str, CpuFeatures]) -> None:
    """Raise MixedProcessorsError for processes whose CPU type differs from the client's; warn if allowed."""
    table = format_differences(client, features_by_process)
    if not table:
        return
    if not allows_mixed_cpus():
        raise MixedProcessorsError(
            "the cluster has processors of another type than this client; results would differ in the last bits. No "
            f"work was submitted:\n{table}\n{REMEDY}"
        )
    warnings.warn(
        f"last bits of results may differ from run to run: the cluster has processors of several types:\n{table}",
        RuntimeWarning,
        stacklevel=find_stacklevel(),
    )


def format_differences(client: CpuFeatures, features_by_process: Mapping[str, CpuFeatures]) -> str:
    """Return a line for each of the first processes that differ from the client, with the differences."""

    def unshared(words: Sequence[str], other_words: Sequence[str]) -> str:
        return " ".join(word for word in words if word not in other_words) or "(no others)"

    lines = []
    for address, process in features_by_process.items():
        topics = [topic for topic in client if set(client[topic]) != set(process[topic])]
        texts = [
            f"{t} {unshared(client[t], process[t])} (client), {unshared(process[t], client[t])} (worker)"
            for t in topics
        ]
        lines += [f"  {address}: {'; '.join(texts)}"] if texts else []
    more = [f"  and {len(lines) - MAX_LISTED_PROCESSES} more"] if len(lines) > MAX_LISTED_PROCESSES else []
    return "\n".join(lines[:MAX_LISTED_PROCESSES] + more)


@dataclass(frozen=True)
class SameCpuTask:
    """Function of tasks that raises on processors of another type, and trims memory of workers."""

    function: Callable[..., Any]
    kind: str

    def __call__(self, *args: Any) -> Any:
        """Return ``function(*args)``."""
        if self.kind != cpu_kind():
            raise MixedProcessorsError(
                f"process {os.getpid()} on {platform.node()} received a task from a processor of another type; results "
                f"would differ in the last bits. This process has {dict(cpu_features())}\n{REMEDY}"
            )
        try:
            return self.function(*args)
        finally:
            MEMORY_TRIMMER.trim()


def require_same_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, restricted to this CPU type unless mixed processors are allowed."""
    return function if allows_mixed_cpus() else SameCpuTask(function, cpu_kind())


def has_placement() -> bool:
    """Return whether annotations of the user choose workers."""
    from dask.base import get_annotations  # this module is imported without Dask

    return bool(get_annotations().keys() & {"workers", "resources", "allow_other_workers"})
