"""Workers that join while work goes on take their share of it."""

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
WAITS = 100


def prepare(output: Iterator[np.ndarray], number: int) -> np.ndarray:
    """One block waits for another worker; those after it take a while (number -1: without a cluster)."""
    if number == WAITS:
        assert Event("another worker is here").wait(timeout=120)
    if number > WAITS:
        time.sleep(0.05)
    return next(output)


def step(state: np.ndarray, block: np.ndarray) -> np.ndarray:
    return 0.5 * state + block.sum(axis=0)


@pytest.mark.network
def test_a_late_worker_makes_blocks() -> None:
    alone = fold(BLOCKS, [Job((i,), -1) for i in range(200)], prepare, step, np.zeros(2))
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

        with ThreadPoolExecutor(1) as beside:
            joined = beside.submit(join)
            together = fold(BLOCKS, [Job((i,), i) for i in range(200)], prepare, step, np.zeros(2))
            joined.result()
    np.testing.assert_array_equal(together, alone)
    made_by = Counter(task["worker"] for task in stream.data if "fit_block" in str(task["key"]))
    assert 200 / 64 <= made_by.total() <= 200  # of one to 64 blocks each, by how long they take
    assert made_by[first] < made_by.total(), made_by
