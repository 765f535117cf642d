"""Written sets are read back: every kind of collection, selection, batch and chunk."""

import itertools
import pickle
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.storage import LocalStore, MemoryStore, ZipStore

from dkdist.io import SetStore, SetWriter, open_sets, write_sets
from dkdist.sets import SampleSetError, SampleSets

from .samples import assert_same_sets, random_sets

collections = st.builds(
    random_sets,
    st.lists(st.integers(1, 30), min_size=1, max_size=25),
    st.integers(1, 4),
    st.sampled_from([None, (), (1,), (3,)]),
    st.integers(0, 99),
)
small_chunks = st.sampled_from([None, 1, 2, 16])


@settings(max_examples=40, deadline=None)
@given(collections, small_chunks)
def test_any_collection_is_read_back_for_any_chunk_size(sets, chunk_rows):
    store = write_sets(MemoryStore(), sets, chunk_rows=chunk_rows)
    assert len(store) == len(sets)
    assert store.n_points == sets.n_points
    assert store.n_dims == sets.n_dims
    assert_same_sets(store.load(), sets)
    np.testing.assert_array_equal(store.sizes, sets.sizes)
    np.testing.assert_array_equal(store.bounds, sets.bounds)
    assert store.verify().n_points == sets.n_points


@settings(max_examples=40, deadline=None)
@given(collections, small_chunks, st.data())
def test_a_selection_of_a_selection_equals_the_same_in_memory(sets, chunk_rows, data):
    result, expected = write_sets(MemoryStore(), sets, np.arange(len(sets)), chunk_rows=chunk_rows), sets
    numbers = np.arange(len(sets))
    for _ in range(2):
        n = len(expected)
        key = data.draw(
            st.slices(n)
            | st.lists(st.booleans(), min_size=n, max_size=n).map(lambda v: np.array(v, bool))
            | (st.lists(st.integers(-n, n - 1), max_size=9) if n else st.just([])).map(
                lambda v: np.array(v, int)
            )
        )
        result, expected, numbers = result[key, ...], expected[key], numbers[key]
        assert isinstance(result, SetStore)
        assert result.shape == expected.shape
        assert_same_sets(result.load(), expected)
        assert result.n_points == expected.n_points
        np.testing.assert_array_equal(result.sizes, expected.sizes)
        np.testing.assert_array_equal(result.targets["y"], numbers)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(result)).load().points, expected.points)
    for i, points in enumerate(result):
        np.testing.assert_array_equal(points, expected[i])
        np.testing.assert_array_equal(result[i - len(result)], expected[i])


@settings(max_examples=40, deadline=None)
@given(collections, st.data())
def test_appending_in_batches_equals_one_write(sets, data):
    y = np.arange(len(sets)) / 3
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sets)), max_size=4)))
    memory = MemoryStore()
    edges = [0, *cuts, len(sets)]
    batches = [slice(a, b) for a, b in itertools.pairwise(edges) if b > a]
    for rows in batches:
        with SetWriter(
            memory,
            sets.n_dims,
            "w" if rows.start == 0 else "a",
            **({"chunk_rows": 8} if rows.start == 0 else {}),
        ) as w:
            w.append(sets[rows], {"y": y[rows]}, ids=[f"set {i}" for i in range(rows.start, rows.stop)])
    store = open_sets(memory)
    assert_same_sets(store.load(), sets)
    np.testing.assert_array_equal(store.targets["y"], y)
    assert store.ids.tolist() == [f"set {i}" for i in range(len(sets))]
    assert store.verify().n_sets == len(sets)


def test_appends_across_full_chunks_of_offsets_and_strings():
    n = 140_000
    sets = SampleSets(np.arange(n, dtype="f4")[:, None], np.arange(n + 1))
    names = np.arange(n).astype(str)
    memory = MemoryStore()
    write_sets(memory, sets[:131_071], targets={"name": names[:131_071]}, chunk_rows=1024)
    for rows in (slice(131_071, 131_073), slice(131_073, n)):
        open_sets(memory).append(sets[rows], {"name": names[rows]})
    store = open_sets(memory)
    assert_same_sets(store.load(), sets)
    np.testing.assert_array_equal(store.targets["name"], names)
    np.testing.assert_array_equal(
        store[[139_999, 131_071, 131_072, 0]].load().points[:, 0], [139_999, 131_071, 131_072, 0]
    )


