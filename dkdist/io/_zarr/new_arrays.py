"""Metadata of the arrays of a new store: dtypes, chunks, codecs, shards, and the order of completion.

A single writer and parallel tasks create the same arrays from the form of the sets.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import MemoryStore

from dkdist.io._zarr.batches import Form
from dkdist.io._zarr.layout import ROW_ARRAYS, Metadata
from dkdist.io._zarr.location.address import StoreLocation, get_bytes
from dkdist.io.errors import DOCUMENT
from dkdist.sets.labels import require_portable_names

OFFSETS_CHUNK_ROWS = 131_072  # 1 MiB of int64; docs/storage.md
STRINGS_CHUNK_ROWS = 16_384  # strings have no fixed size; docs/storage.md
# Larger chunks compress better, smaller ones waste less on random access (docs/storage.md)
TARGET_CHUNK_BYTES = 2**20
MAX_CHUNK_ROWS = 2**52  # row counts stay exact in float64; tests/fuzzing/test_calls.py passes larger values
# Shards of 32 MiB reduce the number of objects; a writer holds one in memory (docs/storage.md)
CHUNKS_PER_SHARD = 32
MAX_UNSHARDED_CHUNKS = (
    10_000  # maximum number of files per array on a disk without shards; tests/store/test_round_trip.py
)

LONG_NAMES = {  # attributes of the CF conventions; docs/format.md
    "points": "points, set after set",
    "offsets": "row of points where each set begins, and the number of points",
    "weights": "weights of the points",
    "ids": "identifiers of the sets",
}

Shards = int | Literal["auto"] | None


def row_bytes(form: Form) -> int:
    """Return the uncompressed bytes of a point and its weights."""
    sizes = [np.dtype(form[n][0]).itemsize * int(np.prod(form[n][1])) for n in ROW_ARRAYS if n in form]
    return int(sum(sizes))


def check_chunks(chunk_rows: int | None, shards: int | None) -> None:
    """Raise for invalid numbers of points per chunk or shard."""
    if chunk_rows is not None and (not _is_count(chunk_rows) or chunk_rows & (chunk_rows - 1)):
        raise ValueError(f"chunk_rows must be a power of two; got {chunk_rows!r:.200}.")
    if shards is not None and not _is_count(shards):
        raise ValueError(f"shards must be a positive number of points; got {shards!r:.200}.")


def _is_count(value: Any) -> bool:
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return is_integer and 1 <= value < MAX_CHUNK_ROWS


def new_arrays(form: Form, created: int, chunk_rows: int | None, shards: int | None) -> dict[str, Metadata]:
    """Return the metadata of all arrays of a new store, with length 0."""
    require_portable_names(name.removeprefix("targets/") for name in form if name.startswith("targets/"))
    dtype, trailing = form["points"]
    rows = chunk_rows or _default_chunk_rows(dtype, trailing)
    if shards is not None and shards % rows:
        raise ValueError(f"shards must be a multiple of the {rows} points per chunk; got {shards}.")
    fill = np.nan if dtype == "float32" else 0
    dimensions = ("point", "column")
    arrays = {"points": new_metadata(trailing, np.dtype(dtype), rows, fill, "lz4", dimensions, shards)}
    arrays["offsets"] = new_metadata((), np.int64, OFFSETS_CHUNK_ROWS, -1, "zstd", ("offset",))
    if "weights" in form:
        dimensions = ("point", "weight")
        arrays["weights"] = new_metadata(
            form["weights"][1], np.float32, rows, np.nan, "lz4", dimensions, shards
        )
    arrays |= {name: _column(name, *kind) for name, kind in form.items() if name not in ROW_ARRAYS}
    for name, text in LONG_NAMES.items():
        if name in arrays:
            arrays[name]["attributes"] = {"long_name": text}
    arrays["points"]["attributes"]["created"] = created
    return arrays


def _column(name: str, dtype: str, trailing: tuple[int, ...]) -> Metadata:
    """Return the metadata of a target or of the ids, one entry per set."""
    # targets of different widths are in one group, where xarray requires equal sizes of equal dimensions
    dimensions = ("set", f"{name.removeprefix('targets/')}_column")
    if dtype == "str":
        return new_metadata((), "string", STRINGS_CHUNK_ROWS, "", "zstd", dimensions)
    kind = np.dtype(dtype)
    fill = np.nan if kind.kind == "f" else kind.type(0)
    rows = min(OFFSETS_CHUNK_ROWS, _default_chunk_rows(dtype, trailing))
    return new_metadata(trailing, kind, rows, fill, "zstd", dimensions)


def _default_chunk_rows(dtype: str, trailing: tuple[int, ...]) -> int:
    """Return rows per chunk: the power of two closest to 1 MiB of data, at least 1."""
    row_bytes = np.dtype(dtype).itemsize * math.prod(trailing)
    return 1 << max(0, round(math.log2(TARGET_CHUNK_BYTES / row_bytes)))


def new_metadata(
    trailing: tuple[int, ...],
    dtype: Any,
    rows: int,
    fill: Any,
    codec: str,
    dimension_names: Sequence[str],
    shard_rows: int | None = None,
) -> Metadata:
    """Return the metadata of an array of length 0 with codecs blosc(codec, shuffle) and crc32c.

    ``dimension_names`` may be longer than the shape.
    """
    scratch = MemoryStore()
    zarr.create_array(
        scratch,
        shape=(0, *trailing),
        chunks=(rows, *trailing),
        shards=None if shard_rows is None else (shard_rows, *trailing),
        dtype=dtype,
        fill_value=fill,
        dimension_names=dimension_names[: 1 + len(trailing)],
        compressors=[BloscCodec(cname=codec, shuffle="shuffle"), Crc32cCodec()],  # type: ignore[arg-type]
    )
    (document,) = get_bytes(scratch, [DOCUMENT])
    assert document is not None
    metadata: Metadata = json.loads(document)
    return metadata


def shard_rows(
    shards: Shards, address: StoreLocation, form: Form, n_points: int, chunk_rows: int | None
) -> int | None:
    """Return points per shard: the argument, or with "auto" 32 chunks for large or remote stores."""
    if shards != "auto":
        return shards
    rows = chunk_rows or _default_chunk_rows(*form["points"])
    remote = isinstance(address.place, str) and address.path is None
    max_chunks = CHUNKS_PER_SHARD if remote else MAX_UNSHARDED_CHUNKS
    return CHUNKS_PER_SHARD * rows if n_points > max_chunks * rows else None


def closing_order(names: Iterable[str]) -> list[str]:
    """Sort array names: points and weights, targets, ids, offsets."""
    return sorted(names, key=lambda n: (n == "offsets", n == "ids", n not in ROW_ARRAYS, n))
