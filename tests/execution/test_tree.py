"""Bounded tree sums: the same order on all schedulers, few living partial sums."""

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


def make_jobs(n):
    return [Job((j % 12, (5 * j) % 12), 1.0 + j) for j in range(n)]


def tree_order_sum(parts):
    """Sum in the documented order: the largest full tree first, then the remainder."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << (len(parts) - 1).bit_length() - 1
    return tree_order_sum(parts[:half]) + tree_order_sum(parts[half:])


@given(n=st.integers(1, 70), window=st.integers(2, 12))
def test_tree_sum_has_the_order_of_a_tree_for_any_window(n, window):
    parts = [total([X[5 * i : 5 * i + 5] for i in job.blocks], job.extra) for job in make_jobs(n)]
    result = tree_sum(blocks(), make_jobs(n), total, np.add, window=window)
    np.testing.assert_array_equal(result, tree_order_sum(parts))


def test_tree_sum_keeps_job_order_with_and_without_client():
    text_jobs = [Job((0,), f"{j} ") for j in range(21)]
    result = tree_sum(blocks(), text_jobs, lambda output, word: word, lambda a, b: a + b, window=3)
    assert result == "".join(job.extra for job in text_jobs)
    expected = tree_sum(blocks(), make_jobs(21), total, np.add, window=4)
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"):
        np.testing.assert_array_equal(tree_sum(blocks(), make_jobs(21), total, np.add, window=4), expected)


def test_few_leaves_are_spread_over_workers():
    two_blocks = Blocks("some", np.arange(3), value_tasks("some", [1, 2]))
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
        for _ in range(3):
            result = tree_sum(
                two_blocks, [Job((0,)), Job((1,))], _worker_address, lambda a, b: a | b, window=2
            )
            assert len(result) == 2


def _worker_address(output, _):
    time.sleep(0.01 * sum(output))
    return {get_worker().address}


@pytest.mark.parametrize("window", [2, 4, 8])
def test_number_of_living_partial_sums_is_limited(window):
    gc.collect()
    Item.alive = Item.max_alive = 0

    def merge(a, b):
        time.sleep(0.002)
        return Item()

    with dask.config.set(scheduler="threads", num_workers=12):
        tree_sum(blocks(), make_jobs(64), lambda output, _: Item(), merge, window=window)
    assert window <= Item.max_alive <= window + 2 + 6 + 1  # leaves, one per level, and the current result


def test_too_small_window_raises():
    with pytest.raises(ValueError, match="at least 2"):
        tree_sum(blocks(), make_jobs(3), total, np.add, window=1)