@pytest.mark.parametrize("shards", [64, 16, None])
def test_sharded_stores_are_read_back(tmp_path, shards):
    sets = random_sets([5, 60, 1, 33, 70], 3, (2,))
    write_sets(tmp_path / "s", sets[:3], chunk_rows=16, shards=shards)
    store = open_sets(tmp_path / "s").append(sets[3:])
    assert_same_sets(store.load(), sets)
    assert_same_sets(store[[4, 0]].load(), sets[[4, 0]])
    store.verify()
    objects = [p for p in (tmp_path / "s/points/c").rglob("*") if p.is_file()]
    assert len(objects) == -(-169 // (shards or 16))


def test_many_chunks_are_sharded_automatically(monkeypatch):
    monkeypatch.setattr("dkdist.io._zarr.new_arrays.MAX_UNSHARDED_CHUNKS", 4)
    memory = MemoryStore()
    sets = random_sets([50, 50], 1)
    assert_same_sets(write_sets(memory, sets, chunk_rows=8).load(), sets)
    assert sum(key.startswith("points/c") for key in memory._store_dict) == 1


def test_targets_and_ids_of_every_dtype_are_read_back(tmp_path):
    sets = random_sets([1, 2, 3])
    targets = {
        "y": np.array([1.5, np.nan, 2.0]),
        "class name": np.array(["é", "", "日本語 long"]),
        "flag": [True, False, True],
        "multi": np.arange(6, dtype="i4").reshape(3, 2),
        "big endian": np.array([1, 2, 3], ">i2"),
        "objects": np.array(["a", "b", "c"], dtype=object),
    }
    store = write_sets(tmp_path / "s", sets, targets, ids=[7, 8, 9])
    assert sorted(store.targets) == sorted(targets)
    assert len(store.targets) == 6
    for name, values in targets.items():
        np.testing.assert_array_equal(store.targets[name], values)
        np.testing.assert_array_equal(store[[2, 0]].targets[name], np.asarray(values)[[2, 0]])
        assert store[1:1].targets[name].shape[0] == 0
    assert store.targets["class name"].dtype.kind == "U"
    assert store.targets["multi"].dtype == np.int32
    assert store.ids.tolist() == [7, 8, 9]
    assert store[1:].ids.tolist() == [8, 9]
    with pytest.raises(KeyError, match="no targets 'z'"):
        store.targets["z"]
    store.verify()


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.zeros(39), "targets 'y' must have one row per set, 40; got 39"),
        ({"a/b": np.zeros(40)}, "names of targets must be .*; got 'a/b'"),
        ({"..": np.zeros(40)}, r"names of targets must be .*; got '\.\.'"),
        ({"": np.zeros(40)}, "names of targets must be .*; got ''"),
        ({3: np.zeros(40)}, "names of targets must be .*; got 3"),
        (np.zeros((40, 2, 2)), "must have shape"),
        (np.zeros(40, complex), "complex128"),
        (np.array(["2020"] * 40, "M8[D]"), "datetime64"),
        (np.array([object()] * 40), "object"),
    ],
)
def test_bad_targets_are_refused_before_anything_is_written(tmp_path, targets, message):
    with pytest.raises(SampleSetError, match=message):
        write_sets(tmp_path / "s", random_sets([2] * 40), targets=targets)
    assert list(tmp_path.iterdir()) == []


def test_invalid_ids_are_refused():
    with pytest.raises(SampleSetError, match="ids must have one row per set, 2; got 1"):
        write_sets(MemoryStore(), random_sets([2, 2]), ids=["a"])
    with pytest.raises(SampleSetError, match="integers or str"):
        write_sets(MemoryStore(), random_sets([2, 2]), ids=[0.5, 1.0])


@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_codes_of_strings_are_read_back(dtype):
    sets = SampleSets.from_arrays([np.array([[0], [255]], dtype), np.zeros((3, 1), dtype)])
    store = write_sets(MemoryStore(), sets)
    assert_same_sets(store.load(), sets)
    assert store.points_dtype == np.dtype(dtype)
    assert store.weights_shape is None


