"""A new store of known size that many tasks write in parallel.

Rows are divided at chunk (or shard) boundaries into parts with one writer each, so no object has two writers. One
process writes offsets, targets and ids, collects the checksums of the parts, and commits. The result is bitwise
identical to that of one `SetWriter`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F64, I64, Array
from dkdist._utils.concurrency import prefetch
from dkdist.io._zarr.batches import Batch, Columns, Form, origin_attribute
from dkdist.io._zarr.checksums import U32, ChunkChecksums, new_table_key, object_key
from dkdist.io._zarr.growing_array import ChunkWriterThreads, GrowingArray
from dkdist.io._zarr.layout import ROW_ARRAYS, Commit, Metadata, array_of, group_document
from dkdist.io._zarr.lease import WriterLease, new_lease
from dkdist.io._zarr.location.address import StoreLocation, as_location, get_bytes, missing_keys, put_bytes
from dkdist.io._zarr.new_arrays import Shards, check_chunks, closing_order, new_arrays, row_bytes, shard_rows
from dkdist.io._zarr.set_writer import commit_arrays, new_generation
from dkdist.io.errors import DOCUMENT, StoreFormatError
from dkdist.sets.labels import Names

STOP_KEY = f"stopped/{DOCUMENT}"


class StoppedError(Exception):
    """Error: another part of the store has failed."""


class PartFailure(NamedTuple):
    """Result of a failed part; its error is raised after all tasks have ended."""

    error: Exception


class PartResult(NamedTuple):
    """Result of a part: columns of the sets that start in it, and checksums of its objects by array."""

    columns: Columns
    sums: dict[str, U32]


@dataclass(frozen=True)
class PartWriter:
    """Writes parts of the rows of one planned store, in any process."""

    lease: WriterLease
    arrays: dict[str, Metadata]
    stop_mark: bytes

    def write(self, start: int, stop: int, row: int, batches: Iterable[Batch]) -> PartResult | PartFailure:
        """Write rows start .. stop - 1 from batches that begin at ``row``.

        The result contains targets and ids of the sets that begin in these rows.
        """
        try:
            self._require_not_stopped()
            return self._write(start, stop, row, batches)
        except Exception as error:
            with contextlib.suppress(Exception):  # keep the first error
                self.lease.require_held()
                put_bytes(self.lease.store, STOP_KEY, self.stop_mark)
            return PartFailure(error)

    def _write(self, start: int, stop: int, row: int, batches: Iterable[Batch]) -> PartResult:
        values_by_column: dict[str, list[Array]] = {}
        with closing(ChunkWriterThreads(self.lease.store)) as threads:
            growing = {name: self._growing(name, start, threads) for name in self.arrays}
            for batch in prefetch(iter(batches)):
                first, last = np.searchsorted(row + batch.sets.offsets[:-1], [start, stop])
                for name, values in batch.columns.items():
                    values_by_column.setdefault(name, []).append(values[first:last])
                rows = slice(max(start - row, 0), max(stop - row, 0))
                growing["points"].append(batch.sets.relative[rows])
                if batch.sets.weights is not None:
                    growing["weights"].append(batch.sets.weights[rows])
                row += batch.sets.n_points
            for array in growing.values():
                array.flush()
        self.lease.flush()
        columns = {name: np.concatenate(values) for name, values in values_by_column.items()}
        return PartResult(columns, {name: array.sums for name, array in growing.items()})

    def _growing(self, name: str, start: int, threads: ChunkWriterThreads) -> GrowingArray:
        return GrowingArray(
            self.lease.store,
            name,
            self.arrays[name],
            start,
            None,
            self._writing,
            threads=threads,
            declare=self.lease.declare,
        )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Guard the write of one object: raise if another part has failed."""
        self._require_not_stopped()
        with self.lease.writing():
            yield

    def _require_not_stopped(self) -> None:
        if get_bytes(self.lease.store, [STOP_KEY]) == [self.stop_mark]:
            raise StoppedError


