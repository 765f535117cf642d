"""A store on a local or shared disk: regular files inside its folder, written whole, and flushed when asked to.

Zarr's own store waits for ever at a named pipe that somebody put in place of a chunk, follows links to wherever they
lead, and leaves it to the system when a file reaches the disk. This one refuses what is no file of the store, bounds
documents, says what could not be written where, and remembers what it wrote: `flush` makes that durable, which a
commit asks for before and after it. A root document, and a file that is replaced, is flushed before it takes its place.
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
MAX_WRITE_ATTEMPTS = 10
MAX_CACHED_FOLDERS = 2**14  # of a store that are known to be inside of it


class DiskStore(LocalStore):
    """A folder of regular files; like `LocalStore`, and as careful as the module says."""

    def __init__(self, root: Path | str, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._folder = os.fspath(self.root)
        self._real = os.path.realpath(self._folder)
        self._inside = {""}
        self._unflushed: set[str] = set()
        self._new: set[str] = set()
        self._made = self._shut = False
        self._writes, self._quiet = 0, threading.Condition()
        self.bounds = ObjectBounds()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(DiskStore, read_only=self.read_only), (self._folder,)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The file, or the asked part of it; None if there is none."""
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Several parts of files."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def set(self, key: str, value: Buffer) -> None:
        """Write a file, whole."""
        await asyncio.to_thread(self.set_sync, key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a file, whole, where there is none."""
        if not await self.exists(key):
            await self.set(key, value)

    async def exists(self, key: str) -> bool:
        """Whether there is a regular file."""
        return await asyncio.to_thread(self.is_there, key)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names directly under a prefix, without what is being written."""
        async for name in super().list_dir(prefix):
            if name != PARTIAL_FOLDER:
                yield name

    def flush_files(self) -> None:
        """Make the files that are written by now durable, while others are being written; `flush` is still to come."""
        with self._quiet:
            written, self._unflushed = self._unflushed, set()
        files.flush_tree(written, self._folder)

    def flush(self) -> None:
        """Make everything that was written through this store durable, in this process."""
        self.flush_files()
        if self._made:
            files.flush_folder(os.path.dirname(self._folder))
            self._made = False

    @contextlib.contextmanager
    def settling(self) -> Iterator[None]:
        """Commit in this block: what was written stays, unless the disk refuses (then nothing was committed)."""
        new, self._new = self._new, set()
        try:
            yield
        except OSError:
            self._new |= new
            raise

    def shut(self) -> None:
        """Write no more, and wait for the writes under way: of several at once one fails, and the others go on."""
        with self._quiet:
            self._shut = True
            self._quiet.wait_for(lambda: self._writes == 0)

    def withdraw(self) -> None:
        """Write no more, and remove the files that were not there before they were written through this store."""
        self.shut()
        for path in sorted(self._new):
            with contextlib.suppress(OSError):
                os.unlink(path)
                self._remove_empty(os.path.dirname(path))
        self._new, self._unflushed = set(), set()

    def _remove_empty(self, path: str) -> None:
        """Remove a folder, and those that it lies in up to the store's own: OSError at the first that is not empty."""
        while len(path) >= len(self._folder):  # those above are not the store's, even if they are empty
            os.rmdir(path)
            path = os.path.dirname(path)

    def sweep(self) -> None:
        """Remove what writers that were killed were writing."""
        shutil.rmtree(os.path.join(self._folder, PARTIAL_FOLDER), ignore_errors=True)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The same as `get`, at once."""
        data = self.read_bytes(key, byte_range)
        return None if data is None else (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    def read_bytes(self, key: str, byte_range: ByteRequest | None = None) -> bytes | None:
        """The bytes of a file, or of the asked part of it; None if there is none."""
        try:
            handle, size = self._opened(key)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        try:
            start, stop = _byte_span(byte_range, size)
            if stop - start > (most := self.bounds.of_key(key)):
                raise StoreFormatError(
                    f"{key} of {self._folder} has {size} bytes, expected at most {most}. {RESTORE_HINT}"
                )
            if start:
                os.lseek(handle, start, os.SEEK_SET)
            data = os.read(handle, max(stop - start, 0))
            while len(data) < stop - start and (more := os.read(handle, stop - start - len(data))):
                data += more
        finally:
            os.close(handle)
        return data

    def read_unseen(self, name: str, key: str) -> bytes:
        """The bytes of a chunk of an array, for who knows what they must be: nobody looks what kind of file it is, or
        how long. One that is too long comes with a byte too many; OSError for what cannot be read so."""
        most = self.bounds.of_array(name)
        if most == inf:
            return self.read_bytes(key) or b""
        self._require_inside(key.rpartition("/")[0])
        handle = os.open(f"{self._folder}/{key}", files.READ_FLAGS)
        try:
            return os.read(handle, int(most) + 1)
        finally:
            os.close(handle)

    def _opened(self, key: str) -> tuple[int, int]:
        path = f"{self._folder}/{key}"
        try:
            self._require_inside(key.rpartition("/")[0])
            return files.open_regular(path)
        except files.NotRegularError as error:
            inner = os.path.realpath(path)
            if os.path.islink(path) and self._holds(inner):
                return files.open_regular(inner)
            raise self._foreign(key, str(error)) from None

    def is_there(self, key: str) -> bool:
        """The same as `exists`, at once."""
        path = os.path.join(self._folder, key)
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        if stat.S_ISDIR(mode):
            return False
        if not stat.S_ISREG(mode):
            try:
                os.close(self._opened(key)[0])
            except (FileNotFoundError, IsADirectoryError):
                return False
        try:
            self._require_inside(os.path.dirname(key))
        except FileNotFoundError:  # the store was replaced meanwhile
            return False
        return True

    def _holds(self, real: str) -> bool:
        return real.startswith(self._real + os.sep)

    def _require_inside(self, folder: str) -> None:
        """Raise for a folder that is a link out of the store; caches up to `MAX_CACHED_FOLDERS` folders."""
        if folder in self._inside:
            return
        self._require_inside(folder.rpartition("/")[0])
        path = f"{self._folder}/{folder}"
        if stat.S_ISLNK(os.lstat(path).st_mode) and not self._holds(os.path.realpath(path)):
            raise self._foreign(folder, "a link")
        if len(self._inside) < MAX_CACHED_FOLDERS:
            self._inside.add(folder)

    def _foreign(self, key: str, kind: str) -> StoreFormatError:
        what = "a link that leads out of it" if kind == "a link" else kind
        return StoreFormatError(
            f"{key} of {self._folder} is {what}: a store holds plain files in its own folder. Do not use this store "
            "if it is a stranger's; otherwise copy the file itself to this place"
        )

    def set_sync(self, key: str, value: Buffer) -> None:
        """The same as `set`, at once."""
        self.write(key, value.as_buffer_like())

    def write(self, key: str, *parts: Any) -> None:
        """Write a file, whole, of buffers one behind the other."""
        self._check_writable()
        with self._quiet:
            if self._shut:
                raise OSError(
                    errno.ECANCELED, f"cannot write {key} of {self._folder}: its writer has stopped"
                )
            self._writes += 1
        try:
            self._write_now(key, parts)
        finally:
            with self._quiet:
                self._writes -= 1
                self._quiet.notify_all()

    def _write_now(self, key: str, parts: Sequence[Any]) -> None:
        path, growing = os.path.join(self._folder, key), os.path.join(self._folder, PARTIAL_FOLDER)
        try:
            there = self._write_whole(key, path, growing, parts)
        except OSError as error:
            for empty in (growing, os.path.dirname(path)):
                with contextlib.suppress(OSError):
                    self._remove_empty(empty)
            raise type(error)(
                error.errno,
                f"cannot write {key} of {self._folder} ({error.strerror or error}): nothing was committed. Make room "
                "or choose another place, and write again",
            ) from error
        with self._quiet:
            self._new |= set() if there else {path}
            self._unflushed.add(path)

    def _write_whole(self, key: str, path: str, growing: str, parts: Sequence[Any]) -> bool:
        """Write a file, and say whether one was there; anew if a write beside it failed meanwhile, and removed a folder
        that was empty."""
        for more in reversed(range(MAX_WRITE_ATTEMPTS)):
            try:
                made = self._make(os.path.dirname(key))
                there = not made and os.path.lexists(path)
                flush = there or key == DOCUMENT
                with files.atomic_write(path, temporary_folder=growing, flush=flush) as handle:
                    files.write_all(handle, *parts)
                return there
            except FileNotFoundError:
                if not more:
                    raise
                os.makedirs(growing, exist_ok=True)  # which a store has while something is written
        raise AssertionError

    def _make(self, folder: str) -> bool:
        """Make a folder of the store where there is none; whether this did, so that nothing is in it. One that is there
        must lie inside."""
        path = f"{self._folder}/{folder}"
        try:
            os.mkdir(path)
        except FileExistsError:
            self._require_inside(folder)
            return False
        except FileNotFoundError:  # nor is the folder that it lies in
            self._made = self._made or not os.path.isdir(self._folder)
            os.makedirs(path, exist_ok=True)
            self._require_inside(folder)
            return False
        if folder:
            self._require_inside(os.path.dirname(folder))
        else:
            self._made = True
        return True


def flush_store(store: Store) -> None:
    """Make durable what was written through a store, if it is on a disk; other storages do so themselves."""
    if isinstance(store, DiskStore):
        store.flush()


def _byte_span(byte_range: ByteRequest | None, size: int) -> tuple[int, int]:
    """Where the asked part of a file of some size begins and ends."""
    if byte_range is None:
        return 0, size
    if isinstance(byte_range, RangeByteRequest):
        return byte_range.start, min(byte_range.end, size)
    if isinstance(byte_range, OffsetByteRequest):
        return byte_range.offset, size
    if isinstance(byte_range, SuffixByteRequest):
        return max(0, size - byte_range.suffix), size
    raise TypeError(f"unexpected byte range {byte_range!r}")
