"""Work on a Dask cluster: connection, checks of workers, errors, reconnection and graphs of tasks.

A worker is checked once per client, before the first run: versions of packages and the CPU type must be those of the
client. Workers that join during a run are checked at its end. The scheduler unpickles tasks, so its packages are
checked as well. A run ends with TimeoutError after ``dkdist.wait-for-workers`` without workers.

`compute` runs one graph whose results are sent to the client; folds and maps are in `futures.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import dask
from dask.typing import Key
from dask.utils import parse_timedelta
from distributed import Client, as_completed
from distributed import wait as wait_for_futures
from distributed.comm.core import CommClosedError
from distributed.core import rpc
from distributed.scheduler import KilledWorker
from distributed.security import Security
from distributed.threadpoolexecutor import rejoin
from distributed.versions import get_versions
from distributed.worker import secede, thread_state  # type: ignore[attr-defined]

from dkdist._runtime._dask_private import GraphNode
from dkdist._runtime._tuning import (
    CONNECTION_TIMEOUT_SECONDS,
    MAX_RECONNECTIONS,
    NEW_WORKER_TIMEOUT_SECONDS,
    POLL_SECONDS,
    SCHEDULER_TIMEOUT_SECONDS,
    WORKER_CHECK_SECONDS,
)
from dkdist._runtime.blocks import TaskBatch, TaskPayload
from dkdist._runtime.dashboard import annotate_run
from dkdist._runtime.process import (
    THIS_PROCESS,
    CpuFeatures,
    cpu_features,
    format_differences,
    one_blas_thread,
    prepare_worker,
    require_clean_fork,
    require_same_features,
)
from dkdist._runtime.progress import Progress
from dkdist._utils.validation import find_stacklevel

KEPT_HINT = "Committed stores and saved checkpoints remain valid; the same call continues from them."
# the second reason is that of a restarted scheduler
LOST_SCHEDULER_REASONS = (
    "scheduler-connection-lost",
    "lost dependencies",
)


def killed_worker_error(killed: KilledWorker, graph: Mapping[Key, GraphNode]) -> RuntimeError:
    """Return the error for a task whose workers died, with the rows of its blocks."""
    arguments = getattr(graph.get(killed.task), "args", ())
    rows = next((a.rows_text for a in arguments if isinstance(a, (TaskPayload, TaskBatch))), str(killed.task))
    return RuntimeError(
        f"{killed.allowed_failures + 1} workers died while computing {rows} (last: {killed.last_worker.address}). The "
        "most common cause is lack of memory. To fix: use smaller blocks (open_sets(..., block_sets=)), fewer features "
        f"or more memory per worker. {KEPT_HINT}"
    )


def is_connection_lost(client: Any, error: BaseException) -> bool:
    """Return whether work ended because the connection to the scheduler was lost.

    Dask also cancels futures for other reasons. A client that stops reconnecting cancels them without a reason.
    """
    is_lost = isinstance(error, CommClosedError) or any(
        reason in str(error) for reason in LOST_SCHEDULER_REASONS
    )
    return is_lost or client.status != "running"


def wait_for_scheduler(client: Any) -> bool:
    """Return whether the client reconnects to its scheduler within its own connection timeout."""
    while client.status == "connecting" or (client.status == "running" and client.scheduler_comm is None):
        time.sleep(POLL_SECONDS)
    if client.status != "running":
        return False
    message = "reconnected to the Dask scheduler; recomputing the blocks in flight"
    warnings.warn(message, RuntimeWarning, stacklevel=find_stacklevel())
    return True


def no_workers_error(address: str, seconds: float) -> TimeoutError:
    """Return the error for a cluster without workers."""
    return TimeoutError(
        f"the cluster at {address} has had no worker for {seconds:g} s. To fix: start one with 'dask worker "
        f"{address}', or increase 'dkdist.wait-for-workers' in Dask's configuration. {KEPT_HINT}"
    )


def lost_scheduler_error(address: str) -> ConnectionError:
    """Return the error for a lost scheduler."""
    return ConnectionError(
        f"the connection to the Dask scheduler at {address} was lost. To fix: start the scheduler again, or make a "
        f"Client of another one. {KEPT_HINT}"
    )


DEFAULT_WAIT_TIMEOUT = "30s"  # time to wait for a worker

_log = logging.getLogger(__name__)


@contextmanager
def run_seceded() -> Iterator[None]:
    """Leave the thread pool of the worker whose task calls this, as Dask's own ``compute`` does.

    Otherwise the task could wait for results that need its own thread.
    """
    has_seceded = False
    if getattr(thread_state, "key", None) is not None:  # this is a task of a worker
        with suppress(Exception):  # raised if the task has already seceded
            secede()
            has_seceded = True
    try:
        yield
    finally:
        if has_seceded:
            rejoin()


def wait_timeout() -> float:
    """Return the seconds that a run waits for a worker."""
    return float(parse_timedelta(dask.config.get("dkdist.wait-for-workers", DEFAULT_WAIT_TIMEOUT)))


def log_wait(client: Any) -> None:
    """Log that a cluster has no workers."""
    text = "the cluster at %s has no workers; waiting up to %g s for one"
    _log.warning(text, client.scheduler.address, wait_timeout())


class ResultMonitor:
    """Waits for results of a client; TimeoutError after `wait_timeout` seconds without workers."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._reset()

    def next_batch(self, completed: Any) -> list[Any]:
        """Return futures of an ``as_completed`` that ended since the last call; [] only if none remain."""
        self._reset()
        while not completed.has_ready():
            if completed.is_empty():
                return []
            with completed.thread_condition:
                completed.thread_condition.wait(POLL_SECONDS)
            self._require_workers()
        return list(completed.next_batch(block=False))

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Return results of futures that ended; inside a task through the scheduler, which detects lost workers."""
        self._reset()
        direct = False if hasattr(thread_state, "key") else None
        coroutine = self.client.gather(futures, direct=direct, asynchronous=True)
        results = asyncio.run_coroutine_threadsafe(coroutine, self.client.loop.asyncio_loop)
        try:
            while not wait([results], timeout=WORKER_CHECK_SECONDS).done:
                self._require_workers()
        except BaseException:
            results.cancel()
            raise
        return list(results.result())

    def _reset(self) -> None:
        self._checked = self._had_workers = monotonic()
        self._logged = False

    def _require_workers(self) -> None:
        if monotonic() - self._checked < WORKER_CHECK_SECONDS or self.client.status != "running":
            return
        has_workers = self._has_workers()
        self._checked = monotonic()
        if has_workers:
            self._had_workers = self._checked
        elif self._checked - self._had_workers >= wait_timeout():
            raise no_workers_error(self.client.scheduler.address, wait_timeout())
        elif not self._logged:
            self._logged = True
            log_wait(self.client)

    def _has_workers(self) -> bool:
        """Return True if the cluster has workers, or if its scheduler is too busy to answer."""
        rpc_ncores = self.client.scheduler.ncores
        try:
            return bool(self.client.sync(rpc_ncores, callback_timeout=SCHEDULER_TIMEOUT_SECONDS))
        except TimeoutError:
            text = "the Dask scheduler at %s has not answered for %g s; waiting for it"
            _log.warning(text, self.client.scheduler.address, SCHEDULER_TIMEOUT_SECONDS)
            return True


PACKAGES = ("dkdist", "dask", "distributed", "numpy", "numba", "scipy", "zarr", "scikit-learn")
REMEDY = "To fix: install the same versions everywhere, then restart the scheduler and the workers"

_checked_workers: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


@contextmanager
def checked_workers(client: Any) -> Iterator[None]:
    """Run the body on workers with the versions and CPU type of this client; wait for a first worker.

    TimeoutError if none joins within ``dkdist.wait-for-workers`` of Dask's configuration (30 s), ImportError for
    another version of Python or of a package that results depend on, MixedProcessorsError for another CPU type (a
    warning with ``dkdist.allow-mixed-processors``).
    """
    if not client.nthreads():
        _wait_for_worker(client)
    _check_new_workers(client, max(NEW_WORKER_TIMEOUT_SECONDS, wait_timeout()))
    try:
        yield
    except Exception:
        if client.status == "running":
            _check_new_workers(client)  # a worker with other versions is a better explanation of the error
        raise
    for address, n_threads in _check_new_workers(client).items():
        if n_threads > 1:
            warnings.warn(
                f"worker {address} joined during this run with {n_threads} BLAS threads; last bits of results may "
                "differ. Start workers with --preload dkdist.preload or under a nanny.",
                stacklevel=find_stacklevel(),
            )


def _wait_for_worker(client: Any) -> None:
    """Submit a task and wait for it: an adaptive cluster starts workers only for tasks."""
    log_wait(client)
    try:
        wait_for_futures(client.submit(int, key=f"dkdist_wait-{uuid.uuid4().hex}"), wait_timeout())
    except TimeoutError as error:
        raise no_workers_error(client.scheduler.address, wait_timeout()) from error


def _check_new_workers(client: Any, timeout: float = NEW_WORKER_TIMEOUT_SECONDS) -> dict[str, int]:
    """Check and prepare new workers; return their previous numbers of BLAS threads.

    A worker that does not respond within ``timeout`` seconds is checked again by the next run.
    """
    checked = _checked_workers.setdefault(client, set())
    new = [address for address in client.nthreads() if address not in checked]
    if not new:
        return {}
    answers = client.sync(_inspect_workers, client, new, timeout)
    if not answers and not checked:
        raise no_workers_error(client.scheduler.address, timeout)
    versions = {worker: _compared_versions(packages) for worker, (packages, _, _) in answers.items()}
    if not checked:
        scheduler = client.sync(client.scheduler.versions, packages=PACKAGES, callback_timeout=timeout)
        versions["the scheduler"] = _compared_versions(scheduler["packages"])
    if table := format_differences(_compared_versions(get_versions(PACKAGES)["packages"]), versions):
        raise ImportError(
            f"the versions on the cluster differ from those of this client. No work was submitted:\n{table}\n{REMEDY}"
        )
    require_same_features(cpu_features(), {worker: features for worker, (_, features, _) in answers.items()})
    checked.update(answers)
    return {worker: n_threads for worker, (_, _, n_threads) in answers.items()}


def inspect_worker(client: str) -> tuple[Mapping[str, str | None], CpuFeatures, int]:
    """Prepare this process for work; return its versions, CPU features and previous number of BLAS threads."""
    return get_versions(PACKAGES)["packages"], cpu_features(), prepare_worker(client)


async def _inspect_workers(client: Any, workers: Sequence[str], timeout: float) -> dict[str, Any]:
    """Return results of `inspect_worker` by worker, without workers that died; warn of those that do not respond."""

    async def inspect(worker: str) -> Any:
        answer = client.run(inspect_worker, THIS_PROCESS, workers=[worker], on_error="return")
        try:
            return (await asyncio.wait_for(answer, timeout)).get(worker)
        except TimeoutError as error:  # a stopped worker must not delay the others
            return error

    answers = dict(zip(workers, await asyncio.gather(*map(inspect, workers)), strict=True))
    for worker, answer in answers.items():
        if isinstance(answer, TimeoutError):
            message = f"worker {worker} has not answered for {timeout:g} s; its versions and processor are not checked"
            warnings.warn(message, RuntimeWarning, stacklevel=find_stacklevel())
        elif isinstance(answer, Exception) and not isinstance(answer, OSError):
            raise ImportError(
                f"worker {worker} cannot run this version of dkdist: {answer!r}. {REMEDY}"
            ) from answer
    return {worker: answer for worker, answer in answers.items() if isinstance(answer, tuple | list)}


def _compared_versions(packages: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return versions of `PACKAGES` and the minor version of Python."""
    python = ".".join(packages["python"].split(".")[:2])
    return {"python": (python,), **{name: (packages[name] or "missing",) for name in PACKAGES}}


