"""A Zarr store around another one, through whose `get` and `set` everything goes.

Zarr's own wrapper hands every other way to read and write on to the store inside: several ranges of an object at once,
many objects at once, and all of it without an event loop (each since another version of Zarr). What a subclass checks,
records or tries again in `get` and `set` would be passed by.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import WrapperStore


class Wrapped(WrapperStore[Store]):
    """The store inside, seen through `get` and `set` alone."""

    _supports_sync_io = False

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Several parts of objects."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def get_ranges(
        self, key: str, byte_ranges: Sequence[ByteRequest | None], **options: Any
    ) -> AsyncIterator[Sequence[tuple[int, Buffer | None]]]:
        """Several parts of one object, as `Store` reads them (neighbours at once); an error comes out as it is.

        An object that is not there comes out as Zarr expects it, in a group of errors.
        """
        given = {name: value for name, value in options.items() if value is not None}
        ranges: Any = Store
        try:
            async for parts in ranges.get_ranges(self, key, byte_ranges, **given):
                yield parts
        except BaseExceptionGroup as errors:
            _, others = errors.split(FileNotFoundError)
            if others is None:
                raise
            raise others.exceptions[0] from None

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        for key, prototype, part in requests:
            yield key, await self.get(key, prototype, part)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        await asyncio.gather(*(self.set(key, value) for key, value in values))

    def get_sync(self, key: str, **options: Any) -> Buffer | None:
        """Refused: only `get` is there."""
        raise NotImplementedError(f"{self} is not read without an event loop")

    def set_sync(self, key: str, value: Buffer) -> None:
        """Refused: only `set` is there."""
        raise NotImplementedError(f"{self} is not written without an event loop")

    def delete_sync(self, key: str) -> None:
        """Refused: only `delete` is there."""
        raise NotImplementedError(f"{self} is not written without an event loop")
