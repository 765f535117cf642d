"""One result for every block, in the order of the blocks, on any scheduler."""

import io

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client

from dkdist._runtime.blocks import row_blocks
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.progress import Progress

X = np.random.default_rng(0).random((300, 3))


def blocks(step=1):
    return row_blocks(da.from_array(X, chunks=(step, 3)) + 1)


def first_value(block, extra):
    return block[0, 0], extra


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_results_come_in_the_order_of_the_blocks(scheduler):
    with dask.config.set(scheduler=scheduler):
        result = map_blocks(blocks(), first_value, list(range(300)))
    assert result == [(x + 1, i) for i, x in enumerate(X[:, 0])]


def test_without_extras_the_function_is_given_none():
    assert map_blocks(blocks(100), first_value) == [(X[i, 0] + 1, None) for i in (0, 100, 200)]


@pytest.mark.parametrize("only", [[], [2], [290, 3, 141, 3, 0]])
def test_only_some_blocks_in_the_order_asked_for(only):
    output = []

    def note(block, extra):
        output.append(extra)
        return first_value(block, extra)

    result = map_blocks(blocks(), note, [10 * i for i in range(300)], only=only)
    assert result == [(X[i, 0] + 1, 10 * i) for i in only]
    assert set(output) == {10 * i for i in only}


def test_blocks_of_an_array_in_memory_are_views():
    assert map_blocks(row_blocks(X), lambda block, _: np.shares_memory(block, X)) == [True]


def test_progress_counts_every_block_once():
    progress = Progress(300, "map", show=True, stream=io.StringIO())
    map_blocks(blocks(), first_value, progress=progress)
    assert progress.done == 300


class OwnError(Exception):
    pass


def _refuse(block, extra):
    if extra == 7:
        raise OwnError("block 7")
    return 0


def test_an_error_surfaces_with_its_own_type():
    with pytest.raises(OwnError, match="block 7"):
        map_blocks(blocks(), _refuse, list(range(300)))


def test_under_a_client_in_this_process():
    expected = map_blocks(blocks(), first_value, list(range(300)))
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"):
        progress = Progress(300, "map", show=True, stream=io.StringIO())
        assert map_blocks(blocks(), first_value, list(range(300)), progress=progress) == expected
        assert progress.done == 300
        with pytest.raises(OwnError, match="block 7"):
            map_blocks(blocks(), _refuse, list(range(300)))
