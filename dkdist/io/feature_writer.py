"""A store of feature rows, written block by block: format "dkdist.features", version 1.

    /          attrs.dkdist = {format, version, n_rows, n_columns, fingerprint, generation, complete, table}
    features   f4 (n, m)   chunks (rows of a block, m)   fill NaN   blosc(lz4, shuffle) -> crc32c
    receipts   u1 (blocks, bytes)   one chunk per block; until all blocks are done
    commits/GENERATION-TOKEN   u1 (bytes,)

Each block is one chunk with one writer, which then writes a receipt: block number, fingerprint, generation and checksum
of the chunk, as JSON that is padded to the length of a row. A block is done if it has a receipt; a later run reads and
verifies it first. The receipts of all blocks form the table of checksums of the finished store (see `checksums`).
``fingerprint`` identifies the origin of the rows (map, seed and generation of the source); a writer continues an
unfinished store only if it is equal.
"""

from __future__ import annotations

import contextlib
import json
import os
import reprlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store

from dkdist._numba.arrays import F32
from dkdist.io._zarr import checksums as chunk_sums
from dkdist.io._zarr._zarr_private import sync
from dkdist.io._zarr.growing_array import RecordingArray
from dkdist.io._zarr.layout import (
    array_of,
    bytes_document,
    dump_json,
    parse_array,
    put_groups,
    put_table,
    root_document,
)
from dkdist.io._zarr.location.address import (
    StoreLocation,
    as_location,
    get_bytes,
    list_names,
    missing_keys,
    put_bytes,
)
from dkdist.io._zarr.location.disk import PARTIAL_FOLDER, DiskStore, flush_store
from dkdist.io._zarr.location.exchange import StagingFolder, commit_lock
from dkdist.io._zarr.location.icechunk import commit_session, session_of
from dkdist.io._zarr.new_arrays import new_metadata
from dkdist.io.errors import (
    DOCUMENT,
    MAX_BLOCKS,
    MAX_BYTES,
    MAX_CHUNK_BYTES,
    RESTORE_HINT,
    StoreFormatError,
    WrongChunkError,
    as_format_error,
    check_array,
    parse_json,
)

FORMAT = "dkdist.features"
VERSION = 1  # version of the format; docs/storage.md
RECEIPTS = "receipts"
ARRAYS = {"features", RECEIPTS, chunk_sums.COMMITS}
FIELDS = ("n_rows", "n_columns", "block_rows", "generation")

FEATURE_CODEC = chunk_sums.CodecInfo(inner=None, ends_with_crc=True)
MAX_CACHED_TABLES = 64  # number of cached tables of checksums per process; tests/files/test_feature_store.py

# Tables by location and record; entries stay valid because keys of tables are never reused
_tables: dict[tuple[str, chunk_sums.TableRecord | None], chunk_sums.ChunkChecksums | None] = {}


