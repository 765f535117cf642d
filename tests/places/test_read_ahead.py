"""Reads of remote stores ahead of their use: numbers of requests, memory, replaced and damaged objects."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore, WrapperStore

import dkdist as dk
from dkdist.io._zarr.location import read_ahead

N_CHUNKS = 24


class SlowStore(WrapperStore[Any]):
    """Store whose reads take ten milliseconds; counts requests and those in flight."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.requests: list[str] = []
        self.in_flight = self.max_in_flight = 0

    def _with_store(self, store: Any) -> SlowStore:
        return SlowStore(store)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        self.requests.append(key)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        await asyncio.sleep(0.01)
        self.in_flight -= 1
        return await self._store.get(key, prototype, byte_range)

    def count(self, text: str) -> int:
        return sum(text in key for key in self.requests)


def make(n_sets: int = 24 * 256) -> tuple[SlowStore, np.ndarray]:
    """Return a store of 24 chunks of points whose borders are not borders of blocks."""
    points = np.random.default_rng(0).standard_normal((n_sets, 4, 2)).astype("f4")
    memory = MemoryStore()
    dk.write_sets(memory, points, targets=points[:, 0, 0], chunk_rows=1024)
    return SlowStore(memory), points


def fit(sets: Any) -> Any:
    rows = (
        dk.MomentEmbedding()
        .fit(dk.as_sets(np.zeros((4, 4, 2), "f4") + np.eye(4)[:, :1, None]))
        .transform(sets)
    )
    return dk.IncrementalSGDRegressor(n_epochs=2, random_state=0).fit(rows, sets.targets["y"]).coef_


def test_run_requests_each_chunk_once_per_pass_and_many_at_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(read_ahead, "MAX_READ_AHEAD_BYTES", 200_000)  # the store has 197 kB of points
    store, _ = make()
    sets = dk.open_sets(store, block_sets=200)
    expected = fit(dk.open_sets(store._store, block_sets=200))
    store.requests.clear()
    coefficients = fit(sets)
    np.testing.assert_array_equal(coefficients, expected)
    assert store.count("points/c/") <= 1.1 * 2 * N_CHUNKS
    assert store.max_in_flight >= 6  # half of the limit, in blocks that count two chunks of 8 kB each
    assert store.requests.count("zarr.json") <= 2  # not once per block


def test_small_store_is_requested_once() -> None:
    store, _ = make()
    fit(dk.open_sets(store, block_sets=200))
    assert store.count("points/c/") == N_CHUNKS


def test_kept_objects_are_limited(monkeypatch: Any) -> None:
    monkeypatch.setattr(read_ahead, "MAX_READ_AHEAD_BYTES", 40_000)
    store, _ = make()
    sets = dk.open_sets(store, block_sets=200)
    fit(sets)
    kept = [*sets._reader.store._kept.values(), *sets._reader.store._requested.values()]
    assert sum(map(read_ahead._n_bytes, kept)) <= 40_000
    assert len(kept) < N_CHUNKS / 2


def test_replaced_store_is_refused() -> None:
    store, points = make()
    sets = dk.open_sets(store)
    np.testing.assert_array_equal(sets[:10].load().points, points[:10].reshape(-1, 2))
    dk.write_sets(store._store, points + 1, targets=points[:, 0, 0], chunk_rows=1024, overwrite=True)
    with pytest.raises(dk.StoreFormatError, match=r"was replaced|differs"):
        sets[5000:].load()


def test_append_is_read_after_its_tail_replaced_a_kept_chunk() -> None:
    memory = MemoryStore()
    dk.write_sets(memory, np.zeros((300, 4, 2), "f4"), chunk_rows=1024)
    store = SlowStore(memory)
    old = dk.open_sets(store)
    assert old[290:].load().n_points == 40  # keeps the last, partial chunk
    new = dk.open_sets(memory).append(np.ones((100, 4, 2), "f4"))
    assert new.n_points == 1600
    np.testing.assert_array_equal(old[:300].load().points, np.zeros((1200, 2)))
    np.testing.assert_array_equal(dk.open_sets(store)[299:301].load().points[:, 0], np.repeat([0, 1], 4))


def test_damaged_chunk_is_named() -> None:
    store, _ = make()
    key = "points/c/7/0"
    value = asyncio.run(store._store.get(key, zarr.core.buffer.default_buffer_prototype())).to_bytes()
    damaged = zarr.core.buffer.default_buffer_prototype().buffer.from_bytes(value[:40] + b"x" + value[41:])
    asyncio.run(store._store.set(key, damaged))
    with pytest.raises(dk.StoreFormatError, match="chunk 7 of array 'points'"):
        fit(dk.open_sets(store, block_sets=200))
