"""Standard output and error that are closed, full, or whose encoding lacks characters."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, cast


class _CheckedOutput:
    """Standard output that stores its first error: unbuffered streams raise it once, and argparse discards it."""

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
        sys.stderr = _open_null_stream()
    try:
        if stdout is None:
            yield
            return
        sys.stdout = cast(TextIO, _CheckedOutput(stdout))
        with _escape_unencodable(stdout):
            yield
    finally:
        current_stderr, sys.stdout, sys.stderr = sys.stderr, stdout, stderr
        if stderr is None:
            current_stderr.close()
        else:
            try:
                stderr.flush()
            except OSError:
                _redirect_to_null(stderr)


@contextlib.contextmanager
def _escape_unencodable(stream: Any) -> Iterator[None]:
    """Escape characters that a stream cannot encode, instead of failing after the work."""
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


def _open_null_stream() -> TextIO:
    """Open a stream that discards text, above descriptor 2: otherwise the next opened file gets descriptor 2."""
    handle = os.open(os.devnull, os.O_WRONLY)
    while handle <= 2:
        handle = os.open(os.devnull, os.O_WRONLY)
    return os.fdopen(handle, "w")


def output_failure() -> OSError | None:
    """Flush standard output and return its first error, if any; later output is discarded."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    failure: OSError | None = getattr(sys.stdout, "failure", None)
    if failure is not None:
        _redirect_to_null(sys.stdout)
    return failure


def _redirect_to_null(stream: TextIO) -> None:
    """Discard the buffer of a stream; otherwise Python fails when it flushes the stream at exit."""
    with contextlib.suppress(OSError, ValueError):  # streams without a descriptor are not flushed
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def has_reader(failure: OSError | None) -> bool:
    """Return whether standard output is still read; programs such as head close a pipe early."""
    return failure is None or failure.errno not in (errno.EPIPE, errno.ESHUTDOWN)


def require_encodable(option: str, texts: Iterable[str]) -> None:
    """Raise ValueError for texts that the encoding of standard output cannot represent."""
    encoding = getattr(sys.stdout, "encoding", None)
    if encoding is None:
        return
    for text in texts:
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            raise ValueError(
                f"{option} is standard output, whose encoding {encoding} cannot represent {text[:80]!a}. Set "
                f"PYTHONIOENCODING=utf-8, or pass a file to {option.split()[0]}"
            ) from None
