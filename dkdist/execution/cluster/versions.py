"""Whether a cluster can do this client's work: there are workers, all with the same packages and kind of processor.

A worker is asked once for each client; those that join later are asked as well, before or at the end of the work
they joined, and always before its results are used. The scheduler counts too: it unpickles the tasks it hands on.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from distributed import wait
from distributed.versions import get_versions

from dkdist.execution.cluster import failures
from dkdist.execution.cluster.waiting import NOTICE, patience
from dkdist.execution.processes.process import THIS_PROCESS, prepare_worker
from dkdist.execution.processes.processors import kernels, places, require_alike
from dkdist.plain.user_line import user_level

PACKAGES = ("dkdist", "dask", "distributed", "numpy", "numba", "scipy", "zarr", "scikit-learn")
SOON = 5.0  # seconds for an answer at the end of a run

Versions = Mapping[str, str | None]

_accepted: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
_log = logging.getLogger(__name__)


@contextmanager
def checked_workers(client: Any) -> Iterator[None]:
    """Hold the work inside the ``with`` to workers that are like this client; wait for a first one.

    TimeoutError if none joins within ``dkdist.wait-for-workers`` of Dask's configuration (30 s), ImportError for
    another Python or another version of a package that results depend on, MixedProcessorsError for another kind of
    processor (unless ``dkdist.allow-mixed-processors`` says to warn of it). Costs two short questions to the scheduler;
    a worker that is new, three more.
    """
    if not client.nthreads():
        _wait_for_a_worker(client)
    _accept_new_workers(client, max(SOON, patience()))
    try:
        yield
    except Exception:
        if client.status == "running":
            _accept_new_workers(client)  # a worker that should not have joined is the better explanation
        raise
    for address, threads in _accept_new_workers(client).items():
        if threads > 1:
            warnings.warn(
                f"worker {address} joined during this run with {threads} BLAS threads, so last bits of results may "
                "differ: start workers with --preload dkdist.preload, or under a nanny",
                stacklevel=user_level(),
            )


def _wait_for_a_worker(client: Any) -> None:
    """Give the cluster a task: one that adapts its size starts workers only when there is something to do."""
    limit = patience()
    knock = client.submit(int, key=f"dkdist_knock-{uuid.uuid4().hex}")
    address = client.scheduler.address
    try:
        wait(knock, min(NOTICE, limit))
    except TimeoutError:
        _log.warning("the cluster at %s has no workers yet: waiting up to %g s for one", address, limit)
        try:
            wait(knock, max(0.0, limit - NOTICE))
        except TimeoutError as error:
            raise TimeoutError(
                f"no worker has joined the cluster at {address} within {limit:g} s: start some with "
                f"'dask worker {address}', or wait longer: 'dkdist.wait-for-workers' in Dask's configuration"
            ) from error


def _accept_new_workers(client: Any, seconds: float = SOON) -> dict[str, int]:
    """Check and prepare workers not seen before; the BLAS threads that each of them had.

    One that does not answer within some ``seconds`` (it is stopped, say) is told of, and asked again with the next run.
    """
    accepted = _accepted.setdefault(client, set())
    new = [address for address in client.nthreads() if address not in accepted]
    if not new:
        return {}
    there = client.sync(_ask, client, new, not accepted, seconds)
    silent = [address for address in new if there.get(address, ...) is None]
    new = [address for address in new if there.get(address)]  # others died while they were asked
    for address in silent:
        warnings.warn(failures.silent_worker(address, seconds), RuntimeWarning, stacklevel=user_level())
    if not new and not accepted:
        raise failures.no_workers(client.scheduler.address, seconds)
    answers = {place: _installed(found) for place, found in there.items() if found}
    _compare(_installed(get_versions(PACKAGES)), answers)
    kinds = client.run(kernels, workers=new, on_error="return")
    require_alike(kernels(), {place: found for place, found in kinds.items() if not _gone(found)})
    threads = client.run(prepare_worker, THIS_PROCESS, workers=new, on_error="ignore")
    accepted.update(new)
    return dict(threads)


def _gone(answer: Any) -> bool:
    """Whether a worker left before it answered; what went wrong in one that is there is raised."""
    if isinstance(answer, Exception) and not isinstance(answer, OSError):
        raise answer
    return isinstance(answer, OSError)


async def _ask(client: Any, workers: Sequence[str], scheduler_too: bool, seconds: float) -> dict[str, Any]:
    """What Dask's own question for versions answers, None for who says nothing: nothing of ours is needed there.

    Each worker is asked for itself, so that one that does not answer keeps no other waiting.
    """
    question = {"op": "versions", "packages": PACKAGES}
    ask = client.scheduler.broadcast

    async def one(worker: str) -> Any:
        try:
            return await asyncio.wait_for(ask(msg=question, workers=[worker], on_error="ignore"), seconds)
        except TimeoutError:
            return {worker: None}

    found = {
        place: told for answer in await asyncio.gather(*map(one, workers)) for place, told in answer.items()
    }
    if scheduler_too:
        found["the scheduler"] = await client.scheduler.versions(packages=PACKAGES)
    return dict(found)


def _installed(answer: Mapping[str, Any]) -> Versions:
    packages = answer["packages"]
    python = ".".join(packages["python"].split(".")[:2])
    return {"python": python, **{name: packages[name] for name in PACKAGES}}


def _compare(here: Versions, there: Mapping[str, Versions]) -> None:
    lines = []
    for package, version in here.items():
        others: dict[str | None, list[str]] = {}
        for place, found in there.items():
            if found[package] != version:
                others.setdefault(found[package], []).append(place)
        if others:
            named = "; ".join(f"{other or 'missing'} on {places(where)}" for other, where in others.items())
            lines.append(f"  {package:<13} {version or 'missing':<11} {named}")
    if lines:
        table = "\n".join([f"  {'package':<13} {'here':<11} there", *lines])
        raise ImportError(
            f"the cluster has other versions installed than this client, so nothing was given to it:\n{table}\n"
            "To fix: install the same versions everywhere (one lock file, environment or image) and start the "
            "scheduler and the workers again"
        )
