"""The objects of one array between Zarr and the storage: their checksums are kept when they are written, and compared
with those of the commit when they are read."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable

import numpy as np
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import WrapperStore

from dkdist.loops.array_types import I64
from dkdist.store.chunks.chunk_sums import U8, U32, Bound, Coding, last_word
from dkdist.store.refusals import WrongChunkError

INDEXES_KEPT = 32  # of shards, between the request for the index and those for chunks
POSITION = re.compile(r"(?:c[/.])?(\d+)(?:[/.]\d+)*")


class _OfOneArray(WrapperStore[Store]):
    def __init__(self, store: Store, name: str, coding: Coding) -> None:
        super().__init__(store)
        self._folder, self._coding = f"{name}/", coding

    def _position(self, key: str) -> int | None:
        """Which object of the array this is; None for its metadata."""
        found = POSITION.fullmatch(key, len(self._folder))
        return None if found is None else int(found[1])


class CheckedArray(_OfOneArray):
    """What is read of an array, compared with the commit; ``tails`` reads the tail under its own name."""

    def __init__(
        self,
        store: Store,
        name: str,
        coding: Coding,
        bound: Callable[[], Bound | None],
        *,
        tails: bool = False,
    ) -> None:
        super().__init__(store, name, coding)
        self._bound, self._tails = bound, tails
        self._indexes: OrderedDict[str, tuple[int, I64]] = OrderedDict()

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The object, or the asked part of it; raises `WrongChunkError` if it is another one."""
        bound, position = self._bound(), self._position(key)
        expected = None if bound is None or position is None else bound.of(position)
        if bound is not None and self._tails and position == bound.tail:
            key = bound.tail_key
        value = await self._store.get(key, prototype, byte_range)
        if value is None and bound is not None and key == bound.tail_key:
            raise WrongChunkError(f"there is no {key}")
        if value is not None and expected is not None:
            await self._check(key, value.as_numpy_array(), byte_range, expected)
        return value

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Several parts of objects."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def _check(self, key: str, data: U8, part: ByteRequest | None, expected: U32) -> None:
        coding = self._coding
        if part is None and coding.inner is None:
            _require(key, coding.chunk_sum(data), int(expected[0]))
        elif part is None:
            _require(key, coding.sums(data).tolist(), expected.tolist())
        elif isinstance(part, SuffixByteRequest) and part.suffix == coding.index_bytes:
            _require(key, last_word(data), int(expected[0]))
            self._indexes[key] = int(expected[0]), coding.extents(data)
            while len(self._indexes) > INDEXES_KEPT:
                self._indexes.popitem(last=False)
        elif isinstance(part, RangeByteRequest) and coding.inner is not None:
            extents = await self._extents(key, expected)
            inside = (extents[:, 0] >= part.start) & (extents[:, 1] <= part.end) & (extents[:, 1] > 0)
            if not inside.any():
                raise WrongChunkError(f"bytes {part.start} to {part.end} of it hold no chunk of this shard")
            for k in np.flatnonzero(inside):
                first, last = extents[k] - part.start
                _require(key, coding.chunk_sum(data[first:last]), int(expected[1 + k]))
        else:
            raise NotImplementedError(f"a part of a chunk was asked for ({part}), which cannot be checked")

    async def _extents(self, key: str, expected: U32) -> I64:
        """Where the chunks of a shard lie; its index was read before them, and is read again if it was forgotten."""
        crc, extents = self._indexes.get(key, (None, None))
        if extents is None or crc != expected[0]:
            await self.get(key, default_buffer_prototype(), SuffixByteRequest(self._coding.index_bytes))
            _, extents = self._indexes[key]
        return extents


class RecordedArray(_OfOneArray):
    """What is written of an array: keeps the checksums of every object, and never looks at what lies there.

    ``tail`` and ``tail_key`` are the object that may not be written over, and the name that it gets instead.
    """

    def __init__(self, store: Store, name: str, coding: Coding, tail: int | None, tail_key: str) -> None:
        super().__init__(store, name, coding)
        self.sums: dict[int, U32] = {}
        self._tail, self._tail_key = tail, tail_key

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Nothing: objects are written whole."""
        return None

    async def set(self, key: str, value: Buffer) -> None:
        """Store one object, whole."""
        position = self._position(key)
        if position is not None:
            self.sums[position] = self._coding.sums(value.as_numpy_array())
            key = self._tail_key if position == self._tail else key
        await self._store.set(key, value)


def _require(key: str, found: int | list[int], expected: int | list[int]) -> None:
    if found != expected:
        raise WrongChunkError(
            f"{key} is not what was committed at this place: it is of another place, of another store, or older"
        )
