"""Block tasks: private nodes of a graph run inside one task, shared nodes stay shared."""

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from dask._task_spec import Task, TaskRef, convert_legacy_graph
from hypothesis import given
from hypothesis import strategies as st

from dkdist._runtime._tuning import MAX_BLOCK_BYTES, MAX_BLOCK_SETS
from dkdist._runtime.blocks import BlockSource, BlockTask, row_blocks, source_blocks, split_graph


def compute_blocks(blocks):
    """Return all blocks, computed from tasks and shared values only."""
    graph = dict(blocks.shared)
    shared = dict(zip(graph, dask.get(graph, list(graph)), strict=True))
    return [task.run(shared) for task in blocks.tasks]


def add(*values):
    return sum(values)


def node(key, *dependencies, constant=0):
    return Task(key, add, constant, *map(TaskRef, dependencies))


def test_split_graph_separates_private_and_shared_nodes():
    nodes = [
        node("drawn", constant=10),
        node("source"),
        node("read-0", "source", constant=1),
        node("read-1", "source", constant=2),
        node("mapped-0", "read-0", "drawn"),
        node("mapped-1", "read-1", "drawn"),
        node("only-2", constant=5),
        node("mapped-2", "only-2", "only-2"),
    ]
    graph = {n.key: n for n in nodes}
    tasks, shared = split_graph(graph, ["mapped-0", "mapped-1", "mapped-2"])
    assert set(shared) == {"drawn", "source"}
    assert [[n.key for n in r.nodes] for r in tasks] == [
        ["read-0", "mapped-0"],
        ["read-1", "mapped-1"],
        ["only-2", "mapped-2"],
    ]
    assert [set(r.shared_keys) for r in tasks] == [{"source", "drawn"}, {"source", "drawn"}, set()]
    assert [r.run({"drawn": 10, "source": 0}) for r in tasks] == [11, 12, 10]


def test_dependencies_of_shared_nodes_are_shared():
    graph = {n.key: n for n in (node("a", constant=1), node("b", "a"), node("x", "b"), node("y", "b", "a"))}
    tasks, shared = split_graph(graph, ["x", "y"])
    assert set(shared) == {"a", "b"}
    assert tasks[0].shared_keys == ("b",)
    assert set(tasks[1].shared_keys) == {"a", "b"}


def test_block_required_by_another_block_is_shared():
    graph = {n.key: n for n in (node("x", constant=3), node("y", "x", constant=4))}
    for keys, expected in ((["x", "y"], [3, 7]), (["y", "x"], [7, 3])):
        tasks, shared = split_graph(graph, keys)
        assert set(shared) == {"x"}
        assert [r.run({"x": 3}) for r in tasks] == expected


@given(data=st.data(), n=st.integers(2, 14))
def test_split_of_random_graphs_computes_the_same_values(data, n):
    graph = {}
    for i in range(n):
        dependencies = data.draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else []
        graph[i] = node(i, *dependencies, constant=i + 1)
    keys = data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
    tasks, shared = split_graph(graph, keys)
    values = dict(zip(graph, dask.get(dict(graph), list(graph)), strict=True))
    for key, task in zip(keys, tasks, strict=True):
        assert task.run({k: values[k] for k in task.shared_keys}) == values[key]
        assert set(task.shared_keys) <= set(shared)
    private = [k for r in tasks for k in (n.key for n in r.nodes)]
    assert len(private) == len(set(private))
    assert not set(private) & set(shared)


def test_values_are_released_after_their_last_use():
    alive = set()

    class Value:
        def __init__(self, name):
            self.name = name
            alive.add(name)

        def __del__(self):
            alive.discard(self.name)

    alive_by_step = []

    def make(name, *values):
        del values
        alive_by_step.append(set(alive))
        return Value(name)

    chain = [Task(0, make, 0), *(Task(i, make, i, TaskRef(i - 1)) for i in range(1, 6))]
    BlockTask(5, tuple(chain), ()).run({})
    assert all(len(s) <= 2 for s in alive_by_step)


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 3000])
def test_numpy_rows_are_split_into_views(n):
    X = np.arange(n * 3.0).reshape(n, 3)
    blocks = row_blocks(X)
    assert blocks.local
    assert blocks.n_rows == n
    assert blocks.n_columns == 3
    assert np.diff(blocks.bounds).max() <= MAX_BLOCK_SETS
    parts = compute_blocks(blocks)
    assert all(np.shares_memory(part, X) for part in parts)
    np.testing.assert_array_equal(np.concatenate(parts), X)
    np.testing.assert_array_equal(X[blocks.rows(len(blocks) - 1)], parts[-1])