def run_on_cluster(client: Any, start: Callable[[], Any], progress: Progress) -> Any:
    """Return the result of ``start``, called again after each reconnection to a lost scheduler."""
    require_clean_fork()
    with run_seceded(), one_blas_thread():
        address = client.scheduler.address
        for _ in range(1 + MAX_RECONNECTIONS):
            try:
                with checked_workers(client), annotate_run(client, progress):
                    return start()
            except (CancelledError, CommClosedError) as error:
                if not is_connection_lost(client, error):
                    raise
                if not wait_for_scheduler(client):
                    raise lost_scheduler_error(address) from error
        raise lost_scheduler_error(address)


def compute(
    client: Any,
    graph: Mapping[Key, GraphNode],
    keys: Sequence[Key],
    watch: Mapping[Key, int],
    progress: Progress,
) -> list[Any]:
    """Return results of a graph; ``progress`` advances by ``watch[key]`` when such a key is done."""
    uncounted = dict(watch)  # shared by all attempts, so that no work is counted twice

    def start() -> list[Any]:
        futures = client.get(dict(graph), list(dict.fromkeys(keys) | uncounted), sync=False)
        results: dict[Key, Any] = {}
        monitor, completed = ResultMonitor(client), as_completed(futures, loop=client.loop)
        try:
            while batch := monitor.next_batch(completed):
                if ended := [future for future in batch if future.key in keys]:
                    results |= zip((future.key for future in ended), monitor.gather(ended), strict=True)
                for future in batch:
                    if future.status == "finished":
                        progress.advance(uncounted.pop(future.key, 0))
                    future.release()
        except KilledWorker as error:
            raise killed_worker_error(error, graph) from None
        return [results[key] for key in keys]

    return list(run_on_cluster(client, start, progress))


