"""Hostile metadata: absurd sizes, names that leave the store, codecs that unpickle."""

import json
import tracemalloc

import numpy as np
import pytest
import zarr
from store.samples import assert_same_sets
from zarr.storage import MemoryStore

from dkdist.io import StoreFormatError, open_sets, write_sets
from dkdist.io._zarr.location.address import as_location, put_bytes
from dkdist.io.feature_writer import create_features, find_features

from .forged import SETS, assert_refused, chunks_of, codecs, put, read, shards, store_with

ABSURD = {
    "points of exabytes": ("points", put(shape=[2**62, 2]), "shape of array 'points' must be"),
    "huge rows": ("points", put(shape=[2**50, 2**10]), "array 'points' must have at most"),
    "negative": ("points", put(shape=[-1, 2]), "shape of array 'points' must be"),
    "no numbers": ("points", put(shape=["10", 2]), "shape of array 'points' must be"),
    "many dimensions": ("points", put(shape=[10, 2, 1]), "shape of array 'points' must be"),
    "huge chunks": (
        "points",
        chunks_of(2**40, 2),
        "chunks of array 'points' must have at most .*; got 8796093022208",
    ),
    "empty chunks": ("points", chunks_of(0, 2), "chunks of array 'points' must be"),
    "negative chunks": ("points", chunks_of(-4, 2), "chunks of array 'points' must be"),
    "chunks of another rank": ("points", chunks_of(4), "must have a regular chunk grid"),
    "huge chunks of offsets": ("offsets", chunks_of(2**40), "chunks of array 'offsets' must have at most"),
    "huge chunks of strings": (
        "targets/s",
        chunks_of(2**40),
        "chunks of array 'targets/s' must have at most",
    ),
    "huge shards": ("points", shards([2**20, 2], [2**36, 2]), "shards of array 'points' must have at most"),
    "huge indexes of shards": (
        "points",
        shards([1, 2], [2**30, 2]),
        "shards of array 'points' must have at most 1048576 chunks; got 1073741824",
    ),
    "shards that do not divide": ("points", shards([3, 2], [4, 2]), "must be a multiple of its chunks"),
    "shards in shards": (
        "points",
        shards([4, 2], [8, 2], ["sharding_indexed"]),
        "zarr.json of .* cannot be read",
    ),
    "pickles": (
        "points",
        codecs("numcodecs.pickle"),
        "codecs of array 'points' must be among .*; got 'numcodecs.pickle'",
    ),
    "pickles after bytes": (
        "points",
        codecs("bytes", "numcodecs.pickle"),
        "codecs of array 'points' must be among .*; got 'numcodecs.pickle'",
    ),
    "pickles in shards": ("points", shards([4, 2], [8, 2], ["numcodecs.pickle"]), "'numcodecs.pickle'"),
    "pickles in indexes": (
        "points",
        shards([4, 2], [8, 2], index=["numcodecs.pickle"]),
        "'numcodecs.pickle'",
    ),
    "objects": ("ids", put(data_type="object"), "data type object"),
    "a future type": ("targets/y", put(data_type={"name": "numcodecs.object"}), "data type"),
    "version 2": ("points", put(zarr_format=2), "not a Zarr version 3 array"),
    "a group": ("points", put(node_type="group"), "not a Zarr version 3 array"),
    "transformers": ("points", put(storage_transformers=[{"name": "x"}]), "storage transformers"),
    "no chunks": ("points", put(chunk_grid={}), "cannot be read"),
    "no codecs": ("points", put(codecs=3), "cannot be read"),
}


@pytest.mark.parametrize("kind", ABSURD)
def test_absurd_metadata_is_refused(kind):
    name, change, message = ABSURD[kind]
    if name == "ids":
        memory = MemoryStore()
        write_sets(memory, SETS, ids=[1, 2, 3])
        document = read(memory, "ids/zarr.json")
        change(document)
        put_bytes(memory, "ids/zarr.json", json.dumps(document).encode())
    else:
        memory = store_with(name, change)
    assert_refused(memory, message)


def test_the_unchanged_store_is_read():
    assert_same_sets(open_sets(store_with("points", put())).load(), SETS)
    assert_same_sets(open_sets(store_with("", put(), checksum=True)).load(), SETS)


def arrays_named(*names):
    def change(document):
        document["attributes"]["dkdist"]["arrays"] = list(names)

    return change


@pytest.mark.parametrize(
    "name",
    [
        *("../../x", "targets/..", "targets/../..", "targets/../points", "/etc", "targets//etc", "targets/"),
        *("targets/.hidden", "targets/zarr.json", "targets/a\\b", "other", "", 3, None, ["points"], "points"),
    ],
)
def test_array_names_that_leave_the_store_are_refused(tmp_path, name):
    memory = store_with("", arrays_named("points", "offsets", name))
    assert_refused(memory, "the names of the arrays")


