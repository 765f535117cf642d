"""Staging folders of writers, atomic replacement of a store, and locks.

    .NAME.writing-TOKEN/owner     host name; locked while the writer lives
    .NAME.writing-TOKEN/store     the new store
    .NAME.writing-TOKEN/old       the old store between two moves, if names cannot be exchanged
    .NAME.writing-TOKEN/archive   the new store as a zip file

Each writer has its own staging folder next to the path. A later writer on the same host removes folders whose lock is
free; without file locks they remain.

Linux and macOS exchange two names atomically on most file systems. Elsewhere (NFS, Windows) the old store is moved to
``old`` first, and back if the second move fails. If a process is killed between the moves, a staging folder contains
both ``old`` and ``store`` while the path is missing; `restore` then moves ``old`` back. No other state has both, so a
store that its user deleted is not restored.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import importlib
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import IO, Any

from dkdist._utils.files import CREATE_FLAGS, SAFE_FLAGS, flush_folder, write_all
from dkdist.io.errors import StoreFormatError

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None  # not available on Windows
SYSTEM: str = sys.platform

STORE, OLD, ARCHIVE, OWNER = "store", "old", "archive", "owner"
UNSUPPORTED_ERRNOS = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
LOCK_UNSUPPORTED_ERRNOS = {*UNSUPPORTED_ERRNOS, errno.EBADF, errno.ENOLCK}
RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347, "loongarch64": 276}
LOCK_TIMEOUT_SECONDS = 30.0  # a commit takes milliseconds; tests/store/test_replacing.py
REPLACE_TIMEOUT_SECONDS = 1.0  # maximum wait for another live writer; tests/store/test_replacing.py


def staging_prefix(path: str) -> str:
    """Return the prefix of staging folders of a path."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.writing-")


def atomic_replace(staging: str, path: str) -> None:
    """Replace the folder at ``path`` by ``staging/store``; on failure change nothing."""
    new, old = os.path.join(staging, STORE), os.path.join(staging, OLD)
    if not _is_occupied(path):
        os.rename(new, path)  # fails if another writer created a non-empty folder
    elif not exchange_names(new, path):
        os.rename(path, old)
        try:
            os.rename(new, path)
        except BaseException:
            os.rename(old, path)
            raise


def exchange_names(path: str, other_path: str) -> bool:
    """Exchange two names atomically; return False if the system or file system does not support it."""
    call = _system_exchange()
    if call is None:
        return False
    if call(os.fsencode(path), os.fsencode(other_path)) == 0:
        return True
    code = ctypes.get_errno()
    if code in UNSUPPORTED_ERRNOS:
        return False
    raise OSError(code, f"cannot exchange {path} with {other_path}: {os.strerror(code)}")


def restore(path: str) -> None:
    """Undo the first of two moves of a dead writer; waits up to 1 s for a live one."""
    deadline = time.monotonic() + REPLACE_TIMEOUT_SECONDS
    while not os.path.lexists(path):
        interrupted = [folder for folder in staging_folders(path) if _is_between_moves(folder)]
        if not interrupted:
            return
        with contextlib.suppress(OSError):
            if is_abandoned(interrupted[0]):
                os.rename(os.path.join(interrupted[0], OLD), path)
                return
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)


def staging_folders(path: str) -> list[str]:
    """List the staging folders of a path."""
    prefix = staging_prefix(path)
    folder, name = os.path.split(prefix)
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(os.path.join(folder, n) for n in names if n.startswith(name))


def is_abandoned(staging: str) -> bool:
    """Whether the writer of a staging folder is dead: it ran on this host, and the folder is unlocked."""
    with contextlib.suppress(OSError), _open_owner_file(staging, "rb+") as owner:
        return owner.read(4096) == host() and lock(owner.fileno(), wait=False)
    return False


def has_host_name(staging: str) -> bool:
    """Whether a staging folder has a complete host name; a power failure can truncate it."""
    with contextlib.suppress(OSError), _open_owner_file(staging, "rb") as owner:
        return owner.read(4096).endswith(b"\n")
    return False


def host() -> bytes:
    """Return the host name as bytes, with a final newline."""
    return f"{os.uname().nodename if hasattr(os, 'uname') else ''}\n".encode()


