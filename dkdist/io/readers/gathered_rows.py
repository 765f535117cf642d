"""External sort of the rows of a table by set: pieces are sorted in memory, large tables spill to disk.

The sizes of the sets determine the position of each row: sets follow each other, and rows of a set keep their order.
Positions are divided into buckets of complete batches; buckets of large tables are unnamed temporary files. Cost: one
sort of each piece and, for tables larger than a bucket, one write and one read of each row.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F32, I64, Array

BUCKET_BYTES = 2**28  # memory before rows are spilled to disk; tests/store/test_long_tables.py
MAX_BUCKETS = 256  # open files, below the usual limit of 1,024 (ulimit -n); tests/store/test_long_tables.py

Part = Sequence[Array]
"""Columns of some rows: coordinates, then weights if there are any."""


class Rows(NamedTuple):
    """Buffer of rows: column-major coordinates, and weights if there are any."""

    points: Array
    weights: F32 | None

    @classmethod
    def empty(cls, n: int, d: int, dtype: Any, weighted: bool) -> Rows:
        """Allocate n rows."""
        return cls(np.empty((n, d), dtype, order="F"), np.empty(n, np.float32) if weighted else None)

    def fill(self, rows: Any, columns: Part) -> None:
        """Write columns into the rows with these indices."""
        for j, values in enumerate(columns[: self.points.shape[1]]):
            self.points[rows, j] = values
        if self.weights is not None:
            self.weights[rows] = columns[-1]

    def part(self, start: int, stop: int) -> Part:
        """Return rows start .. stop - 1."""
        weights = [] if self.weights is None else [self.weights[start:stop]]
        return [*self.points[start:stop].T, *weights]


class SourceChangedError(ValueError):
    """Error for rows that differ between the two passes."""


def batch_bounds(sizes: I64, max_rows: int) -> I64:
    """Return the bounds, in sets, of batches of at most ``max_rows`` rows, or of one set."""
    ends, cuts = np.cumsum(sizes), [0]
    while cuts[-1] < len(ends):
        before = ends[cuts[-1] - 1] if cuts[-1] else 0
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(ends, before + max_rows, side="right"))))
    return np.array(cuts)


def split_rows(parts: Iterable[Part], lengths: I64) -> Iterator[Iterator[Part]]:
    """Split consecutive parts into batches of the given lengths; consume each batch before requesting the next."""
    pending: Part = []
    iterator = iter(parts)

    def batch(missing: int) -> Iterator[Part]:
        nonlocal pending
        while missing:
            if not pending or not len(pending[0]):
                pending = next(iterator, [])
                if not pending:
                    raise SourceChangedError
                continue
            head = [column[:missing] for column in pending]
            pending, missing = [column[missing:] for column in pending], missing - len(head[0])
            yield head

    for length in lengths.tolist():
        yield batch(length)
    if (pending and len(pending[0])) or any(len(part[0]) for part in iterator):
        raise SourceChangedError


def group_rows(
    parts: Iterable[tuple[I64, Part]], sizes: I64, lengths: I64, like: Rows
) -> Iterator[list[Part]]:
    """Return batches of the given lengths from parts (set of each row, columns) in any order."""
    edges = np.concatenate([[0], np.cumsum(lengths)])
    with contextlib.ExitStack() as files:
        yield from _through_buckets(parts, sizes, edges, _buckets(edges, like, files))


def _through_buckets(
    parts: Iterable[tuple[I64, Part]], sizes: I64, edges: I64, buckets: list[_Bucket]
) -> Iterator[list[Part]]:
    firsts = np.array([bucket.start for bucket in buckets])
    ends = np.cumsum(sizes)
    next_positions = ends - sizes
    for codes, columns in parts:
        order, begins, counts = _sorted(codes)
        owners = codes[order[begins]]
        ranks = np.arange(len(order)) - np.repeat(begins, counts)
        positions = np.repeat(next_positions[owners], counts) + ranks
        next_positions[owners] += counts
        cuts = [*np.searchsorted(positions, firsts).tolist(), len(positions)]
        for bucket, (a, b) in zip(buckets, itertools.pairwise(cuts), strict=True):
            if a < b:
                bucket.add(positions[a:b], [column[order[a:b]] for column in columns])
    if not np.array_equal(next_positions, ends):
        raise SourceChangedError
    while buckets:
        yield from buckets.pop(0).batches(edges)


def _sorted(codes: I64) -> tuple[I64, I64, I64]:
    """Return (stable row order by set, first index of each set in it, number of rows of each set)."""
    bits = max(1, len(codes) - 1).bit_length()
    keys = np.sort((codes.astype(np.int64) << bits) | np.arange(len(codes)))  # faster than a stable argsort
    begins = np.flatnonzero(np.diff(keys >> bits, prepend=-1))
    return keys & ((1 << bits) - 1), begins, np.diff(np.append(begins, len(keys)))


def _buckets(edges: I64, like: Rows, files: contextlib.ExitStack) -> list[_Bucket]:
    """Group consecutive batches into at most MAX_BUCKETS buckets of about BUCKET_BYTES or more."""
    record = _record(like)
    bucket_rows = max(BUCKET_BYTES // record.itemsize, -(-int(edges[-1]) // MAX_BUCKETS), 1)
    cuts = [0]
    for i in range(1, len(edges)):
        if edges[i] - edges[cuts[-1]] > bucket_rows and i - 1 > cuts[-1]:
            cuts.append(i - 1)
    bounds = edges[[*cuts, len(edges) - 1]].tolist()
    if len(bounds) == 2:
        return [_Bucket(bounds[0], bounds[1], like, record, None)]
    return [
        _Bucket(a, b, like, record, files.enter_context(tempfile.TemporaryFile(prefix="dkdist-import-")))
        for a, b in itertools.pairwise(bounds)
    ]


def _record(like: Rows) -> np.dtype[Any]:
    weight = [("weight", "f4")] if like.weights is not None else []
    return np.dtype([("position", "i8"), ("points", like.points.dtype, like.points.shape[1:]), *weight])


class _Bucket:
    """Rows at positions start .. stop - 1, in memory or in a temporary file."""

    def __init__(
        self, start: int, stop: int, like: Rows, record: np.dtype[Any], file: IO[bytes] | None
    ) -> None:
        self.start, self.stop, self._record, self._file = start, stop, record, file
        self._shape = like.points.shape[1], like.points.dtype, like.weights is not None
        self._rows = Rows.empty(stop - start, *self._shape) if file is None else None

    def add(self, positions: I64, columns: Part) -> None:
        """Store the columns of the rows at these positions."""
        if self._rows is not None:
            self._rows.fill(positions - self.start, columns)
        else:
            assert self._file is not None
            self._file.write(self._to_records(positions - self.start, columns).view(np.uint8).data)

    def _to_records(self, positions: I64, columns: Part) -> NDArray[Any]:
        records = np.empty(len(positions), self._record)
        records["position"] = positions
        for j, values in enumerate(columns[: self._shape[0]]):
            records["points"][:, j] = values
        if self._shape[2]:
            records["weight"] = columns[-1]
        return records

    def batches(self, edges: I64) -> Iterator[list[Part]]:
        """Iterate over the batches of this bucket, with bounds ``edges``; closes the file."""
        rows = self._rows if self._rows is not None else self._read()
        first, last = np.searchsorted(edges, [self.start, self.stop])
        for a, b in itertools.pairwise(edges[first : last + 1].tolist()):
            yield [rows.part(a - self.start, b - self.start)]

    def _read(self) -> Rows:
        assert self._file is not None
        rows = Rows.empty(self.stop - self.start, *self._shape)
        self._file.seek(0)
        while data := self._file.read(self._record.itemsize * 2**18):
            records = np.frombuffer(data, self._record)
            weight = [records["weight"]] if self._shape[2] else []
            rows.fill(records["position"], [*records["points"].T, *weight])
        self._file.close()
        return rows
