"""Chunks on a local disk, straight from their files into the rows that want them: bytes, crc32c, blosc, and no Zarr.

Only arrays of the usual form are read so: little-endian numbers through blosc and crc32c, in files of their own or in
shards. Each chunk must be what the commit has for its place, whole by its own crc32c, and of the length of a chunk by
its header, before it is decoded. Whatever else is found raises here: the reader then goes Zarr's way, which finds the
tails of appends and says what is wrong with a store (see `committed`).
"""

from __future__ import annotations

import struct
import sys
from itertools import count
from typing import Any, cast

import google_crc32c
import numpy as np
import zarr
from numcodecs.blosc import decompress
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, ShardingCodec

from dkdist.loops.array_types import Array
from dkdist.store.chunks.chunk_sums import END, U8, U32, Bound, Coding, coding_of, object_key
from dkdist.store.places.disk import DiskStore
from dkdist.store.reading.kept_chunks import KEPT
from dkdist.store.refusals import WrongChunkError

HEADER = struct.Struct(
    "<4I"
)  # four of one byte, and the lengths of the content, of a block of it, and as it is stored
CHAIN = (BytesCodec, BloscCodec, Crc32cCodec)
_numbers = count()


def local_chunks(store: Store, array: zarr.Array[Any]) -> LocalChunks | None:
    """The chunks of an array, if they are on a disk and of the usual form."""
    codecs, coding = array.metadata.codecs, coding_of(array)  # type: ignore[union-attr]
    inner = codecs[0].codecs if isinstance(codecs[0], ShardingCodec) else codecs
    usual = len(inner) == len(CHAIN) and all(map(isinstance, inner, CHAIN))
    if not isinstance(store, DiskStore) or coding is None or not usual or sys.byteorder != "little":
        return None
    said = cast("dict[str, Any]", inner[0].to_dict())
    order = said.get("configuration", {}).get("endian", "little")  # bytes have none
    return LocalChunks(store, array, coding) if order == "little" else None


class LocalChunks:
    """The chunks of one array of an opened commit on a disk."""

    def __init__(self, disk: DiskStore, array: zarr.Array[Any], coding: Coding) -> None:
        self._disk, self._array, self._coding = disk, array, coding
        self._rows, self._row, self._dtype = int(array.chunks[0]), array.shape[1:], array.dtype
        self._number = next(_numbers)

    def read(self, start: int, stop: int, bound: Bound | None) -> Array:
        """Rows start .. stop - 1 as they were committed; raises if they are not plainly that."""
        values, size = np.empty((stop - start, *self._row), self._dtype), self._rows
        for k in range(start // size, -(-stop // size)):
            first, last = max(k * size, start), min((k + 1) * size, stop)
            part = values[first - start : last - start]
            if last - first == size:
                self._decode(k, bound, part)
            else:
                part[:] = self._shared(k, bound, last - first)[first - k * size : last - k * size]
        return values

    def _shared(self, k: int, bound: Bound | None, used: int) -> Array:
        """A chunk of which some rows are used now, and neighbours may want others."""
        chunk = KEPT.take((self._number, k), used)
        if chunk is None:
            chunk = np.empty((self._rows, *self._row), self._dtype)
            self._decode(k, bound, chunk)
            KEPT.keep((self._number, k), chunk, self._rows - used)
        return chunk

    def _decode(self, k: int, bound: Bound | None, chunk: Array) -> None:
        """Fill a chunk of rows with what is stored at its place."""
        data = self._stored(k, bound)
        _, content, _, length = HEADER.unpack_from(data)
        if (content, length) != (chunk.nbytes, len(data) - END):
            raise WrongChunkError(f"chunk {k} has another length than a chunk")
        decompress(_body(data), chunk)

    def _stored(self, k: int, bound: Bound | None) -> bytes:
        """A chunk as it is stored: a file, or a part of one that the index of a shard gives."""
        inner = self._coding.inner
        position, place = (k, 0) if inner is None else divmod(k, inner)
        key = object_key(self._array, position)
        sums = None if bound is None else bound.of(position)
        if inner is None:
            return self._closed(key, None, sums, 0)
        index = self._closed(key, SuffixByteRequest(self._coding.index_bytes), sums, 0)
        first, last = self._coding.extents(np.frombuffer(index, np.uint8))[place].tolist()
        return self._closed(key, RangeByteRequest(first, last), sums, 1 + place)

    def _closed(self, key: str, part: ByteRequest | None, sums: U32 | None, i: int) -> bytes:
        """Bytes that end with their crc32c, which is sum i of those that were committed for an object, if any were."""
        data = self._disk.read_bytes(key, part) or b""
        end = int.from_bytes(data[-END:], "little")
        if (sums is not None and sums[i] != end) or google_crc32c.value(_body(data)) != end:
            raise WrongChunkError(f"{key} is not what was committed at this place")
        return data


def _body(data: bytes) -> U8:
    """What stands before the crc32c at the end, where it is."""
    return np.frombuffer(data, np.uint8, len(data) - END)
