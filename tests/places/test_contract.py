"""Contract of every kind of storage: round trips, appends, replacement, damage, and resumed features."""

import numpy as np
import pytest
from store.samples import assert_same_sets, random_sets
from zarr.core.sync import sync

from dkdist.io import SetWriter, StoreFormatError, open_sets, write_sets
from dkdist.io._zarr.location.address import as_location, get_bytes, list_names, put_bytes
from dkdist.io.feature_writer import create_features, find_features, remove_features

from .kinds import HERE, HERE_AS_A_WHOLE, RANGED, SERVED, icechunk_moto, params

SETS = random_sets([3, 5, 2, 4, 7, 1], 2, ())
Y = np.arange(6) / 7
IDS = np.array(list("abcdef"))
every_kind = pytest.mark.parametrize("place", params(*HERE, *SERVED), indirect=True)
with_ranges = pytest.mark.parametrize("place", params(*HERE, *RANGED), indirect=True)


def written(place, **options):
    return write_sets(place, SETS, {"y": Y, "name": IDS}, IDS, chunk_rows=4, **options)


def assert_reads_as_written(store):
    assert_same_sets(store.load(), SETS)
    np.testing.assert_array_equal(store.targets["y"], Y)
    np.testing.assert_array_equal(store.targets["name"], IDS)
    np.testing.assert_array_equal(store.ids, IDS)
    store.verify()


@every_kind
def test_round_trip(place):
    assert_reads_as_written(written(place))
    store = open_sets(place)
    assert_reads_as_written(store)
    assert_same_sets(store[[4, 0, 5]].load(), SETS[[4, 0, 5]])
    names = list_names(as_location(place).open(read_only=True), "")
    assert names == ["commits", "ids", "offsets", "points", "targets", "weights", "zarr.json"]


@pytest.mark.parametrize("place", params(*HERE, *HERE_AS_A_WHOLE, *SERVED, icechunk_moto), indirect=True)
def test_appends_and_replacements_also_after_killed_writers(place):
    """A writer that is never closed leaves what a killed one leaves in storage that no lock protects."""
    killed = SetWriter(place, 2, chunk_rows=1)
    killed.append(SETS, Y)
    written = write_sets(place, SETS[:1], Y[:1], chunk_rows=1)
    for first in (1, 2):
        killed = SetWriter(place, 2, "a")
        killed.append(SETS[first:], Y[first:])
        opened = open_sets(place)
        assert_same_sets(opened.load(), SETS[:first])
        opened.verify()
        written = written.append(SETS[first : first + 1], Y[first : first + 1])
    written = written.append(SETS[3:], Y[3:])
    written.verify()
    assert_same_sets(written.load(), SETS)
    np.testing.assert_array_equal(open_sets(place).targets["y"], Y)
    replaced = write_sets(place, SETS[3:], Y[3:], overwrite=True)
    replaced.verify()
    assert_same_sets(open_sets(place).load(), SETS[3:])


@with_ranges
def test_sharded_round_trip(place):
    store = written(place, shards=8)
    assert_reads_as_written(store)
    assert_same_sets(store[2:3].load(), SETS[2:3])


@every_kind
def test_readers_keep_their_commit_while_others_append(place):
    old = write_sets(place, SETS[:2], Y[:2], chunk_rows=4)
    with SetWriter(place, 2, "a") as writer:
        writer.append(SETS[2:4], Y[2:4])
        assert_same_sets(old.load(), SETS[:2])
        assert len(open_sets(place)) == 2
        writer.append(SETS[4:], Y[4:])
    assert_same_sets(old.load(), SETS[:2])
    np.testing.assert_array_equal(old.targets["y"], Y[:2])
    new = open_sets(place)
    assert_same_sets(new.load(), SETS)
    assert new.generation == old.generation + 1
    new.verify()


