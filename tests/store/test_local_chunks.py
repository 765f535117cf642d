"""Local stores are read without Zarr: same values, each shared chunk is decoded once, no stale data."""

import os
import signal
import threading

import numpy as np
import pytest
import zarr

import dkdist as dk
from dkdist._numba.points import all_finite
from dkdist.io import StoreFormatError, open_sets, write_sets
from dkdist.io._zarr import local_chunks
from dkdist.io._zarr.local_chunks import CHUNK_CACHE, ChunkCache

from .samples import assert_same_sets, random_sets

SIZES = [30, 11, 64, 9, 40, 70, 21, 3, 16, 48]


@pytest.fixture
def decoded_lengths(monkeypatch):
    """Return a list that collects the lengths of chunks decoded without Zarr."""
    lengths, decompress = [], local_chunks.decompress

    def noted(data, chunk):
        lengths.append(len(chunk))
        return decompress(data, chunk)

    monkeypatch.setattr(local_chunks, "decompress", noted)
    return lengths


@pytest.fixture
def forbid_zarr_reads(monkeypatch):
    """Return a function that makes array reads through Zarr fail; opening a store still uses Zarr."""

    def refuse(self, key):
        raise AssertionError(f"Zarr was asked for {key}")

    return lambda: monkeypatch.setattr(zarr.Array, "__getitem__", refuse)


@pytest.mark.parametrize("shards", [None, 64])
@pytest.mark.parametrize("weights", [None, (), (3,)])
def test_sets_equal_those_read_by_zarr(tmp_path, shards, weights, forbid_zarr_reads):
    sets = random_sets(SIZES, 2, weights)
    write_sets(tmp_path / "s", sets, np.arange(10), chunk_rows=16, shards=shards)
    group = zarr.open_group(tmp_path / "s", mode="r")
    points = group["points"][:]
    store = open_sets(tmp_path / "s")
    forbid_zarr_reads()
    np.testing.assert_array_equal(store.load().points, points)
    for a in range(10):
        for b in range(a + 1, 11):
            assert_same_sets(store[a:b].points_alone(), sets[a:b])
    assert_same_sets(store[[7, 2, 2, 9]].points_alone(), sets[[7, 2, 2, 9]])
    np.testing.assert_array_equal(store[3:7].targets["y"], np.arange(3, 7))


@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_codes_are_read_without_zarr(tmp_path, dtype, forbid_zarr_reads):
    codes = dk.SampleSets(np.random.default_rng(0).integers(0, 200, (90, 1)).astype(dtype), [0, 20, 55, 90])
    store = write_sets(tmp_path / "s", codes, chunk_rows=32)
    forbid_zarr_reads()
    assert_same_sets(store.points_alone(), codes)


@pytest.mark.parametrize("order", [list(range(10)), [4, 8, 0, 9, 2, 7, 1, 3, 6, 5]])
def test_blocks_that_share_a_chunk_decode_it_once(tmp_path, decoded_lengths, order):
    sets = random_sets(SIZES, 2)
    store = write_sets(tmp_path / "s", sets, chunk_rows=16)
    decoded_lengths.clear()
    for i in order:
        assert_same_sets(store[i : i + 1].points_alone(), sets[i : i + 1])
    n_chunks = -(-sum(SIZES) // 16)
    assert decoded_lengths == [16] * n_chunks


def test_concurrent_threads_read_correct_sets(tmp_path):
    sets = random_sets([100] * 64, 2)
    store = write_sets(tmp_path / "s", sets, chunk_rows=256)
    result, order = {}, np.random.default_rng(0).permutation(64)

    def read(mine):
        for i in mine:
            result[int(i)] = store[int(i) : int(i) + 1].points_alone()

    threads = [threading.Thread(target=read, args=(order[t::4],)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(64):
        assert_same_sets(result[i], sets[i : i + 1])


def test_no_stale_chunks_after_an_append_or_a_replacement(tmp_path):
    sets, others = random_sets(SIZES, 2), random_sets(SIZES, 2, seed=1)
    old = write_sets(tmp_path / "s", sets[:3], chunk_rows=64)
    assert_same_sets(old[1:3].points_alone(), sets[1:3])
    new = old.append(sets[3:])
    assert_same_sets(new[1:4].points_alone(), sets[1:4])
    assert_same_sets(old.points_alone(), sets[:3])
    write_sets(tmp_path / "s", others, overwrite=True, chunk_rows=64)
    with pytest.raises(StoreFormatError, match="was replaced"):
        old[1:3].points_alone()
    assert_same_sets(open_sets(tmp_path / "s")[1:4].points_alone(), others[1:4])


def test_values_that_are_not_finite_are_named(tmp_path):
    """The values were written and committed without validation; all checksums match."""
    points = np.random.default_rng(0).standard_normal((40, 2)).astype("f4")
    points[37, 1] = np.inf
    write_sets(tmp_path / "s", dk.SampleSets._trusted(points, np.array([0, 20, 40])), chunk_rows=16)
    with pytest.raises(StoreFormatError, match=r"not finite in 1 rows from row 37 .*set 1"):
        open_sets(tmp_path / "s").points_alone()


def test_all_finite_detects_every_nonfinite_value():
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 3, 4, 7, 64, 1001):
        for dtype in (np.float32, np.float64):
            x = rng.standard_normal((n, 3)).astype(dtype)
            assert all_finite(x)
            assert all_finite(np.full((n, 3), np.finfo(dtype).max, dtype))  # although their sum overflows
            for bad in (np.nan, np.inf, -np.inf):
                for place in range(0, x.size, max(1, x.size // 7)):
                    y = x.copy()
                    y.flat[place] = bad
                    assert not all_finite(y)
            if n > 1:
                x[0, 0], x[-1, 2] = np.inf, -np.inf
                assert not all_finite(x)


def test_the_chunk_cache_is_bounded_and_drops_used_chunks():
    cache, chunk = ChunkCache(max_bytes=100), np.zeros(10, np.float32)
    for k in range(4):
        cache.put(k, chunk, 8)
    assert [cache.take(k, 1) is chunk for k in range(4)] == [False, False, True, True]
    assert cache.take(2, 7) is chunk
    assert cache.take(2, 1) is None  # all rows were used
    cache.put(5, chunk, 8)
    assert cache.take(3, 1) is chunk  # not evicted
    cache.put(6, np.zeros(100, np.float32), 8)
    assert cache.take(6, 1) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of POSIX")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_reads_while_its_parent_holds_the_lock(tmp_path):
    sets = random_sets(SIZES, 2)
    store = write_sets(tmp_path / "s", sets, chunk_rows=64)
    store[:1].points_alone()
    with CHUNK_CACHE._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # kill a deadlocked child
            os._exit(0 if len(store[1:3].points_alone()) == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
