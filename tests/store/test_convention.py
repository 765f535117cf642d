"""The layout is that of any Zarr hierarchy: its keys, and what Zarr, NumPy, xarray and awkward read and write."""

import re

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore, MemoryStore, WrapperStore

import dkdist as dk
from dkdist.io import SetWriter, StoreFormatError, open_sets, write_sets

from .samples import assert_same_sets, random_sets

SETS = random_sets([30, 11, 64, 9, 40, 70], 2, (3,))
TARGETS = {"y": np.arange(6) / 7, "pair": np.arange(12).reshape(6, 2), "name": np.array(list("abcdef"))}
IDS = np.array(list("uvwxyz"))
FEATURES = np.random.default_rng(0).normal(size=(10, 3)).astype("f4")


class Keys(WrapperStore):
    """A store that notes every key that is written."""

    def __init__(self, store):
        super().__init__(store)
        self.written = set()

    async def set(self, key, value, *args):
        self.written.add(key)
        await super().set(key, value, *args)


def written(place, stop=6, **options):
    targets = {name: values[:stop] for name, values in TARGETS.items()}
    return write_sets(place, SETS[:stop], targets, IDS[:stop], chunk_rows=16, **options)


def grown(place, **options):
    store = written(place, 2, **options)
    for i in range(2, 6):
        store = store.append(SETS[i : i + 1], {n: v[i : i + 1] for n, v in TARGETS.items()}, IDS[i : i + 1])
    return store


class FailsLater:
    """Read a set; the third one fails when it is read again, to be written."""

    def __init__(self):
        self.n_reads = 0

    def __call__(self, i):
        self.n_reads += i == 2
        if self.n_reads > 1:
            raise ZeroDivisionError
        return SETS[i : i + 1]


def write_and_fail(place):
    with SetWriter(place, 2, "a") as writer:
        writer.append(SETS[:1], {name: values[:1] for name, values in TARGETS.items()}, ["new"])
        raise ZeroDivisionError


@pytest.mark.parametrize("shards", [None, 64])
def test_every_key_is_a_document_or_a_chunk_of_an_array(shards):
    keys = Keys(MemoryStore())
    grown(keys, shards=shards)
    written(keys, overwrite=True, shards=shards)
    with pytest.raises(ValueError, match="source 2 cannot be imported"):
        dk.import_sets(keys, range(4), FailsLater(), overwrite=True)
    features = Keys(MemoryStore())
    dk.write_features(features, FEATURES)
    for store in (keys, features):
        folders = {key.removesuffix("zarr.json") for key in store.written if key.endswith("zarr.json")}
        arrays = {re.fullmatch(r"(.+?/)c(/\d+)+", key)[1] for key in store.written if "zarr.json" not in key}
        assert arrays <= folders
        parents = {"".join(f"{part}/" for part in f.split("/")[:-2]) for f in folders if f}
        assert parents <= folders
    assert any(key.startswith("commits/") and key.endswith("/c/3") for key in keys.written)  # a tail
    assert "receipts/c/0/0" in features.written
    assert "stopped/zarr.json" in keys.written


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_zarr_lists_a_store_without_warnings(kind, tmp_path):
    place = tmp_path / "s" if kind == "local" else MemoryStore()
    grown(place)
    with pytest.raises(ZeroDivisionError):
        write_and_fail(place)
    members = dict(zarr.open_group(place, mode="r", use_consolidated=False).members(max_depth=None))
    (table,) = (name for name in members if name.startswith("commits/"))
    public = {"ids", "offsets", "points", "targets", "weights", *(f"targets/{name}" for name in TARGETS)}
    assert members.keys() == public | {"commits", table}
    consolidated = dict(zarr.open_group(place, mode="r", use_consolidated=True).members(max_depth=None))
    assert consolidated.keys() == public
    for name in public - {"targets"}:
        assert consolidated[name].metadata.to_dict() == members[name].metadata.to_dict()
    assert members[table][:].tobytes().startswith(b'{"arrays": [["ids"')


def test_xarray_opens_sets_and_features(tmp_path):
    xr = pytest.importorskip("xarray")
    grown(tmp_path / "s")
    with xr.open_zarr(tmp_path / "s") as data:
        assert dict(data.sizes) == {"point": 224, "column": 2, "offset": 7, "weight": 3, "set": 6}
        np.testing.assert_array_equal(data["points"], SETS.points)
        np.testing.assert_array_equal(data["weights"], SETS.weights)
        np.testing.assert_array_equal(data["offsets"], SETS.offsets)
        assert data["offsets"].dtype == np.int64
        assert data["ids"].values.tolist() == IDS.tolist()
        assert data.attrs["Conventions"] == "CF-1.11"
        assert "set after set" in data["points"].attrs["long_name"]
    with xr.open_datatree(tmp_path / "s", engine="zarr") as tree:
        assert tree.groups == ("/", "/targets")
        for name, values in TARGETS.items():
            np.testing.assert_array_equal(tree["targets"][name], values)
    dk.write_features(tmp_path / "f", FEATURES)
    with xr.open_zarr(tmp_path / "f") as data:
        assert data["features"].dims == ("set", "feature")
        np.testing.assert_array_equal(data["features"], FEATURES)


def test_other_readers_see_the_commit_during_an_append():
    memory = MemoryStore()
    written(memory, 2)
    writer = SetWriter(memory, 2, "a")
    writer.append(SETS[2:], {name: values[2:] for name, values in TARGETS.items()}, IDS[2:])
    writer._arrays["points"].close()  # a killed writer may have written some of the longer lengths
    assert zarr.open_group(memory, mode="r", use_consolidated=False)["points"].shape == (224, 2)
    group = zarr.open_group(memory, mode="r")
    np.testing.assert_array_equal(group["points"][:], SETS[:2].points)


def test_a_store_of_many_targets_keeps_a_small_root_document():
    memory, targets = MemoryStore(), {f"t{i}": np.arange(2) for i in range(300)}
    write_sets(memory, SETS[:2], targets)
    assert len(memory._store_dict["zarr.json"].to_bytes()) < 2**18
    assert zarr.open_group(memory, mode="r")["targets/t299"][:].tolist() == [0, 1]
    assert sorted(open_sets(memory).targets) == sorted(targets)


def test_a_group_of_another_name_is_not_the_lease_of_a_writer():
    """A foreign hierarchy without a root document is not taken for what a killed writer left."""
    memory = MemoryStore()
    zarr.create_group(memory, path="commits", attributes={"mine": True})
    del memory._store_dict["zarr.json"]
    with pytest.raises(FileExistsError, match="not a store of sets"):
        written(memory, overwrite=True)
    assert "commits/zarr.json" in memory._store_dict


def test_a_writer_that_is_killed_before_its_commit_is_replaced():
    memory = MemoryStore()
    abandoned = SetWriter(memory, 2, chunk_rows=16)
    abandoned.append(SETS[:3])
    with pytest.raises(StoreFormatError, match="nothing was committed"):
        open_sets(memory)
    assert_same_sets(written(memory).load(), SETS)
    assert not [key for key in memory._store_dict if key.startswith("commits/") and "/c/1" in key]


def test_stores_are_removed_from_a_local_path_as_a_whole(tmp_path):
    """The remaining tables of earlier commits are removed, with their folders."""
    grown(LocalStore(tmp_path / "s"))
    assert len(list((tmp_path / "s/commits").iterdir())) == 2  # the document and one table
    written(tmp_path / "s", overwrite=True)
    assert len(list((tmp_path / "s/commits").iterdir())) == 2
