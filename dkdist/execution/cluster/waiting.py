"""Waiting for what a cluster makes: never for ever where nobody is left to make it, and never without a word.

While nothing ends, the scheduler is asked every other second who is there. Without any worker the run is given up after
``dkdist.wait-for-workers``. A worker that is stopped, swapped out or cut off still counts as there until Dask's
``distributed.scheduler.worker-ttl`` is over, when others make again what it had; until then the user is told of it.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from time import monotonic
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed.threadpoolexecutor import rejoin
from distributed.worker import secede, thread_state  # type: ignore[attr-defined]

from dkdist.execution.cluster import failures
from dkdist.plain.user_line import user_level

WAIT = "30s"  # for a worker
NOTICE = 2.0  # seconds until it is said that one is waited for, and between two looks
SILENT = 15.0  # seconds without a sign of life: workers give one every second, hundreds of them every few
POLL = 0.1  # seconds

_log = logging.getLogger(__name__)


@contextmanager
def beside_the_pool() -> Iterator[None]:
    """Leave the threads of the worker whose task calls this, as Dask's own ``get`` does: it waits for other tasks.

    A task that kept its place would wait for what can only be made there.
    """
    try:
        if getattr(thread_state, "key", None) is None:
            raise KeyError
        secede()
    except Exception:  # no task of a worker, or one that has left already
        yield
        return
    try:
        yield
    finally:
        rejoin()


def patience() -> float:
    """Seconds for which a cluster without workers is waited for."""
    return float(parse_timedelta(dask.config.get("dkdist.wait-for-workers", WAIT)))


class Watch:
    """Looks who is there to do a client's work, while nothing ends."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._begun = self._looked = self._alone = monotonic()
        self._seen: dict[str, tuple[float, float]] = {}
        self._told: set[str] = set()

    def next_batch(self, ended: Any) -> list[Any]:
        """The futures of an ``as_completed`` that ended since it was last asked, at least one, or none are left."""
        self._begin()
        while not ended.has_ready():
            if ended.is_empty():
                return []
            with ended.thread_condition:
                ended.thread_condition.wait(POLL)
            self._look()
        return list(ended.next_batch(block=False))

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Results of futures that ended; a task gets them by the scheduler, who knows which workers are gone."""
        self._begin()
        direct = False if hasattr(thread_state, "key") else None
        asked = self.client.gather(futures, direct=direct, asynchronous=True)
        coming = asyncio.run_coroutine_threadsafe(asked, self.client.loop.asyncio_loop)
        try:
            while not wait([coming], timeout=NOTICE).done:
                self._look()
        except BaseException:
            coming.cancel()
            raise
        return list(coming.result())

    def _begin(self) -> None:
        self._begun = self._looked = self._alone = monotonic()
        self._seen.clear()

    def _look(self) -> None:
        if monotonic() - self._looked < NOTICE or self.client.status != "running":
            return
        workers, limit = self._asked(), patience()
        self._looked = now = monotonic()
        if workers is None:
            self._tell(
                "the scheduler", f"the Dask scheduler at {self._address} does not answer: waiting for it"
            )
        elif workers:
            self._alone = now
            self._look_at(workers, now)
        elif now - self._alone >= limit:
            raise failures.no_workers(self._address, limit)
        elif now - self._alone >= min(NOTICE, limit) and "all" not in self._told:
            self._told.add("all")
            text = "all workers of the cluster at %s are gone: waiting up to %g s for one"
            _log.warning(text, self._address, limit)

    def _look_at(self, workers: Mapping[str, Any], now: float) -> None:
        for address, worker in workers.items():
            before = self._seen.get(address)
            if before is None or before[0] != worker["last_seen"]:
                self._seen[address] = worker["last_seen"], now
            elif now - before[1] >= SILENT:
                self._tell(address, failures.silent_worker(address, now - before[1]))
        if all(worker["status"] == "paused" for worker in workers.values()):
            self._tell(
                "paused",
                f"all workers of the cluster at {self._address} are paused, because their memory is nearly full: this "
                "waits until they go on. To fix: smaller blocks (open_sets(..., block_sets=)), or more memory a worker",
            )

    def _tell(self, what: str, message: str) -> None:
        """Warn once a run."""
        if what not in self._told:
            self._told.add(what)
            warnings.warn(message, RuntimeWarning, stacklevel=user_level())

    @property
    def _address(self) -> str:
        return str(self.client.scheduler.address)

    def _asked(self) -> Mapping[str, Any] | None:
        """What the scheduler knows of its workers, or None if it does not answer."""

        async def ask() -> Any:
            return (await self.client.scheduler.identity(n_workers=-1))["workers"]

        try:
            return self.client.sync(asyncio.wait_for, ask(), SILENT)  # type: ignore[no-any-return]
        except TimeoutError:
            return None
