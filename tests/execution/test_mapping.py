"""map_blocks: one result per block, in order, on all schedulers."""

import io

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist._runtime.blocks import row_blocks
from dkdist._runtime.dashboard import EVENT_TOPIC
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.progress import Progress

X = np.random.default_rng(0).random((300, 3))


def blocks(step=1):
    return row_blocks(da.from_array(X, chunks=(step, 3)) + 1)


def first_value(block, extra):
    return block[0, 0], extra


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_results_are_in_block_order(scheduler):
    with dask.config.set(scheduler=scheduler):
        result = map_blocks(blocks(), first_value, list(range(300)))
    assert result == [(x + 1, i) for i, x in enumerate(X[:, 0])]


def test_function_gets_none_without_extras():
    assert map_blocks(blocks(100), first_value) == [(X[i, 0] + 1, None) for i in (0, 100, 200)]


@pytest.mark.parametrize("only", [[], [2], [290, 3, 141, 3, 0]])
def test_only_selects_blocks_and_order(only):
    computed = []

    def record_extra(block, extra):
        computed.append(extra)
        return first_value(block, extra)

    result = map_blocks(blocks(), record_extra, [10 * i for i in range(300)], only=only)
    assert result == [(X[i, 0] + 1, 10 * i) for i in only]
    assert set(computed) == {10 * i for i in only}


def test_blocks_of_an_array_in_memory_are_views():
    assert map_blocks(row_blocks(X), lambda block, _: np.shares_memory(block, X)) == [True]


def test_progress_counts_every_block_once():
    progress = Progress(300, "map", show=True, stream=io.StringIO())
    map_blocks(blocks(), first_value, progress=progress)
    assert progress.done == 300


class CustomError(Exception):
    pass


def _fail_on_block_7(block, extra):
    if extra == 7:
        raise CustomError("block 7")
    return 0


def test_errors_keep_their_type():
    with pytest.raises(CustomError, match="block 7"):
        map_blocks(blocks(), _fail_on_block_7, list(range(300)))


def test_map_blocks_with_a_client_in_this_process():
    expected = map_blocks(blocks(), first_value, list(range(300)))
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"):
        progress = Progress(300, "map", show=True, stream=io.StringIO())
        assert map_blocks(blocks(), first_value, list(range(300)), progress=progress) == expected
        assert progress.done == 300
        with pytest.raises(CustomError, match="block 7"):
            map_blocks(blocks(), _fail_on_block_7, list(range(300)))


def runs_of(client):
    return {event["run"] for _, event in client.get_events(EVENT_TOPIC)}


def test_small_predictions_run_in_this_process(tmp_path):
    rng = np.random.default_rng(0)
    sets = dk.write_sets(tmp_path / "sets.zarr", list(rng.random((40, 5, 2))), targets=np.arange(40.0))
    model = make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidge(random_state=0)).fit(
        sets, np.arange(40.0)
    )
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as client:
        expected = model.predict(sets)
        assert not runs_of(client)
        with dask.annotate(workers=list(client.scheduler_info()["workers"])):  # the user chose workers
            np.testing.assert_array_equal(model.predict(sets), expected)
        assert len(runs_of(client)) == 1
        blocks = dk.open_sets(tmp_path / "sets.zarr", block_sets=20)
        np.testing.assert_allclose(model.predict(blocks), expected)
        assert len(runs_of(client)) == 2
