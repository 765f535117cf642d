"""Writing of one array: buffered rows, whole chunks (or shards), and background threads.

The buffer holds MAX_PENDING_CHUNKS chunks, one shard, or (with threads) one chunk. The last chunk is padded with the
fill value. An append reads the rows of this chunk and writes the longer chunk under another key, so committed objects
are never overwritten. Checksums of written objects are collected for the table of the commit. `close` updates
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

# Maximum number of chunks that are queued or being written; bounds memory (python benchmarks/memory.py)
MAX_PENDING_CHUNKS = 8
# A task writes several chunks, if they need no copy, to amortize its overhead; tests/store/test_packed.py
MAX_CHUNKS_PER_TASK = 4
# Chunks per flush to disk, 32 MiB; flushing overlaps with writing the next chunks; tests/store/test_packed.py
CHUNKS_PER_FLUSH = 32


class ChunkWriterThreads:
    """Threads that write chunks to a disk and a thread that flushes them; the next call raises their errors.

    Threads start with the first chunk; stores that are not ``on_disk`` use none.
    """

    def __init__(self, store: Store) -> None:
        self.on_disk = isinstance(store, DiskStore)
        self._store, self._n_unflushed = store, 0
        self._writing = BackgroundWriter(min(MAX_PENDING_CHUNKS, os.cpu_count() or 1), MAX_PENDING_CHUNKS)
        self._flushing = BackgroundWriter(1, 2)

    def share(self, pool: ThreadPool) -> None:
        """Use a shared thread pool; call this before `submit`."""
        self._writing.close()
        self._writing = BackgroundWriter(pool, MAX_PENDING_CHUNKS)

    def submit(self, write: Callable[..., Any], *arguments: Any, chunks: int = 1) -> None:
        """Submit a call that writes a number of chunks; blocks while the queue is full."""
        self._writing.submit(write, *arguments)
        self._n_unflushed += chunks
        if self._n_unflushed >= CHUNKS_PER_FLUSH:
            assert isinstance(self._store, DiskStore)
            self._n_unflushed = 0
            self._flushing.submit(self._store.flush_files)

    def wait(self) -> None:
        """Wait until all submitted calls are done."""
        self._writing.wait()
        self._flushing.wait()

    def close(self) -> None:
        """Start no further calls, and wait for running ones."""
        self._writing.close()
        self._flushing.close()


class RecordingArray(ArrayObjects):
    """Write-only access to an array that records the checksums of written objects.

    ``tail`` is the position of the object that must not be overwritten; it is written under ``tail_key`` instead.
    """

    def __init__(self, store: Store, name: str, coding: CodecInfo, tail: int | None, tail_key: str) -> None:
        super().__init__(store, name, coding)
        self.sums: dict[int, U32] = {}
        self._tail, self._tail_key = tail, tail_key

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return None: objects are always replaced as a whole."""
        return None

    async def set(self, key: str, value: Buffer) -> None:
        """Write one object."""
        await self._store.set(self._record(key, value.as_numpy_array()), value)

    def put(self, key: str, data: PackedChunk) -> None:
        """Write one encoded chunk to a disk, synchronously."""
        assert isinstance(self._store, DiskStore)
        checksum = np.frombuffer(data[1], np.uint8)  # `CodecInfo.sums` needs only the end of the chunk
        self._store.write(self._record(key, checksum), *data)

    def _record(self, key: str, data: U8) -> str:
        """Record the checksums of an object and return the key to write to."""
        position = self.position(key)
        if position is None:
            return key
        self.sums[position] = self._coding.sums(data)
        return self._tail_key if position == self._tail else key


