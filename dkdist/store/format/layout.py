"""The format "dkdist.sets", version 1: which arrays there are, how they are cut and coded, and the commit
record.

    /        attrs.dkdist = {format, version, n_sets, n_points, n_dims, generation, sealed, alphabet, origin, checksum,
                             table, arrays}
    points   (T, d)     offsets  (N + 1,)     weights  (T,) or (T, k)     ids  (N,)
    targets/NAME  (N,) or (N, k)
    points/table.GENERATION.TOKEN     points/tail.GENERATION.TOKEN.POSITION

The root document is the commit. A store holds what its commit says and nothing else: arrays may be longer (an
append that never finished). `arrays` names the arrays, so that opening needs no listing; `checksum` is the
crc32c of the commit and of every array's metadata but the growing lengths; `table` = {key, length, crc32c} names
the object that holds the checksum of every chunk (see `chunk_table`), and tails are last chunks that an append made
longer (see `tails`). Stores without these three are read all the same. `alphabet` is there for strings, and `origin`
(a number for each column, which was subtracted from the points) unless it is 0.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import Any

import google_crc32c
import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import MemoryStore, StorePath, WrapperStore

from dkdist.sets.strings import as_alphabet
from dkdist.store.chunks.chunk_sums import TableRecord, parse_record
from dkdist.store.format.store_arrays import arrays_there, named_arrays
from dkdist.store.places.address import get_bytes
from dkdist.store.places.disk import DiskStore
from dkdist.store.refusals import (
    DOCUMENT,
    RESTORE,
    StoreFormatError,
    bounded,
    check_array,
    decoding,
    most_chunk_bytes,
    parsed,
)

FORMAT = "dkdist.sets"
VERSION = 1
OFFSETS_CHUNK = 131_072
STRINGS_CHUNK = 16_384
CHUNK_BYTES = 2**20
ROW_ARRAYS = ("points", "weights")
NUMBERS = ("n_sets", "n_points", "n_dims", "generation")
Metadata = dict[str, Any]


@dataclass(frozen=True)
class Commit:
    """What a store holds: its sizes, and the generation that names this content among all it ever had.

    `created` is the generation of the first commit. It is kept with the points, and tells an append from a
    replacement. `alphabet` says what the codes of strings stand for; an append may add to its end. `origin` is what
    points are counted from; None for 0. `table` is where its checksums are.
    """

    n_sets: int
    n_points: int
    n_dims: int
    generation: int
    sealed: bool = False
    created: int | None = None
    alphabet: str | None = None
    origin: tuple[float, ...] | None = None
    table: TableRecord | None = field(default=None, compare=False)

    def attrs(self) -> dict[str, Any]:
        """The attributes that are written last and make the commit, without checksum and table."""
        fields = {name: getattr(self, name) for name in (*NUMBERS, "sealed", "alphabet", "origin")}
        known = {name: value for name, value in fields.items() if value is not None}
        return {"format": FORMAT, "version": VERSION, **known}

    def grew_into(self, later: Commit) -> bool:
        """Whether `later` is this commit, or this commit and what was appended since."""
        if later.generation == self.generation:
            return later == self
        return (
            later.generation > self.generation
            and later.created == self.created
            and later.n_dims == self.n_dims
            and later.origin == self.origin
            and later.n_sets >= self.n_sets
            and later.n_points >= self.n_points
            and (later.alphabet or "").startswith(self.alphabet or "")
        )


def parse_commit(document: bytes | None, label: str) -> tuple[Commit, int | None]:
    """The commit in a root document and its checksum, or the reason why there is none."""
    if document is None:
        raise StoreFormatError(
            f"there is no {DOCUMENT} in {label}: nothing was committed there, its folder or bucket does not "
            "exist, or it is not a Zarr version 3 store. Check the path, or write the store with write_sets"
        )
    with decoding(f"{DOCUMENT} of {label}"):
        root = parsed(document)
        kind = (root.get("zarr_format"), root.get("node_type"))
        attrs = root.get("attributes", {}).get("dkdist")
    if kind != (3, "group"):
        raise StoreFormatError(
            f"{label} holds a Zarr {kind[1]} of version {kind[0]}, not a version 3 group of sets"
        )
    if not isinstance(attrs, dict):
        raise StoreFormatError(
            f"{label} has no 'dkdist' attributes: it was never committed, or is another kind of Zarr "
            "group. If a writer was interrupted, write the store again"
        )
    return _checked_commit(attrs, label), attrs.get("checksum")


def _checked_commit(attrs: dict[str, Any], label: str) -> Commit:
    if attrs.get("format") != FORMAT:
        raise StoreFormatError(
            f"{label} has format {attrs.get('format')!r}, expected {FORMAT!r}: it holds no sets"
        )
    version = attrs.get("version")
    if type(version) is int and version > VERSION:
        raise StoreFormatError(
            f"{label} has version {version} of the format and this library knows version {VERSION}: "
            "upgrade dkdist"
        )
    numbers: dict[str, Any] = {name: attrs.get(name) for name in NUMBERS}
    if version != VERSION or any(type(v) is not int or not 0 < v < 2**53 for v in numbers.values()):
        raise StoreFormatError(f"the 'dkdist' attributes of {label} make no sense: {attrs}. {RESTORE}")
    if type(attrs.get("sealed", False)) is not bool:
        raise StoreFormatError(
            f"'sealed' of {label} is {attrs['sealed']!r}, expected true or false. {RESTORE}"
        )
    alphabet = attrs.get("alphabet")
    if alphabet is not None:
        with decoding(f"the alphabet of {label}"):
            as_alphabet(alphabet)
    origin = _origin(attrs.get("origin"), numbers["n_dims"], label)
    table = parse_record(attrs.get("table"), label)
    sealed = attrs.get("sealed", False)
    return Commit(**numbers, sealed=sealed, alphabet=alphabet, origin=origin, table=table)


def _origin(given: Any, d: int, label: str) -> tuple[float, ...] | None:
    if given is None:
        return None
    good = isinstance(given, list) and len(given) == d and all(type(v) in (int, float) for v in given)
    if not good or not all(abs(v) < math.inf for v in given):
        raise StoreFormatError(
            f"'origin' of {label} is {given!r:.200}, expected {d} finite numbers, one a column. {RESTORE}"
        )
    return tuple(map(float, given))


def checksum(commit: Commit, arrays: dict[str, Metadata]) -> int:
    """crc32c over the canonical JSON of the commit and of every array's metadata but its length."""
    fixed = {name: {**m, "shape": m["shape"][1:]} for name, m in arrays.items()}
    text = json.dumps({"dkdist": commit.attrs(), "arrays": fixed}, sort_keys=True, separators=(",", ":"))
    return int(google_crc32c.value(text.encode()))