class PlannedStore:
    """New store, in the process that plans and commits it.

    Inside ``with create(...)`` tasks write parts, whose results are added. Leaving the block commits; an exception
    inside it does not. Raises the errors of `SetWriter` for an occupied or read-only location.
    """

    def __init__(self, store: Any, *, overwrite: bool, replaces: int | None = None) -> None:
        """Check the location; ``replaces`` is the required generation of the existing store."""
        self.address: StoreLocation = as_location(store)
        self._lease, self._replaced = new_lease(self.address, overwrite=overwrite)
        if replaces is not None and replaces != self._replaced:
            raise StoreFormatError(
                f"{self.address.label} was modified after opening: its generation must be {replaces}; got "
                f"{self._replaced}. Open it again with open_sets."
            )

    @contextlib.contextmanager
    def create(
        self,
        form: Form,
        edges: I64,
        *,
        chunk_rows: int | None,
        shards: Shards,
        sealed: bool = False,
        alphabet: str | None = None,
        origin: F64 | None = None,
        names: Names | None = None,
    ) -> Iterator[None]:
        """Create the arrays and take over the location; commit at the end. Points are relative to the origin."""
        n_points = int(edges[-1])
        rows = shard_rows(shards, self.address, form, n_points, chunk_rows)
        check_chunks(chunk_rows, rows)
        created = new_generation(self._replaced)
        self._metadata = new_arrays(form, created, chunk_rows, rows)
        sizes = len(edges) - 1, n_points, form["points"][1][0]
        start = origin_attribute(origin)
        self._commit = Commit(*sizes, created, sealed, alphabet=alphabet, origin=start, names=names)
        self._row_bytes = row_bytes(form)
        with closing(ChunkWriterThreads(self._lease.store)) as self._threads:
            try:
                self._lease.begin(clear=True)
                for name, metadata in self._metadata.items():
                    self._lease.declare(name, metadata, n_points if name in ROW_ARRAYS else len(edges))
                self._rows: dict[str, list[U32]] = {n: [] for n in self._metadata if n in ROW_ARRAYS}
                self._columns = {n: self._growing(n, 0) for n in self._metadata if n not in ROW_ARRAYS}
                self._columns["offsets"].append(edges)
                yield
                self._complete()
            except BaseException:
                self._threads.close()  # stop writing before files are removed
                self._lease.abort()
                raise

    @property
    def n_sets(self) -> int:
        """Number of sets of the store."""
        return self._commit.n_sets

    @property
    def n_bytes(self) -> int:
        """Uncompressed bytes of points and weights."""
        return self._commit.n_points * self._row_bytes

    @property
    def object_rows(self) -> int:
        """Rows per chunk or shard; parts start and end at multiples of it."""
        array = array_of(self._lease.store, "points", self._metadata["points"])
        return int((array.shards or array.chunks)[0])

    @property
    def writer(self) -> PartWriter:
        """Writer that tasks use for their part."""
        rows = {name: m for name, m in self._metadata.items() if name in ROW_ARRAYS}
        stop_mark = group_document({"dkdist": {"stopped": self._commit.generation}})
        return PartWriter(self._lease, rows, stop_mark)

    def bounds(self, target_bytes: int, starts: I64) -> I64:
        """Return boundaries of parts of about ``target_bytes``.

        A boundary is the start of a source (``starts``) if possible, otherwise that of the first chunk (or shard) after
        it, so a source is split at most once.
        """
        total, object_rows = self._commit.n_points, self.object_rows
        target_rows = max(1, target_bytes // self._row_bytes)
        candidates = -(-starts // object_rows) * object_rows
        bounds = [0]
        while True:
            first, last = np.searchsorted(candidates, bounds[-1] + np.array([1, 2]) * target_rows)
            if first == len(candidates) or candidates[first] >= total:
                return np.array([*bounds, total], np.int64)
            exact = np.flatnonzero(candidates[first:last] == starts[first:last])
            bounds.append(int(candidates[first + (exact[0] if len(exact) else 0)]))

    def add(self, bounds: I64, results: Iterable[PartResult | PartFailure]) -> list[Columns]:
        """Add the results of the next parts in order; raises the error of a failed part."""
        outcomes = list(results)
        errors = [result.error for result in outcomes if isinstance(result, PartFailure)]
        if errors:
            raise next((error for error in errors if not isinstance(error, StoppedError)), errors[0])
        written = [result for result in outcomes if isinstance(result, PartResult)]
        for start, stop, part in zip(bounds[:-1], bounds[1:], written, strict=True):
            self._require_written(int(start), int(stop))
            self.add_columns(part.columns)
            for name, sums in part.sums.items():
                self._rows[name].append(sums)
        return [part.columns for part in written]

    def add_columns(self, columns: Columns) -> None:
        """Append targets and ids of the next sets."""
        for name, values in columns.items():
            self._columns[name].append(values)

    def _complete(self) -> None:
        arrays = {n: self._columns.get(n) or self._growing(n, self._commit.n_points) for n in self._metadata}
        for name in closing_order(arrays):
            arrays[name].close()
        commit_arrays(self._lease, self._commit, arrays, new_table_key(self._commit.generation))

    def _growing(self, name: str, length: int) -> GrowingArray:
        """Return a writer of an array; with ``length``, of an array whose rows were written by tasks."""
        metadata, sums = self._metadata[name], self._rows.get(name)
        checksums = ChunkChecksums(0, np.concatenate(sums)) if sums else None
        return GrowingArray(
            self._lease.store,
            name,
            metadata,
            length,
            None,
            self._lease.writing,
            checksums,
            threads=self._threads,
            declare=self._lease.declare,
        )

    def _require_written(self, start: int, stop: int) -> None:
        """Raise if objects of a completed part are missing."""
        for name in self._metadata.keys() & set(ROW_ARRAYS):
            array = array_of(self._lease.store, name, self._metadata[name])
            chunks = range(start // self.object_rows, -(-stop // self.object_rows))
            missing = missing_keys(self._lease.store, [object_key(array, k) for k in chunks])
            if missing:
                raise StoreFormatError(
                    f"{missing[0]} was written by a worker but is missing in {self.address.label}: workers use another "
                    "file system. Use a path or URL that is shared by all workers and this process."
                )
