"""Replacing one object only if it is still the one that was looked at.

Object stores that are reached through obstore do this by themselves (If-Match, If-None-Match), so that of two
writers at most one succeeds, whatever happens between looking and writing. Elsewhere the object is written right
after it was looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zarr.abc.store import Store
from zarr.storage import ObjectStore

from dkdist.io._zarr._zarr_private import sync
from dkdist.io._zarr.location.address import get_bytes, put_bytes
from dkdist.io._zarr.location.remote import RemoteStore


class LeaseLostError(Exception):
    """Another writer replaced the object between looking and writing."""


def replace_object(store: Store, key: str, value: bytes, check: Callable[[bytes | None], None]) -> None:
    """Store an object after `check` was content with what is there (None: nothing).

    Raises what `check` raises, and `LeaseLostError` if the store saw that what is there changed after the check.
    """
    if isinstance(store, RemoteStore) and isinstance(store._store, ObjectStore):
        client = store._store.store
        found, condition = sync(_read_with_condition(store, client, key))
        check(found)
        if sync(_put_if(store, client, key, value, condition)):
            return
    check(get_bytes(store, [key])[0])
    put_bytes(store, key, value)


async def _read_with_condition(store: RemoteStore, client: Any, key: str) -> tuple[bytes | None, Any]:
    """What is there, and the condition under which it is still that."""

    async def look() -> tuple[bytes, Any]:
        found = await client.get_async(key)
        return bytes(await found.bytes_async()), found.meta

    try:
        document, meta = await store.tried(f"read {key} of", look)
    except FileNotFoundError:
        return None, "create"
    return document, {name: meta[name] for name in ("e_tag", "version") if meta.get(name)}


async def _put_if(store: RemoteStore, client: Any, key: str, value: bytes, condition: Any) -> bool:
    """Whether the client knows conditional writes, and so has written."""
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    async def put() -> bool:
        try:
            await client.put_async(key, value, mode=condition)
        except (AlreadyExistsError, PreconditionError):
            raise LeaseLostError from None
        except (NotImplementedError, NotSupportedError):
            return False
        return True

    return await store.once(f"write {key} of", put)
