"""Decoded chunks, kept while neighbours need them: two blocks that share a chunk decode it once.

One cache a process, which its threads share. What is used for the longest time no more goes first; a child of a fork
begins with nothing, and with a lock that no thread of its parent holds.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable

from dkdist.loops.array_types import Array

MOST_BYTES = 16 * 2**20
NOTHING = None, 0


class KeptChunks:
    """Arrays under keys, of up to ``most_bytes`` together, until all of their rows were asked for."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self.forget()

    def forget(self) -> None:
        """Begin with nothing."""
        self._lock, self._kept, self._bytes = threading.Lock(), OrderedDict[Hashable, tuple[Array, int]](), 0

    def take(self, key: Hashable, rows: int) -> Array | None:
        """The chunk, of which so many rows are used now, if it is here still."""
        with self._lock:
            chunk, left = self._kept.get(key, NOTHING)
            if chunk is not None:
                self._keep(key, chunk, left - rows)
            return chunk

    def keep(self, key: Hashable, chunk: Array, left: int) -> None:
        """Remember a chunk of which so many rows were not used yet, and forget others if all do not fit."""
        with self._lock:
            self._keep(key, chunk, left)

    def _keep(self, key: Hashable, chunk: Array, left: int) -> None:
        if self._kept.pop(key, None) is None:
            self._bytes += chunk.nbytes
        if left > 0:
            self._kept[key] = chunk, left
        else:
            self._bytes -= chunk.nbytes
        while self._bytes > self._most:
            self._bytes -= self._kept.popitem(last=False)[1][0].nbytes


KEPT = KeptChunks()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=KEPT.forget)
