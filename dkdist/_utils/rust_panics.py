"""Panics of Rust libraries (lazrs, obstore, polars) as ordinary errors.

PyO3 raises them as ``PanicException``, a `BaseException` that ``except Exception`` does not catch, so that a damaged
file would end the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class RustPanicError(RuntimeError):
    """Error for a panic of a Rust library, usually caused by damaged input."""


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Convert panics into `RustPanicError`; other exceptions pass."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ != "PanicException":
            raise
        raise RustPanicError(str(error) or "the library panicked") from error
