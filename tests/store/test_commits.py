"""Visibility of commits while writers write, fail, replace or compete."""

import errno
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore, WrapperStore

from dkdist.io import SetWriter, StoreFormatError, open_sets, write_sets
from dkdist.io._zarr import lease as claim
from dkdist.io._zarr.location.conditional import replace_object
from dkdist.io._zarr.location.disk import DiskStore
from dkdist.sets import SampleSetError

from .samples import assert_same_sets, random_sets

SETS = random_sets([3, 5, 2, 4])


def test_nothing_is_visible_before_close(tmp_path):
    with SetWriter(tmp_path / "s", 2, chunk_rows=1) as writer:
        writer.append(SETS)
        with pytest.raises(FileNotFoundError, match="there is no store"):
            open_sets(tmp_path / "s")
    assert_same_sets(open_sets(tmp_path / "s").load(), SETS)
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
    memory = MemoryStore()
    with SetWriter(memory, 2, chunk_rows=1) as writer:
        writer.append(SETS)
        with pytest.raises(StoreFormatError, match="nothing was committed"):
            open_sets(memory)
    assert_same_sets(open_sets(memory).load(), SETS)


def test_an_exception_commits_nothing(tmp_path):
    def fail(place, mode):
        with SetWriter(place, 2, mode) as writer:
            writer.append(SETS)
            raise RuntimeError("stop")

    memory = MemoryStore()
    for place in (memory, tmp_path / "s"):
        with pytest.raises(RuntimeError, match="stop"):
            fail(place, "w")
        write_sets(place, SETS[:2], chunk_rows=2)
        with pytest.raises(RuntimeError, match="stop"):
            fail(place, "a")
        assert_same_sets(open_sets(place).load(), SETS[:2])
        assert_same_sets(open_sets(place).append(SETS[2:]).load(), SETS)
        open_sets(place).verify()
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_overwriting_requires_overwrite(tmp_path):
    for place in (MemoryStore(), tmp_path / "s"):
        first = write_sets(place, SETS)
        with pytest.raises(FileExistsError, match="overwrite=True"):
            write_sets(place, SETS[:1])
        with pytest.raises(SampleSetError):
            write_sets(place, SETS, targets=[0], overwrite=True)
        assert_same_sets(first.load(), SETS)
        second = write_sets(place, SETS[:1], overwrite=True)
        assert second.generation > first.generation
        assert len(open_sets(place)) == 1


def test_the_old_store_is_readable_until_the_new_one_is_committed(tmp_path):
    old = write_sets(tmp_path / "s", SETS)
    with SetWriter(tmp_path / "s", 1, overwrite=True) as writer:
        writer.append(random_sets([2], 1))
        assert_same_sets(open_sets(tmp_path / "s").load(), SETS)
        assert_same_sets(old.load(), SETS)
    assert open_sets(tmp_path / "s").n_dims == 1
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_views_of_a_replaced_store_are_refused(tmp_path):
    old = write_sets(tmp_path / "s", SETS, targets=np.zeros(4))
    pickled = pickle.dumps(old[1:])
    write_sets(tmp_path / "s", random_sets([3, 5, 2, 4], seed=1), targets=np.ones(4), overwrite=True)
    for read in (old.load, lambda: old[0], lambda: old.targets["y"], lambda: pickle.loads(pickled).load()):
        with pytest.raises(StoreFormatError, match="was replaced"):
            read()


def test_old_views_keep_their_prefix_after_an_append(tmp_path):
    for place in (MemoryStore(), tmp_path / "s"):
        old = write_sets(place, SETS[:2], targets=[0, 1])
        pickled = pickle.dumps(old)
        new = old.append(SETS[2:], targets=[2, 3])
        assert new.generation == old.generation + 1 < 2**53
        assert_same_sets(old.load(), SETS[:2])
        assert old.targets["y"].tolist() == [0, 1]
        assert_same_sets(new.load(), SETS)
    assert_same_sets(pickle.loads(pickled).load(), SETS[:2])