def test_paths_urls_and_zarr_stores_are_accepted(tmp_path, monkeypatch):
    sets = random_sets([3, 4])
    monkeypatch.chdir(tmp_path)
    write_sets("a.zarr", sets)
    for place in (
        tmp_path / "a.zarr",
        str(tmp_path / "a.zarr"),
        f"file://{tmp_path}/a.zarr",
        LocalStore(tmp_path / "a.zarr"),
    ):
        assert_same_sets(open_sets(place).load(), sets)
    shutil.make_archive("z", "zip", "a.zarr")
    with ZipStore("z.zip", mode="r") as zipped:
        assert_same_sets(open_sets(zipped).load(), sets)
    for place in (3, None):
        with pytest.raises(TypeError, match="store must be a path"):
            open_sets(place)
    with pytest.raises(ValueError, match="must be a path or a URL; got an empty string"):
        open_sets("")


def test_fsspec_urls_are_accepted():
    pytest.importorskip("fsspec")
    sets = random_sets([3, 4])
    url = "memory://sets/of/a/test.zarr"
    write_sets(url, sets[:1], targets=[0], overwrite=True)
    open_sets(url).append(sets[1:], targets=[1])
    assert_same_sets(pickle.loads(pickle.dumps(open_sets(url))).load(), sets)


def test_a_view_has_a_small_pickle_and_a_token_of_its_selection(tmp_path):
    store = write_sets(tmp_path / "s", random_sets([3] * 50), ids=np.arange(50))
    view = store[5:45]
    assert len(pickle.dumps(view)) < 600
    again = pickle.loads(pickle.dumps(view))
    assert again.__dask_tokenize__() == view.__dask_tokenize__() != store[5:44].__dask_tokenize__()
    assert (
        store[[3, 1]].__dask_tokenize__()
        == store[[3, 1]].__dask_tokenize__()
        != store[[1, 3]].__dask_tokenize__()
    )
    assert again.ids.tolist() == list(range(5, 45))
    assert "n_sets=40 of 50" in repr(view)
    assert_same_sets(view.read(2, 4), store.load()[7:9])
    with pytest.raises(IndexError, match="must satisfy 0 <= start <= stop <= 40"):
        view.read(0, 41)
    with pytest.raises(ValueError, match="Open the whole store"):
        view.verify()
    assert open_sets(tmp_path / "s", block_sets=7)[2:].block_sets == 7
    with pytest.raises(ValueError, match="block_sets must be at least 1 or None; got 0"):
        open_sets(tmp_path / "s", block_sets=0)


def test_weights_of_one_set_are_read():
    sets = random_sets([3, 4], 2, (2,))
    store = write_sets(MemoryStore(), sets)
    np.testing.assert_array_equal(store.weights_of(-1), sets.weights_of(1))
    assert store.weights_shape == (2,)


def test_a_selection_can_be_written_to_another_store(tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.io.lazy_sets.BLOCK_BYTES", 100)
    store = write_sets(tmp_path / "a", random_sets([5] * 30), targets=np.arange(30))
    chosen = store[::-3]
    copy = write_sets(tmp_path / "b", chosen, targets=chosen.targets, chunk_rows=4)
    assert_same_sets(copy.load(), chosen.load())
    np.testing.assert_array_equal(copy.targets["y"], np.arange(30)[::-3])


def test_scattered_reads_decode_a_chunk_once(tmp_path, monkeypatch):
    store = write_sets(tmp_path / "s", random_sets([10] * 200, 1), chunk_rows=32)
    index = np.random.default_rng(0).permutation(200)[:60]
    spans = []
    rows = type(store._reader).rows
    monkeypatch.setattr(
        type(store._reader),
        "rows",
        lambda self, a, b: spans.append((a // 32, -(-b // 32))) or rows(self, a, b),
    )
    store[index].load()
    # adjacent reads share at most one chunk, in which a set crosses the boundary
    assert sum(b - a for a, b in spans) <= -(-2000 // 32) + len(spans)
    assert max(b - a for a, b in spans) <= 17
