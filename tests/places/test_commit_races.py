"""Two writers that commit at the same time: with conditional writes or locks, at most one succeeds."""

from threading import Event, Thread

import pytest
from store.samples import assert_same_sets, random_sets
from zarr.storage import MemoryStore

from dkdist.io import SetWriter, StoreFormatError, open_sets, write_sets
from dkdist.io._zarr.growing_array import RecordingArray
from dkdist.io._zarr.location import exchange
from dkdist.io._zarr.location.address import as_location, get_bytes, put_bytes
from dkdist.io._zarr.location.conditional import LeaseLostError, replace_object

from .kinds import local, memory, obstore_local, obstore_memory, obstore_moto, params

SETS = random_sets([3, 5, 2, 4])
with_conditional_writes = pytest.mark.parametrize(
    "place", params(obstore_memory, obstore_moto), indirect=True
)


@with_conditional_writes
@pytest.mark.parametrize("there", [b"before", None])
def test_an_object_changed_by_another_writer_is_not_replaced(place, there):
    store = as_location(place).open(read_only=False)
    if there is not None:
        put_bytes(store, "zarr.json", there)

    def another_writes(result):
        assert result == there
        put_bytes(store, "zarr.json", b"theirs")

    with pytest.raises(LeaseLostError):
        replace_object(store, "zarr.json", b"mine", another_writes)
    assert get_bytes(store, ["zarr.json"]) == [b"theirs"]
    replace_object(store, "zarr.json", b"mine", lambda result: None)
    assert get_bytes(store, ["zarr.json"]) == [b"mine"]


@pytest.mark.parametrize(
    "place", params(local, memory, obstore_local, obstore_memory, obstore_moto), indirect=True
)
def test_an_object_that_the_check_refuses_is_not_replaced(place):
    store = as_location(place).open(read_only=False)
    put_bytes(store, "zarr.json", b"theirs")

    def refuse(result):
        raise StoreFormatError(f"found {result!r}")

    with pytest.raises(StoreFormatError, match="found b'theirs'"):
        replace_object(store, "zarr.json", b"mine", refuse)
    assert get_bytes(store, ["zarr.json"]) == [b"theirs"]


def commit_during_last_check(place, mode):
    """Let one writer commit just after the last check of another."""
    slow, late = SetWriter(place, 2, mode), SetWriter(place, 2, mode)
    slow.append(SETS[1:2])
    late.append(SETS[2:])
    slow._lease._token = late._lease._token  # as if it had read the token before the other writer started
    look = late._lease._require_generation

    def look_and_let_the_other_commit(document, **at_the_token):
        look(document, **at_the_token)
        if not at_the_token:
            slow.close()

    late._lease._require_generation = look_and_let_the_other_commit
    late.close()


@with_conditional_writes
def test_of_two_simultaneous_appends_one_commits(place):
    write_sets(place, SETS[:1], chunk_rows=2)
    with pytest.raises(StoreFormatError, match="at the same time"):
        commit_during_last_check(place, "a")
    assert len(open_sets(place)) == 2
    assert open_sets(place).sizes.tolist() == [3, 5]


@with_conditional_writes
def test_of_two_simultaneous_new_stores_one_commits(place):
    with pytest.raises(StoreFormatError, match="at the same time"):
        commit_during_last_check(place, "w")
    assert open_sets(place).sizes.tolist() == [5]


def test_a_commit_removes_its_token():
    store = MemoryStore()
    write_sets(store, SETS[:1])
    open_sets(store).append(SETS[1:])
    assert_same_sets(open_sets(store).load(), SETS)
    assert [key for key in store._store_dict if key.startswith((".", "writer"))] == []


@pytest.mark.skipif(exchange.fcntl is None, reason="this system has no folder locks")
def test_the_later_of_two_appends_waits_for_background_writes_of_the_earlier(tmp_path, monkeypatch):
    """Chunks are written in the background; a late chunk of the earlier writer must not overwrite one of the later."""
    place = tmp_path / "s"
    write_sets(place, SETS[:1], chunk_rows=1)
    at_work, go_on, began, put = Event(), Event(), Event(), RecordingArray.put

    def slow(array, key, data):
        if not at_work.is_set():
            at_work.set()
            assert go_on.wait(60)
        put(array, key, data)

    monkeypatch.setattr(RecordingArray, "put", slow)
    earlier, later = SetWriter(place, 2, "a"), SetWriter(place, 2, "a")
    earlier.append(SETS[1:2])
    assert at_work.wait(60)

    def append():
        later.append(SETS[2:])
        began.set()
        later.close()

    thread = Thread(target=append)
    thread.start()
    assert not began.wait(0.2)
    go_on.set()
    thread.join()
    with pytest.raises(StoreFormatError, match="another writer"):
        earlier.close()
    assert_same_sets(open_sets(place).load(), SETS[[0, 2, 3]])


def test_the_later_of_two_appends_is_intact_in_many_runs(tmp_path):
    """No synchronisation: threads of the earlier writer may still run when the later one starts."""
    for k in range(60):
        place = tmp_path / f"{k}"
        write_sets(place, SETS[:1], chunk_rows=1)
        earlier, later = SetWriter(place, 2, "a"), SetWriter(place, 2, "a")
        earlier.append(SETS[1:3])
        later.append(SETS[2:])
        with pytest.raises(StoreFormatError, match="another writer"):
            earlier.close()
        later.close()
        assert_same_sets(open_sets(place).load(), SETS[[0, 2, 3]])
