"""The bounded tree: the same sum in the same order on any scheduler, few partial sums alive."""

import gc
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, get_worker
from hypothesis import given
from hypothesis import strategies as st

from dkdist._runtime.blocks import Blocks, Job, row_blocks, value_tasks
from dkdist._runtime.map_reduce import tree_sum

from .counted import Item

X = np.random.default_rng(0).random((60, 4)).astype("f4")


def blocks():
    return row_blocks(da.from_array(X, chunks=(5, 4)))


def total(output, extra):
    return extra * sum(block.sum(axis=0) for block in output)


def jobs_of(n):
    return [Job((j % 12, (5 * j) % 12), 1.0 + j) for j in range(n)]


def in_pairs(parts):
    """The order that is promised: the longest full tree on the left, then what is left."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << (len(parts) - 1).bit_length() - 1
    return in_pairs(parts[:half]) + in_pairs(parts[half:])


@given(n=st.integers(1, 70), window=st.integers(2, 12))
def test_sums_have_the_order_of_a_tree_for_any_window(n, window):
    parts = [total([X[5 * i : 5 * i + 5] for i in job.blocks], job.extra) for job in jobs_of(n)]
    result = tree_sum(blocks(), jobs_of(n), total, np.add, window=window)
    np.testing.assert_array_equal(result, in_pairs(parts))


def test_order_is_that_of_the_jobs_and_a_client_gives_the_same():
    words = [Job((0,), f"{j} ") for j in range(21)]
    result = tree_sum(blocks(), words, lambda output, word: word, lambda a, b: a + b, window=3)
    assert result == "".join(job.extra for job in words)
    expected = tree_sum(blocks(), jobs_of(21), total, np.add, window=4)
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"):
        np.testing.assert_array_equal(tree_sum(blocks(), jobs_of(21), total, np.add, window=4), expected)


def test_few_leaves_go_to_as_many_workers():
    some = Blocks("some", np.arange(3), value_tasks("some", [1, 2]))
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
        for _ in range(3):
            result = tree_sum(some, [Job((0,)), Job((1,))], _where, lambda a, b: a | b, window=2)
            assert len(result) == 2


def _where(output, _):
    time.sleep(0.01 * sum(output))
    return {get_worker().address}


@pytest.mark.parametrize("window", [2, 4, 8])
def test_partial_sums_alive_are_few_while_merging_is_slow(window):
    gc.collect()
    Item.alive = Item.most = 0

    def merge(a, b):
        time.sleep(0.002)
        return Item()

    with dask.config.set(scheduler="threads", num_workers=12):
        tree_sum(blocks(), jobs_of(64), lambda output, _: Item(), merge, window=window)
    assert window <= Item.most <= window + 2 + 6 + 1  # leaves, one for each level, and a result in the making


def test_a_window_too_small_is_refused():
    with pytest.raises(ValueError, match="at least 2"):
        tree_sum(blocks(), jobs_of(3), total, np.add, window=1)