class GrowingArray:
    """Buffered writer that extends an array of ``length`` committed rows.

    ``read_tail`` reads the committed rows (start, stop) of an incomplete last chunk. The context manager ``writing``
    guards each write of an object; it raises if the writer has lost its lease. ``checksums`` are those of the
    commit, if any. The last committed chunk (or shard) is written under ``tail_key`` if it grows; without a key it is
    overwritten. ``threads`` write complete chunks of stores on a disk. ``declare`` is called with the number of rows
    before chunks are written.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        metadata: Metadata,
        length: int,
        read_tail: Callable[[int, int], NDArray[Any]] | None,
        writing: Callable[[], AbstractContextManager[None]],
        checksums: ChunkChecksums | None = None,
        tail_key: str = "",
        *,
        threads: ChunkWriterThreads,
        declare: Callable[[str, Metadata, int], None],
    ) -> None:
        self.store, self.name, self.metadata = store, name, metadata
        self._writing, self._threads, self._declare = writing, threads, declare
        self._array = array = array_of(store, name, metadata)
        self.trailing, self.dtype, self._fill = array.shape[1:], array.dtype, array.fill_value
        self._object_rows = int((array.shards or array.chunks)[0])
        self._pack = chunk_packer(array) if threads.on_disk else None
        self._buffer_rows = self._object_rows * (1 if array.shards or self._pack else MAX_PENDING_CHUNKS)
        self.length = length
        self._written = length - length % self._object_rows
        self._buffer = np.empty((self._buffer_rows, *self.trailing), self.dtype)
        self._n_buffered = 0
        coding, n_complete = codec_info(array), self._written // self._object_rows
        self._checksums = checksums or ChunkChecksums(
            n_complete, np.empty((0, coding.width if coding else 0), np.uint32)
        )
        self._tail: int | None = None
        self._tail_key, self._n_unchanged = tail_key, -(-length // self._object_rows)
        if read_tail is not None and length > self._written:
            self._n_unchanged, self._tail = n_complete, n_complete if coding and tail_key else None
            self._add_to_buffer(read_tail(self._written, length))
        self._recorder = None if coding is None else RecordingArray(store, name, coding, self._tail, tail_key)

    def append(self, rows: NDArray[Any], *, copy: bool = True) -> None:
        """Add rows and write full buffers. With ``copy=False`` the caller must not change them until `flush`."""
        self.length += len(rows)
        write_directly = not copy and self._pack is not None and rows.dtype == self.dtype
        while len(rows):
            if write_directly and not self._n_buffered and len(rows) >= self._object_rows:
                n_direct = self._object_rows * min(MAX_CHUNKS_PER_TASK, len(rows) // self._object_rows)
                self._write_chunks(rows[:n_direct])
                rows = rows[n_direct:]
                continue
            n_free = self._buffer_rows - self._n_buffered
            self._add_to_buffer(rows[:n_free])
            rows = rows[n_free:]
            if self._n_buffered == self._buffer_rows:
                self._write_buffer(self._buffer_rows)

    def flush(self) -> None:
        """Write the buffered rows, padded to a complete chunk (or shard), and wait for the threads."""
        if self._n_buffered:
            end = self._n_buffered + -self._n_buffered % self._object_rows
            self._buffer[self._n_buffered : end] = self._fill
            self._write_buffer(end)
        self._threads.wait()

    def close(self) -> None:
        """Write the buffered rows, then the new length."""
        self.flush()
        self.metadata = {**self.metadata, "shape": [self.length, *self.trailing]}
        with self._writing():
            put_bytes(self.store, f"{self.name}/{DOCUMENT}", dump_json(self.metadata))

    @property
    def sums(self) -> U32:
        """Checksums of the written objects, in order."""
        sums = self._recorder.sums if self._recorder is not None else {}
        return np.stack([sums[i] for i in sorted(sums)]) if sums else self._checksums.sums[:0]

    def checksums(self) -> ChunkChecksums:
        """Return the checksums of unchanged and of written objects, for the next commit."""
        first = min(self._checksums.first, self._n_unchanged)
        before = self._checksums.sums[: self._n_unchanged - first]
        return ChunkChecksums(first, np.concatenate([before, self.sums]), self._tail, self._tail_key)

    def _add_to_buffer(self, rows: NDArray[Any]) -> None:
        end = self._n_buffered + len(rows)
        self._buffer[self._n_buffered : end] = rows
        self._n_buffered = end

    def _write_buffer(self, n: int) -> None:
        """Write the n buffered rows, including padding, as complete objects, and empty the buffer."""
        if self._pack is not None:
            self._write_chunks(self._buffer)
            self._buffer = np.empty_like(self._buffer)
        else:
            end = self._written + n
            array = array_of(self._recorder or self.store, self.name, self.metadata, end)
            with self._writing():
                self._declare(self.name, self.metadata, end)
                array[self._written : end] = self._buffer[:n]
            self._written = end
        self._n_buffered = 0

    def _write_chunks(self, rows: NDArray[Any]) -> None:
        """Submit the write of complete chunks, whose rows must not change."""
        first = self._written // self._object_rows
        self._written += len(rows)
        last = self._written // self._object_rows
        self._threads.submit(self._put, first, last, rows, chunks=last - first)

    def _put(self, first: int, last: int, rows: NDArray[Any]) -> None:
        """Encode chunks first .. last - 1 and write them to the disk, each under a valid lease."""
        assert self._pack is not None
        assert self._recorder is not None
        for position in range(first, last):
            start = (position - first) * self._object_rows
            data = self._pack(rows[start : start + self._object_rows])
            with self._writing():
                self._recorder.put(object_key(self._array, position), data)
