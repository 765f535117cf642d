"""A writer's own hidden folder beside a path, in which a new store grows until it takes the path's place.

    .NAME.writing-TOKEN/owner     the machine's name; locked while the writer lives
    .NAME.writing-TOKEN/store     the new store
    .NAME.writing-TOKEN/old       the old one, between two moves: only where names cannot be exchanged

Every writer has a folder of its own, so that two at once never mix. What a writer left that was killed is removed by
a later one to the same path, on the same machine, once nobody holds its lock; where files cannot be locked it stays.

Putting one folder in the place of another in one step, so that there is no moment without either.

Linux and macOS can exchange two names atomically, on most file systems. Where they cannot (NFS, Windows), the old
folder is moved aside first, and moved back if the second move fails. A process that is killed between the two moves
leaves what only that moment has: nothing in the place, and beside it a writer's folder with both the ``old`` and the
new ``store`` in it. Whoever opens the place then moves the old one back. Before the first move there is no ``old``
and after the second no new ``store``, so a store that its user deleted is never brought back.
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

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None  # Windows has none
SYSTEM: str = sys.platform

STORE, OLD, OWNER = "store", "old", "owner"
UNSUPPORTED_ERRNOS = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
LOCK_UNSUPPORTED_ERRNOS = {*UNSUPPORTED_ERRNOS, errno.EBADF, errno.ENOLCK}
RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347, "loongarch64": 276}
LOCK_TIMEOUT_SECONDS = 30.0  # seconds for another writer's commit, which takes milliseconds
REPLACE_TIMEOUT_SECONDS = 1.0  # seconds that a reader waits for a writer between its two moves


def staging_prefix(path: str) -> str:
    """How the names of writers' folders beside a path begin."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.writing-")


def atomic_replace(hidden: str, path: str) -> None:
    """Let ``hidden/store`` take the place of the folder at ``path``, which is in ``hidden`` then; or change nothing."""
    new, aside = os.path.join(hidden, STORE), os.path.join(hidden, OLD)
    if not _is_occupied(path):
        os.rename(new, path)  # fails if another writer was faster: its folder is not empty
    elif not exchange_names(new, path):
        os.rename(path, aside)
        try:
            os.rename(new, path)
        except BaseException:
            os.rename(aside, path)
            raise


def exchange_names(one: str, other: str) -> bool:
    """Exchange two names atomically; False, and nothing done, where the system or the file system cannot."""
    call = _system_exchange()
    if call is None:
        return False
    if call(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    code = ctypes.get_errno()
    if code in UNSUPPORTED_ERRNOS:
        return False
    raise OSError(code, f"cannot exchange {one} with {other}: {os.strerror(code)}")


def restore(path: str) -> None:
    """Move back what a writer that died between its two moves has left; waits a moment for one that lives."""
    deadline = time.monotonic() + REPLACE_TIMEOUT_SECONDS
    while not os.path.lexists(path):
        between = [hidden for hidden in staging_folders(path) if _is_between(hidden)]
        if not between:
            return
        with contextlib.suppress(OSError):
            if is_abandoned(between[0]):
                os.rename(os.path.join(between[0], OLD), path)
                return
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)


def staging_folders(path: str) -> list[str]:
    """The folders of writers to a path."""
    prefix = staging_prefix(path)
    folder, name = os.path.split(prefix)
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(os.path.join(folder, n) for n in names if n.startswith(name))


def is_abandoned(hidden: str) -> bool:
    """Whether the writer of a folder is surely no more: this machine wrote its name there, and holds no lock on it."""
    with contextlib.suppress(OSError), _open_owner_file(hidden, "rb+") as owner:
        return owner.read(4096) == host() and lock(owner.fileno(), wait=False)
    return False


def has_host_name(hidden: str) -> bool:
    """Whether a machine's name, all of it, is in a folder; a loss of power can leave less."""
    with contextlib.suppress(OSError), _open_owner_file(hidden, "rb") as owner:
        return owner.read(4096).endswith(b"\n")
    return False


def host() -> bytes:
    """This machine's name, in bytes."""
    return f"{os.uname().nodename if hasattr(os, 'uname') else ''}\n".encode()


def lock(handle: int, *, wait: bool, shared: bool = False) -> bool:
    """Lock a file for this descriptor, or share it with others that do; False if another has it, or files cannot be
    locked there (ask with `wait`).
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
                    f"another writer holds the commit of this store for more than {LOCK_TIMEOUT_SECONDS:.0f} s (is it stopped?): "
                    "nothing was committed. End it, and write again"
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
    """One commit at a time to the folder at a path, where folders can be locked; waits for another that is under way.

    The lock is the system's, and ends with its process. It holds the folder itself, whatever its name becomes: who
    waited for a folder that was exchanged meanwhile locks the new one.
    """
    while True:
        try:
            handle = os.open(path, os.O_RDONLY) if fcntl is not None and os.path.isdir(path) else None
        except (FileNotFoundError, NotADirectoryError):
            continue
        if handle is None:
            yield
            return
        try:
            lock(handle, wait=True)
            try:
                same = os.path.samestat(os.fstat(handle), os.stat(path))
            except FileNotFoundError:
                same = not os.path.lexists(path)
            if same:
                yield
                return
        finally:
            os.close(handle)


@contextlib.contextmanager
def object_write_lock(path: str) -> Iterator[None]:
    """While one object of a folder is written: beside others, but not while somebody is `commit_lock` there."""
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
    """Hold the right to append to the store at a path; waits for another append, where folders can be locked.

    Without it two processes that append in loops take the store over from each other, and neither commits. The lock is
    on the folder of points: `commit_lock` and `object_write_lock` lock the store's own folder meanwhile.
    """
    try:
        handle = None if fcntl is None or path is None else os.open(os.path.join(path, "points"), os.O_RDONLY)
    except OSError:  # the caller names what is wrong with the store
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


def _is_between(hidden: str) -> bool:
    return all(os.path.isdir(os.path.join(hidden, name)) for name in (OLD, STORE))


def _open_owner_file(hidden: str, mode: str) -> IO[bytes]:
    """The file with the machine's name, opened itself (never where a link leads) and without waiting."""
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return open(os.path.join(hidden, OWNER), mode, opener=lambda path, flags: os.open(path, flags | careful))


