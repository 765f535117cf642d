"""Files that are written whole or not at all, and flushed so that a loss of power keeps them.

What is written grows in a file beside its place, made exclusively (a link or file that somebody planted under the
same name is never followed), and takes the place in one step. Only regular files are read: a pipe or a device would
keep its reader waiting, or never end.
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

if TYPE_CHECKING:
    from typing_extensions import Buffer

PARTIAL = ".partial"
AT_ONCE = 8  # flushes under way: a journal takes several in one turn
NO_FLUSHING = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}
NO_LINKS = {*NO_FLUSHING, errno.EPERM, errno.EACCES, errno.EMLINK}
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
READ = os.O_RDONLY | CAREFUL | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
}


class NotRegularError(ValueError):
    """What should be a file is a pipe, a device, a socket or a link; the message says which."""


@contextlib.contextmanager
def written_whole(
    path: str, *, beside: str | None = None, flush: bool = True, overwrite: bool = True
) -> Iterator[int]:
    """A file descriptor to write to; when the block ends its file takes the place of ``path``, flushed if asked to.

    If the block raises, nothing is left and ``path`` is as it was. ``beside`` is the folder, on the same file system,
    in which the file grows; by default that of ``path``, where the move is then flushed too. Without ``overwrite`` a
    file that exists by then is a FileExistsError, whoever made it.
    """
    folder = os.path.dirname(os.path.abspath(path))
    growing = os.path.join(beside or folder, f".{uuid.uuid4().hex}{PARTIAL}")
    handle = os.open(growing, CREATE | CAREFUL, 0o666)
    try:
        try:
            yield handle
            if flush:
                _fsync(handle)
        finally:
            os.close(handle)
        if overwrite:
            os.replace(growing, path)
        else:
            _move_without_replacing(growing, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(growing)
        raise
    if flush and beside is None:
        flush_folder(folder)


def _move_without_replacing(growing: str, path: str) -> None:
    """Rename a file; FileExistsError, and nothing done, if the other name exists."""
    try:
        os.link(growing, path)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        os.close(os.open(path, CREATE | CAREFUL))  # reserves the name
        os.replace(growing, path)
    else:
        os.unlink(growing)


def write_all(handle: int, *parts: Buffer) -> None:
    """Write all bytes to a file descriptor, one part behind the other."""
    for part in parts:
        rest = memoryview(part).cast("B")
        while len(rest):
            rest = rest[os.write(handle, rest) :]
    if hasattr(os, "posix_fadvise"):  # the disk begins now: whoever flushes waits the less
        with contextlib.suppress(OSError):  # which is an advice
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def open_regular(path: str) -> tuple[int, int]:
    """A descriptor to read a regular file, and its bytes; never waits. Links are refused, like all that is no file."""
    try:
        handle = os.open(path, READ)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EMLINK):  # a link; a socket
            raise NotRegularError(kind_of(os.lstat(path).st_mode)) from None
        raise
    found = os.fstat(handle)
    mode = found.st_mode
    if stat.S_ISREG(mode):
        return handle, found.st_size
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise NotRegularError(kind_of(mode))


@contextlib.contextmanager
def replacing(path: Any, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` in one step at the end; what fails leaves the old one, or none.

    An OSError names ``path``. Without ``overwrite`` a file that exists at the end is a FileExistsError.
    """
    name = path_name(path)
    try:
        with written_whole(name, overwrite=overwrite) as handle, open(handle, "wb", closefd=False) as file:
            yield file
    except OSError as error:
        if error.errno is None or not str(error.filename or PARTIAL).endswith(PARTIAL):
            raise
        raise OSError(error.errno, error.strerror, name) from error


def opened_file(path: Any) -> BinaryIO:
    """Open a file that a user named, by a link perhaps; ValueError for a folder, a pipe or a device."""
    name = path_name(path)
    try:
        return os.fdopen(open_regular(os.path.realpath(name))[0], "rb")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {name}: check the path") from None
    except IsADirectoryError:
        raise ValueError(f"{name} is a directory: expected a file") from None
    except NotRegularError as error:
        raise ValueError(f"{name} is {error}: expected a file") from None


def require_regular(path: Any) -> None:
    """Refuse what a user named that is no file, before a library opens it: it would wait for a pipe for ever."""
    opened_file(path).close()


def path_name(path: Any) -> str:
    """The text of a path; TypeError for anything else."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"expected the path of a file, found {type(path).__name__}: give a str or a Path")
    name = os.path.expanduser(os.fsdecode(path))
    if not name:
        raise ValueError("the path of a file must not be empty: give the name of a file")
    if "\0" in name:
        raise ValueError(f"a file cannot be called {name!r}: it holds a null character. Check the path")
    return name


def kind_of(mode: int) -> str:
    """What a file is that is no regular file, in words."""
    return KINDS.get(stat.S_IFMT(mode), "no regular file")


def flush_file(path: str) -> None:
    """Make the content of a file durable; one that is gone needs nothing."""
    _flush(path, READ, FileNotFoundError)


def flush_folder(path: str) -> None:
    """Make the names in a folder durable, where folders can be opened and flushed."""
    if os.name == "posix":
        _flush(path, os.O_RDONLY, FileNotFoundError, PermissionError)


def flush_tree(files: Iterable[str], root: str) -> None:
    """Make some files under a folder durable, and all names on the way to them."""
    paths = set(files)
    folders = {root}
    for path in paths:
        folder = os.path.dirname(path)
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    _each(flush_file, sorted(paths))
    _each(flush_folder, sorted(folders, key=len, reverse=True))


def _each(flush: Callable[[str], None], paths: list[str]) -> None:
    def some(first: int, step: int) -> None:
        for path in paths[first::step]:
            flush(path)

    if len(paths) <= 2:
        some(0, 1)
        return
    n = min(AT_ONCE, len(paths))
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(some, range(n), [n] * n))


def _flush(path: str, flags: int, *nothing_to_do: type[OSError]) -> None:
    try:
        handle = os.open(path, flags)
    except nothing_to_do:
        return
    try:
        _fsync(handle)
    finally:
        os.close(handle)


def _fsync(handle: int) -> None:
    """Flush a descriptor, except on file systems without fsync: some cannot flush folders, some nothing at all."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_FLUSHING:
            raise