def test_block_size_of_many_rows():
    X = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (65_536, 5000), (0, 0))
    assert np.diff(row_blocks(X).bounds).tolist() == [2048] * 32


def test_block_size_of_wide_rows():
    X = np.zeros((64, 2**20), np.float32)  # 4 MiB per row
    assert np.diff(row_blocks(X).bounds).max() == MAX_BLOCK_BYTES // (4 * 2**20)


@pytest.mark.parametrize(
    "chunks", [((5, 3, 4), (6,)), ((5, 3, 4), (2, 4)), ((12,), (6,)), ((1,) * 12, (6,)), ((5, 0, 7), (6,))]
)
def test_dask_rows_keep_their_chunks(chunks):
    X = np.random.default_rng(0).random((12, 6))
    blocks = row_blocks(da.from_array(X, chunks=chunks) * 2 + 1)
    assert not blocks.local
    assert np.diff(blocks.bounds).tolist() == list(chunks[0])
    for part, expected in zip(compute_blocks(blocks), np.split(X * 2 + 1, blocks.bounds[1:-1]), strict=True):
        np.testing.assert_array_equal(part, expected)


def test_block_tasks_of_other_dask_arrays():
    X = da.random.default_rng(0).random((20, 4), chunks=(6, 2))
    lazy = da.concatenate([X, X[::-1] + X.mean()], axis=0).rechunk((7, 4))
    np.testing.assert_array_equal(np.concatenate(compute_blocks(row_blocks(lazy))), lazy.compute())


def test_block_tasks_are_small_and_picklable():
    X = da.random.default_rng(0).random((4000, 500), chunks=(100, 500)).map_blocks(np.sin)
    blocks = row_blocks(X + X[:1])
    assert max(len(pickle.dumps(r)) for r in blocks.tasks) < 5000
    sent = pickle.loads(pickle.dumps(blocks))
    np.testing.assert_array_equal(np.concatenate(compute_blocks(sent)), (X + X[:1]).compute())


def test_invalid_arrays_raise():
    with pytest.raises(ValueError, match=r"X must have shape \(n_sets, n_features\); got 1"):
        row_blocks(da.zeros(5))
    X = da.zeros((5, 2))
    with pytest.raises(ValueError, match=r"known length.*Call X\.compute_chunk_sizes\(\)"):
        row_blocks(X[X[:, 0] > 0])


class View:
    def __init__(self, name):
        self.name = name

    def __dask_tokenize__(self):
        return ("view", self.name)

    def load(self):
        return f"loaded {self.name}"


def test_views_are_loaded_inside_the_task():
    blocks = source_blocks(BlockSource.of_views([View("a"), View("b")]), np.array([0, 3, 5]), read_bytes=77)
    assert compute_blocks(blocks) == ["loaded a", "loaded b"]
    assert (blocks.n_rows, blocks.read_bytes, blocks.rows(1)) == (5, 77, slice(3, 5))
    assert (
        blocks.name
        == source_blocks(
            BlockSource.of_views([View("a"), View("b")]), np.array([0, 3, 5]), read_bytes=77
        ).name
    )
    assert (
        blocks.name
        != source_blocks(
            BlockSource.of_views([View("a"), View("c")]), np.array([0, 3, 5]), read_bytes=77
        ).name
    )


def test_legacy_dask_tasks_are_supported():
    graph = convert_legacy_graph({"a": 1, ("x", 0): (add, "a", 2), ("x", 1): (add, [("x", 0)][0], "a")})
    tasks, shared = split_graph(graph, [("x", 1)])
    assert tasks[0].run({}) == 4
    assert not shared
