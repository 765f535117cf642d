"""Bounded fold: the sequential result for any window and scheduler, few living items, unchanged errors."""

import gc
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

import dkdist as dk
from dkdist._runtime.blocks import Job, row_blocks
from dkdist._runtime.map_reduce import MAX_GRAPH_JOBS, fold

from .counted import Item

X = np.random.default_rng(0).random((60, 4))


def lazy_blocks():
    cosines = da.from_array(X, chunks=(5, 4)).map_blocks(np.cos)
    return row_blocks(cosines + cosines.sum())  # all blocks need a shared value


def join_blocks(blocks, extra):
    return np.concatenate(list(blocks)), extra


def append(state, item):
    """Not commutative, so changes of the order are detected."""
    rows, extra = item
    return 0.9 * state + extra * rows.sum(axis=0)


def sequential(jobs):
    output = np.cos(X) + da.from_array(X, chunks=(5, 4)).map_blocks(np.cos).sum().compute()
    state = np.zeros(4)
    for job in jobs:
        rows = np.concatenate([output[5 * i : 5 * i + 5] for i in job.blocks])
        state = append(state, (rows, job.extra))
    return state


def random_jobs(n, seed=0):
    rng = np.random.default_rng(seed)
    return [Job(tuple(rng.permutation(12)[: rng.integers(1, 4)].tolist()), float(i)) for i in range(n)]


@given(n=st.integers(1, 40), window=st.integers(1, 50), seed=st.integers(0, 99))
def test_fold_matches_sequential_result_for_any_window(n, window, seed):
    jobs = random_jobs(n, seed)
    result = fold(lazy_blocks(), jobs, join_blocks, append, np.zeros(4), window=window)
    np.testing.assert_array_equal(result, sequential(jobs))


@pytest.mark.parametrize("scheduler", ["threads", "sync", "processes"])
def test_schedulers_give_identical_results(scheduler):
    jobs = random_jobs(9)
    with dask.config.set(scheduler=scheduler, num_workers=2):
        result = fold(lazy_blocks(), jobs, join_blocks, append, np.zeros(4))
    np.testing.assert_array_equal(result, sequential(jobs))


def test_fold_without_jobs_returns_the_state():
    state = object()
    assert fold(lazy_blocks(), [], join_blocks, append, state) is state


def test_arrays_in_memory_are_not_copied():
    shares_memory = []

    def step(state, item):
        shares_memory.append(np.shares_memory(item, X))
        return state + item.sum()

    total = fold(row_blocks(X), [Job((0,))], lambda output, _: next(output), step, 0.0)
    assert total == pytest.approx(X.sum())
    assert shares_memory == [True]


def test_on_segment_is_called_in_order():
    n, reports = 2 * MAX_GRAPH_JOBS + 3, []
    jobs = [Job((i % 12,), 1.0) for i in range(n)]
    options = {"window": 4, "on_segment": lambda *r: reports.append(r)}
    fold(lazy_blocks(), jobs, lambda output, _: 1, lambda s, i: s + i, 0, **options)
    assert reports == [(MAX_GRAPH_JOBS, MAX_GRAPH_JOBS), (2 * MAX_GRAPH_JOBS, 2 * MAX_GRAPH_JOBS), (n, n)]


def test_initial_state_is_not_modified():
    jobs = random_jobs(6)
    first = np.zeros(4)
    fold(lazy_blocks(), jobs, join_blocks, append, first)
    np.testing.assert_array_equal(first, 0)


@pytest.mark.parametrize("window", [1, 2, 4])
def test_number_of_living_items_is_limited_by_window(window):
    gc.collect()
    Item.alive = Item.max_alive = 0

    def slow_step(count, item):
        time.sleep(0.005)
        return count + 1

    with dask.config.set(scheduler="threads", num_workers=8):
        jobs = [Job((i % 12,)) for i in range(40)]
        assert fold(lazy_blocks(), jobs, lambda output, _: Item(), slow_step, 0, window=window) == 40
    assert Item.max_alive == window  # the limit holds and is reached


class CustomError(Exception):
    pass


def failing_step(state, item):
    raise CustomError("step 0")


def failing_prepare(output, extra):
    if extra == 3.0:
        raise CustomError("job 3")
    return next(output)


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_errors_keep_their_type(scheduler):
    jobs = [Job((i,), float(i)) for i in range(9)]
    with dask.config.set(scheduler=scheduler):
        with pytest.raises(CustomError, match="job 3"):
            fold(lazy_blocks(), jobs, failing_prepare, lambda s, i: s, 0)
        with pytest.raises(CustomError, match="step 0"):
            fold(lazy_blocks(), jobs, join_blocks, failing_step, 0)
        failing_blocks = row_blocks(
            da.from_array(X, chunks=(5, 4)).map_blocks(_raise_zero_division, dtype=float)
        )
        with pytest.raises(ZeroDivisionError):
            fold(failing_blocks, jobs, join_blocks, append, np.zeros(4))


def _raise_zero_division(block):
    raise ZeroDivisionError


def test_fold_with_a_client_in_this_process():
    jobs = random_jobs(20)
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"):
        result = fold(lazy_blocks(), jobs, join_blocks, append, np.zeros(4), window=3)
        with pytest.raises(CustomError, match="job 3"):
            fold(lazy_blocks(), [Job((0,), 3.0)], failing_prepare, append, 0)
        local = fold(row_blocks(X), [Job((0,))], lambda output, _: next(output), lambda s, i: i, None)
    np.testing.assert_array_equal(result, sequential(jobs))
    assert np.shares_memory(local, X)  # local arrays are not sent to the cluster


def test_fold_with_two_worker_processes(tmp_path, worker_processes):
    arrays = [np.random.default_rng(i).random((30, 2)) for i in range(60)]
    dk.write_sets(tmp_path / "sets.zarr", arrays)
    store = dk.open_sets(tmp_path / "sets.zarr", block_sets=7)
    features = dk.RandomFourierFeatures(50, sigma=1.0, random_state=0)
    embedding = dk.DivergenceEmbedding("jensen-shannon", n_basis=6)
    A = embedding.fit(arrays).transform(arrays)
    Z = features.fit_transform(A)
    jobs = [Job((i,), 1.0 + i) for i in (3, 1, 0, 8, 2, 2, 7)]
    expected = fold(
        row_blocks(features.transform(embedding.transform(store))), jobs, join_blocks, append, np.zeros(50)
    )
    with Client(worker_processes):
        lazy = features.transform(embedding.fit(store).transform(store))
        np.testing.assert_array_equal(lazy.compute(), Z)
        result = fold(row_blocks(lazy), jobs, join_blocks, append, np.zeros(50))
    np.testing.assert_array_equal(result, expected)
