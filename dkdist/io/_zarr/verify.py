"""Verification of a store: every chunk of every array is read, decoded and checked.

Arrays are divided into spans of several chunks, which are checked in any order and in any process. The reported
error names the first damaged span.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from dkdist.io._zarr.reading import CommitReader
from dkdist.io.errors import StoreFormatError

CHUNKS_PER_SPAN = 8  # 8 MiB per thread; tests/store/test_damage.py


@dataclass(frozen=True)
class VerifyReport:
    """Result of `SetStore.verify` for a valid store."""

    n_sets: int
    n_points: int
    n_bytes: int
    """Decoded bytes of all arrays."""
    n_chunks: int
    """Chunks of all arrays, including those inside shards."""


class Span(NamedTuple):
    """Rows start .. stop - 1 of an array, aligned with chunks."""

    name: str
    start: int
    stop: int

    def check(self, committed: CommitReader) -> int:
        """Read and check the rows; return their decoded bytes. Raises `StoreFormatError`."""
        committed.require_chunks(self.name, self.start, self.stop)
        return committed.entries(self.name, self.start, self.stop).nbytes


def spans_of(committed: CommitReader) -> list[Span]:
    """Return spans of all committed rows, in the order of error reporting."""
    spans = []
    for name, array in committed.arrays.items():
        length, step = _length(committed, name), int(array.chunks[0]) * CHUNKS_PER_SPAN
        spans += [Span(name, start, min(start + step, length)) for start in range(0, length, step)]
    return spans


def verify_commit(committed: CommitReader) -> VerifyReport:
    """Verify all committed rows on threads; raises `StoreFormatError` for the first damaged span."""
    spans = spans_of(committed)
    threads = min(len(spans), (os.cpu_count() or 1) + 2)  # two more threads than cores, to overlap reads
    with ThreadPoolExecutor(threads) as pool:
        checks = [pool.submit(span.check, committed) for span in spans]
        try:
            n_bytes = sum(check.result() for check in checks)
        finally:
            for check in checks:
                check.cancel()
    return report_of(committed, n_bytes)


def check_spans(committed: CommitReader, spans: Iterable[Span]) -> int | StoreFormatError:
    """Return the decoded bytes of spans, or the error of the first damaged one."""
    try:
        return sum(span.check(committed) for span in spans)
    except StoreFormatError as error:
        return error


def total_bytes(results: Sequence[int | StoreFormatError]) -> int:
    """Sum the bytes of checked spans; raises the first error."""
    for result in results:
        if isinstance(result, StoreFormatError):
            raise result
    return sum(result for result in results if isinstance(result, int))


def report_of(committed: CommitReader, n_bytes: int) -> VerifyReport:
    """Return the report for a valid store."""
    committed.require_current()
    chunks = sum(-(-_length(committed, n) // int(a.chunks[0])) for n, a in committed.arrays.items())
    return VerifyReport(committed.commit.n_sets, committed.commit.n_points, n_bytes, chunks)


def _length(committed: CommitReader, name: str) -> int:
    commit = committed.commit
    rows = {"offsets": commit.n_sets + 1, "points": commit.n_points, "weights": commit.n_points}
    return rows.get(name, commit.n_sets)
