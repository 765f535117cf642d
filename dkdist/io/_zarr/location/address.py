"""Where a store lives: a local directory, a zip file, a URL, or a Zarr store object.

An address is light to pickle; `open` turns it into a Zarr store, in whichever process it is. A URL carries no
options: its credentials are found again in each process, in the environment and fsspec's configuration. A store
object travels with the options it was made with. Neither shows secrets in its label.
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
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync  # the loop that Zarr's own synchronous calls run on
from zarr.storage import FsspecStore, LocalStore, MemoryStore, StorePath, ZipStore

from dkdist.io._zarr.location.disk import DiskStore
from dkdist.io._zarr.location.exchange import restore
from dkdist.io._zarr.location.remote import RemoteStore
from dkdist.io._zarr.location.web import secrets_in, secrets_of, url_label, web_options, without_secrets
from dkdist.io._zarr.location.zipped import open_zip, require_no_zip_bomb
from dkdist.io.errors import StoreFormatError

LOCAL_STORES = (LocalStore, MemoryStore, ZipStore)  # nothing there fails and passes by itself
WEB_PREFIXES = ("http://", "https://")


@dataclass(frozen=True, repr=False)
class StoreLocation:
    """An absolute local path, a URL, or a Zarr store object."""

    place: str | Store

    @property
    def path(self) -> str | None:
        """The local directory, or None for zip files, URLs and store objects."""
        return self.place if _is_path(self.place) and not self.zipped else None

    @property
    def zipped(self) -> bool:
        """Whether this is a local zip file."""
        return _is_path(self.place) and self.place.lower().endswith(".zip") and not os.path.isdir(self.place)

    @property
    def label(self) -> str:
        """How messages and task keys name the store: without secrets."""
        if isinstance(self.place, str):
            return self.place if _is_path(self.place) else url_label(self.place)
        return without_secrets(str(self.place), self.secrets)

    @property
    def secrets(self) -> set[str]:
        """What must not be shown, wherever it turns up."""
        return secrets_in(self.place) if isinstance(self.place, str) else secrets_of(self.place)

    def __repr__(self) -> str:
        return f"Address({self.label})"

    def open(self, *, read_only: bool) -> Store:
        """A Zarr store at this address."""
        if not read_only:
            self.require_writable()
        if self.path is not None:
            if not os.path.lexists(self.path):
                restore(self.path)
            if os.path.lexists(self.path) and not os.path.isdir(self.path):
                raise StoreFormatError(
                    f"{self.path} is no directory, and a store is one: import a file first, with `dkdist import` or "
                    "import_sets"
                )
            return DiskStore(self.path, read_only=read_only)
        store = self._open_other(read_only=read_only)
        if isinstance(store, ZipStore):
            require_no_zip_bomb(store)
        return store if isinstance(store, LOCAL_STORES) else RemoteStore(store, self.label, self.secrets)

    def _open_other(self, *, read_only: bool) -> Store:
        if isinstance(self.place, Store):
            return sync(StorePath.open(self.place, "", mode=None)).store  # a zip file is opened at first use
        return open_zip(self.place) if self.zipped else _open_url(self.place, read_only=read_only)

    def signature(self, store: Store, key: str) -> Hashable:
        """Changes whenever an object of the opened store is written anew.

        On a local disk this costs one stat, for a zip file (which stays open) nothing, and elsewhere one
        request for the object, which had better be small.
        """
        folder = self.path
        if folder is None:
            return None if self.zipped else get_bytes(store, [key])[0]
        path = os.path.join(folder, key)
        found = _stat(path)
        if found is None:
            restore(folder)  # where names cannot be exchanged, there is a moment without
            found = _stat(path)
        if found is None and not os.path.exists(folder):
            raise FileNotFoundError(f"there is no store at {self.label}: {_missing_store_hint(folder)}")
        return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)

    def require_writable(self) -> None:
        """Refuse places that can only be read: zip files, web servers, store objects opened read-only."""
        if self.zipped or isinstance(self.place, ZipStore):
            raise PermissionError(
                f"{self.label} is a zip file, which is only read: write to a directory, and zip what is in it"
            )
        if isinstance(self.place, str) and self.place.startswith(WEB_PREFIXES):
            raise PermissionError(
                f"{self.label} is behind a web server, which is only read: write to where its files are"
            )
        if isinstance(self.place, Store) and self.place.read_only:
            raise PermissionError(
                f"{self.label} was opened read-only: give a store object that may be written"
            )


def as_location(store: Any) -> StoreLocation:
    """Make an address of a path, a URL (``file://`` is a local path), or a Zarr store object."""
    if isinstance(store, StoreLocation):
        return store
    if isinstance(store, LocalStore):
        return StoreLocation(os.path.abspath(os.path.expanduser(store.root)))
    if isinstance(store, Store):
        return StoreLocation(store)
    if not isinstance(store, (str, os.PathLike)):
        raise TypeError(f"a store is a path, a URL or a Zarr store object, found {type(store).__name__}")
    text = os.fspath(store)
    if not text:
        raise ValueError("the path of a store must not be empty: give a path or a URL")
    if "\0" in str(text):
        raise ValueError(f"a store cannot be called {text!r}: it holds a null character. Check the path")
    if text.startswith("file://"):
        return StoreLocation(os.path.abspath(url2pathname(urlsplit(text).path)))
    if "::" in text:
        raise ValueError(
            f"{url_label(text)} is a chain of file systems, which answers only in a loop of its own: give the "
            "last address alone, or a Zarr store object that you have made"
        )
    return StoreLocation(os.path.abspath(os.path.expanduser(text)) if _is_path(text) else text)


def get_bytes(store: Store, keys: Sequence[str]) -> list[bytes | None]:
    """The objects under some keys (None where there is none), fetched together; those of a disk by this thread."""
    if isinstance(store, DiskStore):
        return [store.read_bytes(key) for key in keys]

    async def fetch() -> list[bytes | None]:
        found = await asyncio.gather(*(store.get(key, default_buffer_prototype()) for key in keys))
        return [None if value is None else value.to_bytes() for value in found]

    return sync(fetch())


def put_bytes(store: Store, key: str, value: bytes) -> None:
    """Store one object; on a disk by this thread."""
    buffer = default_buffer_prototype().buffer.from_bytes(value)
    if isinstance(store, DiskStore):
        store.set_sync(key, buffer)
    else:
        sync(store.set(key, buffer))


def list_names(store: Store, prefix: str) -> list[str]:
    """The names directly under a prefix, sorted."""

    async def collect() -> list[str]:
        return sorted([name.rstrip("/") async for name in store.list_dir(prefix)])

    return sync(collect())


def missing_keys(store: Store, keys: Sequence[str]) -> list[str]:
    """Those keys that hold nothing."""
    if isinstance(store, DiskStore):
        return [key for key in keys if not store.is_there(key)]

    async def ask() -> list[bool]:
        return await asyncio.gather(*(store.exists(key) for key in keys))

    return [key for key, there in zip(keys, sync(ask()), strict=True) if not there]


def _is_path(place: str | Store) -> TypeGuard[str]:
    return isinstance(place, str) and "://" not in place and "::" not in place


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _missing_store_hint(path: str) -> str:
    """What to do about a store that is not there; an early version could be killed while it replaced one."""
    folder, name = os.path.split(path)
    aside = os.path.join(folder, f".{name}.replaced")
    if not os.path.isdir(aside):
        return "check the path"
    return f"check the path. An earlier version was killed while it replaced a store, which is in {aside}: move it back"


def _open_url(url: str, *, read_only: bool) -> FsspecStore:
    """The store of a URL; what a web URL asks for in its query (a signature, say) is asked for every object."""
    options: dict[str, Any] = {"use_listings_cache": False}  # others write while this process reads
    if url.startswith(WEB_PREFIXES):
        options |= web_options(url.partition(":")[0])
        url, _, query = url.partition("?")
        options |= {"params": parse_qsl(query, keep_blank_values=True)} if query else {}
    elif url.startswith(("s3://", "s3a://")):
        options["max_concurrency"] = 1  # s3fs would ask for the size first: two requests an object, or three
    return FsspecStore.from_url(url.rstrip("/"), storage_options=options, read_only=read_only)