def read_layout(store: Store, label: str) -> tuple[Commit, dict[str, Metadata]]:
    """The commit and the metadata of every array, as of one moment, checked against each other."""
    (before,) = get_bytes(store, [DOCUMENT])
    while True:
        commit, expected = parse_commit(before, label)
        named = named_arrays(before, label)
        names = arrays_there(store, label) if named is None else named
        *documents, after = get_bytes(store, [*(f"{name}/{DOCUMENT}" for name in names), DOCUMENT])
        if before == after:
            break
        before = after
    arrays = {n: parse_array(n, d, label) for n, d in zip(names, documents, strict=True) if d is not None}
    for name in ("points", "offsets", *(named or ())):
        if name not in arrays:
            raise StoreFormatError(
                f"array '{name}' of {label} has no metadata ({name}/{DOCUMENT}). {RESTORE}"
            )
    if expected is not None and expected != checksum(commit, arrays):
        raise StoreFormatError(
            f"the metadata of {label} does not match its checksum: a {DOCUMENT} was changed, lost or "
            f"damaged. {RESTORE}"
        )
    return replace(commit, created=_created(arrays["points"])), arrays


def parse_array(name: str, document: bytes, label: str) -> Metadata:
    """The metadata of an array, if it claims nothing absurd and only what is known here."""
    with decoding(f"{name}/{DOCUMENT} of {label}"):
        metadata: Metadata = parsed(document)
        check_array(name, metadata)
    return metadata


def _created(points: Metadata) -> int | None:
    with decoding("the attributes of array 'points'"):
        created = points.get("attributes", {}).get("created")
        return None if created is None else int(created)


def array_of(store: Store, name: str, metadata: Metadata, length: int | None = None) -> zarr.Array[Any]:
    """The Zarr array of some metadata, optionally of another length; nothing is read or written."""
    if length is not None:
        metadata = {**metadata, "shape": [length, *metadata["shape"][1:]]}
    described = ArrayV3Metadata.from_dict(metadata)
    careful = replace(described, codecs=bounded(described.codecs))
    disk = store
    while isinstance(disk, WrapperStore):
        disk = disk._store
    if isinstance(disk, DiskStore):
        disk.bound(name, most_chunk_bytes(metadata))
    return _array(careful, store, name)


def array_through(array: zarr.Array[Any], store: Store) -> zarr.Array[Any]:
    """The same array, read and written through another store around its own."""
    return _array(array.metadata, store, array.path)


def _array(metadata: Any, store: Store, name: str) -> zarr.Array[Any]:
    # a chunk that is not there is a lost chunk, so that empty ones are written
    return zarr.Array(zarr.AsyncArray(metadata, StorePath(store, name), config={"write_empty_chunks": True}))


def dump_json(document: dict[str, Any]) -> bytes:
    """A document as it is stored."""
    return json.dumps(document, indent=2).encode()


def group_document(attributes: dict[str, Any] | None = None) -> bytes:
    """The document of a Zarr version 3 group."""
    return dump_json({"attributes": attributes or {}, "zarr_format": 3, "node_type": "group"})


def chunk_rows_for(row_bytes: int) -> int:
    """The power of two of rows that comes nearest to 1 MiB (at least one row)."""
    return 1 << max(0, round(math.log2(CHUNK_BYTES / row_bytes)))


def new_metadata(
    trailing: tuple[int, ...], dtype: Any, rows: int, fill: Any, codec: str, shard_rows: int | None = None
) -> Metadata:
    """The metadata of a new array of length 0: `rows` a chunk, blosc(codec, shuffle) and then crc32c."""
    scratch = MemoryStore()
    zarr.create_array(
        scratch,
        shape=(0, *trailing),
        chunks=(rows, *trailing),
        shards=None if shard_rows is None else (shard_rows, *trailing),
        dtype=dtype,
        fill_value=fill,
        compressors=[BloscCodec(cname=codec, shuffle="shuffle"), Crc32cCodec()],  # type: ignore[arg-type]
    )
    (document,) = get_bytes(scratch, [DOCUMENT])
    assert document is not None
    metadata: Metadata = json.loads(document)
    return metadata


def column_metadata(values: np.ndarray[Any, Any]) -> Metadata:
    """The metadata of a target or of the ids: one entry a set."""
    if values.dtype.kind == "U":
        return new_metadata((), "string", STRINGS_CHUNK, "", "zstd")
    row_bytes = values.dtype.itemsize * math.prod(values.shape[1:])
    rows = min(OFFSETS_CHUNK, chunk_rows_for(row_bytes))
    fill = np.nan if values.dtype.kind == "f" else values.dtype.type(0)
    return new_metadata(values.shape[1:], values.dtype, rows, fill, "zstd")
