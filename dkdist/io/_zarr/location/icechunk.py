"""Locations in icechunk repositories: branches, snapshots and sessions.

An icechunk store belongs to a session, which sees one snapshot and its own changes; nothing else is visible before the
session is committed. A repository as a location reads the last snapshot of its branch "main", or a given one, and
writes with a new session. icechunk is optional and not imported: its objects are recognized by their methods.
"""

from __future__ import annotations

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
    """A repository, optionally at a snapshot, or the store of a session."""

    def __init__(self, source: Any, snapshot: str | None = None) -> None:
        self.source, self.snapshot = source, snapshot

    @property
    def label(self) -> str:
        """Name of the place in messages; the storage of a repository has no secrets in its text."""
        session = session_of(self.source)
        if session is None:
            return f"icechunk {self.source.storage}" + (f" at {self.snapshot}" if self.snapshot else "")
        return f"icechunk session at {session.snapshot_id}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IcechunkPlace) and self._identity() == other._identity()

    __hash__ = None  # type: ignore[assignment]

    def _identity(self) -> Any:
        """Return a value that is equal for copies in other processes; snapshot ids are unique."""
        session = session_of(self.source)
        if session is None:
            is_shared = "InMemory" not in str(
                self.source.storage
            )  # states of repositories in memory are all equal
            return self.source.__getstate__() if is_shared else id(self.source), self.snapshot
        return session.snapshot_id if session.read_only else id(self.source)

    def __reduce__(self) -> tuple[Any, ...]:
        session = session_of(self.source)
        if session is not None and not session.read_only:
            raise ValueError(
                f"tasks in other processes cannot write to {self.label}. Write without a Dask client of processes, or "
                "write to another location and copy it with write_sets(repository, open_sets(location))."
            )
        return IcechunkPlace, (self.source, self.snapshot)

    def open(self, *, read_only: bool) -> Store:
        """Return a store: that of the session, or that of a new session of the repository."""
        if session_of(self.source) is not None:
            store: Store = self.source
            return store
        try:
            if not read_only:
                session = self.source.writable_session(BRANCH)
            elif self.snapshot is None:
                session = self.source.readonly_session(BRANCH)
            else:
                session = self.source.readonly_session(snapshot_id=self.snapshot)
        except Exception as error:
            raise _named(
                error, f"cannot open {self.label}", "Check the repository and the snapshot"
            ) from error
        opened: Store = session.store
        return opened

    def at(self, snapshot: str) -> IcechunkPlace:
        """Return the place at a snapshot of its history."""
        session = session_of(self.source)
        if session is None:
            return IcechunkPlace(self.source, snapshot)
        if session.snapshot_id == snapshot and not session.has_uncommitted_changes:
            return self
        raise ValueError(
            f"the store of a session has one snapshot, {session.snapshot_id}; got snapshot={snapshot!r}. Pass the "
            "icechunk repository instead of the store."
        )

    def require_writable(self) -> None:
        """Raise for snapshots, and for sessions that are read-only or were committed."""
        session = session_of(self.source)
        if self.snapshot is not None:
            raise PermissionError(
                f"{self.label} is a snapshot, which is read-only. Open the repository without snapshot."
            )
        if session is not None and session.read_only:
            raise PermissionError(
                f"{self.label} is read-only: the session was opened so, or was committed. Pass the repository, or the "
                "store of a new writable session."
            )


def commit_session(session: Any, label: str, message: str) -> str:
    """Commit a session and return the id of its snapshot; `StoreFormatError` if its branch has a newer commit."""
    try:
        snapshot: str = session.commit(message)
    except Exception as error:
        if type(error).__name__ != "ConflictError":
            raise _named(
                error, f"cannot commit {label}", "Check the repository before writing again"
            ) from error
        raise StoreFormatError(
            f"another writer committed to branch {session.branch!r} of {label} after this session began. Nothing was "
            "committed. Write again, to the repository or to the store of a new writable session."
        ) from error
    return snapshot


def _named(error: Exception, what: str, advice: str) -> OSError:
    """Return an OSError with the first line of an icechunk error."""
    text = str(error).partition("\n")[0].lstrip(" x")
    return OSError(f"{what} ({type(error).__name__}: {text}). {advice}.")
