"""Reading of one commit: `CommitReader` reads rows of its arrays and verifies them.

Only the first n_sets and n_points entries are read. Every chunk is compared with its checksum in the commit. A missing
chunk appears as NaN or -1 (fill values); where these could be data, the existence of chunks is checked first. Readers
are cached per process, so unpickled views find them by a dictionary look-up.

Scattered sets are sorted and combined into reads of at most CHUNKS_PER_READ adjacent chunks (more only if one set is
longer), so each chunk is decoded once and memory is the result plus one read.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
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
from dkdist.io._zarr.location.read_ahead import ReadAheadStore
from dkdist.io._zarr.location.remote import RemoteStore
from dkdist.io.errors import DOCUMENT, RESTORE_HINT, ObjectTooLargeError, StoreFormatError, as_format_error
from dkdist.sets import SampleSets
from dkdist.sets.labels import NO_LABELS, Labels

MAX_CACHED_OFFSET_CHUNKS = 64  # 64 MiB: offsets of 8.4 million sets; tests/store/test_round_trip.py
KEYS_PER_REQUEST = 1024  # number of keys checked in one asyncio.gather; tests/store/test_damage.py
CHECK_SECONDS = (
    5.0  # a run notices a replaced remote store after this time (python benchmarks/object_store.py)
)
MAX_READ_CHUNKS = 2**20  # rejects stores that declare tiny chunks; tests/places/test_hostile.py
MAX_CACHED_COMMITS = (
    8  # readers per process, each with up to 64 MiB of offsets; tests/places/test_pickled_views.py
)

_cache: OrderedDict[tuple[str, Commit], CommitReader] = OrderedDict()
_lock = threading.Lock()


class CommitReader:
    """Checked access to the arrays of one commit."""

    def __init__(self, address: StoreLocation, commit: Commit | None = None) -> None:
        self.address = address
        with as_format_error(address.label):
            self.store = address.open(read_only=True)
        if isinstance(self.store, RemoteStore):
            self.store = ReadAheadStore(self.store)
        self._signature = self.address.signature(self.store, DOCUMENT)
        self._last_check = -math.inf  # time of the last check of a run that reads ahead
        with as_format_error(address.label):
            current, self.metadata = self._read_layout()
        self.commit = replace(current, table=None) if commit is None else commit
        self._require_same_content(current)
        self.arrays = {name: self._open_array(name, m) for name, m in self.metadata.items()}
        require_fit(self.arrays, self.commit, address.label)
        self._sizes = {name: int(array.chunks[0]) for name, array in self.arrays.items()}  # rows per chunk
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
    def points_dtype(self) -> np.dtype[Any]:
        """float32, or uint8/uint16 for codes of strings."""
        return np.dtype(self.arrays["points"].dtype)

    @property
    def weights_shape(self) -> tuple[int, ...] | None:
        """Shape of one point's weight, () or (k,); None without weights."""
        return tuple(self.arrays["weights"].shape[1:]) if self.weighted else None

    @property
    def has_ids(self) -> bool:
        """Whether the sets have ids."""
        return "ids" in self.arrays

    @property
    def origin(self) -> F64 | None:
        """(d,) origin of the points; None for 0."""
        return None if self.commit.origin is None else np.array(self.commit.origin)

    @property
    def chunk_rows(self) -> int:
        """Points per chunk."""
        return self._sizes["points"]

    @property
    def target_names(self) -> list[str]:
        """Sorted names of the targets."""
        return sorted(name.removeprefix("targets/") for name in self.arrays if name.startswith("targets/"))

    def offsets(self, start: int, stop: int) -> I64:
        """Read the offsets o_start .. o_stop, both included."""
        size = self._sizes["offsets"]
        first, last = start // size, stop // size
        if first == last:  # _read_offsets_chunk has checked these offsets
            return self._offsets_chunk(first)[start - first * size : stop - first * size + 1]
        parts = [self._offsets_chunk(k) for k in range(first, last + 1)]
        edges = np.concatenate(parts)[start - first * size : stop - first * size + 1]
        self._check_offsets(edges, start, stop)
        return edges

    def extents(self, index: I64) -> tuple[I64, I64]:
        """Return the first rows and end rows of the sets at some positions, in any order."""
        positions = np.unique(np.concatenate([index, index + 1]))
        size = self._sizes["offsets"]
        owners = positions // size
        values = np.empty(len(positions), np.int64)
        for k in np.unique(owners):
            in_chunk = owners == k
            values[in_chunk] = self._offsets_chunk(int(k))[positions[in_chunk] - k * size]
        wrong = (np.diff(values, prepend=-1) <= 0) | (values > self.commit.n_points)
        wrong |= (positions == 0) & (values != 0)
        if wrong.any():
            worst = int(np.argmax(wrong))
            raise self._bad_offsets(int(positions[worst]), int(values[max(worst - 1, 0)]), int(values[worst]))
        return values[np.searchsorted(positions, index)], values[np.searchsorted(positions, index + 1)]

    def sets(self, start: int, stop: int, first: int = 0) -> SampleSets:
        """Read the sets start .. stop - 1; stored points are valid, so ``first`` is not used."""
        edges = self.offsets(start, stop)
        points, weights = self.rows(int(edges[0]), int(edges[-1]))
        return self.sets_of(points, edges - edges[0], weights)

    def scattered(self, index: I64, first: int = 0) -> SampleSets:
        """Read the sets at positions in any order, with repeats."""
        return read_scattered(self, index)

    def sets_of(self, points: Array, offsets: I64, weights: F32 | None) -> SampleSets:
        """Wrap points that were read as sample sets; raises for codes beyond the alphabet."""
        alphabet = self.commit.alphabet
        if alphabet is not None and points.max(initial=0) >= len(alphabet):
            raise StoreFormatError(
                f"codes in {self.address.label} must be below {len(alphabet)}, the size of its alphabet; got "
                f"{points.max()}. {RESTORE_HINT}"
            )
        labels = NO_LABELS if self.commit.names is None else Labels(names=self.commit.names)
        return SampleSets._trusted(points, offsets, weights, alphabet, self.origin, labels)

    def rows(self, start: int, stop: int) -> tuple[Array, F32 | None]:
        """Read the points start .. stop - 1, relative to the origin, and their weights."""
        points = self._row_array("points", start, stop)
        weights = self._row_array("weights", start, stop) if self.weighted else None
        self._require_current_after_read("points")
        return points, weights

    def prefetch(self, start: int, stop: int) -> int:
        """Request the chunks of the points (and weights) start .. stop - 1 of a remote store; return their bytes.

        Shards are read in parts, which are not requested ahead.
        """
        if not isinstance(self.store, ReadAheadStore):
            return 0
        if time.monotonic() - self._last_check >= CHECK_SECONDS:
            self.require_current()
            self._last_check = time.monotonic()
        n_bytes = 0
        for name in ROW_ARRAYS:
            array = self.arrays.get(name)
            if array is not None and array.shards is None:
                size = self._sizes[name]
                chunks = range(start // size, -(-stop // size))
                self.store.prefetch(object_key(array, k) for k in chunks)
                n_bytes += len(chunks) * size * math.prod(array.shape[1:]) * array.dtype.itemsize
        return n_bytes

    @property
    def read_ahead_bytes(self) -> int:
        """Bytes that may be requested ahead; 0 for local stores."""
        return self.store.max_bytes if isinstance(self.store, ReadAheadStore) else 0

    def point_weights(self, start: int, stop: int) -> F32:
        """Read the weights of the points start .. stop - 1."""
        return self._row_array("weights", start, stop)

    def column(self, name: str, start: int, stop: int) -> Array:
        """Read the entries start .. stop - 1 of ``ids`` or ``targets/NAME``; strings come as NumPy str."""
        values = self._read(name, start, stop)
        self._require_current_after_read(name)
        if values.dtype.kind != "T":
            return values
        width = int(np.strings.str_len(values).max(initial=1))
        what = f"array '{name}' of {self.address.label}, {len(values)} strings of up to {width} characters, needs"
        require_memory(4 * width * len(values), what, "read fewer sets at a time")
        return values.astype(f"U{width}")

    def entries(self, name: str, start: int, stop: int) -> Array:
        """Read and check the entries start .. stop - 1 of any array."""
        if name == "offsets":
            return self.offsets(start, stop - 1)
        if name in ("points", "weights"):
            return self._row_array(name, start, stop)
        return self.column(name, start, stop)

    def require_chunks(self, name: str, start: int, stop: int) -> None:
        """Raise if a chunk (or shard) of some rows is missing."""
        array = self.arrays[name]
        size = int((array.shards or array.chunks)[0])
        chunks = range(start // size, -(-stop // size))
        for i in range(0, len(chunks), KEYS_PER_REQUEST):
            batch = chunks[i : i + KEYS_PER_REQUEST]
            missing = missing_keys(self.store, [object_key(array, k) for k in batch])
            if missing:
                self.require_current()
                raise StoreFormatError(
                    f"chunk {missing[0]} of {self.address.label} is missing "
                    f"({len(missing)} of {len(batch)} checked). {RESTORE_HINT}"
                )

    def where(self, start: int, stop: int) -> str:
        """Format the sets of some rows for messages."""
        try:
            edges = self.offsets(0, self.commit.n_sets)
        except StoreFormatError:
            return "unknown sets: the offsets are damaged too"
        first = int(np.searchsorted(edges, start, side="right")) - 1
        last = int(np.searchsorted(edges, stop - 1, side="right")) - 1
        return f"set {first}" if first == last else f"sets {first} to {last}"

    def require_current(self) -> None:
        """Raise if the store was replaced.

        Costs one stat on a local disk, nothing for an open zip file, and elsewhere one request for the small root
        document.
        """
        signature = self.address.signature(self.store, DOCUMENT)
        if signature == self._signature:
            return
        current, _ = read_layout(self.store, self.address.label)
        self._require_same_content(current)
        self._signature = signature

    def _require_current_after_read(self, name: str) -> None:
        """Raise if the store was replaced; in a run that reads ahead, only every five seconds.

        Meanwhile the checksums of this commit prove the content. A check per block would cost a round trip each.
        """
        checksums = self.table.get(name)
        is_recent = time.monotonic() - self._last_check < CHECK_SECONDS
        if not (is_recent and checksums is not None and checksums.first == 0):
            self.require_current()

    @property
    def table(self) -> Table:
        """Checksums of all chunks, from the last commit that was read; empty for a store without them."""
        return self._table[1]

    @property
    def table_key(self) -> str:
        """Key of the table of checksums; empty for a store without one."""
        record, _ = self._table
        return "" if record is None else record.key

    def _read_layout(self) -> tuple[Commit, dict[str, Metadata]]:
        """Read the current commit and the metadata of its arrays; updates the table of checksums."""
        before: TableRecord | None = None
        while True:
            commit, metadata = read_layout(self.store, self.address.label)
            table = read_table(self.store, commit.table, self.address.label)
            if table is not None:
                self._table = commit.table, table
                return commit, metadata
            if commit.table == before:
                raise StoreFormatError(
                    f"the table of checksums of {self.address.label} is missing. {RESTORE_HINT}"
                )
            before = commit.table  # an append may have replaced the table: read again once

    def _reload_table(self, previous: tuple[TableRecord | None, Table]) -> bool:
        """Read the table again; return whether an append has replaced it."""
        current, _ = self._read_layout()
        self._require_same_content(current)
        return self._table[0] != previous[0]

    def _require_same_content(self, current: Commit) -> None:
        if not self.commit.grew_into(current):
            raise StoreFormatError(
                f"{self.address.label} was replaced: this view has generation {self.commit.generation}, the store has "
                f"generation {current.generation}. Open it again with open_sets."
            )

    def _open_array(self, name: str, metadata: Metadata) -> zarr.Array[Any]:
        with as_format_error(f"{name}/{DOCUMENT} of {self.address.label}"):
            return self._checked(array_of(self.store, name, metadata), tails=False)

    def _checked(self, array: zarr.Array[Any], *, tails: bool) -> zarr.Array[Any]:
        """Return the array with checksum verification; with ``tails`` it reads an unmerged tail."""
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
        nonfinite = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        row, last = start + int(nonfinite[0]), start + int(nonfinite[-1]) + 1
        raise StoreFormatError(
            f"array '{name}' of {self.address.label} is not finite in {len(nonfinite)} rows from row {row} "
            f"({self.where(row, last)}): chunk {row // self._sizes[name]} is missing "
            f"or damaged. {RESTORE_HINT}"
        )

    def _read(self, name: str, start: int, stop: int) -> Array:
        size, local, array = self._sizes[name], self._local[name], self.arrays[name]
        n_chunks = -(-stop // size) - start // size
        n_bytes = (stop - start) * math.prod(array.shape[1:]) * array.dtype.itemsize
        what = f"rows {start} to {stop - 1} of array '{name}' of {self.address.label} need"
        if local is not None and n_chunks <= MAX_READ_CHUNKS and may_allocate(n_bytes):
            try:
                return local.read(start, stop, self.table.get(name))
            except MemoryError as error:
                raise self._memory_error(name, error) from error
            except Exception:  # Zarr also reads unmerged tails of appends and reports damage
                pass
        if name != "offsets" and (name not in ROW_ARRAYS or self.metadata[name].get("fill_value") != "NaN"):
            self.require_chunks(name, start, stop)  # fill values of a missing chunk look like data
        if n_chunks > MAX_READ_CHUNKS:
            raise StoreFormatError(
                f"a read must span at most {MAX_READ_CHUNKS} chunks; got {n_chunks} chunks of {size} rows (rows "
                f"{start} to {stop - 1} of array '{name}' of {self.address.label}). Read fewer sets at a time. "
                f"{RESTORE_HINT}"
            )
        # after the check for missing chunks: a damaged store may declare any size
        require_memory(n_bytes, what, "read fewer sets at a time")
        try:
            return self._values(name, start, stop)
        except MemoryError as error:
            raise self._memory_error(name, error) from error
        except (OSError, ObjectTooLargeError):
            raise
        except Exception as error:
            self.require_current()  # a replaced store is not damaged
            raise self._damage_error(name, start, stop, error) from error

    def _values(self, name: str, start: int, stop: int) -> Array:
        """Read rows; for a chunk with a wrong checksum also try the tail of an append."""
        for tries in itertools.count():
            table, reason = self._table, None
            for array in self._sources(name):
                try:
                    return np.asarray(array[start:stop])
                except (OSError, MemoryError, ObjectTooLargeError):
                    raise
                except Exception as error:
                    reason = reason or error
                    if isinstance(self.store, ReadAheadStore):
                        self.store.forget()  # kept objects may be older than an append
            if not self._reload_table(table) and tries and reason is not None:
                raise reason
        raise AssertionError("unreachable")

    def _sources(self, name: str) -> Iterator[zarr.Array[Any]]:
        """Yield the array under its regular keys, then with an unmerged tail."""
        yield self.arrays[name]
        checksums = self.table.get(name)
        if checksums is not None and checksums.tail is not None:
            yield self._checked(self.arrays[name], tails=True)

    def _memory_error(self, name: str, error: MemoryError) -> MemoryError:
        return MemoryError(f"array '{name}' of {self.address.label}: {error or 'out of memory'}")

    def _damage_error(self, name: str, start: int, stop: int, error: Exception) -> StoreFormatError:
        """Return an error that names the first undecodable chunk and its sets."""
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
            f"({type(error).__name__}: {str(error).removesuffix('.')}). {RESTORE_HINT}"
        )

    def _read_offsets_chunk(self, k: int) -> I64:
        size = self._sizes["offsets"]
        stop = min((k + 1) * size, self.commit.n_sets + 1)
        values = self._read("offsets", k * size, stop).astype(np.int64, copy=False)
        self._require_current_after_read("offsets")
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
            f"offsets of {self.address.label} must start at 0, increase, and end at {self.commit.n_points}; got "
            f"{start} to {stop} for set {i}. Chunk {chunk} of array 'offsets' is missing or damaged. {RESTORE_HINT}"
        )


def open_commit(address: StoreLocation, commit: Commit) -> CommitReader:
    """Return a reader of a commit, from the cache of this process if possible."""
    key = (address.label, commit)
    with _lock:
        reader = _cache.get(key)
        if reader is not None and reader.address == address:  # labels do not contain options
            _cache.move_to_end(key)
            return reader
    return cache_reader(CommitReader(address, commit))


def cache_reader(opened: CommitReader) -> CommitReader:
    """Add a reader to the cache and evict the least recently used one."""
    with _lock:
        _cache[opened.address.label, opened.commit] = opened
        while len(_cache) > MAX_CACHED_COMMITS:
            _cache.popitem(last=False)
    return opened


def _after_fork() -> None:
    """Drop readers of the parent process: file positions and client threads do not survive a fork."""
    global _lock
    _lock = threading.Lock()
    _cache.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


CHUNKS_PER_READ = 16  # 16 MiB of decoded chunks in addition to the result; tests/store/test_round_trip.py


def read_scattered(committed: CommitReader, index: I64) -> SampleSets:
    """Read the sets at positions in any order, with repeats."""
    starts, stops = committed.extents(index)
    edges = np.concatenate([[0], np.cumsum(stops - starts)])
    order = np.argsort(index, kind="stable")
    starts, stops, targets = starts[order], stops[order], edges[:-1][order]
    points = np.empty((edges[-1], committed.commit.n_dims), committed.arrays["points"].dtype)
    weights = (
        np.empty((edges[-1], *committed.arrays["weights"].shape[1:]), np.float32)
        if committed.weighted
        else None
    )
    for first, last in _iter_reads(starts, stops, committed.chunk_rows):
        low = int(starts[first])
        block, block_weights = committed.rows(low, int(stops[last - 1]))
        source, target = _row_moves(starts[first:last] - low, stops[first:last] - low, targets[first:last])
        points[target] = block[source]
        if weights is not None and block_weights is not None:
            weights[target] = block_weights[source]
    return committed.sets_of(points, edges, weights)


def _iter_reads(starts: I64, stops: I64, chunk_rows: int) -> Iterator[tuple[int, int]]:
    """Partition sorted sets into runs (first, last) that are read together."""
    if len(starts) == 0:
        return
    chunk, last_chunk = starts // chunk_rows, (stops - 1) // chunk_rows
    is_separate = np.concatenate([[True], chunk[1:] > last_chunk[:-1] + 1])
    origin = chunk[is_separate][np.cumsum(is_separate) - 1]
    part = (chunk - origin) // CHUNKS_PER_READ
    cut = is_separate | np.concatenate([[False], part[1:] != part[:-1]])
    firsts = np.flatnonzero(cut).tolist()
    yield from zip(firsts, [*firsts[1:], len(starts)], strict=True)


def _row_moves(starts: I64, stops: I64, targets: I64) -> tuple[I64, I64]:
    """Return source rows in a block and target rows in the result."""
    sizes = stops - starts
    before = np.cumsum(sizes) - sizes
    steps = np.arange(int(sizes.sum()))
    return np.repeat(starts - before, sizes) + steps, np.repeat(targets - before, sizes) + steps
