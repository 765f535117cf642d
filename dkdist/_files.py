"""Files of this machine: read only if they are files, and replaced whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO


def open_regular(path: Any) -> BinaryIO:
    """Open a file for reading; ValueError for what is none: a pipe or a device could make a reader wait for ever."""
    name = path_name(path)
    try:
        handle = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {name}: check the path") from None
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    kind = "a directory" if stat.S_ISDIR(mode) else "a pipe, socket or device"
    raise ValueError(f"{name} is {kind}: expected a file")


@contextmanager
def replacing(path: Any) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` in one step at the end; what fails leaves the old one, or none.

    It is written beside, under a name that nobody can have planted a link at, and flushed to the disk.
    """
    target = path_name(path)
    beside = f"{target}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
        _flush_directory(os.path.dirname(os.path.abspath(target)))
    finally:
        _remove(beside)


def path_name(path: Any) -> str:
    """The text of a path; TypeError for anything else."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"expected the path of a file, found {type(path).__name__}: give a str or a Path")
    name = os.fsdecode(path)
    if "\0" in name:
        raise ValueError(f"a file cannot be called {name!r}: it holds a null character. Check the path")
    return name


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _flush_directory(path: str) -> None:
    """Make a move itself durable, where directories can be opened."""
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
