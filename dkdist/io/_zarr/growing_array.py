"""Writing of one array: buffered rows, whole chunks (or shards), and background threads.

Rows are buffered until MAX_PENDING_CHUNKS chunks, one shard, or with threads one chunk are full. The last chunk is
padded with the fill value. An append starts from its rows and writes the longer chunk under another key, so committed
objects are never overwritten. Checksums of written objects are collected for the table of the commit. `close` updates
the length of the array.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.abc.store import ByteRequest, Store

from dkdist._utils.concurrency import BackgroundWriter, ThreadPool
from dkdist.io._zarr._zarr_private import Buffer, BufferPrototype
from dkdist.io._zarr.checksums import U8, U32, ArrayObjects, ChunkChecksums, CodecInfo, codec_info, object_key
from dkdist.io._zarr.layout import Metadata, array_of, dump_json
from dkdist.io._zarr.location.address import put_bytes
from dkdist.io._zarr.location.disk import DiskStore
from dkdist.io._zarr.packed import PackedChunk, chunk_packer
from dkdist.io.errors import DOCUMENT

# Bounds the memory of a writer: tasks, of a chunk each, that are queued or running (python benchmarks/memory.py)
MAX_PENDING_CHUNKS = 8
# Amortizes the overhead of a task for chunks that need no copy; tests/store/test_packed.py
MAX_CHUNKS_PER_TASK = 4
# Flushing 32 MiB overlaps with writing the next chunks; tests/store/test_packed.py
CHUNKS_PER_FLUSH = 32


class ChunkWriterThreads:
    """Threads that write chunks to a disk and one that flushes them; errors are raised by the next call.

    Threads start with the first chunk; stores that are not ``on_disk`` use none.
    """

    def __init__(self, store: Store) -> None:
        self.on_disk = isinstance(store, DiskStore)
        self._store, self._n_given = store, 0  # since the last flush
        self._writing = BackgroundWriter(min(MAX_PENDING_CHUNKS, os.cpu_count() or 1), MAX_PENDING_CHUNKS)
        self._flushing = BackgroundWriter(1, 2)

    def share(self, crew: ThreadPool) -> None:
        """Have a crew write, which does other work too: nothing was given yet."""
        self._writing.close()
        self._writing = BackgroundWriter(crew, MAX_PENDING_CHUNKS)

    def give(self, write: Callable[..., Any], *arguments: Any, chunks: int = 1) -> None:
        """Have so many chunks written by one call; waits while others are."""
        self._writing.submit(write, *arguments)
        self._n_given += chunks
        if self._n_given >= CHUNKS_PER_FLUSH:
            assert isinstance(self._store, DiskStore)
            self._n_given = 0
            self._flushing.submit(self._store.flush_files)

    def wait(self) -> None:
        """Wait until all that was given is done."""
        self._writing.wait()
        self._flushing.wait()

    def close(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._writing.close()
        self._flushing.close()


class RecordingArray(ArrayObjects):
    """What is written of an array: keeps the checksums of every object, and never looks at what lies there.

    ``tail`` and ``tail_key`` are the object that may not be written over, and the name that it gets instead.
    """

    def __init__(self, store: Store, name: str, coding: CodecInfo, tail: int | None, tail_key: str) -> None:
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
        await self._store.set(self._noted(key, value.as_numpy_array()), value)

    def put(self, key: str, data: PackedChunk) -> None:
        """The same, at once, on the disk that this is."""
        assert isinstance(self._store, DiskStore)
        checksum = np.frombuffer(data[1], np.uint8)  # all that is looked at of a chunk that ends with it
        self._store.write(self._noted(key, checksum), *data)

    def _noted(self, key: str, data: U8) -> str:
        """The name that an object gets; its checksums are kept."""
        position = self.position(key)
        if position is None:
            return key
        self.sums[position] = self._coding.sums(data)
        return self._tail_key if position == self._tail else key


class GrowingArray:
    """An array of a store, of ``length`` committed rows, under the writer's hands.

    ``read_tail`` reads committed rows (start, stop) of the last chunk, if there are any; ``writing`` is entered for
    each object, and raises if this writer may not write any more. ``bound`` are the checksums of what is committed, if
    the commit has them, and ``tail_key`` is the name under which the last committed chunk (or shard) is written, if it
    grows. ``threads`` write whole chunks, if the store is on a disk.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        metadata: Metadata,
        length: int,
        read_tail: Callable[[int, int], NDArray[Any]] | None,
        writing: Callable[[], AbstractContextManager[None]],
        bound: ChunkChecksums | None = None,
        tail_key: str = "",
        *,
        threads: ChunkWriterThreads,
    ) -> None:
        self.store, self.name, self.metadata = store, name, metadata
        self._writing, self._threads = writing, threads
        self._array = array = array_of(store, name, metadata)
        self.trailing, self.dtype, self._fill = array.shape[1:], array.dtype, array.fill_value
        self._grain = int((array.shards or array.chunks)[0])
        self._packed = chunk_packer(array) if threads.on_disk else None
        self._unit = self._grain * (1 if array.shards or self._packed else MAX_PENDING_CHUNKS)
        self.length = length
        self._written = length - length % self._grain
        self._waiting = np.empty((self._unit, *self.trailing), self.dtype)
        self._n_waiting = 0
        coding, whole = codec_info(array), self._written // self._grain
        self._bound = bound or ChunkChecksums(whole, np.empty((0, coding.width if coding else 0), np.uint32))
        self._tail: int | None = None
        self._tail_key, self._kept = tail_key, -(-length // self._grain)
        if read_tail is not None and length > self._written:
            self._kept, self._tail = whole, None if coding is None else whole
            self._wait(read_tail(self._written, length))
        self._recorded = None if coding is None else RecordingArray(store, name, coding, self._tail, tail_key)

    def append(self, rows: NDArray[Any], *, copy: bool = True) -> None:
        """Add rows; writes as many whole units as there are. Without ``copy`` nobody changes them until `flush`."""
        self.length += len(rows)
        as_they_are = not copy and self._packed is not None and rows.dtype == self.dtype
        while len(rows):
            if as_they_are and not self._n_waiting and len(rows) >= self._grain:
                whole = self._grain * min(MAX_CHUNKS_PER_TASK, len(rows) // self._grain)
                self._write_chunks(rows[:whole])
                rows = rows[whole:]
                continue
            taken = self._unit - self._n_waiting
            self._wait(rows[:taken])
            rows = rows[taken:]
            if self._n_waiting == self._unit:
                self._write(self._unit)

    def flush(self) -> None:
        """Write the rows that wait, the last of them padded to a whole chunk (or shard)."""
        if self._n_waiting:
            end = self._n_waiting + -self._n_waiting % self._grain
            self._waiting[self._n_waiting : end] = self._fill
            self._write(end)
        self._threads.wait()

    def close(self) -> None:
        """Write the rows that wait, and then the new length."""
        self.flush()
        self.metadata = {**self.metadata, "shape": [self.length, *self.trailing]}
        with self._writing():
            put_bytes(self.store, f"{self.name}/{DOCUMENT}", dump_json(self.metadata))

    @property
    def sums(self) -> U32:
        """The checksums of the objects that were written here, in order."""
        kept = self._recorded.sums if self._recorded is not None else {}
        return np.stack([kept[i] for i in sorted(kept)]) if kept else self._bound.sums[:0]

    def bound(self) -> ChunkChecksums:
        """What the table of the commit says about this array: what it said, but for a tail, and what was written."""
        first = min(self._bound.first, self._kept)
        before = self._bound.sums[: self._kept - first]
        return ChunkChecksums(first, np.concatenate([before, self.sums]), self._tail, self._tail_key)

    def _wait(self, rows: NDArray[Any]) -> None:
        end = self._n_waiting + len(rows)
        self._waiting[self._n_waiting : end] = rows
        self._n_waiting = end

    def _write(self, n: int) -> None:
        """Write the first n of the rows that wait, which are all there are, and padding perhaps: whole objects."""
        if self._packed is not None:
            self._write_chunks(self._waiting)
            self._waiting = np.empty_like(self._waiting)
        else:
            end = self._written + n
            array = array_of(self._recorded or self.store, self.name, self.metadata, end)
            with self._writing():
                array[self._written : end] = self._waiting[:n]
            self._written = end
        self._n_waiting = 0

    def _write_chunks(self, rows: NDArray[Any]) -> None:
        """Have the rows of some whole chunks written, which nobody changes meanwhile."""
        first = self._written // self._grain
        self._written += len(rows)
        last = self._written // self._grain
        self._threads.give(self._put, first, last, rows, chunks=last - first)

    def _put(self, first: int, last: int, rows: NDArray[Any]) -> None:
        """Write chunks first .. last - 1 to the disk that this is on, if this writer still may when each is packed."""
        assert self._packed is not None
        assert self._recorded is not None
        for position in range(first, last):
            start = (position - first) * self._grain
            data = self._packed(rows[start : start + self._grain])
            with self._writing():
                self._recorded.put(object_key(self._array, position), data)
