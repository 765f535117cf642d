"""Damaged, foreign and future stores: a changed byte is refused or does not change any value."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore, ZipStore

from dkdist.io import StoreFormatError, open_sets, write_sets
from dkdist.sets import SampleSets

from .samples import assert_same_sets, random_sets

SETS = random_sets([30, 11, 64, 9, 40, 70], 2, ())
TARGETS = {"y": np.arange(6) / 7, "label": np.array(["a", "bb", "c", "", "e", "f"])}
IDS = np.arange(6) * 11


@pytest.fixture
def place(tmp_path):
    write_sets(tmp_path / "s", SETS[:4], {n: v[:4] for n, v in TARGETS.items()}, IDS[:4], chunk_rows=64)
    open_sets(tmp_path / "s").append(SETS[4:], {n: v[4:] for n, v in TARGETS.items()}, IDS[4:])
    return tmp_path / "s"


def documents(place):
    return sorted(place.rglob("zarr.json"))


def chunks(place):
    return sorted(p for p in place.rglob("*") if p.is_file() and p.name != "zarr.json")


def read_everything(place):
    store = open_sets(place)
    return store.load(), {name: store.targets[name] for name in store.targets}, store.ids


def assert_reads_as_written(place):
    sets, targets, ids = read_everything(place)
    assert_same_sets(sets, SETS)
    assert targets.keys() == TARGETS.keys()
    for name, values in TARGETS.items():
        np.testing.assert_array_equal(targets[name], values)
    np.testing.assert_array_equal(ids, IDS)


def flipped(data, byte, bit):
    changed = bytearray(data)
    changed[byte] ^= 1 << bit
    return bytes(changed)


def flip_chunks(place, n_flips, seed):
    rng = np.random.default_rng(seed)
    files = [(p, p.read_bytes()) for p in chunks(place)]
    for _ in range(n_flips):
        path, data = files[rng.integers(len(files))]
        path.write_bytes(flipped(data, rng.integers(len(data)), rng.integers(8)))
        with pytest.raises(StoreFormatError):
            read_everything(place)
        with pytest.raises(StoreFormatError):
            open_sets(place).verify()
        path.write_bytes(data)


def flip_documents(place, positions, rng):
    refused = 0
    for path, byte in positions:
        data = path.read_bytes()
        path.write_bytes(flipped(data, byte, rng.integers(8)))
        try:
            assert_reads_as_written(place)
        except StoreFormatError:
            refused += 1
        path.write_bytes(data)
    return refused


def document_bytes(place):
    return [(path, byte) for path in documents(place) for byte in range(path.stat().st_size)]


def test_the_store_is_read_as_written(place):
    assert_reads_as_written(place)
    # four chunks each of points and weights, one of everything else; the table
    assert len(chunks(place)) == 13


def test_flipped_bits_in_chunks_are_refused(place):
    flip_chunks(place, 100, seed=0)


def test_flipped_bits_in_metadata_are_refused_or_harmless(place):
    rng = np.random.default_rng(1)
    positions = document_bytes(place)
    chosen = rng.choice(len(positions), 80, replace=False)
    assert flip_documents(place, [positions[i] for i in chosen], rng) > 20


@pytest.mark.chaos
def test_many_flipped_bits_in_chunks_are_refused(place):
    flip_chunks(place, 1000, seed=2)


@pytest.mark.chaos
def test_every_byte_of_metadata_flipped_is_refused_or_harmless(place):
    rng = np.random.default_rng(3)
    assert flip_documents(place, document_bytes(place), rng) > 1000


def test_every_missing_file_is_detected(place):
    kept = place.parent / "kept"
    for path in [*chunks(place), *documents(place)]:
        if path in (place / "targets/zarr.json", *place.glob("commits/**/zarr.json")):
            continue  # contain only the node type, and the length of the table
        shutil.move(path, kept)
        with pytest.raises(StoreFormatError):
            read_everything(place)
        with pytest.raises(StoreFormatError):
            open_sets(place).verify()
        shutil.move(kept, path)
    assert_reads_as_written(place)


def test_every_truncated_chunk_is_detected(place):
    for path in chunks(place):
        data = path.read_bytes()
        for length in (0, 3, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:length])
            with pytest.raises(StoreFormatError):
                read_everything(place)
        path.write_bytes(data)


def test_errors_name_the_damaged_chunk_and_its_sets(place):
    chunk = place / "points/c/1/0"
    data = chunk.read_bytes()
    chunk.write_bytes(flipped(data, 50, 3))
    # points 64 to 127 are chunk 1; sets 2 (points 41 to 104) to 4 (114 to 153) have points there
    with pytest.raises(StoreFormatError, match=r"chunk 1 of array 'points'.*rows 64 to 127; sets 2 to 4"):
        open_sets(place).verify()
    np.testing.assert_array_equal(open_sets(place)[0], SETS[0])
    chunk.unlink()
    with pytest.raises(StoreFormatError, match=r"array 'points'.*sets 2 to 4.*chunk 1 is missing"):
        open_sets(place).load()
    chunk.write_bytes(data)
    (place / "targets/label/c/0").unlink()
    with pytest.raises(StoreFormatError, match=r"targets/label/c/0 of .* is missing"):
        _ = open_sets(place).targets["label"]
    assert_same_sets(open_sets(place).points_alone(), SETS)  # load() reads targets too
    (place / "offsets/c/0").unlink()
    with pytest.raises(StoreFormatError, match="Chunk 0 of array 'offsets' is missing"):
        open_sets(place)


def test_missing_chunks_of_codes_are_detected(tmp_path):
    codes = SampleSets(np.zeros((200, 1), "u1"), [0, 100, 200])
    for name, shards in (("a", None), ("b", 128)):
        write_sets(tmp_path / name, codes, chunk_rows=64, shards=shards)
        assert_same_sets(open_sets(tmp_path / name).load(), codes)
        (tmp_path / name / "points/c/1/0").unlink()
        with pytest.raises(StoreFormatError, match=r"points/c/1/0 of .* is missing"):
            open_sets(tmp_path / name).load()


def test_flipped_bits_in_shards_are_refused(tmp_path):
    write_sets(tmp_path / "s", random_sets([100, 150]), chunk_rows=16, shards=64)
    flip_chunks(tmp_path / "s", 40, seed=4)


def plain_store(n_sets=3, attrs=(), **changes):
    """Write a store with Zarr alone, following the format specification."""
    points = np.arange(12, dtype="f4").reshape(6, 2)
    arrays = {
        "points": points,
        "offsets": np.array([0, 1, 3, 6]),
        "targets/y": np.array([5, 6, 7]),
        **changes,
    }
    group = zarr.create_group(MemoryStore())
    for name, values in arrays.items():
        fill = {"points": np.nan, "offsets": -1}.get(name, 0)
        group.create_array(name, data=values, chunks=(2, *values.shape[1:]), fill_value=fill)
    commit = {"format": "dkdist.sets", "version": 1, "n_sets": n_sets, "n_points": 6, "n_dims": 2}
    group.attrs["dkdist"] = {**commit, "generation": 5, "sealed": False, **dict(attrs)}
    return group.store


def test_a_store_without_checksum_is_readable_and_appendable():
    memory = plain_store()
    store = open_sets(memory)
    assert store.generation == 5
    assert store[2].tolist() == [[6, 7], [8, 9], [10, 11]]
    assert store.targets["y"].tolist() == [5, 6, 7]
    assert store.ids is None
    store.verify()
    longer = store.append([np.ones((3, 2))], targets=[8])
    assert longer.targets["y"].tolist() == [5, 6, 7, 8]
    assert longer.sizes.tolist() == [1, 2, 3, 3]
    assert json.loads(memory._store_dict["zarr.json"].to_bytes())["attributes"]["dkdist"]["checksum"] > 0


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"format": "other"}, "format of .* must be 'dkdist.sets'; got 'other'"),
        ({"version": 2}, "version of .* must be at most 1; got 2. Upgrade dkdist"),
        ({"version": "1"}, "are invalid"),
        ({"n_sets": 0}, "are invalid"),
        ({"n_sets": True}, "are invalid"),
        ({"n_points": 6.0}, "are invalid"),
        ({"generation": 2**53}, "are invalid"),
        ({"sealed": 1}, "'sealed'"),
        ({"n_sets": 2}, "offsets .* must start at 0, increase, and end"),
        ({"n_points": 5}, "offsets .* must start at 0, increase, and end"),
        ({"n_sets": 4}, "array 'offsets' .* a shape of at least .5,."),
        ({"n_points": 7}, "array 'points' .* a shape of at least .7, 2."),
        ({"n_dims": 3}, "array 'points'"),
        ({"checksum": 1}, "do not match their checksum"),
    ],
)
def test_invalid_attributes_are_refused(attrs, message):
    with pytest.raises(StoreFormatError, match=message):
        open_sets(plain_store(attrs=attrs.items()))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"points": np.zeros((6, 2))}, "array 'points' .* float64"),
        ({"points": np.zeros((6, 3), "f4")}, "array 'points'"),
        ({"offsets": np.array([0, 1, 3, 6], "i4")}, "array 'offsets' .* int32"),
        ({"offsets": np.array([0, 3, 1, 6])}, "got 3 to 1 for set [12]"),
        ({"offsets": np.array([0, 1, 1, 6])}, "got 1 to 1 for set [12]"),
        ({"offsets": np.array([1, 2, 3, 6])}, r"for set 0\."),
        ({"offsets": np.array([0, 1, 9, 6])}, r"for set [12]\."),
        ({"points": np.full((6, 2), np.inf, "f4")}, "array 'points' .* not finite.*sets 0 to 2"),
        ({"weights": np.full(6, np.nan, "f4")}, "array 'weights' .* not finite"),
        ({"weights": np.ones(5, "f4")}, "array 'weights'"),
        ({"weights": np.ones(6)}, "array 'weights' .* float64"),
        ({"targets/y": np.zeros(2)}, "array 'targets/y'"),
        ({"ids": np.zeros(3, complex)}, "array 'ids' .* complex128"),
    ],
)
def test_invalid_arrays_are_refused(arrays, message):
    for key in (slice(None), [2, 1, 0]):
        with pytest.raises(StoreFormatError, match=message):
            open_sets(plain_store(**arrays))[key].load()


def test_paths_that_are_not_stores_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no store"):
        open_sets(tmp_path / "nowhere")
    with pytest.raises(StoreFormatError, match=r"there is no zarr.json"):
        open_sets(tmp_path)
    zarr.create_group(tmp_path / "group")
    with pytest.raises(StoreFormatError, match="no 'dkdist' attributes"):
        open_sets(tmp_path / "group")
    zarr.create_array(tmp_path / "array", shape=(3,), dtype="f4")
    with pytest.raises(StoreFormatError, match="must be a Zarr version 3 group; got a Zarr array"):
        open_sets(tmp_path / "array")
    for text in (b"", b"[1]", b"{", b"\xff", b'{"zarr_format": 3, "node_type": "group", "attributes": []}'):
        Path(tmp_path / "zarr.json").write_bytes(text)
        with pytest.raises(StoreFormatError, match=r"zarr\.json"):
            open_sets(tmp_path)


def test_a_broken_zip_file_is_refused(tmp_path):
    (tmp_path / "z.zip").write_bytes(b"PK nothing")
    store = ZipStore(tmp_path / "z.zip", mode="r")
    with pytest.raises(StoreFormatError, match="BadZipFile"):
        open_sets(store)


def test_appending_to_a_sealed_store_is_refused():
    with pytest.raises(StoreFormatError, match="is sealed"):
        open_sets(plain_store(attrs={"sealed": True}.items())).append([np.zeros((1, 2))], targets=[1])
