"""One commit of a store, opened: reads rows of its arrays and believes nothing that the bytes do not show.

Only the first n_sets and n_points entries of the arrays are ever read. Every chunk is compared with the checksum that
the commit has for its place; a lost one shows as NaN or -1 (the fill values), or, where these could be data, is looked
for before reading. Opened commits are kept per process, so that a view that comes back from a pickle costs a
dictionary look-up.

Scattered sets are sorted, neighbours are joined into reads of whole chunks, and put back in the order asked for: a
chunk is decoded once for all of its sets. Two sets share a read if their chunks touch; a read spans at most READ_CHUNKS
chunks (unless one set is longer), so that memory is the answer plus one read.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import zarr

from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._numba.points import all_finite, read_only
from dkdist._utils.memory_budget import may_allocate, require_memory
from dkdist.io._zarr.checksums import ChecksummedArray, Table, TableRecord, codec_info, object_key, read_table
from dkdist.io._zarr.layout import (
    ROW_ARRAYS,
    Commit,
    Metadata,
    array_of,
    array_through,
    read_layout,
    require_fit,
)
from dkdist.io._zarr.local_chunks import local_chunk_reader
from dkdist.io._zarr.location.address import StoreLocation, missing_keys
from dkdist.io.errors import DOCUMENT, RESTORE_HINT, ObjectTooLargeError, StoreFormatError, as_format_error
from dkdist.sets import SampleSets
from dkdist.sets.labels import NO_LABELS, Labels

MAX_CACHED_OFFSET_CHUNKS = 64
KEYS_PER_REQUEST = 1024
MAX_READ_CHUNKS = 2**20
MAX_CACHED_COMMITS = 8

_cache: OrderedDict[tuple[str, Commit], CommitReader] = OrderedDict()
_lock = threading.Lock()


class CommitReader:
    """The arrays of one commit. `points`, `offsets` and so on are read through methods that check them."""

    def __init__(self, address: StoreLocation, commit: Commit | None = None) -> None:
        self.address = address
        with as_format_error(address.label):
            self.store = address.open(read_only=True)
        self._seen = self.address.signature(self.store, DOCUMENT)
        with as_format_error(address.label):
            found, self.metadata = self._read_layout()
        self.commit = replace(found, table=None) if commit is None else commit
        self._require_same_content(found)
        self.arrays = {name: self._open_array(name, m) for name, m in self.metadata.items()}
        require_fit(self.arrays, self.commit, address.label)
        self._sizes = {name: int(array.chunks[0]) for name, array in self.arrays.items()}  # rows of a chunk
        self._local = {name: local_chunk_reader(self.store, array) for name, array in self.arrays.items()}
        self._offsets_chunk: Callable[[int], I64] = lru_cache(MAX_CACHED_OFFSET_CHUNKS)(
            self._read_offsets_chunk
        )
        self.offsets(self.commit.n_sets, self.commit.n_sets)

    @property
    def weighted(self) -> bool:
        """Whether the points have weights."""
        return "weights" in self.arrays

    @property
    def origin(self) -> F64 | None:
        """(d,): what points are counted from; None for 0."""
        return None if self.commit.origin is None else np.array(self.commit.origin)

    @property
    def chunk_rows(self) -> int:
        """The number of points in a chunk."""
        return self._sizes["points"]

    @property
    def target_names(self) -> list[str]:
        """The names of the targets, sorted."""
        return sorted(name.removeprefix("targets/") for name in self.arrays if name.startswith("targets/"))

    def offsets(self, start: int, stop: int) -> I64:
        """The offsets o_start .. o_stop, both included."""
        size = self._sizes["offsets"]
        first, last = start // size, stop // size
        if first == last:  # checked when it was read
            return self._offsets_chunk(first)[start - first * size : stop - first * size + 1]
        parts = [self._offsets_chunk(k) for k in range(first, last + 1)]
        edges = np.concatenate(parts)[start - first * size : stop - first * size + 1]
        self._check_offsets(edges, start, stop)
        return edges

    def extents(self, index: I64) -> tuple[I64, I64]:
        """The first row of each set of an array of positions, in any order, and the row after its last."""
        positions = np.unique(np.concatenate([index, index + 1]))
        size = self._sizes["offsets"]
        owners = positions // size
        values = np.empty(len(positions), np.int64)
        for k in np.unique(owners):
            mine = owners == k
            values[mine] = self._offsets_chunk(int(k))[positions[mine] - k * size]
        wrong = (np.diff(values, prepend=-1) <= 0) | (values > self.commit.n_points)
        wrong |= (positions == 0) & (values != 0)
        if wrong.any():
            worst = int(np.argmax(wrong))
            raise self._bad_offsets(int(positions[worst]), int(values[max(worst - 1, 0)]), int(values[worst]))
        return values[np.searchsorted(positions, index)], values[np.searchsorted(positions, index + 1)]

    def sets(self, start: int, stop: int) -> SampleSets:
        """Read the sets start .. stop - 1."""
        edges = self.offsets(start, stop)
        points, weights = self.rows(int(edges[0]), int(edges[-1]))
        return self.sets_of(points, edges - edges[0], weights)

    def sets_of(self, points: Array, offsets: I64, weights: F32 | None) -> SampleSets:
        """Points that were read here as sample sets; refuses codes that the alphabet does not have."""
        alphabet = self.commit.alphabet
        if alphabet is not None and points.max(initial=0) >= len(alphabet):
            raise StoreFormatError(
                f"{self.address.label} holds the code {points.max()}, beyond its alphabet of {len(alphabet)} symbols. "
                f"{RESTORE_HINT}"
            )
        labels = NO_LABELS if self.commit.names is None else Labels(names=self.commit.names)
        return SampleSets._trusted(points, offsets, weights, alphabet, self.origin, labels)

    def rows(self, start: int, stop: int) -> tuple[Array, F32 | None]:
        """Read the points start .. stop - 1, counted from the origin, and their weights."""
        points = self._row_array("points", start, stop)
        weights = self._row_array("weights", start, stop) if self.weighted else None
        self.require_current()
        return points, weights

    def column(self, name: str, start: int, stop: int) -> Array:
        """Read the entries start .. stop - 1 of ``ids`` or ``targets/NAME``; strings come as NumPy str."""
        values = self._read(name, start, stop)
        self.require_current()
        if values.dtype.kind != "T":
            return values
        width = int(np.strings.str_len(values).max(initial=1))
        what = f"array '{name}' of {self.address.label}, {len(values)} strings of up to {width} characters, needs"
        require_memory(4 * width * len(values), what, "read fewer sets at a time")
        return values.astype(f"U{width}")

    def entries(self, name: str, start: int, stop: int) -> Array:
        """Read the entries start .. stop - 1 of any array, checked as that array needs."""
        if name == "offsets":
            return self.offsets(start, stop - 1)
        if name in ("points", "weights"):
            return self._row_array(name, start, stop)
        return self.column(name, start, stop)

    def require_chunks(self, name: str, start: int, stop: int) -> None:
        """Refuse an array that lost one of the chunks (or shards) of some rows."""
        array = self.arrays[name]
        size = int((array.shards or array.chunks)[0])
        chunks = range(start // size, -(-stop // size))
        for i in range(0, len(chunks), KEYS_PER_REQUEST):
            some = chunks[i : i + KEYS_PER_REQUEST]
            lost = missing_keys(self.store, [object_key(array, k) for k in some])
            if lost:
                self.require_current()
                raise StoreFormatError(
                    f"chunk {lost[0]} of {self.address.label} is missing "
                    f"({len(lost)} of {len(some)} looked for). {RESTORE_HINT}"
                )

    def where(self, start: int, stop: int) -> str:
        """Name the sets that own some rows, for messages."""
        try:
            edges = self.offsets(0, self.commit.n_sets)
        except StoreFormatError:
            return "the sets cannot be named, the offsets are damaged too"
        first = int(np.searchsorted(edges, start, side="right")) - 1
        last = int(np.searchsorted(edges, stop - 1, side="right")) - 1
        return f"set {first}" if first == last else f"sets {first} to {last}"

    def require_current(self) -> None:
        """Refuse to go on if another store took this one's place.

        On a local disk this costs one stat, for a zip file (which stays open) nothing, and elsewhere one
        request for the root document, which is small.
        """
        seen = self.address.signature(self.store, DOCUMENT)
        if seen == self._seen:
            return
        found, _ = read_layout(self.store, self.address.label)
        self._require_same_content(found)
        self._seen = seen

    @property
    def table(self) -> Table:
        """The checksums of all chunks, as of the last commit that was looked at; empty for a store without."""
        return self._table[1]

    def _read_layout(self) -> tuple[Commit, dict[str, Metadata]]:
        """The commit that is there now with the metadata of its arrays; takes over its table of checksums."""
        before: TableRecord | None = None
        while True:
            found, metadata = read_layout(self.store, self.address.label)
            table = read_table(self.store, found.table, self.address.label)
            if table is not None:
                self._table = found.table, table
                return found, metadata
            if found.table == before:
                raise StoreFormatError(
                    f"the table of checksums of {self.address.label} is missing. {RESTORE_HINT}"
                )
            before = found.table  # an append has taken its place, or it is lost

    def _renewed(self, seen: tuple[TableRecord | None, Table]) -> bool:
        """Whether there is another table than the one that was seen: others have appended since."""
        found, _ = self._read_layout()
        self._require_same_content(found)
        return self._table[0] != seen[0]

    def _require_same_content(self, found: Commit) -> None:
        if not self.commit.grew_into(found):
            raise StoreFormatError(
                f"{self.address.label} was replaced: this view is of generation {self.commit.generation} "
                f"and the store is now of generation {found.generation}, with other content. "
                "Open it again with open_sets"
            )

    def _open_array(self, name: str, metadata: Metadata) -> zarr.Array[Any]:
        with as_format_error(f"{name}/{DOCUMENT} of {self.address.label}"):
            return self._checked(array_of(self.store, name, metadata), tails=False)

    def _checked(self, array: zarr.Array[Any], *, tails: bool) -> zarr.Array[Any]:
        """An array whose chunks are compared with the table, or are those of the unsettled append."""
        coding, name = codec_info(array), array.path
        if coding is None:
            return array
        checked = ChecksummedArray(self.store, name, coding, lambda: self.table.get(name), tails=tails)
        return array_through(array, checked)

    def _row_array(self, name: str, start: int, stop: int) -> Array:
        values = self._read(name, start, stop)
        if values.dtype.kind != "f" or all_finite(values):
            return values
        self.require_current()
        bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        row, last = start + int(bad[0]), start + int(bad[-1]) + 1
        raise StoreFormatError(
            f"array '{name}' of {self.address.label} is not finite in {len(bad)} rows from row {row} "
            f"({self.where(row, last)}): chunk {row // self._sizes[name]} is missing "
            f"or damaged. {RESTORE_HINT}"
        )

    def _read(self, name: str, start: int, stop: int) -> Array:
        size, local, array = self._sizes[name], self._local[name], self.arrays[name]
        n_chunks = -(-stop // size) - start // size
        n_bytes = (stop - start) * math.prod(array.shape[1:]) * array.dtype.itemsize
        what = f"rows {start} to {stop - 1} of array '{name}' of {self.address.label} need"
        ask = partial(require_memory, n_bytes, what, "read fewer sets at a time")
        if local is not None and n_chunks <= MAX_READ_CHUNKS and may_allocate(n_bytes):
            try:
                return local.read(start, stop, self.table.get(name))
            except MemoryError as error:
                raise self._refused(name, error) from error
            except Exception:  # Zarr's way finds the tail of an append, or says what is wrong
                pass
        if name != "offsets" and (name not in ROW_ARRAYS or self.metadata[name].get("fill_value") != "NaN"):
            self.require_chunks(name, start, stop)  # a lost one would show as numbers
        if n_chunks > MAX_READ_CHUNKS:
            raise StoreFormatError(
                f"rows {start} to {stop - 1} of array '{name}' of {self.address.label} are {n_chunks} chunks of "
                f"{size} rows, more than {MAX_READ_CHUNKS}: read less at a time. {RESTORE_HINT}"
            )
        ask()  # after what is lost was found: a damaged store may claim any size
        try:
            return self._values(name, start, stop)
        except MemoryError as error:
            raise self._refused(name, error) from error
        except (OSError, ObjectTooLargeError):
            raise
        except Exception as error:
            self.require_current()  # a store that was replaced under us is no damage
            raise self._damage(name, start, stop, error) from error

    def _values(self, name: str, start: int, stop: int) -> Array:
        """Read rows; where a chunk is not what was committed, looks for the longer one of an append."""
        for tries in itertools.count():
            seen, reason = self._table, None
            for array in self._sources(name):
                try:
                    return np.asarray(array[start:stop])
                except (OSError, MemoryError, ObjectTooLargeError):
                    raise
                except Exception as error:
                    reason = reason or error
            if not self._renewed(seen) and tries and reason is not None:
                raise reason
        raise AssertionError("unreachable")

    def _sources(self, name: str) -> Iterator[zarr.Array[Any]]:
        """An array as Zarr has it, and with the tail of an append that was not settled."""
        yield self.arrays[name]
        bound = self.table.get(name)
        if bound is not None and bound.tail is not None:
            yield self._checked(self.arrays[name], tails=True)

    def _refused(self, name: str, error: MemoryError) -> MemoryError:
        """A refusal that names the array; it is not read again."""
        return MemoryError(f"array '{name}' of {self.address.label}: {error or 'out of memory'}")

    def _damage(self, name: str, start: int, stop: int, error: Exception) -> StoreFormatError:
        """Find the first chunk that cannot be decoded, and name it with its sets."""
        size = self._sizes[name]
        for k in range(start // size, -(-stop // size)):
            first, last = max(k * size, start), min((k + 1) * size, stop)
            try:
                self._values(name, first, last)
            except Exception:
                break
        rows = f"rows {first} to {last - 1}"
        owners = self.where(first, last) if name in ("points", "weights") else f"sets {first} to {last - 1}"
        return StoreFormatError(
            f"chunk {k} of array '{name}' of {self.address.label} ({rows}; {owners}) cannot be read "
            f"({type(error).__name__}: {error}). {RESTORE_HINT}"
        )

    def _read_offsets_chunk(self, k: int) -> I64:
        size = self._sizes["offsets"]
        stop = min((k + 1) * size, self.commit.n_sets + 1)
        values = self._read("offsets", k * size, stop).astype(np.int64, copy=False)
        self.require_current()
        self._check_offsets(values, k * size, stop - 1)
        return read_only(values)

    def _check_offsets(self, edges: I64, start: int, stop: int) -> None:
        ends_fit = edges[0] >= 0 and edges[-1] <= self.commit.n_points
        ends_fit = ends_fit and (start > 0 or edges[0] == 0)
        ends_fit = ends_fit and (stop < self.commit.n_sets or edges[-1] == self.commit.n_points)
        sizes = np.diff(edges)
        if ends_fit and (len(sizes) == 0 or int(sizes.min()) > 0):
            return
        worst = int(np.argmax((sizes <= 0) | (edges[:-1] < 0))) if len(sizes) else 0
        raise self._bad_offsets(start + worst, int(edges[worst]), int(edges[min(worst + 1, len(edges) - 1)]))

    def _bad_offsets(self, i: int, start: int, stop: int) -> StoreFormatError:
        chunk = i // self._sizes["offsets"]
        return StoreFormatError(
            f"the offsets of {self.address.label} are wrong near set {i} (from {start} to {stop}; they must "
            f"start at 0, increase, and end at {self.commit.n_points}): chunk {chunk} of array 'offsets' is "
            f"missing or damaged. {RESTORE_HINT}"
        )


def open_commit(address: StoreLocation, commit: Commit) -> CommitReader:
    """The opened commit, from this process's cache if it is there."""
    key = (address.label, commit)
    with _lock:
        found = _cache.get(key)
        if found is not None and found.address == address:  # labels show no options, and may be shared
            _cache.move_to_end(key)
            return found
    return cache_reader(CommitReader(address, commit))


