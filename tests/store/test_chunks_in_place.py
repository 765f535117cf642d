"""Chunks are bound to their position: exchanged, foreign and older chunks are refused by reads and by `verify`."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from crc32c import crc32c
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.io import StoreFormatError, open_sets, write_sets

from .samples import assert_same_sets, random_sets
from .test_damage import plain_store

KINDS = ("plain", "sharded", "grown", "imported", "compacted")
SIZES = [30, 11, 64, 9, 40, 70, 21, 3]
NAMES = ["a", "bb", "c", "", "e", "f", "ggg", "h"]


def collection(seed):
    rng = np.random.default_rng(seed)
    sets = random_sets(SIZES, 2, (), seed=seed)
    return sets, {"y": rng.random(8), "name": np.array(NAMES)}, rng.permutation(8)


def make(kind, place, seed):
    """Write a store of a seeded collection with one of the kinds of writer."""
    sets, targets, ids = collection(seed)
    if kind in ("plain", "sharded"):
        write_sets(place, sets, targets, ids, chunk_rows=16, shards=64 if kind == "sharded" else None)
    elif kind == "grown":
        write_sets(place, sets[:3], {n: v[:3] for n, v in targets.items()}, ids[:3], chunk_rows=16)
        for a, b in ((3, 4), (4, 7), (7, 8)):
            open_sets(place).append(sets[a:b], {n: v[a:b] for n, v in targets.items()}, ids[a:b])
    elif kind == "imported":

        def read(i):
            return sets[i : i + 1], {n: v[i : i + 1] for n, v in targets.items()}, ids[i : i + 1]

        dk.import_sets(place, range(8), read, chunk_rows=16, shards=None)
    else:
        make("plain", f"{place}.before", seed)
        dk.compact(f"{place}.before", place, chunk_rows=16)
    return Path(place)


def chunk_files(place):
    parts = ((p, p.relative_to(place).parts) for p in place.rglob("*") if p.is_file())
    return sorted(p for p, names in parts if "c" in names and names[0] != "commits")


def read_everything(place):
    store = open_sets(place)
    store.load()
    for name in store.targets:
        _ = store.targets[name]
    _ = store.ids


def assert_refused(place):
    for use in (read_everything, lambda p: open_sets(p).verify()):
        with pytest.raises(StoreFormatError, match=r"differs from the committed object.*write it again"):
            use(place)


def put_wrong_chunks(tmp_path, n_cases, seed):
    """Exchange chunks of an array, or take chunks from stores with other numbers and from earlier commits."""
    rng, cases = np.random.default_rng(seed), 0
    stores = {kind: make(kind, str(tmp_path / kind), 0) for kind in KINDS}
    others = {kind: make(kind, str(tmp_path / f"other-{kind}"), 1) for kind in KINDS}
    for kind in itertools.cycle(KINDS):
        place, other = stores[kind], others[kind]
        files = chunk_files(place)
        target = files[rng.integers(len(files))]
        name = target.relative_to(place)
        array = [f for f in files if f.parts[: len(place.parts) + 1] == target.parts[: len(place.parts) + 1]]
        source = (other / name, array[rng.integers(len(array))])[rng.integers(2)]
        mine, theirs = target.read_bytes(), source.read_bytes()
        if mine == theirs:
            continue
        target.write_bytes(theirs)
        if source in array:
            source.write_bytes(mine)
        assert_refused(place)
        target.write_bytes(mine)
        if source in array:
            source.write_bytes(theirs)
        cases += 1
        if cases == n_cases:
            break
    for place in stores.values():
        open_sets(place).verify()
        assert_same_sets(open_sets(place).load(), collection(0)[0])


def test_wrong_chunks_are_refused(tmp_path):
    put_wrong_chunks(tmp_path, 25, seed=0)


@pytest.mark.chaos
def test_many_wrong_chunks_are_refused(tmp_path):
    put_wrong_chunks(tmp_path, 300, seed=1)


def test_the_message_names_the_chunk_and_its_sets(tmp_path):
    place = make("plain", tmp_path / "s", 0)
    first, second = place / "points/c/1/0", place / "points/c/3/0"
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    # rows 16 to 31 are chunk 1: the last of set 0 (rows 0 to 29) and the first of set 1 (rows 30 to 40)
    message = r"chunk 1 of array 'points' of .*rows 16 to 31; sets 0 to 1.*differs from the committed object"
    with pytest.raises(StoreFormatError, match=message):
        open_sets(place).verify()
    with pytest.raises(StoreFormatError, match=r"rows 16 to 29; set 0\)"):
        open_sets(place)[0]
    assert_same_sets(open_sets(place)[5:].load(), collection(0)[0][5:])


def test_an_older_chunk_is_refused(tmp_path):
    """Chunks from before an append, and from a replaced store."""
    sets, targets, ids = collection(0)
    place = tmp_path / "s"
    write_sets(place, sets[:3], {n: v[:3] for n, v in targets.items()}, ids[:3], chunk_rows=64)
    older = {f: f.read_bytes() for f in chunk_files(place)}
    open_sets(place).append(sets[3:], {n: v[3:] for n, v in targets.items()}, ids[3:])
    refused = 0
    for file, data in older.items():
        newer = file.read_bytes()
        if newer == data:
            continue
        file.write_bytes(data)
        assert_refused(place)
        file.write_bytes(newer)
        refused += 1
    assert refused == 6  # the last chunk of each array
    changed, others, other_ids = collection(2)
    write_sets(place, changed, others, other_ids, overwrite=True, chunk_rows=64)
    for file, data in older.items():
        newer = file.read_bytes()
        if newer != data:
            file.write_bytes(data)
            assert_refused(place)
            file.write_bytes(newer)
    assert_same_sets(open_sets(place).load(), changed)


def test_exchanged_chunks_within_a_shard_are_refused(tmp_path):
    """The shard index exchanges two chunks and has a correct checksum."""
    sets = random_sets([64, 64], 2)
    write_sets(tmp_path / "s", sets, chunk_rows=16, shards=64)
    file = tmp_path / "s/points/c/0/0"
    data = file.read_bytes()
    index = np.frombuffer(data[-(4 * 16 + 4) : -4], "<u8").reshape(4, 2)[[1, 0, 2, 3]].tobytes()
    file.write_bytes(data[: -(4 * 16 + 4)] + index + crc32c(index).to_bytes(4, "little"))
    for read in (lambda: open_sets(tmp_path / "s")[0], lambda: open_sets(tmp_path / "s").load()):
        with pytest.raises(
            StoreFormatError, match=r"chunk 0 of array 'points'.*differs from the committed object"
        ):
            read()
    with pytest.raises(StoreFormatError, match="differs from the committed object"):
        open_sets(tmp_path / "s")._reader.entries("points", 3, 9)  # one chunk, by a byte range
    file.write_bytes(data)
    exchanged = bytearray(data)
    first, second = np.frombuffer(data[-(4 * 16 + 4) : -4], "<u8").reshape(4, 2)[:2].astype(int)
    if first[1] == second[1]:  # chunks of one length could be exchanged under the same index
        exchanged[first[0] : first.sum()] = data[second[0] : second.sum()]
        exchanged[second[0] : second.sum()] = data[first[0] : first.sum()]
        file.write_bytes(bytes(exchanged))
        with pytest.raises(StoreFormatError, match="differs from the committed object"):
            open_sets(tmp_path / "s")._reader.entries("points", 3, 9)


def test_a_damaged_foreign_or_missing_checksum_table_is_refused(tmp_path):
    place, other = make("plain", tmp_path / "s", 0), make("plain", tmp_path / "t", 1)
    (table,), (foreign,) = place.glob("commits/*/c/0"), other.glob("commits/*/c/0")
    data = table.read_bytes()
    for wrong in (foreign.read_bytes(), data[:-1], data[:40] + bytes([data[40] ^ 1]) + data[41:], b""):
        table.write_bytes(wrong)
        with pytest.raises(
            StoreFormatError, match=r"table of checksums of .* differs from the committed one"
        ):
            open_sets(place)
    table.unlink()
    with pytest.raises(StoreFormatError, match=r"table of checksums of .* is missing"):
        open_sets(place)


def remove_checksum_table(place):
    """Remove the checksum table, as in stores of earlier versions."""
    root = json.loads((place / "zarr.json").read_text())
    del root["attributes"]["dkdist"]["table"]
    (place / "zarr.json").write_text(json.dumps(root))
    shutil.rmtree(place / "commits")


def test_a_store_without_checksum_table_is_readable_and_appends_are_bound(tmp_path):
    sets, place = random_sets([100, 90, 80]), tmp_path / "s"
    write_sets(place, sets[:2], chunk_rows=16)
    remove_checksum_table(place)
    assert_same_sets(open_sets(place).load(), sets[:2])
    open_sets(place).verify()
    open_sets(place).append(sets[2:])
    assert_same_sets(open_sets(place).load(), sets)
    file = place / "points/c/14/0"
    file.write_bytes((place / "points/c/13/0").read_bytes())
    with pytest.raises(
        StoreFormatError, match=r"chunk 14 of array 'points'.*differs from the committed object"
    ):
        open_sets(place).load()


def test_a_store_written_with_zarr_alone_is_bound_from_its_first_append():
    memory = plain_store()
    open_sets(memory).append([np.ones((3, 2))], targets=[8])
    chunks = memory._store_dict
    chunks["points/c/3/0"], chunks["points/c/4/0"] = chunks["points/c/4/0"], chunks["points/c/3/0"]
    with pytest.raises(
        StoreFormatError, match=r"chunk 3 of array 'points'.*differs from the committed object"
    ):
        open_sets(memory).load()


def test_all_writers_make_the_same_checksums(tmp_path):
    tables = [
        open_sets(make(kind, str(tmp_path / kind), 0))._reader.table
        for kind in ("plain", "imported", "compacted")
    ]
    for name, bound in tables[0].items():
        for other in tables[1:]:
            assert (other[name].first, other[name].tail) == (0, None)
            np.testing.assert_array_equal(other[name].sums, bound.sums)


def test_plain_zarr_reads_appended_stores(tmp_path):
    sets = collection(0)[0]
    place = make("grown", tmp_path / "s", 0)
    group = zarr.open_group(place, mode="r")
    np.testing.assert_array_equal(group["points"][:], sets.points)
    np.testing.assert_array_equal(group["offsets"][:], sets.offsets)
    assert sorted(name for name, _ in group.members()) == ["ids", "offsets", "points", "targets", "weights"]
    memory = MemoryStore()
    write_sets(memory, sets[:3], chunk_rows=16)
    open_sets(memory).append(sets[3:])
    np.testing.assert_array_equal(zarr.open_group(memory, mode="r")["points"][:], sets.points)


def test_appends_leave_one_checksum_table(tmp_path):
    place = make("grown", tmp_path / "s", 0)
    (table,) = (p for p in (place / "commits").iterdir() if p.is_dir())
    assert [p.name for p in (table / "c").iterdir()] == ["0"]  # no tails
    shutil.copytree(place, tmp_path / "copy")
    open_sets(tmp_path / "copy").verify()