def test_array_names_must_be_a_list():
    for names in (3, "points", {"a": 1}, [[]]):
        memory = store_with(
            "", lambda document, names=names: document["attributes"]["dkdist"].update(arrays=names)
        )
        assert_refused(memory, "the names of the arrays|has no metadata")


def test_only_arrays_named_in_the_commit_are_read():
    memory = store_with("", arrays_named("points", "offsets"))
    assert list(open_sets(memory).targets) == []
    assert_refused(store_with("", arrays_named("points", "offsets", "ids")), "array 'ids' .* has no metadata")
    assert_refused(store_with("", arrays_named("points")), "array 'offsets' .* has no metadata")


def commit(**values):
    return lambda document: document["attributes"]["dkdist"].update(values)


@pytest.mark.parametrize("value", [2**62, 2**53, -1, 0, 1e3, "9" * 5000, None])
@pytest.mark.parametrize("name", ["n_points", "n_sets", "n_dims", "generation"])
def test_absurd_counts_in_a_commit_are_refused(name, value):
    assert_refused(store_with("", commit(**{name: value})), "are invalid|cannot be read")


def store_with_declared_size(n_sets, n_points):
    """Write a store that declares many more sets and points than it has chunks for."""
    memory = store_with("", commit(n_sets=n_sets, n_points=n_points))
    for name, length in (
        ("offsets", n_sets + 1),
        ("points", n_points),
        ("targets/y", n_sets),
        ("targets/s", n_sets),
    ):
        document = read(memory, f"{name}/zarr.json")
        document["shape"][0] = length
        put_bytes(memory, f"{name}/zarr.json", json.dumps(document).encode())
    return memory


def test_declared_sets_without_chunks_allocate_no_memory():
    assert_refused(store_with_declared_size(2**45, 2**46), "offsets .* Chunk 268435456 of array 'offsets' is")
    memory = store_with_declared_size(2**45, 2**46)
    zarr.open_array(memory, path="offsets", mode="r+")[2**45 : 2**45 + 1] = 2**46
    store = open_sets(memory)
    tracemalloc.start()
    for ask in (lambda: store.sizes, lambda: store.targets["y"], lambda: store.targets["s"], store.load):
        with pytest.raises(StoreFormatError, match=r"missing or damaged|is missing"):
            ask()
    assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    tracemalloc.stop()


def test_a_set_of_too_many_chunks_is_refused():
    memory = MemoryStore()
    write_sets(memory, [np.zeros((4, 1))], chunk_rows=1)
    root = read(memory, "zarr.json")
    root["attributes"]["dkdist"].update(n_points=2**36)
    del root["attributes"]["dkdist"]["checksum"], root["attributes"]["dkdist"]["table"]
    put_bytes(memory, "zarr.json", json.dumps(root).encode())
    points = read(memory, "points/zarr.json")
    points["shape"] = [2**36, 1]
    put_bytes(memory, "points/zarr.json", json.dumps(points).encode())
    zarr.open_array(memory, path="offsets", mode="r+")[1:2] = 2**36
    assert_refused(memory, "at most 1048576 chunks; got 68719476736 chunks of 1 rows")


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("features/zarr.json", put(shape=[2**62, 3]), "shape of array 'features' must be"),
        ("features/zarr.json", put(shape=[11, 3]), "must have shape, chunks and dtype"),
        ("features/zarr.json", chunks_of(2**40, 3), "chunks of array 'features' must have at most"),
        ("features/zarr.json", codecs("numcodecs.pickle"), "numcodecs.pickle"),
        ("features/zarr.json", put(data_type="object"), "data type object"),
        ("zarr.json", commit(n_rows=2**62), "are invalid|at most 1152921504606846976 bytes"),
        ("zarr.json", commit(n_rows=-1), "are invalid"),
        ("zarr.json", commit(block_rows=2**40), "2147483648 bytes per block"),
    ],
)
def test_absurd_metadata_of_features_is_refused(key, change, message):
    memory = MemoryStore()
    output = create_features(memory, 10, 3, 4, "map")
    for i in range(3):
        output.write_block(i, np.zeros((min(4, 10 - 4 * i), 3), "f4"))
    document = read(memory, key)
    change(document)
    put_bytes(memory, key, json.dumps(document).encode())
    with pytest.raises(StoreFormatError, match=message):
        find_features(memory).read_block(0)


def test_a_missing_array_of_features_is_refused():
    memory = MemoryStore()
    output = create_features(memory, 10, 3, 4, "map")
    del memory._store_dict["features/zarr.json"]
    with pytest.raises(StoreFormatError, match="has no metadata"):
        output.read_block(0)
    assert as_location(memory).label.startswith("memory://")
