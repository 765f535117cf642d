"""Threads that pack the chunks of a store on a disk and write them, behind the one who has their rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from zarr.abc.store import Store

from dkdist.plain.concurrency import Behind, Crew
from dkdist.store.places.disk import DiskStore

UNIT_CHUNKS = 8  # at most so many pieces of work, a chunk each, wait or are being done
GIVEN_CHUNKS = 4  # of those that lie in memory anyway, at most so many are one piece of work
FLUSHED_CHUNKS = 32  # so many are made durable at once, while the next are written


class ChunkThreads:
    """Some threads that write, and one that makes durable what they wrote; what failed is told at the next call.

    They begin with their first chunk: never, for a store that is not ``on_disk``.
    """

    def __init__(self, store: Store) -> None:
        self.on_disk = isinstance(store, DiskStore)
        self._store, self._n_given = store, 0  # since the last flush
        self._writing = Behind(min(UNIT_CHUNKS, os.cpu_count() or 1), UNIT_CHUNKS)
        self._flushing = Behind(1, 2)

    def share(self, crew: Crew) -> None:
        """Have a crew write, which does other work too: nothing was given yet."""
        self._writing.close()
        self._writing = Behind(crew, UNIT_CHUNKS)

    def give(self, write: Callable[..., Any], *arguments: Any, chunks: int = 1) -> None:
        """Have so many chunks written by one call; waits while others are."""
        self._writing.give(write, *arguments)
        self._n_given += chunks
        if self._n_given >= FLUSHED_CHUNKS:
            assert isinstance(self._store, DiskStore)
            self._n_given = 0
            self._flushing.give(self._store.flush_files)

    def wait(self) -> None:
        """Wait until all that was given is done."""
        self._writing.wait()
        self._flushing.wait()

    def close(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._writing.close()
        self._flushing.close()
