"""Stores in icechunk: a commit of a store is a commit of the repository, and history is readable."""

import pickle

import dask.array as da
import numpy as np
import pytest
from store.samples import assert_same_sets, random_sets

import dkdist as dk
from dkdist.io import SetWriter, StoreFormatError, open_sets, write_sets

icechunk = pytest.importorskip("icechunk")
SETS = random_sets([3, 5, 2, 4, 7, 1], 2, ())
Y, IDS = np.arange(6) / 7, np.array(list("abcdef"))


def new_repository():
    return icechunk.Repository.create(icechunk.in_memory_storage())


def written(place, first=0, stop=6, **options):
    return write_sets(place, SETS[first:stop], Y[first:stop], IDS[first:stop], chunk_rows=4, **options)


def appended(place, first, stop=6):
    with SetWriter(place, 2, "a") as writer:
        writer.append(SETS[first:stop], Y[first:stop], IDS[first:stop])


def import_sets(place):
    dk.import_sets(place, range(6), lambda i: (SETS[i : i + 1], Y[i : i + 1], IDS[i : i + 1]), chunk_rows=4)


def write_and_fail(place):
    with SetWriter(place, 2, "a") as writer:
        writer.append(SETS[2:], Y[2:], IDS[2:])
        raise ZeroDivisionError


def assert_holds(store, n):
    assert_same_sets(store.load(), SETS[:n])
    np.testing.assert_array_equal(store.targets["y"], Y[:n])
    np.testing.assert_array_equal(store.ids, IDS[:n])
    store.verify()


def snapshots(repository):
    """Ids of the snapshots, the oldest first, without the empty one."""
    return [info.id for info in repository.ancestry(branch="main")][-2::-1]


@pytest.mark.parametrize("shards", [None, 8])
def test_write_append_and_replace_are_one_commit_each(shards):
    repository = new_repository()
    first = written(repository, 0, 2, shards=shards)
    second = first.append(SETS[2:3], Y[2:3], IDS[2:3]).append(SETS[3:], Y[3:], IDS[3:])
    assert_holds(second, 6)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        written(repository)
    written(repository, 0, 1, overwrite=True)
    assert [len(open_sets(repository, snapshot=s)) for s in snapshots(repository)] == [2, 3, 6, 1]
    for snapshot, n in zip(snapshots(repository), (2, 3, 6, 1), strict=True):
        assert_holds(open_sets(repository, snapshot=snapshot), n)
    assert_holds(first, 2)  # a view goes on reading its snapshot
    message = next(iter(repository.ancestry(branch="main"))).message
    assert message == f"dkdist: 1 sets, generation {open_sets(repository).generation}"


def test_nothing_is_visible_before_the_commit_and_nothing_is_left_without_one():
    repository = new_repository()
    written(repository, 0, 2)
    before = snapshots(repository)
    abandoned = SetWriter(repository, 2, "a")  # as by a writer that is killed
    abandoned.append(SETS[2:], Y[2:], IDS[2:])
    assert_holds(open_sets(repository), 2)
    store = repository.writable_session("main").store
    with pytest.raises(ZeroDivisionError):
        write_and_fail(store)
    assert not store.session.has_uncommitted_changes
    assert snapshots(repository) == before
    assert_holds(open_sets(repository), 2)
    appended(store, 2)
    assert_holds(open_sets(repository), 6)


def test_the_first_of_two_writers_commits():
    repository = new_repository()
    written(repository, 0, 1)
    first, second = SetWriter(repository, 2, "a"), SetWriter(repository, 2, "a")
    first.append(SETS[1:], Y[1:], IDS[1:])
    second.append(SETS[2:], Y[2:], IDS[2:])
    first.close()
    with pytest.raises(
        StoreFormatError, match=r"another writer committed to branch 'main'.*Nothing was.*new writable"
    ):
        second.close()
    assert_holds(open_sets(repository), 6)