@functools.cache
def _system_exchange() -> Callable[[bytes, bytes], int] | None:
    """The system's own call, if there is one: 0 for success, else the reason is in errno."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if SYSTEM == "darwin":
            swap = library.renamex_np
            swap.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint]
            return lambda one, other: int(swap(one, other, 2))  # RENAME_SWAP
        if SYSTEM == "linux":
            here, swap_them = ctypes.c_int(-100), ctypes.c_uint(2)  # AT_FDCWD, RENAME_EXCHANGE
            if hasattr(library, "renameat2"):
                rename = library.renameat2
                return lambda one, other: int(rename(here, one, here, other, swap_them))
            number, ask = ctypes.c_long(RENAMEAT2[os.uname().machine]), library.syscall  # an old musl
            return lambda one, other: int(ask(number, here, one, here, other, swap_them))
    except (AttributeError, KeyError, OSError, TypeError):  # another C library, or none
        return None
    return None


MAX_UNNAMED_SECONDS = 3600.0  # until a folder without a machine's name is nobody's: naming takes microseconds
MAX_CREATE_ATTEMPTS = 5
OCCUPIED_ERRNOS = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


class StagingFolder:
    """The folder of one writer to a path; made by `make`, gone after `publish` or `remove`. Light to pickle."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)  # a link goes on leading to its store
        self._folder = f"{staging_prefix(self.path)}{uuid.uuid4().hex}"
        self._owner: int | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_owner": None}  # the lock stays with the process that made it

    @property
    def store(self) -> str:
        """Where the new store grows."""
        return os.path.join(self._folder, STORE)

    def make(self) -> None:
        """Remove what dead writers left, and make the folder; or raise and leave nothing."""
        try:
            self._make()
        except OSError as error:
            self.remove()
            raise type(error)(
                error.errno,
                f"cannot write beside {self.path} ({error.strerror or error}): nothing was committed. Make room, or "
                "choose another place where you may write",
            ) from error

    def _make(self) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        for folder in staging_folders(self.path):
            _remove_abandoned(folder)
        self._own()
        assert self._owner is not None
        lock(self._owner, wait=False)
        write_all(self._owner, host())
        os.mkdir(self.store)

    def _own(self) -> None:
        """Make the file that says whose folder this is; others may remove the folder as long as it is empty."""
        for _ in range(MAX_CREATE_ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                os.mkdir(self._folder)
                self._owner = os.open(os.path.join(self._folder, OWNER), CREATE_FLAGS | SAFE_FLAGS, 0o666)
                return
        raise FileNotFoundError(errno.ENOENT, f"others keep removing {self._folder}")

    def publish(self) -> None:
        """Let the new store take the path's place, in one step; or raise and change nothing."""
        try:
            atomic_replace(self._folder, self.path)
        except OSError as error:
            if error.errno in OCCUPIED_ERRNOS:
                raise StoreFormatError(
                    f"another writer committed {self.path} since this one began: nothing of this writer was committed. "
                    "Look at it first"
                ) from error
            raise OSError(
                error.errno,
                f"cannot put the new store at {self.path} ({error.strerror or error}): what was there is as it was. "
                "Choose another place, or write to a folder inside it",
            ) from error

    def settle(self) -> None:
        """Make the exchange of `publish` durable, and remove the old store."""
        flush_folder(os.path.dirname(self.path))
        flush_folder(self._folder)
        self.remove()

    def remove(self) -> None:
        """Remove the folder and what is in it; what cannot be removed is left to the next writer."""
        _remove_tree(self._folder)
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None


def _remove_abandoned(folder: str) -> None:
    """Remove a folder that is empty, in one step lest somebody moves in, or whose writer is dead."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)
        return
    if _is_dead(folder):
        _remove_tree(folder)


def _is_dead(folder: str) -> bool:
    if is_abandoned(folder):
        return True
    with contextlib.suppress(OSError):
        old = time.time() - os.lstat(folder).st_mtime > MAX_UNNAMED_SECONDS
        return old and not has_host_name(folder)
    return False


def _remove_tree(folder: str) -> None:
    """Remove a folder, the owner's file last, so that what a kill leaves of it can still be told to be dead."""
    for name in (OLD, STORE):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    with contextlib.suppress(OSError):
        if set(os.listdir(folder)) <= {OWNER}:
            shutil.rmtree(folder)
