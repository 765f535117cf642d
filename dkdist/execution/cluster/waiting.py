"""Waiting for results of a cluster; it ends if no worker is left for ``dkdist.wait-for-workers``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from time import monotonic
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed.threadpoolexecutor import rejoin
from distributed.worker import secede, thread_state  # type: ignore[attr-defined]

from dkdist.execution.cluster import failures

DEFAULT_TIMEOUT = "30s"  # of a cluster without workers
CHECK_SECONDS = 2.0  # between two questions for workers
SCHEDULER_TIMEOUT_SECONDS = 15.0  # a scheduler that unpickles a large graph is silent for seconds
POLL_SECONDS = 0.1

_log = logging.getLogger(__name__)


@contextmanager
def beside_the_pool() -> Iterator[None]:
    """Leave the thread pool of the worker whose task calls this, as Dask's own ``get`` does.

    A task that kept its thread could wait for results that need this thread.
    """
    try:
        if getattr(thread_state, "key", None) is None:
            raise KeyError
        secede()
    except Exception:  # not a task of a worker, or one that has seceded already
        yield
        return
    try:
        yield
    finally:
        rejoin()


def patience() -> float:
    """Return the seconds that a run waits for a worker."""
    return float(parse_timedelta(dask.config.get("dkdist.wait-for-workers", DEFAULT_TIMEOUT)))


def log_wait(client: Any) -> None:
    """Log that a cluster has no workers."""
    text = "the cluster at %s has no workers: waiting up to %g s for one"
    _log.warning(text, client.scheduler.address, patience())


class Watch:
    """Waits for results of a client; TimeoutError when its cluster has had no workers for `patience` seconds."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._begin()

    def next_batch(self, ended: Any) -> list[Any]:
        """Return futures of an ``as_completed`` that ended since the last call: at least one, unless none are left."""
        self._begin()
        while not ended.has_ready():
            if ended.is_empty():
                return []
            with ended.thread_condition:
                ended.thread_condition.wait(POLL_SECONDS)
            self._require_workers()
        return list(ended.next_batch(block=False))

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Return results of futures that ended; a task asks the scheduler, which knows the lost workers."""
        self._begin()
        direct = False if hasattr(thread_state, "key") else None
        coroutine = self.client.gather(futures, direct=direct, asynchronous=True)
        results = asyncio.run_coroutine_threadsafe(coroutine, self.client.loop.asyncio_loop)
        try:
            while not wait([results], timeout=CHECK_SECONDS).done:
                self._require_workers()
        except BaseException:
            results.cancel()
            raise
        return list(results.result())

    def _begin(self) -> None:
        self._checked = self._had_workers = monotonic()
        self._logged = False

    def _require_workers(self) -> None:
        if monotonic() - self._checked < CHECK_SECONDS or self.client.status != "running":
            return
        has_workers = self._has_workers()
        self._checked = monotonic()
        if has_workers:
            self._had_workers = self._checked
        elif self._checked - self._had_workers >= patience():
            raise failures.no_workers(self.client.scheduler.address, patience())
        elif not self._logged:
            self._logged = True
            log_wait(self.client)

    def _has_workers(self) -> bool:
        """Return whether the cluster has workers, or its scheduler is too busy to answer."""
        ask = self.client.scheduler.ncores
        try:
            return bool(self.client.sync(ask, callback_timeout=SCHEDULER_TIMEOUT_SECONDS))
        except TimeoutError:
            text = "the Dask scheduler at %s has not answered for %g s: waiting for it"
            _log.warning(text, self.client.scheduler.address, SCHEDULER_TIMEOUT_SECONDS)
            return True
