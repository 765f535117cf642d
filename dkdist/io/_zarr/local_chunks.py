"""Direct reading of chunks from files on a local disk (bytes, blosc, crc32c), without Zarr.

Supported are arrays of little-endian numbers with blosc and crc32c, as chunks or shards. A chunk must have the
committed checksum and the declared length before it is decoded. Anything else raises, and `reading` then uses Zarr,
which also reads unmerged tails of appends and reports damage.

A chunk that two blocks share is decoded once: `ChunkCache` holds it until all of its rows have been used, evicting the
least recently used chunks. A forked child starts with an empty cache and a new lock.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable
from itertools import count
from typing import Any, cast

import numpy as np
import zarr
from crc32c import crc32c
from numcodecs.blosc import decompress
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, ShardingCodec

from dkdist._numba.arrays import Array
from dkdist._utils.memory_budget import require_memory
from dkdist.io._zarr.checksums import CRC_BYTES, U32, ChunkChecksums, CodecInfo, codec_info, object_key
from dkdist.io._zarr.location.disk import DiskStore
from dkdist.io.errors import WrongChunkError

HEADER = struct.Struct("<4I")  # four flag bytes; bytes of the content, of a block, and of the stored chunk
DIRECT_CODECS = (BytesCodec, BloscCodec, Crc32cCodec)
_array_numbers = count()

# holds partly used chunks at block boundaries, 1 MiB each; tests/store/test_local_chunks.py
MAX_CACHE_BYTES = 32 * 2**20
NOTHING = None, 0


class ChunkCache:
    """LRU cache of decoded chunks, up to ``max_bytes``; a chunk is removed after all rows have been used."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self.reset()

    def reset(self) -> None:
        """Clear the cache and create a new lock."""
        self._lock, self._chunks, self._bytes = (
            threading.Lock(),
            OrderedDict[Hashable, tuple[Array, int]](),
            0,
        )

    def take(self, key: Hashable, rows: int) -> Array | None:
        """Return a cached chunk and mark rows as used; None if it is not cached."""
        with self._lock:
            chunk, n_unused = self._chunks.get(key, NOTHING)
            if chunk is not None:
                self._put(key, chunk, n_unused - rows)
            return chunk

    def put(self, key: Hashable, chunk: Array, n_unused: int) -> None:
        """Add a chunk with a number of unused rows; evicts others beyond the limit."""
        with self._lock:
            self._put(key, chunk, n_unused)

    def _put(self, key: Hashable, chunk: Array, n_unused: int) -> None:
        if self._chunks.pop(key, None) is None:
            self._bytes += chunk.nbytes
        if n_unused > 0:
            self._chunks[key] = chunk, n_unused
        else:
            self._bytes -= chunk.nbytes
        while self._bytes > self._max_bytes:
            self._bytes -= self._chunks.popitem(last=False)[1][0].nbytes


CHUNK_CACHE = ChunkCache()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CHUNK_CACHE.reset)


def local_chunk_reader(store: Store, array: zarr.Array[Any]) -> LocalChunkReader | None:
    """Return a reader for an array on a disk with supported codecs; else None."""
    codecs, coding = array.metadata.codecs, codec_info(array)  # type: ignore[union-attr]
    inner = codecs[0].codecs if isinstance(codecs[0], ShardingCodec) else codecs
    is_supported = len(inner) == len(DIRECT_CODECS) and all(map(isinstance, inner, DIRECT_CODECS))
    if not isinstance(store, DiskStore) or coding is None or not is_supported or sys.byteorder != "little":
        return None
    codec_dict = cast("dict[str, Any]", inner[0].to_dict())
    order = codec_dict.get("configuration", {}).get("endian", "little")  # absent for one-byte types
    return LocalChunkReader(store, array, coding) if order == "little" else None


class LocalChunkReader:
    """Reader of the chunks of one array on a disk."""

    def __init__(self, disk: DiskStore, array: zarr.Array[Any], coding: CodecInfo) -> None:
        self._disk, self._array, self._coding = disk, array, coding
        self._rows, self._row, self._dtype = int(array.chunks[0]), array.shape[1:], array.dtype
        self._number = next(_array_numbers)

    def read(self, start: int, stop: int, checksums: ChunkChecksums | None) -> Array:
        """Read rows start .. stop - 1; raises unless all chunks match their checksums."""
        values, size = np.empty((stop - start, *self._row), self._dtype), self._rows
        for k in range(start // size, -(-stop // size)):
            first, last = max(k * size, start), min((k + 1) * size, stop)
            part = values[first - start : last - start]
            if last - first == size:
                self._decode(k, checksums, part)
            else:
                part[:] = self._shared(k, checksums, last - first)[first - k * size : last - k * size]
        return values

    def _shared(self, k: int, checksums: ChunkChecksums | None, n_used: int) -> Array:
        """Return a chunk that this read uses in part; caches it for reads of its other rows."""
        chunk = CHUNK_CACHE.take((self._number, k), n_used)
        if chunk is None:
            chunk = np.empty((self._rows, *self._row), self._dtype)
            self._decode(k, checksums, chunk)
            CHUNK_CACHE.put((self._number, k), chunk, self._rows - n_used)
        return chunk

    def _decode(self, k: int, checksums: ChunkChecksums | None, chunk: Array) -> None:
        """Decode stored chunk k into ``chunk``."""
        data = self._stored(k, checksums)
        _, content, _, length = HEADER.unpack_from(data)
        if (content, length) != (chunk.nbytes, len(data) - CRC_BYTES):
            raise WrongChunkError(f"chunk {k} has a wrong length")
        require_memory(content, "a decoded chunk needs")  # the pages of ``chunk`` are not allocated yet
        decompress(_without_crc(data), chunk)

    def _stored(self, k: int, checksums: ChunkChecksums | None) -> bytes:
        """Read an encoded chunk: a file, or a byte range of a shard."""
        inner = self._coding.inner
        position, index_in_shard = (k, 0) if inner is None else divmod(k, inner)
        key = object_key(self._array, position)
        sums = None if checksums is None else checksums.of(position)
        if inner is None:
            return _require_crc(key, self._disk.read_unchecked(self._array.path, key), sums, 0)
        index = self._part(key, SuffixByteRequest(self._coding.index_bytes), sums, 0)
        first, last = self._coding.extents(np.frombuffer(index, np.uint8))[index_in_shard].tolist()
        return self._part(key, RangeByteRequest(first, last), sums, 1 + index_in_shard)

    def _part(self, key: str, part: ByteRequest, sums: U32 | None, i: int) -> bytes:
        return _require_crc(key, self._disk.read_bytes(key, part) or b"", sums, i)


def _require_crc(key: str, data: bytes, sums: U32 | None, i: int) -> bytes:
    """Return the data if it ends with its crc32c and this equals checksum i, if there are checksums."""
    end = int.from_bytes(data[-CRC_BYTES:], "little")
    if (sums is not None and sums[i] != end) or crc32c(_without_crc(data)) != end:
        raise WrongChunkError(f"{key} differs from the committed object")
    return data


def _without_crc(data: bytes) -> memoryview:
    """Return a view of the data before the final crc32c."""
    return memoryview(data)[: max(len(data) - CRC_BYTES, 0)]
