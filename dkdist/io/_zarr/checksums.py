"""Checksums of objects: the table of a commit, and verified reading.

There is one checksum per chunk; a shard has one for its index and one per inner chunk. Chunks and shard indexes of this
format end with the crc32c of their bytes, which the codec verifies, so these four bytes identify the object. For
other chunks the crc32c is computed here. The crc32c alone does not detect exchanged or outdated chunks, so a commit has
a table of all checksums, written before the commit that names it:

    {"arrays": [[name, first, n_objects, width, tail], ...]}
    then n_objects x width numbers (<u4) per array

The table is the only chunk of a Zarr array of bytes, ``commits/GENERATION-TOKEN``, because some Zarr stores accept
only keys of groups, arrays and chunks. Objects before ``first`` predate the table and are not verified. ``tail`` (or
null) is the object that an append extended (see `packed`), which array number POSITION of the table keeps under
the key of chunk 1 + POSITION beside the table. Zarr readers ignore chunks beyond the shape of an array.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import zarr
from crc32c import crc32c
from numpy.typing import NDArray
from zarr.abc.codec import Codec
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

from dkdist._numba.arrays import I64
from dkdist.io._zarr._zarr_private import Buffer, BufferPrototype, default_buffer_prototype
from dkdist.io._zarr.location.address import get_bytes
from dkdist.io._zarr.location.remote import AsyncStoreWrapper
from dkdist.io.errors import MAX_TABLE_BYTES, RESTORE_HINT, StoreFormatError, WrongChunkError, as_format_error

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
# Sizes of the sharding codec: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html
CRC_BYTES = 4  # crc32c; https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/index.html
INDEX_ENTRY_BYTES = 16  # offset and length (uint64), https://zarr-specs.readthedocs.io/en/latest/v3/codecs/
MAX_CACHED_INDEXES = 32  # number of cached shard indexes, for concurrent reads; tests/places/test_web.py
POSITION = re.compile(r"(?:c[/.])?(\d+)(?:[/.]\d+)*")
COMMITS = "commits"  # group with one array per commit; its attribute is the lease of a writer
TABLE_KEY = re.compile(rf"{COMMITS}/\d{{1,16}}-[0-9a-f]{{8}}/c/0")
# written before version 0.1.0; tests/golden/test_stored_files.py
EARLIER_TABLE_KEY = re.compile(r"(points|features)/table\.\d{1,16}\.[0-9a-f]{8}")


class CodecInfo(NamedTuple):
    """Layout of the objects of an array: chunks or shards of ``inner`` chunks, with or without crc32c."""

    inner: int | None
    ends_with_crc: bool

    @property
    def width(self) -> int:
        """Checksums per object."""
        return 1 if self.inner is None else 1 + self.inner

    @property
    def index_bytes(self) -> int:
        """Bytes of the index at the end of a shard."""
        return INDEX_ENTRY_BYTES * (self.inner or 0) + CRC_BYTES

    def chunk_sum(self, data: U8) -> int:
        """Return the checksum of a stored chunk."""
        return trailing_crc(data) if self.ends_with_crc else crc32c(data.tobytes())

    def sums(self, data: U8) -> U32:
        """Return the checksums (width,) of a stored object; for a shard, of its index and then of its chunks."""
        if self.inner is None:
            return np.array([self.chunk_sum(data)], np.uint32)
        index = data[-self.index_bytes :]
        spans = [data[a:b] for a, b in self.extents(index).tolist()]
        return np.array(
            [trailing_crc(index), *(self.chunk_sum(d) if len(d) else 0 for d in spans)], np.uint32
        )

    def extents(self, index: U8) -> I64:
        """Return start and end (inner, 2) of the chunks of a shard; missing chunks are empty."""
        entries = np.frombuffer(index[:-CRC_BYTES].tobytes(), "<u8").reshape(-1, 2).astype(np.int64)
        return np.where(entries[:, :1] < 0, 0, np.stack([entries[:, 0], entries.sum(axis=1)], axis=1))


def codec_info(array: zarr.Array[Any]) -> CodecInfo | None:
    """Return the layout of the objects of an array; None for shards that dkdist does not write."""
    codecs = array.metadata.codecs  # type: ignore[union-attr]
    shard = codecs[0]
    if not isinstance(shard, ShardingCodec):
        has_shards = any(isinstance(codec, ShardingCodec) for codec in codecs)
        return None if has_shards else CodecInfo(None, isinstance(codecs[-1], Crc32cCodec))
    numbers, *other_codecs = shard.index_codecs
    is_little_endian = isinstance(numbers, BytesCodec) and codec_config(numbers)["endian"] == "little"
    ends_with_crc = len(other_codecs) == 1 and isinstance(other_codecs[0], Crc32cCodec)
    if (
        len(codecs) > 1
        or not is_little_endian
        or not ends_with_crc
        or codec_config(shard)["index_location"] != "end"
    ):
        return None
    inner = math.prod(a // b for a, b in zip(array.shards or (), array.chunks, strict=True))
    return CodecInfo(inner, isinstance(shard.codecs[-1], Crc32cCodec))


def codec_config(codec: Codec) -> dict[str, Any]:
    """Return the configuration of a codec as in the metadata."""
    return cast("dict[str, Any]", codec.to_dict()["configuration"])


def object_key(array: zarr.Array[Any], position: int) -> str:
    """Return the key of a chunk or shard by its position along the rows."""
    return f"{array.path}/{array.metadata.encode_chunk_key((position, *[0] * (array.ndim - 1)))}"


def trailing_crc(data: U8) -> int:
    """Return the last four bytes as an integer."""
    return int.from_bytes(data[-CRC_BYTES:].tobytes(), "little")


class TableRecord(NamedTuple):
    """Location and checksum of the table of a commit."""

    key: str
    length: int
    crc32c: int

    def attrs(self) -> dict[str, Any]:
        """Return the record as an attribute of the root document."""
        return {"key": self.key, "length": self.length, "crc32c": self.crc32c}


class ChunkChecksums(NamedTuple):
    """Checksums (n, width) of the objects of an array from ``first`` on, and its tail."""

    first: int
    sums: U32
    tail: int | None = None
    tail_key: str = ""

    def of(self, index: int) -> U32 | None:
        """Return the checksums of an object, or None if it has none."""
        return self.sums[index - self.first] if 0 <= index - self.first < len(self.sums) else None


Table = Mapping[str, ChunkChecksums]


def new_table_key(generation: int) -> str:
    """Return a unique key for the table of a new commit."""
    return f"{COMMITS}/{generation}-{uuid.uuid4().hex[:8]}/c/0"


def tail_key(table_key: str, position: int) -> str:
    """Return the key of the tail of array number ``position`` of the table."""
    if EARLIER_TABLE_KEY.fullmatch(table_key):
        return f"{table_key.replace('/table.', '/tail.')}.{position}"
    return f"{table_key.removesuffix('/0')}/{1 + position}"


def encode_table(table: Table) -> bytes:
    """Serialize a table, with arrays sorted by name."""
    names = sorted(table)
    head = [[name, table[name].first, *table[name].sums.shape, table[name].tail] for name in names]
    rows = [table[name].sums.astype("<u4").tobytes() for name in names]
    return b"".join([json.dumps({"arrays": head}).encode(), b"\n", *rows])


def make_record(key: str, data: bytes) -> TableRecord:
    """Return the record of a serialized table."""
    return TableRecord(key, len(data), crc32c(data))


def parse_record(record: Any, label: str) -> TableRecord | None:
    """Parse the table record in the attributes of a commit; None if absent."""
    if record is None:
        return None
    with as_format_error(f"the record of the table of checksums in the commit of {label}"):
        key, length, crc = record["key"], record["length"], record["crc32c"]
        if (
            not (TABLE_KEY.fullmatch(key) or EARLIER_TABLE_KEY.fullmatch(key))
            or type(length) is not int
            or type(crc) is not int
            or not 0 < length <= MAX_TABLE_BYTES
        ):
            raise ValueError(f"invalid record {record}")
    return TableRecord(key, length, crc)


def read_table(store: Store, record: TableRecord | None, label: str) -> Table | None:
    """Read the table of a commit: empty without a record, None if missing (replaced by a later commit)."""
    if record is None:
        return {}
    (data,) = get_bytes(store, [record.key])
    if data is None:
        return None
    if (len(data), crc32c(data)) != (record.length, record.crc32c):
        raise StoreFormatError(
            f"the table of checksums of {label} ({record.key}) differs from the committed one: it is damaged or from "
            f"another commit. {RESTORE_HINT}"
        )
    with as_format_error(f"{record.key} of {label}"):
        return _parse_table(record.key, data)


def _parse_table(key: str, data: bytes) -> Table:
    end = data.index(b"\n") + 1
    numbers = np.frombuffer(data, "<u4", offset=end)
    table, start = {}, 0
    for position, (name, first, n, width, tail) in enumerate(json.loads(data[:end])["arrays"]):
        stop = start + n * width
        table[name] = ChunkChecksums(
            first, numbers[start:stop].reshape(n, width), tail, tail_key(key, position)
        )
        start = stop
    return table


class ArrayObjects(AsyncStoreWrapper):
    """Wrapper of a store for the objects of one array."""

    def __init__(self, store: Store, name: str, coding: CodecInfo) -> None:
        super().__init__(store)
        self._folder, self._coding = f"{name}/", coding

    def position(self, key: str) -> int | None:
        """Return the position of an object in the array; None for metadata."""
        match = POSITION.fullmatch(key, len(self._folder))
        return None if match is None else int(match[1])


class ChecksummedArray(ArrayObjects):
    """Wrapper of a store that verifies the objects of an array; with ``tails`` it reads an unmerged tail."""

    def __init__(
        self,
        store: Store,
        name: str,
        coding: CodecInfo,
        checksums: Callable[[], ChunkChecksums | None],
        *,
        tails: bool = False,
    ) -> None:
        super().__init__(store, name, coding)
        self._checksums, self._tails = checksums, tails
        self._indexes: OrderedDict[str, tuple[int, I64]] = OrderedDict()

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read an object or a byte range; raises `WrongChunkError` for wrong checksums."""
        checksums, position = self._checksums(), self.position(key)
        expected = None if checksums is None or position is None else checksums.of(position)
        if checksums is not None and self._tails and position == checksums.tail:
            key = checksums.tail_key
        value = await self._store.get(key, prototype, byte_range)
        if value is None and checksums is not None and key == checksums.tail_key:
            raise WrongChunkError(f"{key} is missing")
        if value is not None and expected is not None:
            await self._check(key, value.as_numpy_array(), byte_range, expected)
        return value

    async def _check(self, key: str, data: U8, part: ByteRequest | None, expected: U32) -> None:
        coding = self._coding
        if part is None and coding.inner is None:
            _require_equal(key, coding.chunk_sum(data), int(expected[0]))
        elif part is None:
            _require_equal(key, coding.sums(data).tolist(), expected.tolist())
        elif isinstance(part, SuffixByteRequest) and part.suffix == coding.index_bytes:
            _require_equal(key, trailing_crc(data), int(expected[0]))
            self._indexes[key] = int(expected[0]), coding.extents(data)
            while len(self._indexes) > MAX_CACHED_INDEXES:
                self._indexes.popitem(last=False)
        elif isinstance(part, RangeByteRequest) and coding.inner is not None:
            extents = await self._extents(key, expected)
            inside = (extents[:, 0] >= part.start) & (extents[:, 1] <= part.end) & (extents[:, 1] > 0)
            if not inside.any():
                raise WrongChunkError(
                    f"bytes {part.start} to {part.end} of {key} contain no chunk of the shard"
                )
            for k in np.flatnonzero(inside):
                first, last = extents[k] - part.start
                _require_equal(key, coding.chunk_sum(data[first:last]), int(expected[1 + k]))
        else:
            raise NotImplementedError(f"cannot verify the byte range {part} of a chunk")

    async def _extents(self, key: str, expected: U32) -> I64:
        """Return the extents of the chunks of a shard; reads the index unless it is cached."""
        crc, extents = self._indexes.get(key, (None, None))
        if extents is None or crc != expected[0]:
            await self.get(key, default_buffer_prototype(), SuffixByteRequest(self._coding.index_bytes))
            _, extents = self._indexes[key]
        return extents


def _require_equal(key: str, checksum: int | list[int], expected: int | list[int]) -> None:
    if checksum != expected:
        raise WrongChunkError(
            f"{key} differs from the committed object: it is outdated, or from another key or store"
        )