def cache_reader(opened: CommitReader) -> CommitReader:
    """Remember an opened commit, and forget the one that was used longest ago."""
    with _lock:
        _cache[opened.address.label, opened.commit] = opened
        while len(_cache) > MAX_CACHED_COMMITS:
            _cache.popitem(last=False)
    return opened


def _after_fork() -> None:
    """Forget what the parent opened: it shares a zip file's position, and has a remote client's threads."""
    global _lock
    _lock = threading.Lock()
    _cache.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


CHUNKS_PER_READ = 16


def read_scattered(committed: CommitReader, index: I64) -> SampleSets:
    """Read the sets at some positions, in the order of the positions (repeats allowed)."""
    starts, stops = committed.extents(index)
    edges = np.concatenate([[0], np.cumsum(stops - starts)])
    order = np.argsort(index, kind="stable")
    starts, stops, places = starts[order], stops[order], edges[:-1][order]
    points = np.empty((edges[-1], committed.commit.n_dims), committed.arrays["points"].dtype)
    weights = (
        np.empty((edges[-1], *committed.arrays["weights"].shape[1:]), np.float32)
        if committed.weighted
        else None
    )
    for first, last in _iter_reads(starts, stops, committed.chunk_rows):
        low = int(starts[first])
        block, block_weights = committed.rows(low, int(stops[last - 1]))
        source, target = _row_moves(starts[first:last] - low, stops[first:last] - low, places[first:last])
        points[target] = block[source]
        if weights is not None and block_weights is not None:
            weights[target] = block_weights[source]
    return committed.sets_of(points, edges, weights)


