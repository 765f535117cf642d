"""The one error of damaged or foreign stores, and the door through which every low-level error becomes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

RESTORE = "The data is damaged: restore the store from a copy, or write it again"


class StoreFormatError(ValueError):
    """A store is no dkdist store, is newer than this library, or is damaged; the message says where."""


@contextmanager
def decoding(what: str, remedy: str = RESTORE) -> Iterator[None]:
    """Turn what a codec or parser raises into `StoreFormatError`; what the system raises passes unchanged."""
    try:
        yield
    except (OSError, MemoryError, StoreFormatError):
        raise
    except Exception as error:
        raise StoreFormatError(
            f"{what} cannot be read ({type(error).__name__}: {error}). {remedy}"
        ) from error