ADDRESS_HINT = (
    "Check the address that 'dask scheduler' printed (tcp:// or tls://); tls:// needs certificates of the cluster's "
    "authority that have not expired (--tls-ca-file, --tls-cert and --tls-key, or 'distributed.comm.tls' of Dask's "
    "configuration)"
)


def credentials(ca_file: str | None, cert: str | None, key: str | None) -> Security:
    """Return the TLS files of a client; Dask's configuration replaces those that are None."""
    files = {"tls_ca_file": ca_file, "tls_client_cert": cert, "tls_client_key": key}
    return Security(**{name: path for name, path in files.items() if path is not None})


@contextmanager
def connect(address: str, security: Security | None = None) -> Iterator[str]:
    """Run the body on the cluster of the Dask scheduler at ``address``; yield its address, workers and threads.

    ValueError names TLS files that cannot be used. ConnectionError gives Dask's reason if no scheduler answers.
    """
    security = Security() if security is None else security
    arguments = _connection_arguments(security)
    try:  # a Client would wait forever for a server that accepts connections and never responds
        asyncio.run(asyncio.wait_for(_require_scheduler(address, arguments), CONNECTION_TIMEOUT_SECONDS + 1))
    except Exception as error:  # a server that is not a scheduler can cause any error
        cause: BaseException = error
        while cause.__cause__ and not isinstance(cause, TimeoutError):
            cause = cause.__cause__
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r}: {cause!r}. {ADDRESS_HINT}"
        ) from error
    with Client(address, timeout=CONNECTION_TIMEOUT_SECONDS, security=security) as client:
        threads = client.nthreads().values()
        yield f"{address}: {len(threads)} workers, {sum(threads)} threads"