def _iter_reads(starts: I64, stops: I64, chunk_rows: int) -> Iterator[tuple[int, int]]:
    """Cut the sorted sets into runs (first, last) that are read at once."""
    if len(starts) == 0:
        return
    chunk, last_chunk = starts // chunk_rows, (stops - 1) // chunk_rows
    apart = np.concatenate([[True], chunk[1:] > last_chunk[:-1] + 1])
    origin = chunk[apart][np.cumsum(apart) - 1]
    part = (chunk - origin) // CHUNKS_PER_READ
    cut = apart | np.concatenate([[False], part[1:] != part[:-1]])
    firsts = np.flatnonzero(cut).tolist()
    yield from zip(firsts, [*firsts[1:], len(starts)], strict=True)


def _row_moves(starts: I64, stops: I64, places: I64) -> tuple[I64, I64]:
    """The rows of a block that belong to the sets, and where each goes."""
    sizes = stops - starts
    before = np.cumsum(sizes) - sizes
    steps = np.arange(int(sizes.sum()))
    return np.repeat(starts - before, sizes) + steps, np.repeat(places - before, sizes) + steps


class Targets(Mapping[str, Array]):
    """Targets by name; an array is read each time it is asked for, for the chosen sets only."""

    def __init__(self, names: Sequence[str], read: Callable[[str], Array]) -> None:
        self._names, self._read = names, read

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(f"there are no targets {name!r}; the store has {list(self._names)}")
        return self._read(f"targets/{name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Targets({', '.join(self._names)})"
