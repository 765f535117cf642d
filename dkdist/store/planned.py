"""A new store whose sizes are known before anything is written, so that many tasks can write it at once.

Its rows are cut at whole chunks (or shards) into pieces, and each piece has one writer: no two ever touch the same
object. Offsets, targets and ids are small and come from one process, and so does the commit, last of all; the tasks
give back the checksums of what they wrote, for its table. What the store then holds is bit for bit what one `SetWriter`
would have written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.store.address import Address, as_address, get_bytes, missing_keys, put_bytes
from dkdist.store.chunk_sums import U32
from dkdist.store.chunk_table import Bound, new_key
from dkdist.store.columns import Columns, Form
from dkdist.store.errors import StoreFormatError
from dkdist.store.growing import GrowingArray
from dkdist.store.layout import ROW_ARRAYS, Commit, Metadata, array_of
from dkdist.store.new_arrays import Shards, check_chunks, closing_order, new_arrays, row_bytes, shard_rows
from dkdist.store.origin import committed_origin
from dkdist.store.place import WritingPlace, new_place
from dkdist.store.sources import Batch
from dkdist.store.writer import commit_arrays, new_generation

I64 = NDArray[np.int64]
STOPPED = ".dkdist-stopped"


class Stopped(Exception):
    """Another piece of the same store has failed: there is no use in writing this one."""


@dataclass(frozen=True)
class Failed:
    """What a piece gives back instead of its columns, so that every task has ended before its error is raised."""

    error: Exception


@dataclass(frozen=True)
class Written:
    """What a piece gives back: the columns of the sets that begin in it, and the checksums of its objects by array."""

    columns: Columns
    sums: dict[str, U32]


@dataclass(frozen=True)
class PieceWriter:
    """Writes pieces of the rows of one planned store, in any process."""

    place: WritingPlace
    arrays: dict[str, Metadata]
    stop_mark: bytes

    def write(self, start: int, stop: int, row: int, batches: Iterable[Batch]) -> Written | Failed:
        """Write rows start .. stop - 1 from batches that begin at ``row``; give the columns of sets that begin here."""
        try:
            self._require_going_on()
            return self._write(start, stop, row, batches)
        except Exception as error:
            with contextlib.suppress(Exception):  # this error is the one to tell
                self.place.require_mine()
                put_bytes(self.place.store, STOPPED, self.stop_mark)
            return Failed(error)

    def _write(self, start: int, stop: int, row: int, batches: Iterable[Batch]) -> Written:
        growing = {
            name: GrowingArray(self.place.store, name, m, start, None, self._require_going_on)
            for name, m in self.arrays.items()
        }
        kept: dict[str, list[NDArray[Any]]] = {}
        for batch in batches:
            first, last = np.searchsorted(row + batch.sets.offsets[:-1], [start, stop])
            for name, values in batch.columns.items():
                kept.setdefault(name, []).append(values[first:last])
            rows = slice(max(start - row, 0), max(stop - row, 0))
            growing["points"].append(batch.sets.relative[rows])
            if batch.sets.weights is not None:
                growing["weights"].append(batch.sets.weights[rows])
            row += batch.sets.n_points
        for array in growing.values():
            array.flush()
        self.place.flush()
        columns = {name: np.concatenate(values) for name, values in kept.items()}
        return Written(columns, {name: array.sums for name, array in growing.items()})

    def _require_going_on(self) -> None:
        if get_bytes(self.place.store, [STOPPED]) == [self.stop_mark]:
            raise Stopped
        self.place.require_mine()


class PlannedStore:
    """The store under construction, in the process that plans it: inside ``with begun(...)`` pieces are written and
    what they give back is added; leaving it commits, an exception inside it does not.

    Raises what `SetWriter` raises for a place that is taken or cannot be written.
    """

    def __init__(self, store: Any, *, overwrite: bool, replaces: int | None = None) -> None:
        """Look at the place; ``replaces`` is the generation that must be there."""
        self.address: Address = as_address(store)
        self._place, self._replaced = new_place(self.address, overwrite=overwrite)
        if replaces is not None and replaces != self._replaced:
            raise StoreFormatError(
                f"{self.address.label} is of generation {self._replaced} and was opened at generation {replaces}: it "
                "was written to since. Open it again with open_sets"
            )

    @contextlib.contextmanager
    def begun(
        self,
        form: Form,
        edges: I64,
        *,
        chunk_rows: int | None,
        shards: Shards,
        sealed: bool = False,
        alphabet: str | None = None,
        origin: NDArray[np.float64] | None = None,
    ) -> Iterator[None]:
        """Fix the arrays and take the place over; commit at the end. Points are counted from the origin."""
        n_points = int(edges[-1])
        rows = shard_rows(shards, self.address, form, n_points, chunk_rows)
        check_chunks(chunk_rows, rows)
        created = new_generation(self._replaced)
        self._metadata = new_arrays(form, created, chunk_rows, rows)
        self._commit = Commit(
            len(edges) - 1,
            n_points,
            form["points"][1][0],
            created,
            sealed,
            alphabet=alphabet,
            origin=committed_origin(origin),
        )
        self._row_bytes = row_bytes(form)
        try:
            self._place.begin(clear=True)
            self._rows: dict[str, list[U32]] = {n: [] for n in self._metadata if n in ROW_ARRAYS}
            self._columns = {n: self._growing(n, 0) for n in self._metadata if n not in ROW_ARRAYS}
            self._columns["offsets"].append(edges)
            yield
            self._complete()
        except BaseException:
            self._place.abort()
            raise

    @property
    def n_sets(self) -> int:
        """The number of sets it will hold."""
        return self._commit.n_sets

    @property
    def n_bytes(self) -> int:
        """What its points and weights take, uncompressed."""
        return self._commit.n_points * self._row_bytes

    @property
    def grain(self) -> int:
        """Rows of a chunk, or of a shard: pieces begin and end at multiples of it."""
        array = array_of(self._place.store, "points", self._metadata["points"])
        return int((array.shards or array.chunks)[0])

    @property
    def writer(self) -> PieceWriter:
        """What a task needs to write a piece."""
        rows = {name: m for name, m in self._metadata.items() if name in ROW_ARRAYS}
        return PieceWriter(self._place, rows, str(self._commit.generation).encode())

    def bounds(self, wanted_bytes: int, starts: I64) -> I64:
        """Where pieces of about some bytes begin and end.

        Each begins where a source does (``starts``), or in the first chunk (or shard) after, so that a source is cut
        at most once; boundaries that cut none are preferred.
        """
        total, grain = self._commit.n_points, self.grain
        wanted = max(1, wanted_bytes // self._row_bytes)
        candidates = -(-starts // grain) * grain
        bounds = [0]
        while True:
            first, last = np.searchsorted(candidates, bounds[-1] + np.array([1, 2]) * wanted)
            if first == len(candidates) or candidates[first] >= total:
                return np.array([*bounds, total], np.int64)
            exact = np.flatnonzero(candidates[first:last] == starts[first:last])
            bounds.append(int(candidates[first + (exact[0] if len(exact) else 0)]))

    def add(self, bounds: I64, results: Iterable[Written | Failed]) -> list[Columns]:
        """Take what the next pieces gave back, in their order; raises the error of one that failed."""
        written: list[Written] = []
        errors: list[Exception] = []
        for result in results:
            if isinstance(result, Failed):
                errors.append(result.error)
            else:
                written.append(result)
        if errors:
            raise next((error for error in errors if not isinstance(error, Stopped)), errors[0])
        for start, stop, piece in zip(bounds[:-1], bounds[1:], written, strict=True):
            self._require_written(int(start), int(stop))
            self.add_columns(piece.columns)
            for name, sums in piece.sums.items():
                self._rows[name].append(sums)
        return [piece.columns for piece in written]

    def add_columns(self, columns: Columns) -> None:
        """Targets and ids of the next sets."""
        for name, values in columns.items():
            self._columns[name].append(values)

    def _complete(self) -> None:
        arrays = {n: self._columns.get(n) or self._growing(n, self._commit.n_points) for n in self._metadata}
        for name in closing_order(arrays):
            arrays[name].close()
        commit_arrays(self._place, self._commit, arrays, new_key(self._commit.generation))

    def _growing(self, name: str, length: int) -> GrowingArray:
        """An array under this process's hands; with a length, one whose rows others have written."""
        metadata, sums = self._metadata[name], self._rows.get(name)
        bound = Bound(0, np.concatenate(sums)) if sums else None
        return GrowingArray(self._place.store, name, metadata, length, None, self._place.require_mine, bound)

    def _require_written(self, start: int, stop: int) -> None:
        """Refuse to go on if what a task said it wrote is not there."""
        for name in self._metadata.keys() & set(ROW_ARRAYS):
            array = array_of(self._place.store, name, self._metadata[name])
            encode, zeros = array.metadata.encode_chunk_key, (0,) * (array.ndim - 1)
            chunks = range(start // self.grain, -(-stop // self.grain))
            lost = missing_keys(self._place.store, [f"{name}/{encode((k, *zeros))}" for k in chunks])
            if lost:
                raise StoreFormatError(
                    f"{lost[0]} was written by a worker but is not in {self.address.label}: the workers write to "
                    "another place. Give a path or URL that is the same for all of them and for this process"
                )
