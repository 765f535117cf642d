"""Conditional replacement of one object: write only if it is unchanged since it was read.

Object stores through obstore support this (If-Match, If-None-Match), so at most one of two writers succeeds. For other
stores the object is written immediately after the check.
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
    """Error: another writer replaced the object after it was read."""


def replace_object(store: Store, key: str, value: bytes, check: Callable[[bytes | None], None]) -> None:
    """Write an object if ``check`` accepts the current content (None if missing).

    Raises the errors of ``check``, and `LeaseLostError` if the store detects a change after the check.
    """
    if isinstance(store, RemoteStore) and isinstance(store._store, ObjectStore):
        client = store._store.store
        current, condition = sync(_read_with_condition(store, client, key))
        check(current)
        if sync(_put_if(store, client, key, value, condition)):
            return
    check(get_bytes(store, [key])[0])
    put_bytes(store, key, value)


async def _read_with_condition(store: RemoteStore, client: Any, key: str) -> tuple[bytes | None, Any]:
    """Read an object and the condition for its replacement."""

    async def read() -> tuple[bytes, Any]:
        response = await client.get_async(key)
        return bytes(await response.bytes_async()), response.meta

    try:
        document, meta = await store.with_retries(f"read {key} of", read)
    except FileNotFoundError:
        return None, "create"
    return document, {name: meta[name] for name in ("e_tag", "version") if meta.get(name)}


async def _put_if(store: RemoteStore, client: Any, key: str, value: bytes, condition: Any) -> bool:
    """Write conditionally; return False if the client does not support it."""
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    async def put() -> bool:
        try:
            await client.put_async(key, value, mode=condition)
        except (AlreadyExistsError, PreconditionError):
            raise LeaseLostError from None
        except (NotImplementedError, NotSupportedError):
            return False
        return True

    return await store.without_retries(f"write {key} of", put)