def test_a_writer_that_opened_an_earlier_commit_is_refused():
    repository = new_repository()
    written(repository, 0, 1)
    late = SetWriter(repository, 2, "a")
    late._lease = type(late._lease)(late._lease.address.for_writing(), late._old.commit.generation - 1)
    with pytest.raises(StoreFormatError, match="another writer opened or committed"):
        late.append(SETS[1:], Y[1:], IDS[1:])


def test_sessions_of_the_user():
    repository = new_repository()
    session = repository.writable_session("main")
    assert_holds(written(session.store), 6)
    assert len(snapshots(repository)) == 1
    with pytest.raises(PermissionError, match=r"was committed. Pass the repository, or the store of a new"):
        open_sets(session.store).append(SETS[:1], Y[:1], ["g"])
    read_only = repository.readonly_session("main").store
    assert_holds(open_sets(read_only), 6)
    assert_holds(open_sets(read_only, snapshot=snapshots(repository)[0]), 6)
    with pytest.raises(ValueError, match="Pass the icechunk repository instead of the store"):
        open_sets(read_only, snapshot="1CECHNKREP0F1RSTCMT0")
    changed = repository.writable_session("main")
    changed.store.sync_clear()
    for write in (written, import_sets):
        with pytest.raises(StoreFormatError, match=r"not committed, and dkdist commits the whole session"):
            write(changed.store)
    assert changed.has_uncommitted_changes


def test_snapshots_are_read_only_and_belong_to_icechunk(tmp_path):
    repository = new_repository()
    written(repository)
    (snapshot,) = snapshots(repository)
    with pytest.raises(PermissionError, match=r"is a snapshot, which is read-only. Open the repository"):
        open_sets(repository, snapshot=snapshot).append(SETS[:1], Y[:1], ["g"])
    with pytest.raises(OSError, match=r"cannot open icechunk .* at VYZYFVH3SA0XWG4C1A20 .*not found"):
        open_sets(repository, snapshot="VYZYFVH3SA0XWG4C1A20")
    written(tmp_path / "s")
    with pytest.raises(ValueError, match=r"snapshot must be omitted for .*s, which has no history"):
        open_sets(tmp_path / "s", snapshot=snapshot)


def test_damage_is_found():
    repository = new_repository()
    written(repository)
    session = repository.writable_session("main")
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    other = sync(session.store.get("points/c/1/0", default_buffer_prototype()))
    sync(session.store.set("points/c/0/0", other))
    session.commit("exchange chunks")
    with pytest.raises(StoreFormatError, match="differs from the committed object"):
        open_sets(repository).verify()


def test_a_view_of_a_repository_on_a_disk_is_read_in_other_processes(tmp_path):
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path)))
    store = written(repository, 0, 2).append(SETS[2:], Y[2:], IDS[2:])
    copy = pickle.loads(pickle.dumps(store))
    assert_holds(copy, 6)
    assert copy._reader is store._reader  # one reader per process
    writer = SetWriter(repository, 2, "a")
    with pytest.raises(ValueError, match=r"tasks in other processes cannot write to icechunk session"):
        pickle.dumps(writer._lease)


def test_parallel_writers_and_features():
    repository, other, features = new_repository(), new_repository(), new_repository()
    import_sets(repository)
    assert_holds(open_sets(repository), 6)
    dk.compact(open_sets(repository)[:4], other, chunk_rows=2)
    assert_holds(open_sets(other), 4)
    assert_holds(dk.compact(repository), 6)
    store = open_sets(repository)
    write_sets(repository, store[:3], overwrite=True)  # reads the snapshot that it replaces
    assert_holds(store, 6)
    assert_holds(open_sets(repository), 3)
    assert len(snapshots(repository)) == 3
    rows = da.random.default_rng(0).normal(size=(10, 3), chunks=(4, 3)).astype("f4")
    np.testing.assert_array_equal(dk.write_features(features, rows).compute(), rows.compute())
    np.testing.assert_array_equal(
        dk.write_features(features, rows + 1, overwrite=True).compute(), (rows + 1).compute()
    )
    assert len(snapshots(features)) == 2
