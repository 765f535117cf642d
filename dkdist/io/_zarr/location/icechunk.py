"""Locations in icechunk repositories: branches, snapshots and sessions.

An icechunk store belongs to a session, which sees one snapshot and its own changes; nothing else is visible before the
session is committed. A repository as a location reads one snapshot, the last of its branch "main" when it was opened or
a given one, and writes with a new session. icechunk is optional and not imported: its objects are recognized by their
methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from zarr.abc.store import Store
from zarr.storage import WrapperStore

from dkdist.io.errors import StoreFormatError

BRANCH = "main"


def is_repository(place: Any) -> bool:
    """Whether an object is an icechunk repository."""
    return hasattr(place, "readonly_session") and hasattr(place, "writable_session")


def session_of(store: Any) -> Any | None:
    """Return the session of an icechunk store, also through wrappers; None for other stores."""
    while isinstance(store, WrapperStore):
        store = store._store
    session = getattr(store, "session", None)
    return session if hasattr(session, "has_uncommitted_changes") else None


class IcechunkPlace:
    """A repository, or the store of a session.

    A repository has a ``snapshot`` for its readers. It may be the last one of a repository that is also ``writable``.
    """

    def __init__(self, source: Any, snapshot: str | None = None, *, writable: bool = True) -> None:
        self.source, self.snapshot, self._writable = source, snapshot, writable

    @property
    def label(self) -> str:
        """Name of the location in messages; the text of its storage has no secrets."""
        session = session_of(self.source)
        if session is not None:
            return f"icechunk session at {session.snapshot_id}"
        return f"icechunk {self.source.storage}" + ("" if self._writable else f" at {self.snapshot}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IcechunkPlace) and self._identity() == other._identity()

    __hash__ = None  # type: ignore[assignment]

    def _identity(self) -> Any:
        """Return a value that is equal for copies in other processes; snapshot ids are unique."""
        session = session_of(self.source)
        if session is not None:
            return session.snapshot_id if session.read_only else id(self.source)
        has_copies = "InMemory" not in str(self.source.storage)
        repository = self.source.__getstate__() if has_copies else id(self.source)
        return repository, self.snapshot, self._writable

    def __reduce__(self) -> tuple[Any, ...]:
        session = session_of(self.source)
        if session is not None and not session.read_only:
            raise ValueError(
                f"tasks in other processes cannot write to {self.label}. Write without a Dask client of processes, or "
                "write to another location and copy it with write_sets(repository, open_sets(location))."
            )
        return partial(IcechunkPlace, writable=self._writable), (self.source, self.snapshot)

    def open(self, *, read_only: bool) -> Store:
        """Return a store: that of the session, or that of a new session of the repository."""
        if session_of(self.source) is not None:
            store: Store = self.source
            return store
        with _named_errors(f"cannot open {self.label}", "Check the repository and the snapshot"):
            if not read_only:
                store = self.source.writable_session(BRANCH).store
            elif self.snapshot is None:
                store = self.source.readonly_session(BRANCH).store
            else:
                store = self.source.readonly_session(snapshot_id=self.snapshot).store
        return store

    def pinned(self) -> IcechunkPlace:
        """Return this location at the snapshot that is the latest one now."""
        if session_of(self.source) is not None or not self._writable:
            return self
        with _named_errors(f"cannot open {self.label}", "Check the repository"):
            return IcechunkPlace(self.source, self.source.lookup_branch(BRANCH))

    def latest(self) -> IcechunkPlace:
        """Return this location at the snapshot that is the latest one when it is opened; the inverse of `pinned`."""
        return IcechunkPlace(self.source) if self._writable else self

    def at(self, snapshot: str) -> IcechunkPlace:
        """Return this location at a snapshot of its history, read-only."""
        session = session_of(self.source)
        if session is None:
            return IcechunkPlace(self.source, snapshot, writable=False)
        if session.snapshot_id == snapshot and not session.has_uncommitted_changes:
            return self
        raise ValueError(
            f"the store of a session has one snapshot, {session.snapshot_id}; got snapshot={snapshot!r}. Pass the "
            "icechunk repository instead of the store."
        )

    def require_writable(self) -> None:
        """Raise for snapshots, and for sessions that are read-only or were committed."""
        session = session_of(self.source)
        if not self._writable:
            raise PermissionError(
                f"{self.label} is a snapshot, which is read-only. Open the repository without snapshot."
            )
        if session is not None and session.read_only:
            raise PermissionError(
                f"{self.label} is read-only: the session was opened so, or was committed. Pass the repository, or the "
                "store of a new writable session."
            )


def commit_session(session: Any, label: str, message: str) -> None:
    """Commit a session; `StoreFormatError` if its branch has a newer commit."""
    with _named_errors(f"cannot commit {label}", "Check the repository before writing again"):
        try:
            session.commit(message)
        except Exception as error:
            if type(error).__name__ != "ConflictError":
                raise
            raise StoreFormatError(
                f"another writer committed to branch {session.branch!r} of {label} after this session began. Nothing "
                "was committed. Write again, to the repository or to the store of a new writable session."
            ) from error


@contextmanager
def _named_errors(what: str, advice: str) -> Iterator[None]:
    """Convert errors of icechunk to OSError with their first line."""
    try:
        yield
    except StoreFormatError:
        raise
    except Exception as error:
        text = str(error).partition("\n")[0].lstrip(" x")
        raise OSError(f"{what} ({type(error).__name__}: {text}). {advice}.") from error
