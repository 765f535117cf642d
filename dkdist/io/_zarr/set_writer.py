"""`SetWriter`: streaming writes to a new store and appends to an existing one.

Data become visible at `close`: points and weights, targets, ids and offsets are completed in this order, then the
table of checksums, and the commit last. A writer that is killed leaves the last commit unchanged.

Ids are unique in a store. `IdRegistry` stores two 64-bit hashes (16 bytes) per id:

    h(id) = sum_j c_j K_j mod 2^64,    c_j: characters, or the number itself;  K_j: fixed odd random numbers

Two texts whose characters differ by less than 64 collide in both with probability about 2^-116. Sorted runs of hashes
are merged like the digits of a binary counter, so each of N ids is merged at most log2 N times.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, Array
from dkdist._utils.concurrency import ThreadPool
from dkdist._utils.validation import check_bool
from dkdist.io._zarr.batches import (
    Form,
    columns_of,
    convert_to_origin,
    dtype_name,
    form_of,
    form_of_arrays,
    origin_attribute,
    recode,
    require_same_form,
    require_same_names,
)
from dkdist.io._zarr.checksums import COMMITS, Table, encode_table, new_table_key, tail_key
from dkdist.io._zarr.growing_array import ChunkWriterThreads, GrowingArray
from dkdist.io._zarr.layout import (
    ROW_ARRAYS,
    Commit,
    checksum,
    put_groups,
    put_table,
    root_document,
)
from dkdist.io._zarr.lease import WriterLease, after_commit, append_lease, new_lease
from dkdist.io._zarr.location.address import StoreLocation, as_location
from dkdist.io._zarr.new_arrays import check_chunks, closing_order, new_arrays
from dkdist.io._zarr.packed import merge_tails, remove_obsolete
from dkdist.io._zarr.reading import CommitReader
from dkdist.io.errors import StoreFormatError
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.labels import as_names

Hashes = NDArray[np.uint64]
# ids hashed at a time; bounds a temporary array (rows, characters); tests/store/test_distinct_ids.py
HASH_BLOCK_ROWS = 2**16


class IdRegistry:
    """Hashes of the ids in a store that is being written."""

    def __init__(self) -> None:
        self._runs: list[tuple[Hashes, Hashes]] = []

    def add(self, ids: Array, label: str) -> None:
        """Add unique ids (n,); raises `SampleSetError` naming the first that is in the store."""
        first, second = _hash_ids(ids, 0), _hash_ids(ids, 1)
        is_known = np.zeros(len(ids), np.bool_)
        for run_first, run_second in self._runs:
            position = np.minimum(np.searchsorted(run_first, first), len(run_first) - 1)
            is_known |= (run_first[position] == first) & (run_second[position] == second)
        if is_known.any():
            i = int(np.argmax(is_known))
            raise SampleSetError(
                f"ids must be unique; got {ids[[i]].tolist()[0]!r} for set {i} of the appended sets, which {label} "
                "contains. Omit the set if it was written before, or use another id."
            )
        order = np.argsort(first)
        self._runs.append((first[order], second[order]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) <= 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [_merge_runs(*self._runs[-2:])]


def _merge_runs(a: tuple[Hashes, Hashes], b: tuple[Hashes, Hashes]) -> tuple[Hashes, Hashes]:
    first, second = (np.concatenate(pair) for pair in zip(a, b, strict=True))
    order = np.argsort(first, kind="stable")
    return first[order], second[order]


def _hash_ids(ids: Array, which: int) -> Hashes:
    """Hash numbers or str (n,); the zero padding of str does not contribute."""
    hashes = np.empty(len(ids), np.uint64)
    for start in range(0, len(ids), HASH_BLOCK_ROWS):
        block = ids[start : start + HASH_BLOCK_ROWS]
        if block.dtype.kind == "U":
            width = max(1, block.dtype.itemsize // 4)
            codes = np.ascontiguousarray(block).view(np.uint32).reshape(len(block), width).astype(np.uint64)
        else:
            codes = block.astype(np.int64 if block.dtype.kind == "i" else np.uint64).view(np.uint64)[:, None]
        seed = np.random.default_rng([which, 0x1D5])
        factors = seed.integers(0, 2**64, codes.shape[1], np.uint64, endpoint=False) | np.uint64(1)
        hashes[start : start + HASH_BLOCK_ROWS] = codes @ factors
    return hashes


ID_BLOCK_ROWS = 2**20  # ids read from a store at a time; tests/store/test_distinct_ids.py


class SetWriter:
    """Write sample sets to a store, batch by batch, with bounded memory; a context manager.

    Parameters
    ----------
    store : path, URL, Zarr store object or icechunk repository
    n_dims : int
        The dimension d of the points.
    mode : "w" or "a"
        "w" writes a new store, "a" appends to one.
    overwrite : bool
        Allow mode "w" to replace a committed store. On a local path or in an icechunk repository the old store remains
        readable until the new one is committed; elsewhere it is cleared at the first `append`.
    chunk_rows : int, optional
        Points per chunk in a new store, a power of two; by default about 1 MiB. Reading is fast for chunks of
        256 KiB to 4 MiB that are at most an eighth of a block of work.
    shards : int, optional
        Points per shard in a new store, a multiple of `chunk_rows`, for fewer and larger objects. The writer holds
        one shard in memory.
    names : d str, optional
        Names of the dimensions; by default those of the first batch, if it has any (`SampleSets.names`).

    Raises
    ------
    FileExistsError
        In mode "w", if there is a committed store and `overwrite` is false, or data that are not a store of sets.
    StoreFormatError
        If a batch does not match the store (dimension, names or their order, weights, targets, ids), or another writer
        took over.
    SampleSetError
        If a batch is invalid, or the store contains one of its ids.

    Notes
    -----
    A store has one `origin` (see `SampleSets`), inferred from the first batch; later batches are stored relative to it,
    and raise if float32 is too coarse there. Leaving the ``with`` block commits; an exception inside it does not.
    Memory: eight chunks (or a shard) of each array, the batch, and 16 bytes per id; the first append reads the ids of
    the store. Of two writers to one store the later one continues; the earlier one raises. Of two that replace a local
    path, write a zip file or an icechunk repository, the first to commit wins.

    Examples
    --------
    >>> import numpy as np, zarr
    >>> from dkdist.io import SetWriter, open_sets
    >>> memory = zarr.storage.MemoryStore()
    >>> with SetWriter(memory, n_dims=2) as writer:
    ...     for label in range(3):
    ...         writer.append([np.full((4, 2), label)], targets=[label])
    >>> open_sets(memory).targets["y"]
    array([0, 1, 2])
    """

    def __init__(
        self,
        store: Any,
        n_dims: int,
        mode: Literal["w", "a"] = "w",
        *,
        overwrite: bool = False,
        chunk_rows: int | None = None,
        shards: int | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(mode, str) or mode not in ("w", "a"):
            raise ValueError(f"mode must be 'w' (new store) or 'a' (append); got {mode!r}.")
        if n_dims < 1:
            raise ValueError(f"n_dims must be at least 1; got {n_dims}.")
        check_bool("overwrite", overwrite)
        check_chunks(chunk_rows, shards)
        self.address: StoreLocation = as_location(store).latest()
        self.n_dims = n_dims
        self._chunk_rows, self._shards = chunk_rows, shards
        self._arrays: dict[str, GrowingArray] = {}
        self._begun = self._closed = False
        self._replaced = 0
        self._old: CommitReader | None = None
        self._form: Form = {}
        self._alphabet: str | None = None
        self._origin: F64 | None = None
        self._names = as_names(names, n_dims)
        self._ids = IdRegistry()
        if mode == "a":
            self._old = self._open_to_append()
            self._form = form_of_arrays(self._old.arrays)
            self._alphabet = self._old.commit.alphabet
            self._origin = np.array(self._old.commit.origin or (0.0,) * n_dims)
            require_same_names(self._names, self._old.commit.names, self.address.label)
            self._names = self._old.commit.names
            self._lease = append_lease(self.address, self._old.commit.generation)
        else:
            self._lease, self._replaced = new_lease(self.address, overwrite=overwrite)
        self._threads = ChunkWriterThreads(self._lease.store)

    def share(self, pool: ThreadPool) -> None:
        """Use a shared thread pool to compress and write chunks; call it before appending."""
        self._threads.share(pool)

    def append(self, sets: Any, targets: Any = None, ids: Any = None) -> None:
        """Append sets (`SampleSets`, a list of (n_i, d) arrays or of strings, an (N, n, d) array), targets and ids.

        Targets and ids default to those of the sets. A batch is checked before it is written; all batches need the
        same columns.
        """
        self._append(sets, targets, ids, copy=True)

    def take(self, sets: SampleSets) -> None:
        """Append sets and their labels without copying; the arrays must not change until the writer is closed."""
        self._append(sets, None, None, copy=False)

    def _append(self, sets: Any, targets: Any, ids: Any, *, copy: bool) -> None:
        if self._closed:
            raise ValueError("writer is closed. Create a new SetWriter with mode='a'.")
        batch = convert_to_origin(sets, self._origin, self.address.label)
        columns = columns_of(batch, targets, ids)
        if len(batch) == 0:
            return
        require_same_names(batch.names, self._names, self.address.label)
        stored = self._form["points"][0] if self._form else None
        points, alphabet = recode(batch, self._alphabet, stored, self.address.label)
        form = form_of(batch, columns)
        self._form = self._form or {**form, "points": (form["points"][0], (self.n_dims,))}
        if alphabet is not None:
            form["points"] = (dtype_name(points.dtype), (1,))
        require_same_form(form, self._form, self.address.label)
        if "ids" in columns:
            self._require_new(columns["ids"])
        if not self._begun:
            self._begin()
        self._alphabet, self._origin = alphabet, batch.origin
        if self._old is None and self._names is None:
            self._names = batch.names
        self._arrays["points"].append(points, copy=copy)
        if batch.weights is not None:
            self._arrays["weights"].append(batch.weights, copy=copy)
        for name, values in columns.items():
            self._arrays[name].append(values)
        start = self._arrays["points"].length - batch.n_points
        self._arrays["offsets"].append(batch.offsets[1:] + start)

    def close(self) -> None:
        """Write pending rows and commit. Repeated calls have no effect."""
        if self._closed:
            return
        self._closed = True
        if not self._begun:
            if self._old is None:
                raise SampleSetError("store must have at least one set; nothing was appended.")
            return
        with contextlib.closing(self._threads):
            try:
                self._complete()
            except BaseException:
                self._threads.close()  # stop writing before files are removed
                self._lease.abort()
                raise

    def abort(self) -> None:
        """Discard the written data: remove it from a local disk; elsewhere readers ignore it."""
        if self._begun and not self._closed:
            self._threads.close()
            self._lease.abort()
        self._closed = True

    def __enter__(self) -> SetWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _require_new(self, ids: Array) -> None:
        """Raise for ids in the store; reads the stored ids at the first call."""
        if self._old is not None and not self._begun:
            base, self._ids = self._old, IdRegistry()
            for start in range(0, base.commit.n_sets, ID_BLOCK_ROWS):
                stop = min(start + ID_BLOCK_ROWS, base.commit.n_sets)
                self._ids.add(base.entries("ids", start, stop), self.address.label)
        self._ids.add(ids, self.address.label)

    def _complete(self) -> None:
        for name in closing_order(self._arrays):
            self._arrays[name].close()
        n_sets, n_points = self._arrays["offsets"].length - 1, self._arrays["points"].length
        commit = replace(self._commit, n_sets=n_sets, n_points=n_points, alphabet=self._alphabet)
        if self._old is None:
            commit = replace(commit, origin=origin_attribute(self._origin), names=self._names)
        if self._old is not None and self._lease.isolated:
            remove_obsolete(self._lease.store, commit.generation, self._old.table_key)
        commit_arrays(self._lease, commit, self._arrays, self._table_key)
        if self._old is not None and not self._lease.isolated:
            # partial last chunks that are not merged keep their own keys, where readers find them until the next writer
            with after_commit(self.address.label):
                with contextlib.suppress(OSError):
                    self._merge_tails({name: array.checksums() for name, array in self._arrays.items()})
                remove_obsolete(self._lease.store, commit.generation, self._old.table_key)

    def _merge_tails(self, table: Table) -> None:
        assert self._old is not None
        merge_tails(self.address, self._lease.store, table, self._old.arrays)

    def _open_to_append(self) -> CommitReader:
        opened = CommitReader(self.address)
        if opened.commit.sealed:
            raise StoreFormatError(
                f"{self.address.label} is sealed and accepts no more sets. Write a new store."
            )
        if opened.commit.n_dims != self.n_dims:
            raise StoreFormatError(
                f"n_dims must be {opened.commit.n_dims}, as in {self.address.label}; got {self.n_dims}."
            )
        if self._chunk_rows is not None or self._shards is not None:
            raise ValueError("chunk_rows and shards apply to new stores only. Omit them to append.")
        return opened

    def _begin(self) -> None:
        table: Table = {}
        if self._old is None:
            self._commit = Commit(0, 0, self.n_dims, new_generation(self._replaced))
            metadata = new_arrays(self._form, self._commit.generation, self._chunk_rows, self._shards)
            lengths = dict.fromkeys(metadata, 0)
        else:
            metadata, table, commit = self._old.metadata, self._old.table, self._old.commit
            self._commit = replace(commit, generation=commit.generation + 1)
            lengths = {n: commit.n_points if n in ROW_ARRAYS else commit.n_sets for n in metadata}
            lengths["offsets"] += 1
        self._lease.begin(clear=self._old is None)
        self._begun = True
        if any(checksums.tail is not None for checksums in table.values()):
            self._lease.require_held()
            self._merge_tails(table)  # from a writer that was killed after its commit
        self._table_key = new_table_key(self._commit.generation)
        for position, name in enumerate(sorted(metadata)):
            self._arrays[name] = GrowingArray(
                self._lease.store,
                name,
                metadata[name],
                lengths[name],
                None if self._old is None else partial(self._old.entries, name),
                self._lease.writing,
                table.get(name),
                "" if self._lease.isolated else tail_key(self._table_key, position),
                threads=self._threads,
                declare=self._lease.declare,
            )
        if self._old is None:
            self._arrays["offsets"].append(np.zeros(1, np.int64))


def commit_arrays(
    lease: WriterLease, commit: Commit, arrays: Mapping[str, GrowingArray], table_key: str
) -> None:
    """Commit completed arrays: write the table of checksums, then the root document."""
    has_targets = any(name.startswith("targets/") for name in arrays)
    metadata = {name: array.metadata for name, array in arrays.items()}
    data = encode_table({name: array.checksums() for name, array in arrays.items()})
    lease.require_held()
    put_groups(lease.store, [COMMITS, *(["targets"] if has_targets else [])])
    record = put_table(lease.store, table_key, data).attrs()
    attrs = {**commit.attrs(), "checksum": checksum(commit, metadata), "table": record}
    lease.commit(root_document({**attrs, "arrays": sorted(arrays)}, metadata))


def new_generation(replaced: int) -> int:
    """Return the generation of a new store: the time in µs, but above the replaced generation."""
    return max(time.time_ns() // 1000, replaced + 1)
