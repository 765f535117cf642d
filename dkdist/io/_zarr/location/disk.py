"""Store on a local or shared disk: regular files inside one folder, written atomically and flushed on request.

Unlike Zarr's `LocalStore` it rejects named pipes and links out of the store, bounds file sizes, names the file in
errors, and records written files so that `flush` makes them durable before and after a commit. Root documents and
replaced files are flushed before they become visible.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import stat
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import LocalStore

from dkdist._utils import files
from dkdist.io._zarr._zarr_private import Buffer, BufferPrototype, default_buffer_prototype
from dkdist.io.errors import DOCUMENT, RESTORE_HINT, ObjectBounds, StoreFormatError

PARTIAL_FOLDER = ".dkdist-partial"
MAX_WRITE_ATTEMPTS = 10  # a concurrent failed write may remove the folder; tests/store/test_replacing.py
MAX_CACHED_FOLDERS = 2**14  # bounds the memory of folder names; tests/places/test_foreign_files.py


class DiskStore(LocalStore):
    """`LocalStore` with safe and durable files."""

    def __init__(self, root: Path | str, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._folder = os.fspath(self.root)
        self._real = os.path.realpath(self._folder)
        self._inside = {""}
        self._unflushed: set[str] = set()
        self._new: set[str] = set()
        self._created_folder = self._shut = False
        self._n_writes, self._condition = 0, threading.Condition()
        self.bounds = ObjectBounds()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(DiskStore, read_only=self.read_only), (self._folder,)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read a file or a byte range; None if it is missing."""
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Read several byte ranges of files."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def set(self, key: str, value: Buffer) -> None:
        """Write a file atomically."""
        await asyncio.to_thread(self.set_sync, key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a file atomically unless it exists."""
        if not await self.exists(key):
            await self.set(key, value)

    async def exists(self, key: str) -> bool:
        """Whether a regular file exists."""
        return await asyncio.to_thread(self.is_there, key)

    async def delete(self, key: str) -> None:
        """Remove a file, and then its folder if it is empty: Zarr warns of folders without metadata."""
        await super().delete(key)
        folder = os.path.dirname(key)
        if folder:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(self._folder, folder))

    async def delete_dir(self, prefix: str) -> None:
        """Remove a folder inside the store."""
        with contextlib.suppress(FileNotFoundError):
            self._require_inside(prefix)
            await super().delete_dir(prefix)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """List the names directly under a prefix, without partial files."""
        async for name in super().list_dir(prefix):
            if name != PARTIAL_FOLDER:
                yield name

    def flush_files(self) -> None:
        """Flush the files written so far, while other threads write; `flush` must follow."""
        with self._condition:
            written, self._unflushed = self._unflushed, set()
        files.flush_tree(written, self._folder)

    def flush(self) -> None:
        """Flush all files written through this store in this process."""
        self.flush_files()
        if self._created_folder:
            files.flush_folder(os.path.dirname(self._folder))
            self._created_folder = False

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """Context of a commit: afterwards `withdraw` keeps the files, unless the commit raises OSError."""
        new, self._new = self._new, set()
        try:
            yield
        except OSError:
            self._new |= new
            raise

    def shut(self) -> None:
        """Reject further writes and wait for those in progress."""
        with self._condition:
            self._shut = True
            self._condition.wait_for(lambda: self._n_writes == 0)

    def withdraw(self) -> None:
        """Reject further writes and remove the files that this store created."""
        self.shut()
        for path in sorted(self._new):
            with contextlib.suppress(OSError):
                os.unlink(path)
                self._remove_empty(os.path.dirname(path))
        self._new, self._unflushed = set(), set()

    def _remove_empty(self, path: str) -> None:
        """Remove empty folders from ``path`` up to that of the store; raises OSError at the first non-empty one."""
        while len(path) >= len(self._folder):
            os.rmdir(path)
            path = os.path.dirname(path)

    def sweep(self) -> None:
        """Remove partial files of killed writers."""
        shutil.rmtree(os.path.join(self._folder, PARTIAL_FOLDER), ignore_errors=True)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Synchronous `get`."""
        data = self.read_bytes(key, byte_range)
        return None if data is None else (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    def read_bytes(self, key: str, byte_range: ByteRequest | None = None) -> bytes | None:
        """Read the bytes of a file or of a byte range; None if it is missing."""
        try:
            handle, size = self._open_file(key)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        try:
            start, stop = _byte_span(byte_range, size)
            if stop - start > (max_bytes := self.bounds.of_key(key)):
                raise StoreFormatError(
                    f"{key} of {self._folder} must have at most {max_bytes} bytes; got {size}. {RESTORE_HINT}"
                )
            if start:
                os.lseek(handle, start, os.SEEK_SET)
            data = os.read(handle, max(stop - start, 0))
            while len(data) < stop - start and (more := os.read(handle, stop - start - len(data))):
                data += more
        finally:
            os.close(handle)
        return data

    def read_unchecked(self, name: str, key: str) -> bytes:
        """Read a chunk without checking file type and size; callers verify its checksum.

        A file beyond the limit is returned with one extra byte.
        """
        max_bytes = self.bounds.of_array(name)
        if max_bytes == inf:
            return self.read_bytes(key) or b""
        self._require_inside(key.rpartition("/")[0])
        handle = os.open(f"{self._folder}/{key}", files.READ_FLAGS)
        try:
            return os.read(handle, int(max_bytes) + 1)
        finally:
            os.close(handle)

    def _open_file(self, key: str) -> tuple[int, int]:
        path = f"{self._folder}/{key}"
        try:
            self._require_inside(key.rpartition("/")[0])
            return files.open_regular(path)
        except files.NotRegularError as error:
            inner = os.path.realpath(path)
            if os.path.islink(path) and self._contains(inner):
                return files.open_regular(inner)
            raise self._outside_error(key, str(error)) from None

    def is_there(self, key: str) -> bool:
        """Synchronous `exists`."""
        path = os.path.join(self._folder, key)
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        if stat.S_ISDIR(mode):
            return False
        if not stat.S_ISREG(mode):
            try:
                os.close(self._open_file(key)[0])
            except (FileNotFoundError, IsADirectoryError):
                return False
        try:
            self._require_inside(os.path.dirname(key))
        except FileNotFoundError:  # the store was replaced concurrently
            return False
        return True

    def _contains(self, real: str) -> bool:
        return real.startswith(self._real + os.sep)

    def _require_inside(self, folder: str) -> None:
        """Raise for a folder that is a link out of the store; caches up to `MAX_CACHED_FOLDERS` folders."""
        if folder in self._inside:
            return
        self._require_inside(folder.rpartition("/")[0])
        path = f"{self._folder}/{folder}"
        if stat.S_ISLNK(os.lstat(path).st_mode) and not self._contains(os.path.realpath(path)):
            raise self._outside_error(folder, "a link")
        if len(self._inside) < MAX_CACHED_FOLDERS:
            self._inside.add(folder)

    def _outside_error(self, key: str, kind: str) -> StoreFormatError:
        description = "a link that leads out of it" if kind == "a link" else kind
        return StoreFormatError(
            f"{key} of {self._folder} must be a regular file inside the store; got {description}. Do not use the "
            "store if its source is not trusted; otherwise replace the link by the file."
        )

    def set_sync(self, key: str, value: Buffer) -> None:
        """Synchronous `set`."""
        self.write(key, value.as_buffer_like())

    def write(self, key: str, *parts: Any) -> None:
        """Write the concatenation of buffers to a file atomically."""
        self._check_writable()
        with self._condition:
            if self._shut:
                raise OSError(
                    errno.ECANCELED, f"cannot write {key} of {self._folder}: the writer has stopped."
                )
            self._n_writes += 1
        try:
            self._write_now(key, parts)
        finally:
            with self._condition:
                self._n_writes -= 1
                self._condition.notify_all()

    def _write_now(self, key: str, parts: Sequence[Any]) -> None:
        path, partial_folder = os.path.join(self._folder, key), os.path.join(self._folder, PARTIAL_FOLDER)
        try:
            existed = self._write_whole(key, path, partial_folder, parts)
        except OSError as error:
            for empty in (partial_folder, os.path.dirname(path)):
                with contextlib.suppress(OSError):
                    self._remove_empty(empty)
            raise type(error)(
                error.errno,
                f"cannot write {key} of {self._folder} ({error.strerror or error}). Nothing was committed. Free disk "
                "space or choose another location, and write again.",
            ) from error
        with self._condition:
            self._new |= set() if existed else {path}
            self._unflushed.add(path)

    def _write_whole(self, key: str, path: str, partial_folder: str, parts: Sequence[Any]) -> bool:
        """Write a file and return whether it existed; retries if a concurrent failed write removed the folder."""
        for remaining in reversed(range(MAX_WRITE_ATTEMPTS)):
            try:
                is_new_folder = self._make(os.path.dirname(key))
                existed = not is_new_folder and os.path.lexists(path)
                flush = existed or key == DOCUMENT
                with files.atomic_write(path, temporary_folder=partial_folder, flush=flush) as handle:
                    files.write_all(handle, *parts)
                return existed
            except FileNotFoundError:
                if not remaining:
                    raise
                os.makedirs(partial_folder, exist_ok=True)
        raise AssertionError

    def _make(self, folder: str) -> bool:
        """Create a folder and return whether it is new and empty; an existing one must be inside the store."""
        path = f"{self._folder}/{folder}"
        try:
            os.mkdir(path)
        except FileExistsError:
            self._require_inside(folder)
            return False
        except FileNotFoundError:  # the parent folder is missing too
            self._created_folder = self._created_folder or not os.path.isdir(self._folder)
            os.makedirs(path, exist_ok=True)
            self._require_inside(folder)
            return False
        if folder:
            self._require_inside(os.path.dirname(folder))
        else:
            self._created_folder = True
        return True


def flush_store(store: Store) -> None:
    """Flush the writes of a store on a disk; other storages are durable by themselves."""
    if isinstance(store, DiskStore):
        store.flush()


def _byte_span(byte_range: ByteRequest | None, size: int) -> tuple[int, int]:
    """Return start and end of a byte range in a file."""
    if byte_range is None:
        return 0, size
    if isinstance(byte_range, RangeByteRequest):
        return byte_range.start, min(byte_range.end, size)
    if isinstance(byte_range, OffsetByteRequest):
        return byte_range.offset, size
    if isinstance(byte_range, SuffixByteRequest):
        return max(0, size - byte_range.suffix), size
    raise TypeError(f"unexpected byte range {byte_range!r}")
