"""An append never overwrites committed data: every object of the last commit is unchanged until the next commit."""

import contextlib
import errno

import numpy as np
import pytest
from zarr.storage import MemoryStore, WrapperStore

from dkdist.io import SetWriter, open_sets, write_sets
from dkdist.io._zarr import set_writer as writer_module

from .samples import assert_same_sets, random_sets

SETS = random_sets([30, 11, 64, 9, 40, 70], 2, ())
Y, IDS = np.arange(6) / 7, np.array(list("abcdef"))


class Watched(WrapperStore):
    """A store that detects overwritten objects and can fail from a given write on."""

    def __init__(self, store):
        super().__init__(store)
        self.writes, self.stop_at, self.protected = 0, 10**9, {}

    async def set(self, key, value, *args):
        self.writes += 1
        if self.writes > self.stop_at:
            raise OSError(errno.EIO, "the power is off")
        document = "zarr.json" in key
        if key in self.protected and not document:
            assert self.protected[key] == value.to_bytes(), f"{key} of the last commit was written over"
        await super().set(key, value, *args)


def write_three_sets(store, shards):
    write_sets(store, SETS[:3], Y[:3], IDS[:3], chunk_rows=16, shards=shards)


def append_rest(store, first=3):
    with SetWriter(store, 2, "a") as writer:
        for i in range(first, 6):
            writer.append(SETS[i : i + 1], Y[i : i + 1], IDS[i : i + 1])


@pytest.mark.parametrize("shards", [None, 64])
def test_an_append_overwrites_no_committed_chunk(shards, monkeypatch):
    watched = Watched(MemoryStore())
    write_three_sets(watched, shards)
    watched.protected = {k: v.to_bytes() for k, v in watched._store._store_dict.items()}
    monkeypatch.setattr(writer_module, "merge_tails", lambda *args: None)  # the step after the commit
    append_rest(watched)
    assert_same_sets(open_sets(watched).load(), SETS)
    for key, value in watched.protected.items():
        if key.startswith(("points/c", "offsets/c", "weights/c", "targets/y/c", "ids/c")):
            assert watched._store._store_dict[key].to_bytes() == value


def check_stopped_appends(shards, steps):
    """Stop an append before some of its writes, check the store, and append again."""
    committed = set()
    for stop_at in steps:
        watched = Watched(MemoryStore())
        write_three_sets(watched, shards)
        view, watched.writes, watched.stop_at = open_sets(watched), 0, stop_at
        with contextlib.suppress(OSError):
            append_rest(watched)
        done = watched.writes <= stop_at
        watched.stop_at = 10**9
        n = len(open_sets(watched))
        committed.add(n)
        for store in (open_sets(watched), view):
            assert_same_sets(store.load(), SETS[: len(store)])
            assert store.ids.tolist() == IDS[: len(store)].tolist()
            np.testing.assert_array_equal(store.targets["y"], Y[: len(store)])
            store.verify()
        if n == 3:
            append_rest(watched)
        again = open_sets(watched).append(SETS[:1], Y[:1], ["g"])
        assert_same_sets(again[:6].load(), SETS)
        again.verify()
        assert_same_sets(view.load(), SETS[:3])
        if done:
            break
    assert done
    assert committed == {3, 6}


@pytest.mark.parametrize("shards", [None, 64])
def test_a_stopped_append_leaves_a_commit_and_can_be_repeated(shards):
    check_stopped_appends(shards, range(2, 200, 6))


@pytest.mark.chaos
@pytest.mark.parametrize("shards", [None, 64])
def test_an_append_stopped_at_any_write_leaves_a_commit(shards):
    check_stopped_appends(shards, range(200))


@pytest.mark.parametrize("shards", [None, 64])
def test_unmerged_tails_are_readable_and_merged_by_the_next_append(tmp_path, monkeypatch, shards):
    settle = writer_module.merge_tails
    for place in (tmp_path / "s", MemoryStore()):
        write_three_sets(place, shards)
        monkeypatch.setattr(writer_module, "merge_tails", lambda *args: None)
        append_rest(place)
        store = open_sets(place)
        assert_same_sets(store.load(), SETS)
        assert_same_sets(store[[5, 2, 3]].load(), SETS[[5, 2, 3]])
        store.verify()
        monkeypatch.setattr(writer_module, "merge_tails", settle)
        later = store.append(SETS[:1], Y[:1], ["g"])
        assert_same_sets(later[:6].load(), SETS)
        # a view of the previous commit, opened before its tails were merged
        assert_same_sets(store.load(), SETS)
        later.verify()


def test_a_late_tail_copy_of_an_older_writer_does_no_damage():
    """Stores that are not local copy tails; a slow writer may overwrite the tail of the next writer."""
    memory = MemoryStore()
    write_three_sets(memory, None)
    open_sets(memory).append(SETS[3:4], Y[3:4], IDS[3:4])
    late = {k: v for k, v in memory._store_dict.items() if "/c/" in k}
    open_sets(memory).append(SETS[4:5], Y[4:5], IDS[4:5])
    memory._store_dict.update(late)
    assert_same_sets(open_sets(memory).load(), SETS[:5])
    store = open_sets(memory).append(SETS[5:], Y[5:], IDS[5:])
    assert_same_sets(store.load(), SETS)
    store.verify()