def _connection_arguments(security: Security) -> dict[str, Any]:
    """Return Dask's arguments of a connection."""
    tls = security.get_tls_config_for_role("client")
    # the file is not PEM text
    files = [tls[name] for name in ("ca_file", "cert", "key") if "\n" not in (tls[name] or "\n")]
    try:
        if locked := [file for file in files if "ENCRYPTED" in Path(file).read_text(errors="replace")]:
            raise ValueError(  # without this error OpenSSL would wait for a passphrase in the terminal
                f"{locked[0]!r} has a passphrase, which Dask cannot request. Pass a key without one that only you "
                "can read ('umask 077; openssl pkey -in LOCKED -out UNLOCKED')"
            )
        return dict(security.get_connection_args("client"))
    except OSError as error:  # includes SSLError
        raise ValueError(f"the TLS files {', '.join(files)} cannot be used: {error}") from error


async def _require_scheduler(address: str, arguments: dict[str, Any]) -> None:
    async with rpc(address, timeout=CONNECTION_TIMEOUT_SECONDS, connection_args=arguments) as server:
        kind = (await server.identity())["type"]
    if kind != "Scheduler":
        raise ValueError(f"the server is a {kind}")


def read_scheduler_file(scheduler_file: str | os.PathLike[str]) -> str:
    """Return the address in the file that ``dask scheduler --scheduler-file`` writes when it starts.

    ConnectionError if the file contains no address within 5 s.
    """
    end = time.monotonic() + CONNECTION_TIMEOUT_SECONDS
    while time.monotonic() < end:
        with suppress(OSError, ValueError, KeyError, TypeError):  # the file is missing or incomplete
            return str(json.loads(Path(scheduler_file).read_text())["address"])
        time.sleep(POLL_SECONDS)
    path = os.fspath(scheduler_file)
    raise ConnectionError(
        f"the scheduler file {path!r} contains no address. Start a scheduler with 'dask scheduler --scheduler-file "
        f"{path}' in a folder that this machine can read."
    )
