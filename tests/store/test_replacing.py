"""Replacing a store is atomic: names are exchanged, rolled back on failure, and recovered after a crash."""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dkdist
import dkdist as dk
from dkdist.io import SetWriter, StoreFormatError, open_sets, write_sets
from dkdist.io._zarr.location import exchange

from .samples import assert_same_sets, random_sets

SETS = random_sets([3, 5, 2, 4])
OTHER = random_sets([2, 2], seed=1)
with_and_without_exchange = pytest.mark.parametrize("atomic", [True, False])


def disable_exchange(monkeypatch, atomic):
    """Unless ``atomic``, act like a file system that cannot exchange names and needs two moves."""
    if not atomic:
        monkeypatch.setattr(exchange, "exchange_names", lambda one, other: False)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def run_until_exit(code, *arguments):
    """Return the output of a process that exits with status 7."""
    env = {**os.environ, "PYTHONPATH": str(Path(dkdist.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, env=env
    )
    assert run.returncode == 7, run.stderr
    return run.stdout


def test_names_are_exchanged_on_this_system(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not exchange.exchange_names(str(tmp_path / "a"), str(tmp_path / "b")):
        pytest.skip("this system or file system cannot exchange names")
    assert (names(tmp_path / "a"), names(tmp_path / "b")) == (["b"], ["a"])
    with pytest.raises(FileNotFoundError):
        exchange.exchange_names(str(tmp_path / "a"), str(tmp_path / "nothing"))


@with_and_without_exchange
@pytest.mark.parametrize("code", [errno.EBUSY, errno.EXDEV, errno.EACCES])
def test_a_replacement_that_fails_changes_nothing(tmp_path, monkeypatch, atomic, code):
    old = write_sets(tmp_path / "s", SETS)
    rename = os.rename

    def refused(one, other):
        if other == str(tmp_path / "s") and not one.endswith("old"):
            raise OSError(code, os.strerror(code))
        return rename(one, other)

    if atomic:
        monkeypatch.setattr(exchange, "exchange_names", refused)
    else:
        disable_exchange(monkeypatch, atomic)
        monkeypatch.setattr(os, "rename", refused)
    for replace in (
        lambda: write_sets(tmp_path / "s", OTHER, overwrite=True),
        lambda: dk.compact(tmp_path / "s"),
        lambda: dk.import_sets(tmp_path / "s", [0], lambda source: OTHER, overwrite=True),
    ):
        with pytest.raises(
            OSError, match=r"cannot move the new store to .*old content is unchanged"
        ) as error:
            replace()
        assert error.value.errno == code
        assert_same_sets(old.load(), SETS)
        assert names(tmp_path) == ["s"]


EXIT_BETWEEN_MOVES = """
import os, sys
from dkdist.io._zarr.location import exchange
from dkdist.io import write_sets
exchange.exchange_names = lambda one, other: False
rename, n = os.rename, 0
def ended(one, other):
    global n
    n += 1
    if n == int(sys.argv[2]):
        os._exit(7)
    rename(one, other)
os.rename = ended
write_sets(sys.argv[1], [[[1.0, 2.0]]], overwrite=True)
os._exit(7)
"""


@pytest.mark.parametrize("last", [1, 2, 3])
def test_a_replacement_killed_between_two_moves_is_recovered(tmp_path, last):
    write_sets(tmp_path / "s", SETS)
    run_until_exit(EXIT_BETWEEN_MOVES, tmp_path / "s", last)
    assert (tmp_path / "s").exists() == (last != 2)
    if last == 3:
        assert len(open_sets(tmp_path / "s")) == 1
    else:
        assert_same_sets(open_sets(tmp_path / "s").load(), SETS)
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(FileNotFoundError):
        open_sets(tmp_path / "s")
    assert len(write_sets(tmp_path / "s", OTHER)) == 2
    assert names(tmp_path) == ["s"]


def test_a_store_moved_aside_by_an_earlier_version_is_named_but_not_restored(tmp_path):
    write_sets(tmp_path / "s", SETS)
    shutil.move(tmp_path / "s", tmp_path / ".s.replaced")
    with pytest.raises(FileNotFoundError, match=r"\.s\.replaced"):
        open_sets(tmp_path / "s")
    assert len(write_sets(tmp_path / "s", OTHER)) == 2


@with_and_without_exchange
def test_readers_never_see_a_mixture_while_two_writers_replace_a_store(tmp_path, monkeypatch, atomic):
    """All points and targets of a store have one value, which identifies the store."""
    disable_exchange(monkeypatch, atomic)
    place, over, torn, read, failures = tmp_path / "s", threading.Event(), [], [0], []

    def content(k):
        return np.full((6, 40, 2), k), np.full(6, k)

    def replacing(first):
        for k in range(first, 24, 2):
            try:
                write_sets(place, *content(k), overwrite=True, chunk_rows=64)
            except StoreFormatError as error:
                failures.append(str(error))

    def reading():
        while not over.is_set():
            with contextlib.suppress(StoreFormatError):
                result = open_sets(place)
                points, y = result.load().points, result.targets["y"]
                read[0] += 1
                if len({*points.ravel().tolist(), *y.tolist()}) != 1:
                    torn.append(points)

    write_sets(place, *content(0))
    readers = [threading.Thread(target=reading) for _ in range(2)]
    writers = [threading.Thread(target=replacing, args=(k,)) for k in (0, 1)]
    for thread in [*readers, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    for thread in readers:
        thread.join()
    assert not torn
    assert read[0] > 0
    assert all("another writer committed" in message for message in failures)
    assert len(failures) < 24
    assert open_sets(place).verify().n_sets == 6
    assert names(tmp_path) == ["s"]


def test_of_two_replacing_writers_the_second_commit_is_refused(tmp_path):
    for there in (True, False):
        place = tmp_path / f"s{there}"
        if there:
            write_sets(place, SETS[:1])
        first, second = (SetWriter(place, 2, overwrite=True) for _ in range(2))
        first.append(SETS)
        second.append(OTHER)
        second.close()
        with pytest.raises(StoreFormatError, match="another writer committed"):
            first.close()
        assert_same_sets(open_sets(place).load(), OTHER)
    assert names(tmp_path) == ["sFalse", "sTrue"]


def test_files_created_during_a_write_are_never_removed(tmp_path):
    writer = SetWriter(tmp_path / "s", 2)
    writer.append(SETS)
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not a store of sets"):
        writer.close()
    assert (tmp_path / "s" / "notes.txt").read_text() == "mine"
    assert names(tmp_path) == ["s"]


def test_staging_folders_of_dead_writers_are_removed_but_not_of_living_ones(tmp_path):
    alive = SetWriter(tmp_path / "s", 2)
    alive.append(SETS)
    code = (
        "import os, sys\nfrom dkdist.io import SetWriter\nwriter = SetWriter(sys.argv[1], 2)\n"
        "writer.append([[[1.0, 2.0]]])\nos._exit(7)\n"
    )
    run_until_exit(code, tmp_path / "s")
    assert len(names(tmp_path)) == 2
    with SetWriter(tmp_path / "s", 2) as third:
        third.append(OTHER)
        assert len(names(tmp_path)) == 2  # those of the living and the third writer
    with pytest.raises(StoreFormatError, match="another writer committed"):
        alive.close()
    assert names(tmp_path) == ["s"]


def test_staging_folders_of_other_hosts_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "host", lambda: b"another machine\n")
    writer = SetWriter(tmp_path / "s", 2)
    writer.append(SETS)
    monkeypatch.undo()
    os.close(writer._lease._staging._owner)  # some network disks do not propagate locks
    write_sets(tmp_path / "s", OTHER)
    assert len(names(tmp_path)) == 2


def test_replacing_a_symbolic_link_replaces_its_target(tmp_path):
    (tmp_path / "disk").mkdir()
    write_sets(tmp_path / "disk/s", SETS)
    (tmp_path / "s").symlink_to(tmp_path / "disk/s")
    write_sets(tmp_path / "s", OTHER, overwrite=True)
    assert (tmp_path / "s").is_symlink()
    assert_same_sets(open_sets(tmp_path / "disk/s").load(), OTHER)
    assert names(tmp_path) == ["disk", "s"]
    assert names(tmp_path / "disk") == ["s"]


def test_a_commit_times_out_while_another_holds_the_lock(tmp_path, monkeypatch):
    write_sets(tmp_path / "s", SETS)
    monkeypatch.setattr(exchange, "LOCK_TIMEOUT_SECONDS", 0.1)
    with (
        exchange.commit_lock(str(tmp_path / "s")),
        pytest.raises(TimeoutError, match="has locked this store"),
    ):
        open_sets(tmp_path / "s").append(OTHER)
    assert_same_sets(open_sets(tmp_path / "s").load(), SETS)
    assert len(open_sets(tmp_path / "s").append(OTHER)) == 6


def test_features_stay_readable_until_their_replacement_is_complete(tmp_path):
    import dask.array as da

    rows = np.random.default_rng(0).standard_normal((8, 3)).astype("f4")
    old = dk.write_features(tmp_path / "z", rows)

    def fail(block):
        raise RuntimeError("stop")

    bad = da.from_array(rows + 1, chunks=(2, 3)).map_blocks(fail, dtype="f4", meta=np.empty((0, 0), "f4"))
    with pytest.raises(RuntimeError, match="stop"):
        dk.write_features(tmp_path / "z", bad, overwrite=True)
    np.testing.assert_array_equal(old.compute(), rows)
    new = dk.write_features(tmp_path / "z", rows + 1, overwrite=True)
    np.testing.assert_array_equal(new.compute(), rows + 1)
    with pytest.raises(StoreFormatError, match="was replaced"):
        old.compute()
    assert names(tmp_path) == ["z"]
    assert names(tmp_path / "z") == ["commits", "features", "zarr.json"]


def test_a_staging_folder_under_construction_is_kept(tmp_path, monkeypatch):
    """Another writer creates its owner file just after this one has listed the folder as empty."""
    hidden = tmp_path / ".s.writing-other"
    hidden.mkdir()
    listed, removed, moved = os.listdir, os.rmdir, []

    def move_in():
        if not moved:
            moved.append(hidden)
            (hidden / exchange.OWNER).touch()

    def listdir(path):
        result = listed(path)
        if Path(path) == hidden:
            move_in()
        return result

    def rmdir(path, **how):
        if Path(path) == hidden:
            move_in()
        removed(path, **how)

    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr(os, "rmdir", rmdir)
    write_sets(tmp_path / "s", SETS)
    assert (hidden / exchange.OWNER).exists()
    monkeypatch.undo()
    (hidden / exchange.OWNER).unlink()
    write_sets(tmp_path / "s", SETS, overwrite=True)
    assert names(tmp_path) == ["s"]