def test_unrelated_files_are_never_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not a store of sets"):
        write_sets(tmp_path, SETS, overwrite=True)
    zarr.create_group(tmp_path / "g")
    with pytest.raises(FileExistsError, match="not a store of sets"):
        write_sets(tmp_path / "g", SETS, overwrite=True)
    with pytest.raises(FileExistsError, match="not a store of sets"):
        write_sets(tmp_path / "notes.txt", SETS, overwrite=True)
    (tmp_path / "empty").mkdir()
    assert len(write_sets(tmp_path / "empty", SETS)) == 4
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_writer_without_sets_leaves_no_files(tmp_path):
    with pytest.raises(SampleSetError, match="nothing was appended"), SetWriter(tmp_path / "s", 2):
        pass
    assert list(tmp_path.iterdir()) == []


def test_appending_to_a_view_of_a_replaced_store_is_refused():
    memory = MemoryStore()
    old = write_sets(memory, SETS)
    write_sets(memory, SETS[:1], overwrite=True)
    with pytest.raises(StoreFormatError, match="was replaced"):
        old.append(SETS)
    assert len(open_sets(memory)) == 1


def test_of_two_appending_writers_the_later_one_commits(tmp_path):
    for place in (MemoryStore(), tmp_path / "s"):
        write_sets(place, SETS[:1], chunk_rows=1)
        first, second = SetWriter(place, 2, "a"), SetWriter(place, 2, "a")
        first.append(SETS[1:2])
        second.append(SETS[2:])
        with pytest.raises(StoreFormatError, match="another writer"):
            first.close()
        second.close()
        assert_same_sets(open_sets(place).load(), SETS[[0, 2, 3]])


def test_a_writer_is_refused_after_a_concurrent_commit(tmp_path):
    for place in (MemoryStore(), tmp_path / "s"):
        write_sets(place, SETS[:1])
        late = SetWriter(place, 2, "a")
        open_sets(place).append(SETS[1:2])
        late.append(SETS[2:])
        with pytest.raises(StoreFormatError, match="another writer"):
            late.close()
        assert_same_sets(open_sets(place).load(), SETS[:2])
    late = SetWriter(tmp_path / "s", 2, overwrite=True)
    late.append(SETS)
    open_sets(tmp_path / "s").append(SETS[2:])
    with pytest.raises(StoreFormatError, match="another writer"):
        late.close()
    assert_same_sets(open_sets(tmp_path / "s").load(), SETS)


@pytest.mark.parametrize(
    ("batch", "extra", "message"),
    [
        (random_sets([2], 3), {"targets": [0.0], "ids": ["a"]}, "appended points must .*2,.*3,"),
        (random_sets([2], 2, ()), {"targets": [0.0], "ids": ["a"]}, "appended sets must not have weights"),
        (random_sets([2]), {"ids": ["a"]}, "appended sets must have targets 'y'"),
        (
            random_sets([2]),
            {"targets": {"y": [0.0], "z": [0]}, "ids": ["a"]},
            "appended sets must not have targets 'z'",
        ),
        (
            random_sets([2]),
            {"targets": [0], "ids": ["a"]},
            "appended targets 'y' must have dtype float64 .*; got int64",
        ),
        (random_sets([2]), {"targets": [[0.0]], "ids": ["a"]}, "trailing shape .*; got float64 and .1,."),
        (random_sets([2]), {"targets": [0.0]}, "appended sets must have ids"),
        (random_sets([2]), {"targets": [0.0], "ids": [3]}, "appended ids must have dtype str .*; got int64"),
    ],
)
def test_appends_with_another_layout_are_refused(batch, extra, message):
    memory = MemoryStore()
    store = write_sets(memory, SETS, targets=np.zeros(4), ids=list("abcd"))
    with pytest.raises(StoreFormatError, match=message):
        store.append(batch, **extra)
    writer = SetWriter(MemoryStore(), 2)
    writer.append(SETS, np.zeros(4), list("abcd"))
    with pytest.raises(StoreFormatError, match=message):
        writer.append(batch, **extra)
    assert len(open_sets(memory)) == 4


