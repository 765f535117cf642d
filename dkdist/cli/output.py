"""Standard output and error of a command: closed, full, or of an encoding that lacks characters.

Checks of the places that a command writes to, before any work: errors name the option.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, cast

from dkdist._utils.files import CAREFUL, CREATE, PARTIAL, kind_of, write_all
from dkdist.io._zarr.location.address import as_address
from dkdist.io._zarr.location.exchange import hidden_prefix

PROBE_BYTES = 2**16  # a full disk has less than that, and so has a used up quota
TOKEN_CHARACTERS = 32  # of the hidden folder in which a store grows


def require_output_file(option: str, path: str, *, overwrite: bool) -> None:
    """Refuse a file that could not be written, or that exists and must not be replaced."""
    folder = os.path.dirname(path) or os.curdir
    if os.path.isdir(path) or not os.path.isdir(folder):
        raise ValueError(f"{option} {path} cannot be written: expected a file in a directory that is there")
    if os.path.lexists(path):
        if not overwrite:
            raise FileExistsError(f"{option} {path} is there already: give --overwrite, or another name")
        if not os.path.isfile(path) and os.path.exists(path):
            raise ValueError(f"{option} {path} is {kind_of(os.stat(path).st_mode)}: expected a file")
    _require_writable(option, path, folder, path)


def require_output_folder(option: str, path: str) -> None:
    """Refuse a folder in which no file could be written."""
    _require_writable(option, path, _nearest_folder(option, path, path), path)


def require_output_store(option: str, store: str, *, append: bool = False, staged: bool = True) -> None:
    """Refuse a local store that could not be written; ``staged`` ones grow in a hidden folder with a longer name."""
    path = as_address(store).path
    if path is None:
        return
    path = os.path.realpath(path)
    hidden = f"{hidden_prefix(path)}{'0' * TOKEN_CHARACTERS}" if staged and not append else path
    folder = path if append else os.path.dirname(path)
    _require_writable(option, store, _nearest_folder(option, store, folder), hidden)


def _nearest_folder(option: str, shown: str, path: str) -> str:
    """The folder itself, or the nearest one above it that exists."""
    path = os.path.abspath(path)
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise NotADirectoryError(f"{option} {shown} cannot be written: {path} is not a directory")
    return path


def _require_writable(option: str, shown: str, folder: str, longest_name: str) -> None:
    """Write a probe file into the folder and remove it; refuse names that are too long for it."""
    probe = os.path.join(folder, f".{uuid.uuid4().hex}{PARTIAL}")
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(longest_name)
        handle = os.open(probe, CREATE | CAREFUL, 0o666)
        try:
            write_all(handle, bytes(PROBE_BYTES))
        finally:
            os.close(handle)
            os.unlink(probe)
    except OSError as error:
        raise type(error)(f"{option} {shown} cannot be written: {error.strerror or error}") from error


class _CheckedOutput:
    """Standard output that remembers its first error: unbuffered streams raise it once, and argparse discards it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self.failure = self.failure or error
            raise

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self.failure = self.failure or error
            raise


@contextlib.contextmanager
def usable_streams() -> Iterator[None]:
    """Discard messages if standard error is closed, and escape what standard output cannot encode."""
    stdout, stderr = sys.stdout, sys.stderr
    if stderr is None:
        sys.stderr = _discarding()
    try:
        if stdout is None:
            yield
            return
        sys.stdout = cast(TextIO, _CheckedOutput(stdout))
        with _escaping(stdout):
            yield
    finally:
        used, sys.stdout, sys.stderr = sys.stderr, stdout, stderr
        if stderr is None:
            used.close()
        else:
            try:
                stderr.flush()
            except OSError:
                _discard(stderr)


@contextlib.contextmanager
def _escaping(stream: Any) -> Iterator[None]:
    """Write characters that a stream cannot encode as escapes, instead of failing after the work."""
    errors = getattr(stream, "errors", None)
    if errors is None or not hasattr(stream, "reconfigure"):
        yield
        return
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            stream.reconfigure(errors=errors)


def _discarding() -> TextIO:
    """A stream that discards text, above descriptor 2: otherwise the next opened file would get standard error's."""
    handle = os.open(os.devnull, os.O_WRONLY)
    while handle <= 2:
        handle = os.open(os.devnull, os.O_WRONLY)
    return os.fdopen(handle, "w")


def output_failure() -> OSError | None:
    """Flush standard output; its first error, if it could not be written. It is discarded from then on."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    failure: OSError | None = getattr(sys.stdout, "failure", None)
    if failure is not None:
        _discard(sys.stdout)
    return failure


def _discard(stream: TextIO) -> None:
    """Discard what a stream still holds, lest Python fails when it flushes the stream at exit."""
    with contextlib.suppress(OSError, ValueError):  # streams without a descriptor are not flushed
        discarding = os.open(os.devnull, os.O_WRONLY)
        os.dup2(discarding, stream.fileno())
        os.close(discarding)


def has_reader(failure: OSError | None) -> bool:
    """Whether somebody still reads standard output; programs such as head close a pipe when they have enough."""
    return failure is None or failure.errno not in (errno.EPIPE, errno.ESHUTDOWN)


def require_encodable(option: str, texts: Iterable[str]) -> None:
    """Refuse texts that the encoding of standard output cannot hold."""
    encoding = getattr(sys.stdout, "encoding", None)
    if encoding is None:
        return
    for text in texts:
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            raise ValueError(
                f"{option} is standard output, whose encoding {encoding} cannot hold {text[:80]!a}: set "
                f"PYTHONIOENCODING=utf-8, or give {option.split()[0]} the name of a file"
            ) from None
