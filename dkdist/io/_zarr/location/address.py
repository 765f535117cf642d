"""Locations of stores: local directories, zip files, URLs, Zarr store objects, and icechunk repositories.

A `StoreLocation` is small to pickle; `open` creates a Zarr store in any process. Credentials of a URL come from the
environment and the configuration of fsspec of each process; a store object contains its options. Labels contain no
secrets.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard
from urllib.parse import parse_qsl, urlsplit
from urllib.request import url2pathname

from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore, MemoryStore, StorePath, ZipStore

from dkdist.io._zarr._zarr_private import default_buffer_prototype, sync
from dkdist.io._zarr.location.disk import DiskStore
from dkdist.io._zarr.location.exchange import restore
from dkdist.io._zarr.location.icechunk import IcechunkPlace, is_repository, session_of
from dkdist.io._zarr.location.remote import RemoteStore
from dkdist.io._zarr.location.web import secrets_in, secrets_of, url_label, web_options, without_secrets
from dkdist.io._zarr.location.zipped import open_zip, require_no_zip_bomb
from dkdist.io.errors import StoreFormatError

LOCAL_STORES = (LocalStore, MemoryStore, ZipStore)  # no transient failures, so no retries
WEB_PREFIXES = ("http://", "https://")


@dataclass(frozen=True, repr=False)
class StoreLocation:
    """An absolute local path, a URL, a Zarr store object, or an icechunk repository or store."""

    place: str | Store | IcechunkPlace

    @property
    def path(self) -> str | None:
        """Local directory; None for zip files, URLs and store objects."""
        return self.place if _is_path(self.place) and not self.zipped else None

    @property
    def zipped(self) -> bool:
        """Whether this is a local zip file."""
        return _is_path(self.place) and self.place.lower().endswith(".zip") and not os.path.isdir(self.place)

    @property
    def replaces_atomically(self) -> bool:
        """Whether a store stays readable until the commit of the store that replaces it."""
        if isinstance(self.place, IcechunkPlace):
            return is_repository(self.place.source)
        return _is_path(self.place)

    @property
    def label(self) -> str:
        """Name of the store in messages and task keys, without secrets."""
        if isinstance(self.place, str):
            return self.place if _is_path(self.place) else url_label(self.place)
        if isinstance(self.place, IcechunkPlace):
            return self.place.label
        return without_secrets(str(self.place), self.secrets)

    @property
    def secrets(self) -> set[str]:
        """Texts that must not appear in messages."""
        return secrets_in(self.place) if isinstance(self.place, str) else secrets_of(self.place)

    def __repr__(self) -> str:
        return f"StoreLocation({self.label})"

    def open(self, *, read_only: bool) -> Store:
        """Open a Zarr store at this location."""
        if not read_only:
            self.require_writable()
        if self.path is not None:
            if not os.path.lexists(self.path):
                restore(self.path)
            if os.path.lexists(self.path) and not os.path.isdir(self.path):
                raise StoreFormatError(
                    f"a store must be a directory; got the file {self.path}. Import files with `dkdist import` or "
                    "import_sets."
                )
            return DiskStore(self.path, read_only=read_only)
        store = self._open_other(read_only=read_only)
        if isinstance(store, ZipStore):
            require_no_zip_bomb(store)
        return store if isinstance(store, LOCAL_STORES) else RemoteStore(store, self.label, self.secrets)

    def _open_other(self, *, read_only: bool) -> Store:
        if isinstance(self.place, IcechunkPlace):
            return self.place.open(read_only=read_only)
        if isinstance(self.place, Store):
            return sync(StorePath.open(self.place, "", mode=None)).store  # opens zip files
        return open_zip(self.place) if self.zipped else _open_url(self.place, read_only=read_only)

    def signature(self, store: Store, key: str) -> Hashable:
        """Return a value that changes whenever an object is rewritten.

        Costs one stat on a local disk, nothing for an open zip file or a snapshot, and elsewhere one request for the
        whole object.
        """
        folder = self.path
        if folder is None:
            session = session_of(store)
            is_constant = self.zipped or (session is not None and session.read_only)
            return None if is_constant else get_bytes(store, [key])[0]
        path = os.path.join(folder, key)
        status = _stat(path)
        if status is None:
            restore(folder)  # a replacement in two moves may be in progress
            status = _stat(path)
        if status is None and not os.path.exists(folder):
            raise FileNotFoundError(f"there is no store at {self.label}. {_missing_store_hint(folder)}")
        return None if status is None else (status.st_ino, status.st_mtime_ns, status.st_size)

    def for_writing(self) -> StoreLocation:
        """Return the location of one writer: in an icechunk repository, the store of a new session."""
        if not isinstance(self.place, IcechunkPlace):
            return self
        self.require_writable()
        return StoreLocation(IcechunkPlace(self.place.open(read_only=False)))

    def pinned(self) -> StoreLocation:
        """Return the location for readers: in an icechunk repository, at its last snapshot."""
        return StoreLocation(self.place.pinned()) if isinstance(self.place, IcechunkPlace) else self

    def latest(self) -> StoreLocation:
        """Return the location for appends: in an icechunk repository, at the last commit of the branch."""
        return StoreLocation(self.place.latest()) if isinstance(self.place, IcechunkPlace) else self

    def at_snapshot(self, snapshot: str) -> StoreLocation:
        """Return the location at a snapshot of an icechunk repository; ValueError for other locations."""
        if not isinstance(self.place, IcechunkPlace):
            raise ValueError(
                f"snapshot must be omitted for {self.label}, which has no history; got {snapshot!r}. Pass an icechunk "
                "repository to read its snapshots."
            )
        return StoreLocation(self.place.at(snapshot))

    def require_writable(self) -> None:
        """Raise for locations without writable objects: zip files, web servers, read-only store objects."""
        if isinstance(self.place, IcechunkPlace):
            self.place.require_writable()
        if self.zipped or isinstance(self.place, ZipStore):
            raise PermissionError(
                f"{self.label} is a zip file, which is written as a whole. Pass the path of a zip file to write or "
                "append sets; write features to a directory and zip its content."
            )
        if isinstance(self.place, str) and self.place.startswith(WEB_PREFIXES):
            raise PermissionError(
                f"{self.label} is on a web server, which is read-only. Write to the storage behind it."
            )
        if isinstance(self.place, Store) and self.place.read_only:
            raise PermissionError(f"{self.label} was opened read-only. Pass a writable store object.")


def as_location(store: Any) -> StoreLocation:
    """Convert a path, a URL (``file://`` is a local path) or a Zarr store object to a location."""
    if isinstance(store, StoreLocation):
        return store
    if isinstance(store, LocalStore):
        return StoreLocation(os.path.abspath(os.path.expanduser(store.root)))
    if is_repository(store) or session_of(store) is not None:
        return StoreLocation(IcechunkPlace(store))
    if isinstance(store, Store):
        return StoreLocation(store)
    if not isinstance(store, (str, os.PathLike)):
        raise TypeError(
            "store must be a path, a URL, a Zarr store object or an icechunk repository; got "
            f"{type(store).__name__}."
        )
    text = os.fspath(store)
    if not text:
        raise ValueError("store must be a path or a URL; got an empty string.")
    if "\0" in str(text):
        raise ValueError(f"store must not contain null characters; got {text!r}.")
    if text.startswith("file://"):
        return StoreLocation(os.path.abspath(url2pathname(urlsplit(text).path)))
    if "::" in text:
        raise ValueError(
            f"store must not be a chain of file systems; got {url_label(text)}. Pass the last URL alone, or a Zarr "
            "store object."
        )
    return StoreLocation(os.path.abspath(os.path.expanduser(text)) if _is_path(text) else text)


def get_bytes(store: Store, keys: Sequence[str]) -> list[bytes | None]:
    """Read objects concurrently, None for missing ones; on a disk in the calling thread."""
    if isinstance(store, DiskStore):
        return [store.read_bytes(key) for key in keys]

    async def fetch() -> list[bytes | None]:
        values = await asyncio.gather(*(store.get(key, default_buffer_prototype()) for key in keys))
        return [None if value is None else value.to_bytes() for value in values]

    return sync(fetch())


def put_bytes(store: Store, key: str, value: bytes) -> None:
    """Write one object; on a disk in the calling thread."""
    buffer = default_buffer_prototype().buffer.from_bytes(value)
    if isinstance(store, DiskStore):
        store.set_sync(key, buffer)
    else:
        sync(store.set(key, buffer))


def list_names(store: Store, prefix: str) -> list[str]:
    """List the names directly under a prefix, sorted."""

    async def collect() -> list[str]:
        return sorted([name.rstrip("/") async for name in store.list_dir(prefix)])

    return sync(collect())


def missing_keys(store: Store, keys: Sequence[str]) -> list[str]:
    """Return the keys without an object."""
    if isinstance(store, DiskStore):
        return [key for key in keys if not store.is_there(key)]

    async def check() -> list[bool]:
        return await asyncio.gather(*(store.exists(key) for key in keys))

    return [key for key, exists in zip(keys, sync(check()), strict=True) if not exists]


def _is_path(place: str | Store | IcechunkPlace) -> TypeGuard[str]:
    return isinstance(place, str) and "://" not in place and "::" not in place


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _missing_store_hint(path: str) -> str:
    """Return a hint for a missing store, which an early version may have moved away before it was killed."""
    folder, name = os.path.split(path)
    replaced = os.path.join(folder, f".{name}.replaced")
    if not os.path.isdir(replaced):
        return "Check the path."
    return f"Check the path. An earlier version was killed while it replaced the store; move {replaced} back."


def _open_url(url: str, *, read_only: bool) -> FsspecStore:
    """Open the store of a URL; the query of a web URL is added to every request."""
    options: dict[str, Any] = {"use_listings_cache": False}  # other processes may write
    if url.startswith(WEB_PREFIXES):
        options |= web_options(url.partition(":")[0])
        url, _, query = url.partition("?")
        options |= {"params": parse_qsl(query, keep_blank_values=True)} if query else {}
    elif url.startswith(("s3://", "s3a://")):
        # otherwise s3fs requests the size first: two or three requests per object
        options["max_concurrency"] = 1
    return FsspecStore.from_url(url.rstrip("/"), storage_options=options, read_only=read_only)