def test_invalid_arguments_of_writers_are_refused_by_name(tmp_path):
    write_sets(tmp_path / "s", SETS)
    for call, error, message in (
        (
            lambda: SetWriter(tmp_path / "s", 5, "a"),
            StoreFormatError,
            "n_dims must be 2, as in .*; got 5",
        ),
        (lambda: SetWriter(tmp_path / "s", 2, "r"), ValueError, "mode must be 'w' .*; got 'r'"),
        (lambda: SetWriter(tmp_path / "t", 0), ValueError, "n_dims must be at least 1; got 0"),
        (lambda: SetWriter(tmp_path / "t", 2, chunk_rows=3), ValueError, "power of two"),
        (lambda: write_sets(tmp_path / "t", SETS, chunk_rows=4, shards=6), ValueError, "multiple of the 4"),
        (lambda: SetWriter(tmp_path / "s", 2, "a", chunk_rows=4), ValueError, "Omit them to append"),
        (lambda: SetWriter(tmp_path / "t", 2).close(), SampleSetError, "nothing was appended"),
        (lambda: SetWriter(tmp_path / "t", 2, "a"), FileNotFoundError, "there is no store"),
    ):
        with pytest.raises(error, match=message):
            call()
    writer = SetWriter(tmp_path / "s", 2, "a")
    writer.append(SETS[:0])
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.append(SETS)
    assert_same_sets(open_sets(tmp_path / "s").load(), SETS)


class FullDisk(WrapperStore):
    """A store on a disk with ``room`` free bytes."""

    room = 10**9

    async def set(self, key, value, *args):
        if len(value) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(value)
        await super().set(key, value, *args)


def os_error_of(call):
    try:
        call()
    except OSError as error:
        return error
    return None


def test_a_full_disk_is_reported_and_keeps_the_last_commit():
    more = random_sets([2000, 3000])
    disk = FullDisk(MemoryStore())
    write_sets(disk, SETS, targets=np.zeros(4), chunk_rows=64)
    failures = 0
    for room in range(0, 60_000, 2_500):
        disk.room = room
        error = os_error_of(lambda: open_sets(disk).append(more, targets=np.ones(2)))
        if error is None:
            break
        assert error.errno == errno.ENOSPC
        failures += 1
        store = open_sets(disk)
        assert_same_sets(store.load(), SETS)
        store.verify()
    assert failures > 10
    disk.room = 10**9
    assert len(open_sets(disk)) == 6
    open_sets(disk).verify()


def test_files_of_an_abandoned_append_are_overwritten(tmp_path):
    place = tmp_path / "s"
    write_sets(place, SETS[:1], targets=[0], chunk_rows=2)
    writer = SetWriter(place, 2, "a")
    writer.append(random_sets([500], seed=5), targets=[9])
    del writer
    store = open_sets(place).append(SETS[1:], targets=[1, 2, 3])
    assert_same_sets(store.load(), SETS)
    assert store.targets["y"].tolist() == [0, 1, 2, 3]
    store.verify()


def raise_io_error(*_, **__):
    raise OSError(errno.EIO, "the disk is gone")


@pytest.mark.parametrize("where", ["flush", "settle", "open"])
def test_an_error_after_the_commit_states_that_it_was_committed(where, tmp_path, monkeypatch):
    store = write_sets(tmp_path / "s", SETS)
    with monkeypatch.context() as patch:

        def replace_and_break(*args):
            replace_object(*args)
            patch.setattr(DiskStore, "flush", raise_io_error)

        if where == "flush":
            patch.setattr(claim, "replace_object", replace_and_break)
        elif where == "settle":
            patch.setattr("dkdist.io._zarr.set_writer.remove_obsolete", raise_io_error)
        else:
            patch.setattr("dkdist.io.set_store.open_sets", raise_io_error)
        with pytest.raises(OSError, match=r"s was committed before this error.* the disk is gone") as result:
            store.append(SETS)
        assert result.value.errno == errno.EIO
    assert len(open_sets(tmp_path / "s")) == 2 * len(SETS)


def test_an_interrupt_after_the_commit_states_that_it_was_committed():
    with pytest.raises(KeyboardInterrupt) as result, claim.after_commit("s.zarr"):
        raise KeyboardInterrupt
    assert "s.zarr was committed" in result.value.__notes__[0]


def test_concurrent_appends_from_threads_all_commit(tmp_path):
    store = write_sets(tmp_path / "s", SETS)
    with ThreadPoolExecutor(3) as pool:
        appends = [pool.submit(open_sets(tmp_path / "s").append, SETS) for _ in range(9)]
        assert [one.exception() for one in appends] == [None] * 9
    assert len(open_sets(tmp_path / "s")) == 10 * len(SETS)
    assert len(store) == len(SETS)
