"""Reads ahead of the tasks that need them, and a cache of recent objects, for remote stores.

A task that reads its own chunks waits for at least one round trip. Runs therefore announce the chunks of later blocks
(`prefetch`), and tens of requests are in flight. Recent objects are kept: two blocks read the chunk at their border,
and stores smaller than the cache are fetched once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from zarr.abc.store import ByteRequest, Store

from dkdist._utils.memory_budget import memory_limit
from dkdist.io._zarr._zarr_private import Buffer, BufferPrototype, default_buffer_prototype, sync
from dkdist.io._zarr.location.remote import AsyncStoreWrapper

# Encoded bytes kept or in flight, per store and process: tens of chunks of 1 MiB. More hides longer latencies and takes
# memory (python benchmarks/object_store.py)
MAX_READ_AHEAD_BYTES = 128 * 2**20
MEMORY_DIVISOR = 32  # of the memory limit of the process (python benchmarks/object_store.py)


class ReadAheadStore(AsyncStoreWrapper):
    """Wrapper of a remote store that keeps whole chunks which were announced or read recently."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.max_bytes = min(MAX_READ_AHEAD_BYTES, memory_limit() // MEMORY_DIVISOR)
        self._requested: dict[str, asyncio.Task[Buffer | None]] = {}  # not read yet
        # the object that was read last is at the end
        self._kept: OrderedDict[str, asyncio.Task[Buffer | None]] = OrderedDict()

    def _with_store(self, store: Store) -> ReadAheadStore:
        return ReadAheadStore(store)

    def prefetch(self, keys: Iterable[str]) -> None:
        """Request objects without waiting for them."""

        async def start() -> None:
            for key in keys:
                if key not in self._requested:
                    self._requested[key] = self._kept.pop(key) if key in self._kept else self._request(key)

        sync(start())

    def forget(self) -> None:
        """Forget all objects, which another process may have replaced."""
        self._requested, self._kept = {}, OrderedDict()

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read an object, if possible a kept or requested one; metadata and byte ranges are always read."""
        if byte_range is not None or "/c/" not in key:
            return await self._store.get(key, prototype, byte_range)
        kept = self._kept
        task = self._requested.pop(key, None) or kept.get(key) or self._request(key)
        kept[key] = task
        kept.move_to_end(key)
        try:
            value = await asyncio.shield(task)
        except BaseException:
            kept.pop(key, None)
            raise
        self._evict()
        return value

    def _request(self, key: str) -> asyncio.Task[Buffer | None]:
        task = asyncio.ensure_future(self._store.get(key, default_buffer_prototype()))
        task.add_done_callback(_retrieve_error)
        return task

    def _evict(self) -> None:
        """Remove the objects that were read first while all of them fill the cache."""
        total = sum(map(_n_bytes, [*self._requested.values(), *self._kept.values()]))
        while total > self.max_bytes and self._kept:
            _, task = self._kept.popitem(last=False)
            total -= _n_bytes(task)


def _n_bytes(task: asyncio.Task[Buffer | None]) -> int:
    if not task.done() or task.cancelled() or task.exception() is not None:
        return 0
    value = task.result()
    return 0 if value is None else len(value)


def _retrieve_error(task: asyncio.Task[Buffer | None]) -> None:
    """Mark an error as seen: the task that needs the object gets it."""
    if not task.cancelled():
        task.exception()
