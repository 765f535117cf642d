"""Rows that come in any order, put where they belong: sorted piece by piece, and spilled to disk beyond some memory.

The place of every row is known once the sizes of the sets are: sets stand one after another, and the rows of a set in
the order in which they come. Places are cut into buckets of whole batches; a bucket that does not stay in memory is a
file without a name, which is gone whatever happens. Cost: one sort of each piece, and for tables larger than a bucket
each row written and read once more.
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
"""Some rows, column by column: coordinates, and weights at the end if there are any."""


class Rows(NamedTuple):
    """Room for some rows: a matrix of coordinates, column after column, and weights if there are any."""

    points: Array
    weights: F32 | None

    @classmethod
    def empty(cls, n: int, d: int, dtype: Any, weighted: bool) -> Rows:
        """Room for n rows."""
        return cls(np.empty((n, d), dtype, order="F"), np.empty(n, np.float32) if weighted else None)

    def fill(self, where: Any, columns: Part) -> None:
        """Put columns, the weights last, in some rows."""
        for j, values in enumerate(columns[: self.points.shape[1]]):
            self.points[where, j] = values
        if self.weights is not None:
            self.weights[where] = columns[-1]

    def part(self, start: int, stop: int) -> Part:
        """Rows start .. stop - 1."""
        weights = [] if self.weights is None else [self.weights[start:stop]]
        return [*self.points[start:stop].T, *weights]


class SourceChangedError(ValueError):
    """The second reading gave other rows than the first."""


def split_rows(parts: Iterable[Part], lengths: I64) -> Iterator[Iterator[Part]]:
    """Batches of some lengths, of parts one after another; each batch is used up before the next is asked for."""
    rest: Part = []
    given = iter(parts)

    def batch(missing: int) -> Iterator[Part]:
        nonlocal rest
        while missing:
            if not rest or not len(rest[0]):
                rest = next(given, [])
                if not rest:
                    raise SourceChangedError
                continue
            taken = [column[:missing] for column in rest]
            rest, missing = [column[missing:] for column in rest], missing - len(taken[0])
            yield taken

    for length in lengths.tolist():
        yield batch(length)
    if (rest and len(rest[0])) or any(len(part[0]) for part in given):
        raise SourceChangedError


def group_rows(
    parts: Iterable[tuple[I64, Part]], sizes: I64, lengths: I64, like: Rows
) -> Iterator[list[Part]]:
    """Batches of some lengths from parts in any order, which say the number of the set of each row."""
    edges = np.concatenate([[0], np.cumsum(lengths)])
    with contextlib.ExitStack() as files:
        yield from _through_buckets(parts, sizes, edges, _buckets(edges, like, files))


def _through_buckets(
    parts: Iterable[tuple[I64, Part]], sizes: I64, edges: I64, buckets: list[_Bucket]
) -> Iterator[list[Part]]:
    firsts = np.array([bucket.start for bucket in buckets])
    ends = np.cumsum(sizes)
    following = ends - sizes
    for codes, columns in parts:
        order, begins, counts = _sorted(codes)
        owners = codes[order[begins]]
        ranks = np.arange(len(order)) - np.repeat(begins, counts)
        places = np.repeat(following[owners], counts) + ranks
        following[owners] += counts
        cuts = [*np.searchsorted(places, firsts).tolist(), len(places)]
        for bucket, (a, b) in zip(buckets, itertools.pairwise(cuts), strict=True):
            if a < b:
                bucket.add(places[a:b], [column[order[a:b]] for column in columns])
    if not np.array_equal(following, ends):
        raise SourceChangedError
    while buckets:
        yield from buckets.pop(0).batches(edges)


def _sorted(codes: I64) -> tuple[I64, I64, I64]:
    """Rows in the order of their sets; where each set begins there, and its number of rows."""
    bits = max(1, len(codes) - 1).bit_length()
    keys = np.sort((codes.astype(np.int64) << bits) | np.arange(len(codes)))  # faster than a stable argsort
    begins = np.flatnonzero(np.diff(keys >> bits, prepend=-1))
    return keys & ((1 << bits) - 1), begins, np.diff(np.append(begins, len(keys)))


def _buckets(edges: I64, like: Rows, files: contextlib.ExitStack) -> list[_Bucket]:
    """Runs of whole batches of about BUCKET_BYTES, or of a 256th of all."""
    record = _record(like)
    requested = max(BUCKET_BYTES // record.itemsize, -(-int(edges[-1]) // MAX_BUCKETS), 1)
    cuts = [0]
    for i in range(1, len(edges)):
        if edges[i] - edges[cuts[-1]] > requested and i - 1 > cuts[-1]:
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
    return np.dtype([("place", "i8"), ("points", like.points.dtype, like.points.shape[1:]), *weight])


class _Bucket:
    """The rows at places start .. stop - 1: where they belong at once, or in a file first."""

    def __init__(
        self, start: int, stop: int, like: Rows, record: np.dtype[Any], file: IO[bytes] | None
    ) -> None:
        self.start, self.stop, self._record, self._file = start, stop, record, file
        self._shape = like.points.shape[1], like.points.dtype, like.weights is not None
        self._rows = Rows.empty(stop - start, *self._shape) if file is None else None

    def add(self, places: I64, columns: Part) -> None:
        """Take the columns of some rows."""
        if self._rows is not None:
            self._rows.fill(places - self.start, columns)
        else:
            assert self._file is not None
            self._file.write(self._recorded(places - self.start, columns).view(np.uint8).data)

    def _recorded(self, places: I64, columns: Part) -> NDArray[Any]:
        records = np.empty(len(places), self._record)
        records["place"] = places
        for j, values in enumerate(columns[: self._shape[0]]):
            records["points"][:, j] = values
        if self._shape[2]:
            records["weight"] = columns[-1]
        return records

    def batches(self, edges: I64) -> Iterator[list[Part]]:
        """The batches that begin here, whose first places are given; the file is gone then."""
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
            rows.fill(records["place"], [*records["points"].T, *weight])
        self._file.close()
        return rows
