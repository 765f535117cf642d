"""Checking a whole store: every chunk of every array is read, decoded (crc32c) and checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dkdist.store.committed import Committed

READ_CHUNKS = 8


@dataclass(frozen=True)
class VerifyReport:
    """What `SetStore.verify` read and found good."""

    n_sets: int
    n_points: int
    n_bytes: int
    """Decoded bytes of all arrays together."""
    n_chunks: int
    """Chunks of all arrays together (inside shards, too)."""


def verify_committed(committed: Committed) -> VerifyReport:
    """Read everything the commit covers; raises `StoreFormatError` at the first thing that is wrong."""
    commit = committed.commit
    lengths = dict.fromkeys(committed.arrays, commit.n_sets)
    lengths |= {"offsets": commit.n_sets + 1, "points": commit.n_points, "weights": commit.n_points}
    n_bytes = n_chunks = 0
    for name, array in committed.arrays.items():
        rows = int(array.chunks[0])
        n_chunks += -(-lengths[name] // rows)
        for start, stop in _spans(lengths[name], rows * READ_CHUNKS):
            committed.require_chunks(name, start, stop)
            n_bytes += committed.entries(name, start, stop).nbytes
    committed.require_current()
    return VerifyReport(commit.n_sets, commit.n_points, n_bytes, n_chunks)


def _spans(length: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, length, step):
        yield start, min(start + step, length)