@dataclass(frozen=True)
class FeatureStore:
    """Open store of (n_rows, n_columns) float32 features, in blocks of ``block_rows``."""

    address: StoreLocation
    n_rows: int
    n_columns: int
    block_rows: int
    fingerprint: str
    generation: int
    complete: bool
    table: chunk_sums.TableRecord | None = None

    @property
    def n_blocks(self) -> int:
        """Number of blocks; the last one may be shorter."""
        return -(-self.n_rows // self.block_rows)

    def require_ends(self) -> None:
        """Raise if the first or last block of a complete store is missing, as in a forged size."""
        ends = [_chunk(i) for i in (0, self.n_blocks - 1)]
        missing = missing_keys(self.address.open(read_only=True), ends)
        if missing:
            raise StoreFormatError(f"{missing[0]} of {self.address.label} is missing. {RESTORE_HINT}")

    def missing_blocks(self) -> list[int]:
        """Return the blocks without a chunk or a receipt."""
        store, blocks = self.address.open(read_only=True), range(self.n_blocks)
        missing = set(missing_keys(store, [*map(_chunk, blocks), *map(_receipt, blocks)]))
        return [i for i in blocks if not missing.isdisjoint((_chunk(i), _receipt(i)))]

    def is_valid(self, i: int) -> bool:
        """Whether block i of an unfinished store is readable and matches its receipt."""
        try:
            store = self.address.open(read_only=True)
            self._rows(
                store, i, chunk_sums.ChunkChecksums(i, np.array([self._receipts(store, [i])], np.uint32))
            )
        except (StoreFormatError, WrongChunkError):
            return False
        return True

    def write_block(self, i: int, rows: F32) -> None:
        """Write all rows of block i and its receipt; raise if the store was replaced."""
        store = self.address.open(read_only=False)
        self._require_current(store)
        written = RecordingArray(store, "features", FEATURE_CODEC, None, "")
        self._array(store, written)[i * self.block_rows : i * self.block_rows + len(rows)] = rows
        flush_store(store)
        put_bytes(store, _receipt(i), self._receipt_of(i, int(written.sums[i][0])))
        flush_store(store)

    def read_block(self, i: int) -> F32:
        """Read the rows of block i; `StoreFormatError` if it is missing, damaged, exchanged or replaced."""
        store = self.address.open(read_only=True)
        try:
            rows = self._rows(store, i, _checksums(self.address, self.table))
        except WrongChunkError as error:
            self._require_current(store)
            raise StoreFormatError(
                f"block {i} of {self.address.label} (rows {i * self.block_rows} to "
                f"{min((i + 1) * self.block_rows, self.n_rows) - 1}) is invalid: {error}. {RESTORE_HINT}"
            ) from error
        self._require_current(store)
        # rows of skipped sets are NaN, and so are missing chunks
        if np.isnan(rows).any() and missing_keys(store, [_chunk(i)]):
            raise StoreFormatError(f"block {i} of {self.address.label} is missing. {RESTORE_HINT}")
        return rows

    def finish(self) -> FeatureStore:
        """Mark the store as complete, so that it can be opened, and return it."""
        missing = self.missing_blocks()
        if missing:
            raise StoreFormatError(f"blocks {missing[:5]} of {self.address.label} are not written yet.")
        store = self.address.open(read_only=False)
        sums = self._receipts(store, range(self.n_blocks))
        key = chunk_sums.new_table_key(self.generation)
        data = chunk_sums.encode_table(
            {"features": chunk_sums.ChunkChecksums(0, np.array(sums, np.uint32).reshape(-1, 1))}
        )
        self._require_current(store)
        put_groups(store, [chunk_sums.COMMITS])
        record = put_table(store, key, data)
        flush_store(store)
        finished = replace(self, complete=True, table=record)
        finished._write_attrs(store)
        flush_store(store)
        with contextlib.suppress(OSError):  # credentials may allow writing but not deleting
            sync(store.delete_dir(RECEIPTS))
        if isinstance(store, DiskStore):
            store.sweep()
        session = session_of(store)
        if session is not None:
            commit_session(session, self.address.label, f"dkdist: {self.n_rows} rows of features")
        return finished

    def _rows(self, store: Store, i: int, checksums: chunk_sums.ChunkChecksums | None) -> F32:
        with as_format_error(f"block {i} of {self.address.label}"):
            array = self._array(
                store, chunk_sums.ChecksummedArray(store, "features", FEATURE_CODEC, lambda: checksums)
            )
            return np.asarray(array[i * self.block_rows : (i + 1) * self.block_rows])

    def _receipt_of(self, i: int, checksum: int) -> bytes:
        fields = {"block": i, "fingerprint": self.fingerprint, "generation": self.generation}
        return json.dumps({**fields, "crc32c": checksum}).encode().ljust(self._receipt_bytes)

    @cached_property
    def _receipt_bytes(self) -> int:
        fields = {"block": self.n_blocks, "fingerprint": self.fingerprint, "generation": self.generation}
        return len(json.dumps({**fields, "crc32c": 2**32 - 1}))

    def _receipts(self, store: Store, blocks: Sequence[int]) -> list[int]:
        """Return the checksums in the receipts of some blocks; raise for receipts of other blocks or features."""
        sums = []
        for i, receipt in zip(blocks, get_bytes(store, [_receipt(i) for i in blocks]), strict=True):
            with as_format_error(f"the receipt of block {i} of {self.address.label}"):
                checksum = json.loads(receipt or b"null")["crc32c"]
                if receipt != self._receipt_of(i, checksum):
                    raise ValueError("it belongs to another block or other features")
            sums.append(int(checksum))
        return sums

    def _array(self, store: Store, chunks: Store) -> zarr.Array[Any]:
        """Open the array of features through the store ``chunks``; raise unless it matches the root document."""
        label = self.address.label
        (document,) = get_bytes(store, [f"features/{DOCUMENT}"])
        if document is None:
            raise StoreFormatError(f"array 'features' of {label} has no metadata. {RESTORE_HINT}")
        array = array_of(chunks, "features", parse_array("features", document, label))
        layout = (array.shape, array.chunks, str(array.dtype))
        expected = ((self.n_rows, self.n_columns), (self.block_rows, self.n_columns), "float32")
        if layout != expected:
            raise StoreFormatError(
                f"array 'features' of {label} must have shape, chunks and dtype {expected}; got {layout}. "
                f"{RESTORE_HINT}"
            )
        return array

    def _require_current(self, store: Store) -> None:
        """Raise if the store was replaced; costs one small request."""
        (document,) = get_bytes(store, [DOCUMENT])
        current = None if document is None else _parse(self.address, document)
        if current is None or (current.generation, current.fingerprint) != (
            self.generation,
            self.fingerprint,
        ):
            raise StoreFormatError(
                f"{self.address.label} was replaced: these features have generation {self.generation}, the store has "
                f"{'none' if current is None else f'generation {current.generation}'}. Open it again."
            )

    def _write_attrs(self, store: Store) -> None:
        fields = {name: getattr(self, name) for name in (*FIELDS, "fingerprint", "complete")}
        record = {"format": FORMAT, "version": VERSION, **fields}
        record |= {} if self.table is None else {"table": self.table.attrs()}
        (document,) = get_bytes(store, [f"features/{DOCUMENT}"])
        metadata = parse_array("features", document or b"", self.address.label)
        put_bytes(store, DOCUMENT, root_document(record, {"features": metadata}))

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "dkdist.FeatureStore", self.address.label, self.generation, self.fingerprint


def _checksums(
    address: StoreLocation, record: chunk_sums.TableRecord | None
) -> chunk_sums.ChunkChecksums | None:
    """Return the checksums of a finished store, cached per process."""
    key = address.label, record
    if key not in _tables:
        table = chunk_sums.read_table(address.open(read_only=True), record, address.label)
        if table is None:
            raise StoreFormatError(f"the table of checksums of {address.label} is missing. {RESTORE_HINT}")
        while len(_tables) >= MAX_CACHED_TABLES:
            _tables.pop(next(iter(_tables)), None)
        _tables[key] = table.get("features")
    return _tables[key]


def _chunk(i: int) -> str:
    return f"features/c/{i}/0"


def _receipt(i: int) -> str:
    return f"{RECEIPTS}/c/{i}/0"


def create_features(
    store: Any, n_rows: int, n_columns: int, block_rows: int, fingerprint: str
) -> FeatureStore:
    """Create a store of features; writes only metadata."""
    address = as_location(store)
    metadata = new_metadata((n_columns,), np.float32, block_rows, np.nan, "lz4", ("set", "feature"))
    metadata["shape"] = [n_rows, n_columns]
    metadata["attributes"] = {"long_name": "features of the sets"}
    check_array("features", metadata)
    _check_sizes(n_rows, n_columns, block_rows)
    opened = address.open(read_only=False)
    foreign_names = set(list_names(opened, "")) - ARRAYS
    if foreign_names:
        raise FileExistsError(
            f"{address.label} contains {sorted(foreign_names)[0]!r}. Choose another location."
        )
    created = FeatureStore(
        address, n_rows, n_columns, block_rows, fingerprint, time.time_ns() // 2**11, complete=False
    )
    # remains of a writer that was killed before writing the root document
    for name in ARRAYS:
        sync(opened.delete_dir(name))
    put_bytes(opened, f"features/{DOCUMENT}", dump_json(metadata))
    width = created._receipt_bytes
    receipts = bytes_document((created.n_blocks, width), (1, width), ("block", "receipt_byte"))
    put_bytes(opened, f"{RECEIPTS}/{DOCUMENT}", receipts)
    flush_store(opened)
    created._write_attrs(opened)
    flush_store(opened)
    return created


def remove_features(store: Any) -> None:
    """Remove a store of features, finished or not; raise for other content."""
    if find_features(store) is not None:
        opened = as_location(store).open(read_only=False)
        sync(opened.delete(DOCUMENT))
        sync(opened.clear())


@contextlib.contextmanager
def staged_features(old: FeatureStore) -> Iterator[StoreLocation]:
    """Yield a staging location for features that atomically replace complete ones on a disk when the block ends.

    If the block raises, the staged features are removed. Raises `StoreFormatError` if the old ones were replaced.
    """
    path = old.address.path
    assert path is not None
    staging = StagingFolder(path)
    staging.make()
    try:
        yield StoreLocation(staging.store)
        with commit_lock(staging.path):
            old._require_current(old.address.open(read_only=True))
            staging.publish()
            staging.finish()
    except BaseException:
        staging.remove()
        raise


def find_features(store: Any) -> FeatureStore | None:
    """Return the store of features at a location, complete or not; None for an empty location."""
    address = as_location(store)
    if address.path is not None and not os.path.exists(address.path):
        return None
    (document,) = get_bytes(address.open(read_only=True), [DOCUMENT])
    if document is None:
        if address.path is not None and set(os.listdir(address.path)) - {*ARRAYS, PARTIAL_FOLDER}:
            raise FileExistsError(
                f"{address.label} is not empty and contains no features. Choose another location."
            )
        return None
    return _parse(address, document)


def _check_sizes(n_rows: int, n_columns: int, block_rows: int) -> None:
    """Raise ValueError for sizes beyond the limits of the format."""
    if 4 * n_rows * n_columns > MAX_BYTES or 4 * block_rows * n_columns > MAX_CHUNK_BYTES:
        raise ValueError(
            f"features must have at most {MAX_BYTES} bytes, and {MAX_CHUNK_BYTES} bytes per block; got {n_rows} rows "
            f"of {n_columns} features in blocks of {block_rows}"
        )
    if -(-n_rows // block_rows) > MAX_BLOCKS:
        raise ValueError(
            f"features must have at most {MAX_BLOCKS} blocks; got {n_rows} rows in blocks of {block_rows}"
        )


def _parse(address: StoreLocation, document: bytes) -> FeatureStore:
    with as_format_error(f"{DOCUMENT} of {address.label}"):
        record = parse_json(document).get("attributes", {}).get("dkdist")
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise StoreFormatError(f"{address.label} must have format {FORMAT!r}. Choose another location.")
    if type(record.get("version")) is int and record["version"] > VERSION:
        raise StoreFormatError(
            f"version of {address.label} must be at most {VERSION}; got {record['version']}. Upgrade dkdist."
        )
    numbers = [record.get(name) for name in FIELDS]
    if record.get("version") != VERSION or any(type(v) is not int or v < 1 for v in numbers):
        raise StoreFormatError(
            f"the 'dkdist' attributes of {address.label} are invalid: {reprlib.repr(record)}. {RESTORE_HINT}"
        )
    fields: dict[str, Any] = dict(zip(FIELDS, numbers, strict=True))
    with as_format_error(f"{DOCUMENT} of {address.label}"):
        _check_sizes(fields["n_rows"], fields["n_columns"], fields["block_rows"])
    return FeatureStore(
        address=address,
        fingerprint=str(record.get("fingerprint")),
        complete=record.get("complete") is True,
        table=chunk_sums.parse_record(record.get("table"), address.label),
        **fields,
    )
