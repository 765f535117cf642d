"""Writing sets: streaming ingestion into a new store, and appending to one.

Nothing is visible before `close`; then points and weights, targets, ids and offsets are completed in this
order, and the commit is written last. A writer that is killed leaves the last commit as it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Literal

import numpy as np

from dkdist.sets import SampleSetError, SampleSets, as_sample_sets
from dkdist.store.address import Address, as_address, put_bytes
from dkdist.store.columns import Columns, Form, as_columns, dtype_name, require_same_form
from dkdist.store.committed import Committed
from dkdist.store.errors import StoreFormatError
from dkdist.store.growing import GrowingArray
from dkdist.store.layout import (
    DOCUMENT,
    OFFSETS_CHUNK,
    Commit,
    Metadata,
    checksum,
    chunk_rows_for,
    column_metadata,
    group_document,
    new_metadata,
)
from dkdist.store.place import WritingPlace, new_place

ROW_ARRAYS = ("points", "weights")


class SetWriter:
    """Write sample sets to a store, batch by batch, with bounded memory; a context manager.

    Parameters
    ----------
    store : path, URL or Zarr store object
    n_dims : int
        The dimension d of the points.
    mode : "w" or "a"
        A new store, or more sets at the end of one.
    overwrite : bool
        Whether mode "w" may replace a committed store. On a local path the old store stays readable until the
        new one is committed; elsewhere it is cleared at the first `append`.
    chunk_rows : int, optional
        Points a chunk in a new store, a power of two; by default those of about 1 MiB. Reading is fast for
        chunks of 256 KiB to 4 MiB that are an eighth of a block of work, or less.
    shards : int, optional
        Points a shard in a new store, a multiple of `chunk_rows`: fewer, larger objects. Memory grows to a
        shard.

    Raises
    ------
    FileExistsError
        If mode "w" finds a committed store and `overwrite` is false, or anything that is no store of sets.
    StoreFormatError
        If batches do not fit the store (dimension, weights, targets, ids), or another writer came between.
    SampleSetError
        If a batch is not valid.

    Notes
    -----
    Leaving the ``with`` block commits; an exception inside it does not. Memory: eight chunks (or a shard) of
    each array, plus the batch. Of two writers to one store the later goes on and the earlier is refused.

    Examples
    --------
    >>> import numpy as np, zarr
    >>> from dkdist.store import SetWriter, open_sets
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
    ) -> None:
        if mode not in ("w", "a"):
            raise ValueError(f"mode is {mode!r}: give 'w' for a new store or 'a' to append")
        if n_dims < 1:
            raise ValueError(f"n_dims is {n_dims}: points have at least one dimension")
        _check_chunks(chunk_rows, shards)
        self.address: Address = as_address(store)
        self.n_dims = n_dims
        self._chunk_rows, self._shards = chunk_rows, shards
        self._arrays: dict[str, GrowingArray] = {}
        self._begun = self._closed = False
        self._replaced = 0
        self._old: Committed | None = None
        self._form: Form = {}
        if mode == "a":
            self._old = self._open_to_append()
            self._form = {
                n: (dtype_name(a.dtype), a.shape[1:]) for n, a in self._old.arrays.items() if n != "offsets"
            }
            self._place = WritingPlace(self.address, self._old.commit.generation)
        else:
            self._place, self._replaced = new_place(self.address, overwrite=overwrite)

    def append(self, sets: Any, targets: Any = None, ids: Any = None) -> None:
        """Add sets (`SampleSets`, a list of (n_i, d) arrays or an (N, n, d) array) with their targets and
        ids.

        Everything is checked before anything is written; every batch needs the same columns.
        """
        if self._closed:
            raise ValueError("this writer is closed: make a new SetWriter with mode='a'")
        batch = as_sample_sets(sets)
        columns = as_columns(targets, ids, len(batch))
        if len(batch) == 0:
            return
        form = _form(batch, columns)
        self._form = self._form or {**form, "points": (form["points"][0], (self.n_dims,))}
        require_same_form(form, self._form, self.address.label)
        if not self._begun:
            self._begin(batch, columns)
        self._arrays["points"].append(batch.points)
        if batch.weights is not None:
            self._arrays["weights"].append(batch.weights)
        for name, values in columns.items():
            self._arrays[name].append(values)
        start = self._arrays["points"].length - batch.n_points
        self._arrays["offsets"].append(batch.offsets[1:] + start)

    def close(self) -> None:
        """Write what waits, and commit. Does nothing the second time, or if nothing was appended."""
        if self._closed:
            return
        self._closed = True
        if not self._begun:
            if self._old is None:
                raise SampleSetError("nothing was appended: a store needs at least one set")
            return
        try:
            self._complete()
        except BaseException:
            self._place.abort()
            raise

    def abort(self) -> None:
        """Commit nothing; what was written is removed from a local disk, and ignored elsewhere."""
        if self._begun and not self._closed:
            self._place.abort()
        self._closed = True

    def __enter__(self) -> SetWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _complete(self) -> None:
        for name in _closing_order(self._arrays):
            self._arrays[name].close()
        if any(name.startswith("targets/") for name in self._arrays):
            put_bytes(self._place.store, f"targets/{DOCUMENT}", group_document())
        self._place.commit(self._commit_document())

    def _open_to_append(self) -> Committed:
        opened = Committed(self.address)
        if opened.commit.sealed:
            raise StoreFormatError(
                f"{self.address.label} is sealed: it takes no more sets. Write a new store"
            )
        if opened.commit.n_dims != self.n_dims:
            raise StoreFormatError(
                f"{self.address.label} has points of {opened.commit.n_dims} dimensions, found "
                f"n_dims={self.n_dims}: they must be the same"
            )
        if self._chunk_rows is not None or self._shards is not None:
            raise ValueError(
                "chunk_rows and shards are chosen when a store is made: leave them out to append"
            )
        return opened

    def _begin(self, batch: SampleSets, columns: Columns) -> None:
        if self._old is None:
            self._created = max(time.time_ns() // 1000, self._replaced + 1)
            metadata = self._new_arrays(batch, columns)
            lengths = dict.fromkeys(metadata, 0)
        else:
            metadata, commit = self._old.metadata, self._old.commit
            lengths = {n: commit.n_points if n in ROW_ARRAYS else commit.n_sets for n in metadata}
            lengths["offsets"] += 1
        self._place.begin(clear=self._old is None)
        self._begun = True
        for name, m in metadata.items():
            tail = None if self._old is None else partial(self._old.entries, name)
            self._arrays[name] = GrowingArray(
                self._place.store, name, m, lengths[name], tail, self._place.require_mine
            )
        if self._old is None:
            self._arrays["offsets"].append(np.zeros(1, np.int64))

    def _new_arrays(self, batch: SampleSets, columns: Columns) -> dict[str, Metadata]:
        rows = self._chunk_rows or chunk_rows_for(self.n_dims * batch.points.itemsize)
        if self._shards is not None and self._shards % rows:
            raise ValueError(f"shards is {self._shards}: give a multiple of the {rows} points of a chunk")
        fill = np.nan if batch.points.dtype == np.float32 else 0
        arrays = {"points": new_metadata((self.n_dims,), batch.points.dtype, rows, fill, "lz4", self._shards)}
        arrays["points"]["attributes"] = {"created": self._created}
        arrays["offsets"] = new_metadata((), np.int64, OFFSETS_CHUNK, -1, "zstd")
        if batch.weights is not None:
            trailing = batch.weights.shape[1:]
            arrays["weights"] = new_metadata(trailing, np.float32, rows, np.nan, "lz4", self._shards)
        arrays |= {name: column_metadata(values) for name, values in columns.items()}
        return arrays

    def _commit_document(self) -> bytes:
        n_sets, n_points = self._arrays["offsets"].length - 1, self._arrays["points"].length
        if self._old is None:
            commit = Commit(n_sets, n_points, self.n_dims, self._created)
        else:
            old = self._old.commit
            commit = replace(old, n_sets=n_sets, n_points=n_points, generation=old.generation + 1)
        arrays = {name: array.metadata for name, array in self._arrays.items()}
        return group_document({"dkdist": {**commit.attrs(), "checksum": checksum(commit, arrays)}})


def _check_chunks(chunk_rows: int | None, shards: int | None) -> None:
    if chunk_rows is not None and (chunk_rows < 1 or chunk_rows & (chunk_rows - 1)):
        raise ValueError(f"chunk_rows is {chunk_rows}: give a power of two")
    if shards is not None and shards < 1:
        raise ValueError(f"shards is {shards}: give a number of points")


def _form(batch: SampleSets, columns: Columns) -> Form:
    """The dtype and trailing shape of every array of a batch."""
    rows = (
        {"points": batch.points}
        if batch.weights is None
        else {"points": batch.points, "weights": batch.weights}
    )
    return {name: (dtype_name(a.dtype), a.shape[1:]) for name, a in {**rows, **columns}.items()}


def _closing_order(names: Iterable[str]) -> list[str]:
    """Points and weights, targets, ids, and the offsets last."""
    return sorted(names, key=lambda n: (n == "offsets", n == "ids", n not in ROW_ARRAYS, n))