@every_kind
def test_views_of_a_replaced_store_are_refused(place):
    old = written(place)
    assert_same_sets(old.load(), SETS)
    others = random_sets([3, 5, 2, 4, 7, 1], 2, (), seed=1)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_sets(place, others)
    write_sets(place, others, {"y": -Y, "name": IDS}, IDS, True, chunk_rows=4)
    for read in (old.load, lambda: old[0], lambda: old[[3, 1]].load(), lambda: old.targets["y"]):
        with pytest.raises(StoreFormatError, match="was replaced"):
            read()
    with pytest.raises(StoreFormatError, match="was replaced"):
        old.append(SETS, {"y": Y, "name": IDS}, IDS)
    assert_same_sets(open_sets(place).load(), others)


@every_kind
def test_nothing_is_visible_before_the_commit(place):
    writer = SetWriter(place, 2, chunk_rows=1)
    writer.append(SETS[:3])
    with pytest.raises((StoreFormatError, FileNotFoundError)):
        open_sets(place)
    writer.abort()
    with pytest.raises((StoreFormatError, FileNotFoundError)):
        open_sets(place)
    assert_same_sets(write_sets(place, SETS).load(), SETS)


@every_kind
def test_missing_and_damaged_chunks_are_named(place):
    written(place)
    store = as_location(place).open(read_only=False)
    for key, message in (
        ("points/c/1/0", r"chunk (1 of array 'points'|points/c/1/0 of)"),
        ("offsets/c/0", r"[Cc]hunk (0 of array 'offsets'|offsets/c/0 of)"),
        ("targets/y/c/0", r"targets/y"),
    ):
        (whole,) = get_bytes(store, [key])
        sync(store.delete(key))
        with pytest.raises(StoreFormatError, match=message):
            open_sets(place).verify()
        put_bytes(store, key, whole[:-5] + bytes([whole[-5] ^ 16]) + whole[-4:])
        with pytest.raises(StoreFormatError, match=message):
            open_sets(place).verify()
        put_bytes(store, key, whole)
    assert_reads_as_written(open_sets(place))


@every_kind
def test_of_two_writers_the_later_one_commits(place):
    write_sets(place, SETS[:1], chunk_rows=4)
    first, second = SetWriter(place, 2, "a"), SetWriter(place, 2, "a")
    first.append(SETS[1:2])
    second.append(SETS[2:])
    with pytest.raises(StoreFormatError, match="another writer"):
        first.close()
    second.close()
    assert_same_sets(open_sets(place).load(), SETS[[0, 2, 3, 4, 5]])


@every_kind
def test_features_resume_and_replaced_ones_are_refused(place):
    rows = np.random.default_rng(0).standard_normal((10, 3)).astype("f4")
    created = create_features(place, 10, 3, 4, "map A")
    created.write_block(1, rows[4:8])
    result = find_features(place)
    assert not result.complete
    assert result.missing_blocks() == [0, 2]
    with pytest.raises(StoreFormatError, match=r"blocks \[0, 2\]"):
        result.finish()
    result.write_block(0, rows[:4])
    result.write_block(2, rows[8:])
    done = result.finish()
    assert find_features(place).complete
    np.testing.assert_array_equal(np.concatenate([done.read_block(i) for i in range(3)]), rows)
    remove_features(place)
    assert find_features(place) is None
    other = create_features(place, 10, 3, 4, "map B")
    other.write_block(0, rows[:4] + 1)
    for use in (lambda: done.read_block(0), lambda: done.write_block(0, rows[:4])):
        with pytest.raises(StoreFormatError, match="was replaced"):
            use()
    np.testing.assert_array_equal(other.read_block(0), rows[:4] + 1)
    with pytest.raises(StoreFormatError, match=r"block 1 of .* is missing"):
        other.read_block(1)


@every_kind
def test_unrelated_objects_are_not_replaced(place):
    store = as_location(place).open(read_only=False)
    put_bytes(store, "photo.png", b"png")
    with pytest.raises(FileExistsError, match="not a store of sets"):
        write_sets(place, SETS, overwrite=True)
    with pytest.raises(FileExistsError, match="another location"):
        create_features(place, 10, 3, 4, "map A")
    assert get_bytes(store, ["photo.png"]) == [b"png"]
