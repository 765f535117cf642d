"""Where a store lives: a local path, a URL, or a Zarr store object.

An address is light to pickle and cheap to compare; `open` turns it into a Zarr store, in whichever process it
is.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync  # the loop that Zarr's own synchronous calls run on
from zarr.storage import FsspecStore, LocalStore, StorePath


@dataclass(frozen=True)
class Address:
    """An absolute local path, a URL, or a Zarr store object."""

    place: str | Store

    @property
    def path(self) -> str | None:
        """The local directory, or None for URLs and store objects."""
        return self.place if isinstance(self.place, str) and "://" not in self.place else None

    @property
    def label(self) -> str:
        """How messages name the store."""
        return str(self.place)

    @property
    def key(self) -> Hashable:
        """Equal for equal places; a store object is known by identity, so its holder must keep it alive."""
        return self.place if isinstance(self.place, str) else id(self.place)

    def open(self, *, read_only: bool) -> Store:
        """A Zarr store at this address."""
        if isinstance(self.place, Store):
            return sync(StorePath.open(self.place, "", mode=None)).store  # a zip file is opened at first use
        if self.path is not None:
            return LocalStore(self.path, read_only=read_only)
        return FsspecStore.from_url(self.place, read_only=read_only)


def as_address(store: Any) -> Address:
    """Make an address of a path, a URL (``file://`` is a local path), or a Zarr store object."""
    if isinstance(store, Address):
        return store
    if isinstance(store, LocalStore):
        return Address(os.path.abspath(store.root))
    if isinstance(store, Store):
        return Address(store)
    if not isinstance(store, (str, os.PathLike)) or not os.fspath(store):
        raise TypeError(
            f"a store is a path, a URL or a Zarr store object, found {type(store).__name__}: {store!r}"
        )
    text = os.fspath(store)
    if text.startswith("file://"):
        return Address(os.path.abspath(url2pathname(urlsplit(text).path)))
    return Address(text if "://" in text else os.path.abspath(text))


def get_bytes(store: Store, keys: Sequence[str]) -> list[bytes | None]:
    """The objects under some keys (None where there is none), fetched together."""

    async def fetch() -> list[bytes | None]:
        found = await asyncio.gather(*(store.get(key, default_buffer_prototype()) for key in keys))
        return [None if value is None else value.to_bytes() for value in found]

    return sync(fetch())


def put_bytes(store: Store, key: str, value: bytes) -> None:
    """Store one object."""
    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(value)))


def list_names(store: Store, prefix: str) -> list[str]:
    """The names directly under a prefix, sorted."""

    async def collect() -> list[str]:
        return sorted([name.rstrip("/") async for name in store.list_dir(prefix)])

    return sync(collect())


def missing_keys(store: Store, keys: Sequence[str]) -> list[str]:
    """Those keys that hold nothing."""

    async def ask() -> list[bool]:
        return await asyncio.gather(*(store.exists(key) for key in keys))

    return [key for key, there in zip(keys, sync(ask()), strict=True) if not there]
