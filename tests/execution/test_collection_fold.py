"""`dk.fold` equals a loop over the blocks, keeps few blocks alive, and resumes with the same bits."""

import itertools
import time
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import SGDClassifier

import dkdist as dk
from dkdist._runtime._tuning import MAX_GRAPH_JOBS

from .counted import Item, LoggedItem, max_alive

X = np.random.default_rng(0).standard_normal((60, 4))
SETS = [np.random.default_rng(i).random((i + 1, 2)).astype("f4") for i in range(9)]
LAZY = da.from_array(X, chunks=(5, 4))


def collect(blocks, block):
    return [*blocks, block]


def add(state, block):
    """Not commutative, so changes of the order are detected."""
    return 0.9 * state + block.sum(axis=0)


def sequential(numbers):
    state = np.zeros(4)
    for i in numbers:
        state = add(state, X[5 * i : 5 * i + 5])
    return state


def cube(n):
    return np.arange(12.0 * n).reshape(n, 3, 4)


def lazy_partition(values):
    return (2 * value for value in values)


ARRAYS = {
    "one axis": (da.arange(10, chunks=4), [4, 4, 2]),
    "other axes in chunks": (da.from_array(cube(5), chunks=(2, 1, 3)), [2, 2, 1]),
    "unknown lengths": (da.from_array(X, chunks=(25, 4))[da.from_array(X, chunks=(25, 4))[:, 0] > 0], None),
    "no rows": (da.zeros((0, 3)), [0]),
    "in memory": (np.arange(4096).reshape(2048, 2), [1024, 1024]),
    "cube in memory": (cube(1030), [1024, 6]),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_blocks_of_arrays_are_ranges_of_the_first_axis(kind):
    array, lengths = ARRAYS[kind]
    blocks = dk.fold(array, collect, [])
    assert lengths in (None, [len(block) for block in blocks])
    np.testing.assert_array_equal(np.concatenate(blocks), np.asarray(array))


def test_blocks_of_other_dask_collections_are_partitions():
    bag = db.from_sequence(range(7), npartitions=3)
    assert dk.fold(bag, collect, []) == [[0, 1, 2], [3, 4, 5], [6]]
    assert dk.fold(bag.map_partitions(lazy_partition), collect, []) == [[0, 2, 4], [6, 8, 10], [12]]
    frame = pd.DataFrame({"a": range(6), "b": list("xyzxyz")})
    parts = dk.fold(dd.from_pandas(frame, npartitions=2), collect, [])
    assert [len(part) for part in parts] == [3, 3]
    pd.testing.assert_frame_equal(pd.concat(parts), frame, check_dtype=False)
    shared = dask.delayed(np.arange)(3)
    assert dk.fold([shared.sum(), shared.max(), shared.sum()], collect, []) == [3, 2, 3]
    assert dk.fold(shared.sum(), collect, []) == [3]


def test_blocks_of_sets_are_sample_sets(tmp_path):
    store = dk.write_sets(tmp_path / "sets.zarr", SETS, targets=np.arange(9), ids=list("abcdefghi"))
    for data, sizes in ((dk.open_sets(tmp_path / "sets.zarr", block_sets=4), [4, 4, 1]), (store[2:5], [3])):
        blocks = dk.fold(data, collect, [])
        assert all(isinstance(block, dk.SampleSets) for block in blocks)
        assert [len(block) for block in blocks] == sizes
        assert np.concatenate([block.targets["y"] for block in blocks]).tolist() == data.targets["y"].tolist()
        for a, b in zip(itertools.chain(*blocks), data, strict=True):
            np.testing.assert_array_equal(a, b)
    for data in (SETS, dk.SampleSets.from_arrays(SETS)):
        assert dk.fold(data, lambda n, block: n + block.n_points, 0) == 45
    lazy = dk.as_sets(da.from_array(cube(40), chunks=(12, 3, 4)))
    blocks = dk.fold(lazy, collect, [])
    assert all(isinstance(block, dk.SampleSets) for block in blocks)
    np.testing.assert_array_equal(np.concatenate([block.points for block in blocks]), cube(40).reshape(-1, 4))
    assert dk.fold(["ab", "c"], lambda n, block: n + block.n_points, 0) == 3


@given(st.lists(st.integers(0, 11), max_size=30), st.integers(1, 40))
def test_order_and_window(numbers, window):
    result = dk.fold(LAZY, add, np.zeros(4), order=numbers, window=window)
    np.testing.assert_array_equal(result, sequential(numbers))


def test_generator_draws_the_order():
    expected = sequential(np.random.default_rng(3).permutation(12))
    np.testing.assert_array_equal(dk.fold(LAZY, add, np.zeros(4), order=np.random.default_rng(3)), expected)


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_schedulers_give_identical_results(scheduler):
    with dask.config.set(scheduler=scheduler, num_workers=2):
        for step in (add, add_in_place):
            np.testing.assert_array_equal(dk.fold(LAZY, step, np.zeros(4)), sequential(range(12)))


def add_in_place(state, block):
    state *= 0.9
    state += block.sum(axis=0)
    return state


def train(model, block):
    return model.partial_fit(block[:, 1:], block[:, 0] > 0, classes=[False, True])


def test_states_may_be_modified_by_steps(worker_processes):
    first, model = np.zeros(4), SGDClassifier(random_state=0)
    expected = SGDClassifier(random_state=0)
    for start in range(0, 60, 5):
        expected = train(expected, X[start : start + 5])
    with Client(worker_processes):
        for config in ({"scheduler": "threads"}, {}):
            with dask.config.set(config):
                np.testing.assert_array_equal(dk.fold(LAZY, add_in_place, first), sequential(range(12)))
                assert np.array_equal(dk.fold(LAZY, train, model).coef_, expected.coef_)
    assert not first.any()
    assert not hasattr(model, "coef_")


def test_large_states_on_a_cluster_give_no_warning(worker_processes):
    with Client(worker_processes):
        result = dk.fold(LAZY, add_in_place, np.zeros((500_000, 4)))
    np.testing.assert_array_equal(result[-1], sequential(range(12)))


def test_persisted_collections_on_a_cluster(worker_processes):
    with Client(worker_processes) as client:
        persisted = LAZY.rechunk((5, 2)).persist()
        np.testing.assert_array_equal(dk.fold(persisted, add, np.zeros(4)), sequential(range(12)))
        futures = client.map(np.negative, [X[:5], X[5:10]])
        np.testing.assert_array_equal(np.concatenate(dk.fold(futures, collect, [])), -X[:10])
        bag = db.from_sequence(range(7), npartitions=3).persist()
        assert list(itertools.chain(*dk.fold(bag, collect, []))) == list(range(7))


def fail_once(state, block, flag):
    """Modify the state, and raise once in the middle of the data."""
    state = add_in_place(state, block)
    if block[0, 0] == X[35, 0] and flag.exists():
        flag.unlink()
        raise ConnectionError
    return state


def test_steps_that_run_again_start_from_an_unmodified_state(worker_processes, tmp_path):
    flag = tmp_path / "fail"
    flag.touch()
    with Client(worker_processes), dask.annotate(retries=2):
        result = dk.fold(LAZY, partial(fail_once, flag=flag), np.zeros(4))
    assert not flag.exists()
    np.testing.assert_array_equal(result, sequential(range(12)))


@pytest.mark.parametrize("window", [1, 3, 6])
def test_living_blocks_are_limited_by_window(window):
    Item.alive = Item.max_alive = 0

    def slow_step(count, item):
        time.sleep(0.002)
        return count + 1

    items = [dask.delayed(Item)() for _ in range(30)]
    with dask.config.set(scheduler="threads", num_workers=8):
        assert dk.fold(items, slow_step, 0, window=window) == 30
    assert Item.max_alive == window  # the limit holds and is reached


def slow_count(count, item):
    time.sleep(0.02)
    return count + 1


@pytest.mark.parametrize("window", [2, 5])
def test_living_blocks_on_two_workers_are_limited_by_window(window, worker_processes, tmp_path):
    log = str(tmp_path / "alive")
    with Client(worker_processes):
        items = [dask.delayed(LoggedItem)(log, 2**16) for _ in range(40)]
        assert dk.fold(items, slow_count, 0, window=window) == 40
    for _ in range(100):  # the last blocks are deleted when workers release them
        changes = Path(log).read_text().split()[1::2]
        if changes.count("+1") == changes.count("-1"):
            break
        time.sleep(0.05)
    assert changes.count("+1") >= 40
    assert max_alive(log) <= window


N_LONG = MAX_GRAPH_JOBS + 40
STEPS = da.from_array(np.random.default_rng(1).random((N_LONG, 3)), chunks=(1, 3))


class Interrupted(Exception):
    pass


class CountedStep:
    """Step with a state of several types, which counts its calls and fails after ``limit`` calls."""

    def __init__(self, limit=np.inf):
        self.limit, self.n_calls = limit, 0

    def __call__(self, state, block):
        if self.n_calls >= self.limit:
            raise Interrupted
        self.n_calls += 1
        total, (n, names), best = state["total"], state["counts"], state["best"]
        total *= 0.99
        total += block.sum(axis=0)
        value = np.float32(block.max())
        counts = n + 1, [*names[-2:], f"block {n}"]
        return {"total": total, "counts": counts, "best": value if best is None or value > best else best}


FIRST = {"total": np.zeros(3, order="F"), "counts": (0, []), "best": None}


def test_checkpoint_resumes_with_the_same_bits(tmp_path):
    expected = dk.fold(STEPS, CountedStep(), FIRST)
    path, order = tmp_path / "run", np.arange(N_LONG)
    with pytest.raises(Interrupted):
        dk.fold(STEPS, CountedStep(MAX_GRAPH_JOBS + 10), FIRST, checkpoint=path, order=order)
    step = CountedStep()
    for n_steps in (N_LONG - MAX_GRAPH_JOBS,) * 2:  # the second call computes nothing
        result = dk.fold(STEPS, step, FIRST, checkpoint=path)
        assert step.n_calls == n_steps
        assert list(result) == list(expected)
        assert result["total"].tobytes() == expected["total"].tobytes()
        assert result["counts"] == expected["counts"]
        assert type(result["counts"]) is tuple
        assert type(result["best"]) is np.float32
        assert result["best"] == expected["best"]
    assert not FIRST["total"].any()


def test_checkpoint_on_a_cluster(worker_processes, tmp_path):
    expected = dk.fold(STEPS, add, np.zeros(3))
    with Client(worker_processes):
        for _ in range(2):
            result = dk.fold(STEPS, add, np.zeros(3), checkpoint=tmp_path / "run")
            np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(dk.fold(STEPS, add, np.zeros(3), checkpoint=tmp_path / "run"), expected)


def test_checkpoint_of_another_run_raises(tmp_path):
    path = tmp_path / "run"
    dk.fold(LAZY, add, np.zeros(4), checkpoint=path)
    for name, arguments, options in (
        ("data", (LAZY + 1, add, np.zeros(4)), {}),
        ("step", (LAZY, add_in_place, np.zeros(4)), {}),
        ("initial state", (LAZY, add, np.ones(4)), {}),
        ("initial state", (LAZY, add, np.zeros(4, "f4")), {}),
        ("order", (LAZY, add, np.zeros(4)), {"order": [0]}),
    ):
        with pytest.raises(ValueError, match=rf"saved by a different run \({name}: expected"):
            dk.fold(*arguments, checkpoint=path, **options)
    saved = path / "state.npz"
    saved.write_bytes(saved.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"is damaged"):
        dk.fold(LAZY, add, np.zeros(4), checkpoint=path)


VALUES = [
    None, True, -(2**100), "text", 0.1, float("nan"), float("-inf"), -0.0,
    (), [1, (2, [3])], {"a": {"b": np.arange(3)}}, np.array("x"), np.array(2.0), np.float16(0.5), np.bool_(True),
    np.zeros((0, 3)), np.asfortranarray(np.ones((2, 3))), np.array([1, 2], ">i4"), np.datetime64("2020-01-01"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_in_checkpoints_keep_their_type(value, tmp_path):
    for _ in range(2):
        result = dk.fold(LAZY, lambda state, block: state, value, checkpoint=tmp_path / "run")
        assert type(result) is type(value)
        assert repr(result) == repr(value)
        if isinstance(value, np.ndarray):
            assert (result.dtype, result.shape) == (value.dtype, value.shape)
            assert result.flags.f_contiguous == value.flags.f_contiguous


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (SGDClassifier(), r"state must be .* without pickle .*; got a SGDClassifier\. Keep such"),
        ({"a": [1, {2}]}, r"state\['a'\]\[1\] must .* got a set"),
        ({1: 2}, r"state must .* keys that are not strings"),
        ((np.array([None]),), r"state\[0\] must .* an array of dtype object"),
        ([np.zeros(1, "i4,f4")], r"state\[0\] must .* an array of dtype \[\('f0'"),
        (np.ma.ones(2), r"got a MaskedArray"),
    ],
)
def test_other_values_are_not_saved(state, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        dk.fold(LAZY, add, state, checkpoint=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_invalid_arguments():
    for order, message in (
        ([12], r"order must contain numbers from 0 to 11, as data has 12 blocks; got numbers from 12"),
        ([-1], r"got numbers from -1"),
        ([[0]], r"order must be a list of block numbers"),
        ([0.5], r"order must be a list of block numbers"),
        (3, r"order must be .*; got 3\. For a random order pass numpy\.random\.default_rng"),
    ):
        with pytest.raises(ValueError, match=message):
            dk.fold(LAZY, add, np.zeros(4), order=order)
    for window in (0, 1.5, "many", True):
        with pytest.raises(ValueError, match="window must be an integer >= 1"):
            dk.fold(LAZY, add, np.zeros(4), window=window)
    for data in (3, np.array(1.0), None, da.zeros(()), LAZY.sum()):
        with pytest.raises(ValueError, match="must"):
            dk.fold(data, add, np.zeros(4))


def test_large_windows_that_do_not_fit_raise():
    huge = da.zeros((2**20, 2**14), chunks=(2**17, 2**14))
    with (
        dask.config.set({"dkdist.memory-limit": "4GiB"}),
        pytest.raises(MemoryError, match=r"fold: .*To fix"),
    ):
        dk.fold(huge, add, 0.0)


def test_progress(capsys):
    dk.fold(LAZY, add, np.zeros(4), verbose=True)
    assert "fold: 12 blocks in" in capsys.readouterr().err


def failing_step(state, block):
    raise Interrupted


def test_errors_of_steps_and_blocks_are_raised(worker_processes):
    def divide(block):
        raise ZeroDivisionError

    with Client(worker_processes):
        for config in ({"scheduler": "threads"}, {}):
            with dask.config.set(config):
                with pytest.raises(Interrupted):
                    dk.fold(LAZY, failing_step, 0)
                with pytest.raises(ZeroDivisionError):
                    dk.fold(LAZY.map_blocks(divide, dtype=float), add, 0.0)
