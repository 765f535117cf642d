"""The arrays of a new store, from the form of its sets alone: dtypes, chunks, shards, and the order of completion.

Whoever writes the sets - one writer, batch by batch, or many tasks at once - makes the same arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from dkdist.sets import SampleSets
from dkdist.store.format import layout
from dkdist.store.format.store_arrays import Columns, Form, form_of_arrays
from dkdist.store.places.address import Address

MOST_ROWS = 2**52
SHARD_CHUNKS = 32
CHUNKS_WITHOUT_SHARDS = 10_000

Shards = int | Literal["auto"] | None


def form_of(batch: SampleSets, columns: Columns) -> Form:
    """The dtype and trailing shape of every array of a batch."""
    rows = {"points": batch.relative} | ({} if batch.weights is None else {"weights": batch.weights})
    return form_of_arrays({**rows, **columns})


def row_bytes(form: Form) -> int:
    """What a point and its weights take, uncompressed."""
    sizes = [np.dtype(form[n][0]).itemsize * int(np.prod(form[n][1])) for n in layout.ROW_ARRAYS if n in form]
    return int(sum(sizes))


def check_chunks(chunk_rows: int | None, shards: int | None) -> None:
    """Refuse chunks and shards that no store can have."""
    if chunk_rows is not None and (not _is_count(chunk_rows) or chunk_rows & (chunk_rows - 1)):
        raise ValueError(f"chunk_rows is {chunk_rows!r:.200}: give a power of two")
    if shards is not None and not _is_count(shards):
        raise ValueError(f"shards is {shards!r:.200}: give a number of points")


def _is_count(value: Any) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and 1 <= value < MOST_ROWS


def new_arrays(
    form: Form, created: int, chunk_rows: int | None, shards: int | None
) -> dict[str, layout.Metadata]:
    """The metadata of every array of a new store, each of length 0."""
    dtype, trailing = form["points"]
    rows = chunk_rows or layout.chunk_rows_for(np.dtype(dtype).itemsize * trailing[0])
    if shards is not None and shards % rows:
        raise ValueError(f"shards is {shards}: give a multiple of the {rows} points of a chunk")
    fill = np.nan if dtype == "float32" else 0
    arrays = {"points": layout.new_metadata(trailing, np.dtype(dtype), rows, fill, "lz4", shards)}
    arrays["points"]["attributes"] = {"created": created}
    arrays["offsets"] = layout.new_metadata((), np.int64, layout.OFFSETS_CHUNK, -1, "zstd")
    if "weights" in form:
        arrays["weights"] = layout.new_metadata(form["weights"][1], np.float32, rows, np.nan, "lz4", shards)
    columns = {name: kind for name, kind in form.items() if name not in layout.ROW_ARRAYS}
    for name, (kind, shape) in columns.items():
        arrays[name] = layout.column_metadata(np.empty((0, *shape), np.str_ if kind == "str" else kind))
    return arrays


def shard_rows(
    shards: Shards, address: Address, form: Form, n_points: int, chunk_rows: int | None
) -> int | None:
    """Points a shard: what the user said, or 32 chunks for many chunks, or for several on object storage."""
    if shards != "auto":
        return shards
    dtype, trailing = form["points"]
    rows = chunk_rows or layout.chunk_rows_for(np.dtype(dtype).itemsize * trailing[0])
    remote = isinstance(address.place, str) and address.path is None
    most = SHARD_CHUNKS if remote else CHUNKS_WITHOUT_SHARDS
    return SHARD_CHUNKS * rows if n_points > most * rows else None


def closing_order(names: Iterable[str]) -> list[str]:
    """Points and weights, targets, ids, and the offsets last."""
    return sorted(names, key=lambda n: (n == "offsets", n == "ids", n not in layout.ROW_ARRAYS, n))
