"""Bounds of blocks, rows of lazy arrays, and filling of arrays on local threads."""

import itertools

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdist._runtime.arrays import block_bounds, fill_in_memory, take_rows
from dkdist._runtime.blocks import MAX_BLOCK_BYTES, MAX_BLOCK_SETS, MIN_SETS_FOR_LARGE_BLOCKS

MIB = 2**20


@given(
    sizes=st.lists(st.integers(1, 4_000_000), min_size=1, max_size=60),
    point_bytes=st.sampled_from([4, 8, 64]),
    row_bytes=st.sampled_from([0, 40, 20_000, 3 * MIB, 100 * MIB]),
)
def test_blocks_are_whole_sets_within_limits(sizes, point_bytes, row_bytes):
    sizes = np.array(sizes)
    bounds = block_bounds(sizes, point_bytes, row_bytes)
    assert (bounds[0], bounds[-1]) == (0, len(sizes))
    assert (np.diff(bounds) >= 1).all()
    for a, b in itertools.pairwise(bounds):
        if b - a > 1:
            assert sizes[a:b].sum() * point_bytes <= MAX_BLOCK_BYTES
            assert (b - a) * row_bytes <= MAX_BLOCK_BYTES
    # no block has space for the next set
    for a, b in itertools.pairwise(bounds[:-1]):
        too_many = b - a == MAX_BLOCK_SETS or (b - a + 1) * row_bytes > MAX_BLOCK_BYTES
        assert too_many or sizes[a : b + 1].max() * (b - a + 1) * point_bytes > MAX_BLOCK_BYTES


def test_number_of_small_sets_per_block_is_limited():
    assert np.diff(block_bounds(np.ones(5000, int), 8, 400)).tolist() == [1024] * 4 + [904]
    assert np.diff(block_bounds(np.ones(MIN_SETS_FOR_LARGE_BLOCKS - 1, int), 8, 400)).tolist() == [
        1024
    ] * 63 + [1023]
    assert np.diff(block_bounds(np.ones(MIN_SETS_FOR_LARGE_BLOCKS, int), 8, 400)).tolist() == [2048] * 32
    assert np.diff(block_bounds(np.ones(MIN_SETS_FOR_LARGE_BLOCKS, int), 8, 2**16)).max() == 512


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_block_sets_sets_the_block_size(n):
    bounds = block_bounds(np.full(1000, 10**7), 8, 10**9, n)
    assert bounds.tolist() == [*range(0, 1000, n), 1000]


def test_fill_in_memory_fills_every_row_once():
    out = np.zeros(1000)

    def fill(rows):
        out[rows] += np.arange(rows.start, rows.stop)

    fill_in_memory(fill, block_bounds(np.ones(1000, int), 4, 4, 37))
    np.testing.assert_array_equal(out, np.arange(1000))


def test_fill_in_memory_propagates_errors():
    def fill(rows):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fill_in_memory(fill, np.array([0, 3]))


def test_take_rows_computes_only_the_required_blocks():
    X, computed_lengths = np.random.default_rng(0).random((100, 3)), []

    def record_length(block):
        computed_lengths.append(len(block))
        return block

    lazy = da.from_array(X, chunks=((30, 50, 20), 3)).map_blocks(record_length, meta=np.empty((0, 0)))
    rows = np.array([3, 4, 29, 81, 99])
    np.testing.assert_array_equal(take_rows(lazy, rows), X[rows])
    assert sorted(computed_lengths) == [20, 30]
