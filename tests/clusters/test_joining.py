"""Workers that join during a run get a part of the work."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import numpy as np
import pytest
from distributed import Client, Event, LocalCluster, get_task_stream

from dkdist._runtime.blocks import Job, row_blocks
from dkdist._runtime.map_reduce import fold

BLOCKS = row_blocks(da.from_array(np.arange(400.0).reshape(200, 2), chunks=(1, 2)))
WAITING_BLOCK = 100


def prepare(output: Iterator[np.ndarray], number: int) -> np.ndarray:
    """Wait for a second worker at one block, then slow down (number -1: without a cluster)."""
    if number == WAITING_BLOCK:
        assert Event("another worker is here").wait(timeout=120)
    if number > WAITING_BLOCK:
        time.sleep(0.05)
    return next(output)


def step(state: np.ndarray, block: np.ndarray) -> np.ndarray:
    return 0.5 * state + block.sum(axis=0)


@pytest.mark.network
def test_late_worker_computes_blocks() -> None:
    expected = fold(BLOCKS, [Job((i,), -1) for i in range(200)], prepare, step, np.zeros(2))
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
        get_task_stream(client) as stream,
    ):
        (first,) = client.nthreads()

        def join() -> None:
            cluster.scale(2)
            client.wait_for_workers(2)
            Event("another worker is here", client=client).set()

        with ThreadPoolExecutor(1) as executor:
            joined = executor.submit(join)
            result = fold(BLOCKS, [Job((i,), i) for i in range(200)], prepare, step, np.zeros(2))
            joined.result()
    np.testing.assert_array_equal(result, expected)
    blocks_by_worker = Counter(task["worker"] for task in stream.data if "fit_block" in str(task["key"]))
    assert 200 / 64 <= blocks_by_worker.total() <= 200  # tasks have 1 to 64 blocks, depending on their time
    assert blocks_by_worker[first] < blocks_by_worker.total(), blocks_by_worker
