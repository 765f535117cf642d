"""Checks of a cluster: its workers have the packages and the kind of processor of the client.

A worker is checked once for each client, before the first run; workers that join later, at the latest at the end of
the run that they join. The scheduler unpickles tasks, so its packages are checked as well.
"""

from __future__ import annotations

import asyncio
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from distributed import wait as wait_for_futures
from distributed.versions import get_versions

from dkdist.execution.cluster import failures
from dkdist.execution.cluster.waiting import log_wait, patience
from dkdist.execution.processes.process import THIS_PROCESS, prepare_worker
from dkdist.execution.processes.processors import Kernels, differences, kernels, require_alike
from dkdist.plain.user_line import user_level

PACKAGES = ("dkdist", "dask", "distributed", "numpy", "numba", "scipy", "zarr", "scikit-learn")
ANSWER_SECONDS = 10.0  # of a worker that joined during a run: a stopped one must not delay the end for long
TO_FIX = "To fix: install the same versions everywhere and restart the scheduler and the workers"

_accepted: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


@contextmanager
def checked_workers(client: Any) -> Iterator[None]:
    """Run the body on workers that are like this client; wait for a first one.

    TimeoutError if none joins within ``dkdist.wait-for-workers`` of Dask's configuration (30 s), ImportError for
    another Python or another version of a package that results depend on, MixedProcessorsError for another kind of
    processor (unless ``dkdist.allow-mixed-processors`` allows it with a warning).
    """
    if not client.nthreads():
        _wait_for_worker(client)
    _accept_new_workers(client, max(ANSWER_SECONDS, patience()))
    try:
        yield
    except Exception:
        if client.status == "running":
            _accept_new_workers(client)  # a worker that differs explains the error better
        raise
    for address, n_threads in _accept_new_workers(client).items():
        if n_threads > 1:
            warnings.warn(
                f"worker {address} joined during this run with {n_threads} BLAS threads, so last bits of results may "
                "differ: start workers with --preload dkdist.preload, or under a nanny",
                stacklevel=user_level(),
            )


def _wait_for_worker(client: Any) -> None:
    """Submit a task and wait for it: an adaptive cluster starts workers only for tasks."""
    log_wait(client)
    try:
        wait_for_futures(client.submit(int, key=f"dkdist_wait-{uuid.uuid4().hex}"), patience())
    except TimeoutError as error:
        raise failures.no_workers(client.scheduler.address, patience()) from error


def _accept_new_workers(client: Any, timeout: float = ANSWER_SECONDS) -> dict[str, int]:
    """Check and prepare workers that are new; return the numbers of BLAS threads that they had.

    A worker without an answer within ``timeout`` seconds is checked again by the next run.
    """
    accepted = _accepted.setdefault(client, set())
    new = [address for address in client.nthreads() if address not in accepted]
    if not new:
        return {}
    answers = client.sync(_inspect, client, new, timeout)
    if not answers and not accepted:
        raise failures.no_workers(client.scheduler.address, timeout)
    versions = {worker: _compared(packages) for worker, (packages, _, _) in answers.items()}
    if not accepted:
        scheduler = client.sync(client.scheduler.versions, packages=PACKAGES, callback_timeout=timeout)
        versions["the scheduler"] = _compared(scheduler["packages"])
    if table := differences(_compared(get_versions(PACKAGES)["packages"]), versions):
        raise ImportError(
            f"the cluster has other versions than this client, and got no work:\n{table}\n{TO_FIX}"
        )
    require_alike(kernels(), {worker: its_kernels for worker, (_, its_kernels, _) in answers.items()})
    accepted.update(answers)
    return {worker: n_threads for worker, (_, _, n_threads) in answers.items()}


def inspect_worker(client: str) -> tuple[Mapping[str, str | None], Kernels, int]:
    """Prepare this process for work; return its versions, its kernels and its former number of BLAS threads."""
    return get_versions(PACKAGES)["packages"], kernels(), prepare_worker(client)


async def _inspect(client: Any, workers: Sequence[str], timeout: float) -> dict[str, Any]:
    """Return what `inspect_worker` returns on each worker, without those that died; warn of those without an answer."""

    async def inspect(worker: str) -> Any:
        answer = client.run(inspect_worker, THIS_PROCESS, workers=[worker], on_error="return")
        try:
            return (await asyncio.wait_for(answer, timeout)).get(worker)
        except TimeoutError as error:  # one worker that is stopped delays no other
            return error

    answers = dict(zip(workers, await asyncio.gather(*map(inspect, workers)), strict=True))
    for worker, answer in answers.items():
        if isinstance(answer, TimeoutError):
            message = f"worker {worker} has not answered for {timeout:g} s: its versions and processor are not checked"
            warnings.warn(message, RuntimeWarning, stacklevel=user_level())
        elif isinstance(answer, Exception) and not isinstance(answer, OSError):
            raise ImportError(f"worker {worker} cannot run this dkdist: {answer!r}. {TO_FIX}") from answer
    return {worker: answer for worker, answer in answers.items() if isinstance(answer, tuple | list)}


def _compared(packages: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return versions of `PACKAGES` and the minor version of Python."""
    python = ".".join(packages["python"].split(".")[:2])
    return {"python": (python,), **{name: (packages[name] or "missing",) for name in PACKAGES}}
