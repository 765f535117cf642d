"""Files that are replaced atomically and flushed, so that they survive a loss of power.

Content is written to a new temporary file, which is then renamed. The file is created in exclusive mode, so that links
or files of another user are not followed. Only regular files are read: a pipe or a device could block forever.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO

from dkdist._utils._tuning import MAX_CONCURRENT_FLUSHES

if TYPE_CHECKING:
    from typing_extensions import Buffer

PARTIAL_SUFFIX = ".partial"
UNSUPPORTED_FSYNC_ERRORS = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}
UNSUPPORTED_LINK_ERRORS = {*UNSUPPORTED_FSYNC_ERRORS, errno.EPERM, errno.EACCES, errno.EMLINK}
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL
SAFE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
READ_FLAGS = os.O_RDONLY | SAFE_FLAGS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
FILE_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
}


class NotRegularError(ValueError):
    """Error for a path that is a pipe, device, socket or link instead of a file; the message is the kind."""


@contextlib.contextmanager
def atomic_write(
    path: str, *, temporary_folder: str | None = None, flush: bool = True, overwrite: bool = True
) -> Iterator[int]:
    """Yield a file descriptor of a temporary file that replaces ``path`` when the block ends.

    If the block raises, the temporary file is removed and ``path`` is unchanged. ``temporary_folder`` must be on the
    same file system; by default it is the folder of ``path``, and then the rename is flushed too. Without
    ``overwrite``, FileExistsError if ``path`` exists at the end.
    """
    folder = os.path.dirname(os.path.abspath(path))
    temporary_path = os.path.join(temporary_folder or folder, f".{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
    handle = os.open(temporary_path, CREATE_FLAGS | SAFE_FLAGS, 0o666)
    try:
        try:
            yield handle
            if flush:
                _fsync(handle)
        finally:
            os.close(handle)
        if overwrite:
            os.replace(temporary_path, path)
        else:
            _rename_to_new(temporary_path, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary_path)
        raise
    if flush and temporary_folder is None:
        flush_folder(folder)


def _rename_to_new(temporary_path: str, path: str) -> None:
    """Rename a file; FileExistsError if the new name exists."""
    try:
        os.link(temporary_path, path)
    except OSError as error:
        if error.errno not in UNSUPPORTED_LINK_ERRORS:
            raise
        os.close(os.open(path, CREATE_FLAGS | SAFE_FLAGS))  # reserves the name
        os.replace(temporary_path, path)
    else:
        os.unlink(temporary_path)


def write_all(handle: int, *parts: Buffer) -> None:
    """Write the bytes of all parts to a file descriptor."""
    for part in parts:
        remaining = memoryview(part).cast("B")
        while len(remaining):
            remaining = remaining[os.write(handle, remaining) :]
    if hasattr(os, "posix_fadvise"):  # start writing to disk now, so that a later flush is faster
        with contextlib.suppress(OSError):  # only a hint
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def open_regular(path: str) -> tuple[int, int]:
    """Open a regular file for reading without blocking; return its descriptor and size in bytes.

    NotRegularError for links, pipes and devices.
    """
    try:
        handle = os.open(path, READ_FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EMLINK):  # the path is a link or a socket
            raise NotRegularError(file_kind(os.lstat(path).st_mode)) from None
        raise
    status = os.fstat(handle)
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return handle, status.st_size
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise NotRegularError(file_kind(mode))


@contextlib.contextmanager
def atomic_file(path: Any, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Yield a new file that replaces ``path`` atomically at the end; after an error ``path`` is unchanged.

    An OSError names ``path``. Without ``overwrite``, FileExistsError if ``path`` exists at the end.
    """
    name = path_name(path)
    try:
        with atomic_write(name, overwrite=overwrite) as handle, open(handle, "wb", closefd=False) as file:
            yield file
    except OSError as error:
        if error.errno is None or not str(error.filename or PARTIAL_SUFFIX).endswith(PARTIAL_SUFFIX):
            raise
        raise OSError(error.errno, error.strerror, name) from error


def open_file(path: Any) -> BinaryIO:
    """Open a file for reading, following links; ValueError for a folder, a pipe or a device."""
    name = path_name(path)
    try:
        return os.fdopen(open_regular(os.path.realpath(name))[0], "rb")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {name}. Check the path.") from None
    except IsADirectoryError:
        raise ValueError(f"the path must be a file; got the directory {name}.") from None
    except NotRegularError as error:
        raise ValueError(f"the path must be a regular file; {name} is {error}.") from None


def require_regular_file(path: Any) -> None:
    """Raise ValueError unless the path is a regular file; a library that opens a pipe could block forever."""
    open_file(path).close()


def path_name(path: Any) -> str:
    """Return a path as a string with ``~`` expanded; TypeError for anything but a path."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"the path of a file must be a str or a Path; got {type(path).__name__}.")
    name = os.path.expanduser(os.fsdecode(path))
    if not name:
        raise ValueError("the path of a file must not be empty.")
    if "\0" in name:
        raise ValueError(f"the path of a file must not contain null characters; got {name!r}.")
    return name


def file_kind(mode: int) -> str:
    """Return the kind of a file that is not regular, for messages."""
    return FILE_KINDS.get(stat.S_IFMT(mode), "not a regular file")


def flush_file(path: str) -> None:
    """Flush the content of a file to disk; do nothing if it no longer exists."""
    _flush(path, READ_FLAGS, FileNotFoundError)


def flush_folder(path: str) -> None:
    """Flush the names in a folder to disk, where the system supports it."""
    if os.name == "posix":
        _flush(path, os.O_RDONLY, FileNotFoundError, PermissionError)


def flush_tree(files: Iterable[str], root: str) -> None:
    """Flush files below ``root`` to disk, and the folders on their paths."""
    paths = set(files)
    folders = {root}
    for path in paths:
        folder = os.path.dirname(path)
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    _flush_all(flush_file, sorted(paths))
    _flush_all(flush_folder, sorted(folders, key=len, reverse=True))


def _flush_all(flush: Callable[[str], None], paths: list[str]) -> None:
    def flush_every(step: int, first: int) -> None:
        for path in paths[first::step]:
            flush(path)

    if len(paths) <= 2:
        flush_every(1, 0)
        return
    n = min(MAX_CONCURRENT_FLUSHES, len(paths))
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(flush_every, [n] * n, range(n)))


def _flush(path: str, flags: int, *ignored_errors: type[OSError]) -> None:
    try:
        handle = os.open(path, flags)
    except ignored_errors:
        return
    try:
        _fsync(handle)
    finally:
        os.close(handle)


def _fsync(handle: int) -> None:
    """Flush a descriptor; ignore file systems without fsync for folders, or without any fsync."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in UNSUPPORTED_FSYNC_ERRORS:
            raise
