"""Checking a whole store: every chunk of every array is read, decoded (crc32c) and checked.

The arrays are cut into spans of some chunks, which can be checked in any order and in any process; the error that
is told is that of the first damaged span, whoever found it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from dkdist.io._zarr.reading import CommitReader
from dkdist.io.errors import StoreFormatError

CHUNKS_PER_SPAN = 8


@dataclass(frozen=True)
class VerifyReport:
    """What `SetStore.verify` read and found good."""

    n_sets: int
    n_points: int
    n_bytes: int
    """Decoded bytes of all arrays together."""
    n_chunks: int
    """Chunks of all arrays together (inside shards, too)."""


class Span(NamedTuple):
    """Rows start .. stop - 1 of an array: some whole chunks."""

    name: str
    start: int
    stop: int

    def check(self, committed: CommitReader) -> int:
        """Read the rows and give their decoded bytes; raises `StoreFormatError` if anything is wrong with them."""
        committed.require_chunks(self.name, self.start, self.stop)
        return committed.entries(self.name, self.start, self.stop).nbytes


def spans_of(committed: CommitReader) -> list[Span]:
    """All that a commit covers, in an order in which the first damage is the one to tell."""
    spans = []
    for name, array in committed.arrays.items():
        length, step = _length(committed, name), int(array.chunks[0]) * CHUNKS_PER_SPAN
        spans += [Span(name, start, min(start + step, length)) for start in range(0, length, step)]
    return spans


def verify_commit(committed: CommitReader) -> VerifyReport:
    """Read everything the commit covers; raises `StoreFormatError` naming the first thing that is wrong.

    Spans are read on a few more threads than there are cores, each holding eight chunks.
    """
    spans = spans_of(committed)
    threads = min(len(spans), (os.cpu_count() or 1) + 2)
    with ThreadPoolExecutor(threads) as pool:
        checks = [pool.submit(span.check, committed) for span in spans]
        try:
            n_bytes = sum(check.result() for check in checks)
        finally:
            for check in checks:
                check.cancel()
    return report_of(committed, n_bytes)


def check_spans(committed: CommitReader, spans: Iterable[Span]) -> int | StoreFormatError:
    """The decoded bytes of some spans, or what is wrong with the first that is damaged."""
    try:
        return sum(span.check(committed) for span in spans)
    except StoreFormatError as error:
        return error


def total_bytes(found: Sequence[int | StoreFormatError]) -> int:
    """The bytes of what was checked, in order; raises the first error."""
    for part in found:
        if isinstance(part, StoreFormatError):
            raise part
    return sum(part for part in found if isinstance(part, int))


def report_of(committed: CommitReader, n_bytes: int) -> VerifyReport:
    """The report on a store in which nothing was wrong."""
    committed.require_current()
    chunks = sum(-(-_length(committed, n) // int(a.chunks[0])) for n, a in committed.arrays.items())
    return VerifyReport(committed.commit.n_sets, committed.commit.n_points, n_bytes, chunks)


def _length(committed: CommitReader, name: str) -> int:
    commit = committed.commit
    rows = {"offsets": commit.n_sets + 1, "points": commit.n_points, "weights": commit.n_points}
    return rows.get(name, commit.n_sets)
