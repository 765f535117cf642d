"""The checksums of what an array's objects hold: one a chunk; for a shard one of its index and one a chunk inside.

Chunks of this format, and the index of every shard, end with the crc32c of their bytes. Whoever decodes them checks
it, so that these four bytes stand for all the others and cost nothing to look at. Chunks that others wrote without
such an end are summed here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec
from zarr.codecs.bytes import Endian
from zarr.codecs.sharding import ShardingCodecIndexLocation

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
END = 4  # bytes of a crc32c
EXTENT = 16  # bytes of an offset and a length in the index of a shard


@dataclass(frozen=True)
class Coding:
    """How objects of an array are coded: chunks, or shards of ``inner`` chunks; with a crc32c at their end or none."""

    inner: int | None
    ends_with_crc: bool

    @property
    def width(self) -> int:
        """Checksums an object."""
        return 1 if self.inner is None else 1 + self.inner

    @property
    def index_bytes(self) -> int:
        """The length of the index at the end of a shard."""
        return EXTENT * (self.inner or 0) + END

    def chunk_sum(self, data: U8) -> int:
        """The checksum of a chunk as it is stored."""
        return last_word(data) if self.ends_with_crc else int(google_crc32c.value(data.tobytes()))

    def sums(self, data: U8) -> U32:
        """(width,): the checksums of an object as it is stored; for a shard that of its index comes first."""
        if self.inner is None:
            return np.array([self.chunk_sum(data)], np.uint32)
        index = data[-self.index_bytes :]
        spans = [data[a:b] for a, b in self.extents(index).tolist()]
        return np.array([last_word(index), *(self.chunk_sum(d) if len(d) else 0 for d in spans)], np.uint32)

    def extents(self, index: U8) -> NDArray[np.int64]:
        """(inner, 2): where the chunks of a shard begin and end; a chunk that is not there has no bytes."""
        found = np.frombuffer(index[:-END].tobytes(), "<u8").reshape(-1, 2).astype(np.int64)
        return np.where(found[:, :1] < 0, 0, np.stack([found[:, 0], found.sum(axis=1)], axis=1))


def coding_of(array: zarr.Array[Any]) -> Coding | None:
    """How the objects of an array are coded; None for shards of a form that this library does not write."""
    codecs = array.metadata.codecs  # type: ignore[union-attr]
    shard = codecs[0]
    if not isinstance(shard, ShardingCodec):
        known = not any(isinstance(codec, ShardingCodec) for codec in codecs)
        return Coding(None, isinstance(codecs[-1], Crc32cCodec)) if known else None
    numbers, *rest = shard.index_codecs
    little = isinstance(numbers, BytesCodec) and numbers.endian is Endian.little
    closed = len(rest) == 1 and isinstance(rest[0], Crc32cCodec)
    if (
        len(codecs) > 1
        or not little
        or not closed
        or shard.index_location is not ShardingCodecIndexLocation.end
    ):
        return None
    inner = math.prod(a // b for a, b in zip(array.shards or (), array.chunks, strict=True))
    return Coding(inner, isinstance(shard.codecs[-1], Crc32cCodec))


def last_word(data: U8) -> int:
    """The last four bytes as a number."""
    return int.from_bytes(data[-END:].tobytes(), "little")
