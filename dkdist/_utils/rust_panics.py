"""Panics of Rust libraries as ordinary errors.

PyO3 raises them as ``PanicException``, a `BaseException`, so that ``except Exception`` lets them pass and a damaged
file ends the program. lazrs, obstore and polars are such libraries.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class RustPanicError(RuntimeError):
    """A library written in Rust has panicked, most often because of damaged input."""


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a `RustPanicError` in place of a panic; all other exceptions pass."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ != "PanicException":
            raise
        raise RustPanicError(str(error) or "the library panicked") from error
