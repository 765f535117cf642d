"""Wrapped stores: every read and write of Zarr goes through `get` and `set`."""

import asyncio

import numpy as np
import pytest
import zarr
from zarr.abc.store import RangeByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore, WrapperStore

import dkdist as dk
from dkdist.io._zarr.location.remote import AsyncStoreWrapper

CHANGES_NO_OBJECT = {
    "clear", "close", "delete", "delete_dir", "exists", "is_empty", "list", "list_dir", "list_prefix", "open",
    "read_only", "supports_consolidated_metadata", "supports_deletes", "supports_listing", "supports_partial_writes",
    "supports_writes", "with_read_only", "_check_writable", "_ensure_open", "_is_open", "_open", "_with_store",
}  # fmt: skip
OVERRIDDEN = {"get", "set", "set_if_not_exists"}  # what subclasses have to say
BUFFERS = default_buffer_prototype()


class RecordingStore(AsyncStoreWrapper):
    def __init__(self, store):
        super().__init__(store)
        self.seen = []

    async def get(self, key, prototype, byte_range=None):
        self.seen.append((key, byte_range))
        if key == "broken":
            raise ValueError("this one is broken")
        return await self._store.get(key, prototype, byte_range)

    async def set(self, key, value):
        self.seen.append((key, None))
        await self._store.set(key, value)


def test_every_store_method_of_zarr_is_covered():
    ways = {name for name in vars(WrapperStore) if not name.startswith("__")} - {"_abc_impl", "_store"}
    ways -= {name for name in ways if name.startswith("_abc") or name in ("_is_protocol", "_store")}
    assert ways - CHANGES_NO_OBJECT - OVERRIDDEN - set(vars(AsyncStoreWrapper)) == set()


def test_partial_and_bulk_requests_go_through_get_and_set():
    store = RecordingStore(MemoryStore())
    data = BUFFERS.buffer.from_bytes(bytes(range(100)))
    parts = [RangeByteRequest(0, 10), RangeByteRequest(20, 30)]

    async def use():
        await store._set_many([("a", data), ("b", data)])
        many = [(key, value.to_bytes()) async for key, value in store._get_many([("a", BUFFERS, None)])]
        return many, await store.get_partial_values(BUFFERS, [("b", part) for part in parts])

    many, values = asyncio.run(use())
    assert many == [("a", bytes(range(100)))]
    assert [value.to_bytes() for value in values] == [bytes(range(10)), bytes(range(20, 30))]
    assert [key for key, _ in store.seen] == ["a", "b", "a", "b", "b"]


@pytest.mark.skipif(
    not hasattr(zarr.abc.store.Store, "get_ranges"), reason="Zarr before 3.4 reads each part alone"
)
def test_ranges_go_through_get_and_keep_their_errors():
    store = RecordingStore(MemoryStore())
    data = BUFFERS.buffer.from_bytes(bytes(range(100)))
    parts = [RangeByteRequest(0, 10), RangeByteRequest(20, 30)]

    async def read(key):
        return dict(
            [pair async for group in store.get_ranges(key, parts, prototype=BUFFERS) for pair in group]
        )

    async def use():
        await store.set("a", data)
        return await read("a")

    result = asyncio.run(use())
    assert [result[k].to_bytes() for k in range(2)] == [bytes(range(10)), bytes(range(20, 30))]
    assert len(store.seen) > 1
    with pytest.raises(ValueError, match="broken"):
        asyncio.run(read("broken"))
    with pytest.raises(BaseExceptionGroup) as missing:
        asyncio.run(read("missing"))
    assert missing.group_contains(FileNotFoundError)


@pytest.mark.parametrize("call", ["get_sync", "delete_sync"])
def test_synchronous_access_is_refused(call):
    with pytest.raises(NotImplementedError, match="without an event loop"):
        getattr(RecordingStore(MemoryStore()), call)("a")
    with pytest.raises(NotImplementedError, match="without an event loop"):
        RecordingStore(MemoryStore()).set_sync("a", BUFFERS.buffer.from_bytes(b"1"))


def test_an_exchanged_chunk_of_a_shard_is_detected_in_bulk_reads():
    rng = np.random.default_rng(0)
    stores = [MemoryStore(), MemoryStore()]
    for store in stores:
        dk.write_sets(store, list(rng.normal(size=(8, 16, 2))), chunk_rows=4, shards=16)
    key = next(k for k in stores[0]._store_dict if k.startswith("points/c/1"))
    stores[0]._store_dict[key] = stores[1]._store_dict[key]
    with pytest.raises(dk.StoreFormatError, match="differs from the committed object"):
        dk.open_sets(stores[0])[1:3].load()