def lock(handle: int, *, wait: bool, shared: bool = False) -> bool:
    """Lock a file descriptor, exclusively or shared.

    Returns False if locks are not supported or, with ``wait=False``, if another process has the lock.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while fcntl is not None:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                return False
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"another writer has locked this store for more than {LOCK_TIMEOUT_SECONDS:.0f} s. Nothing was "
                    "committed. End that process and write again."
                ) from None
            time.sleep(0.002)
        except OSError as error:
            if error.errno not in LOCK_UNSUPPORTED_ERRNOS:
                raise
            return False
        else:
            return True
    return False


@contextlib.contextmanager
def commit_lock(path: str) -> Iterator[None]:
    """Hold an exclusive lock of the folder or zip file at a path for one commit; no-op without file locks.

    The system releases the lock when the process ends. If the path was exchanged while waiting, its new content is
    locked instead.
    """
    while True:
        try:
            can_lock = fcntl is not None and (os.path.isdir(path) or os.path.isfile(path))
            handle = os.open(path, os.O_RDONLY) if can_lock else None
        except (FileNotFoundError, NotADirectoryError):
            continue
        if handle is None:
            yield
            return
        try:
            lock(handle, wait=True)
            try:
                is_current = os.path.samestat(os.fstat(handle), os.stat(path))
            except FileNotFoundError:
                is_current = not os.path.lexists(path)
            if is_current:
                yield
                return
        finally:
            os.close(handle)


@contextlib.contextmanager
def object_write_lock(path: str) -> Iterator[None]:
    """Hold a shared lock while one object is written; excludes `commit_lock`."""
    if fcntl is None:
        yield
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        lock(handle, wait=True, shared=True)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def append_lock(path: str | None) -> Iterator[None]:
    """Hold an exclusive lock for one append; no-op without folder locks.

    Otherwise two processes that append in loops take over from each other and neither commits. The lock is on the
    folder of points, because `commit_lock` and `object_write_lock` lock the folder of the store.
    """
    try:
        handle = None if fcntl is None or path is None else os.open(os.path.join(path, "points"), os.O_RDONLY)
    except OSError:  # the caller reports errors of the store
        handle = None
    if handle is None:
        yield
        return
    try:
        lock(handle, wait=True)
        yield
    finally:
        os.close(handle)


def _is_occupied(path: str) -> bool:
    return os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path))


def _is_between_moves(staging: str) -> bool:
    return all(os.path.isdir(os.path.join(staging, name)) for name in (OLD, STORE))


def _open_owner_file(staging: str, mode: str) -> IO[bytes]:
    """Open the owner file without following links or blocking."""
    safe_flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return open(
        os.path.join(staging, OWNER), mode, opener=lambda path, flags: os.open(path, flags | safe_flags)
    )


@functools.cache
def _system_exchange() -> Callable[[bytes, bytes], int] | None:
    """Return the system call that exchanges names (0 for success, else errno is set), or None."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if SYSTEM == "darwin":
            swap = library.renamex_np
            swap.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint]
            return lambda a, b: int(swap(a, b, 2))  # RENAME_SWAP
        if SYSTEM == "linux":
            cwd, exchange_flag = ctypes.c_int(-100), ctypes.c_uint(2)  # AT_FDCWD, RENAME_EXCHANGE
            if hasattr(library, "renameat2"):
                rename = library.renameat2
                return lambda a, b: int(rename(cwd, a, cwd, b, exchange_flag))
            # old versions of musl have no renameat2
            number, syscall = ctypes.c_long(RENAMEAT2[os.uname().machine]), library.syscall
            return lambda a, b: int(syscall(number, cwd, a, cwd, b, exchange_flag))
    except (AttributeError, KeyError, OSError, TypeError):  # C library without these functions
        return None
    return None


# A live writer adds its host name within microseconds; tests/store/test_replacing.py.
MAX_UNNAMED_SECONDS = 3600.0
MAX_CREATE_ATTEMPTS = 5  # concurrent writers may remove the empty folder; tests/store/test_replacing.py
OCCUPIED_ERRNOS = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


class StagingFolder:
    """Staging folder of one writer to a path: created by `make`, removed by `finish` or `remove`."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)  # keeps links to the store valid
        self.folder = f"{staging_prefix(self.path)}{uuid.uuid4().hex}"
        self._owner: int | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_owner": None}  # the lock remains with its process

    @property
    def store(self) -> str:
        """Path of the new store."""
        return os.path.join(self.folder, STORE)

    def make(self) -> None:
        """Remove folders of dead writers and create this folder; on failure leave nothing."""
        try:
            self._make()
        except OSError as error:
            self.remove()
            raise type(error)(
                error.errno,
                f"cannot write next to {self.path} ({error.strerror or error}). Nothing was committed. Free disk space "
                "or choose another location.",
            ) from error

    def _make(self) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        for folder in staging_folders(self.path):
            _remove_abandoned(folder)
        self._create_owner_file()
        assert self._owner is not None
        lock(self._owner, wait=False)
        write_all(self._owner, host())
        os.mkdir(self.store)

    def _create_owner_file(self) -> None:
        """Create folder and owner file; other writers may remove the folder while it is empty."""
        for _ in range(MAX_CREATE_ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                os.mkdir(self.folder)
                self._owner = os.open(os.path.join(self.folder, OWNER), CREATE_FLAGS | SAFE_FLAGS, 0o666)
                return
        raise FileNotFoundError(errno.ENOENT, f"other writers repeatedly removed {self.folder}")

    def prepare(self) -> None:
        """Do what takes long before `publish`."""

    def publish(self) -> None:
        """Replace the store at the path by the new store; on failure change nothing."""
        try:
            atomic_replace(self.folder, self.path)
        except OSError as error:
            if error.errno in OCCUPIED_ERRNOS:
                raise StoreFormatError(
                    f"another writer committed {self.path} after this writer began. Nothing was committed. Check the "
                    "store first."
                ) from error
            raise OSError(
                error.errno,
                f"cannot move the new store to {self.path} ({error.strerror or error}). The old content is unchanged. "
                "Choose another location or a folder inside it.",
            ) from error

    def finish(self) -> None:
        """Flush the exchange to disk and remove the old store."""
        flush_folder(os.path.dirname(self.path))
        flush_folder(self.folder)
        self.remove()

    def remove(self) -> None:
        """Remove the folder and its content, as far as possible."""
        _remove_tree(self.folder)
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None


def _remove_abandoned(folder: str) -> None:
    """Remove a staging folder that is empty (atomically) or whose writer is dead."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)
        return
    if _is_dead(folder):
        _remove_tree(folder)


def _is_dead(folder: str) -> bool:
    if is_abandoned(folder):
        return True
    with contextlib.suppress(OSError):
        is_old = time.time() - os.lstat(folder).st_mtime > MAX_UNNAMED_SECONDS
        return is_old and not has_host_name(folder)
    return False


def _remove_tree(folder: str) -> None:
    """Remove a folder, the owner file last, so that an interrupted removal can be detected."""
    for name in (OLD, STORE):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, ARCHIVE))
    with contextlib.suppress(OSError):
        if set(os.listdir(folder)) <= {OWNER}:
            shutil.rmtree(folder)
