"""Zip files are written, appended to and replaced like directories: by one rename at the commit."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from store.samples import assert_same_sets, random_sets
from zarr.storage import ZipStore

import dkdist as dk
from dkdist.io import SetWriter, StoreFormatError, open_sets, write_sets

SETS = random_sets([3, 5, 2, 4, 7, 1], 2, ())
Y = np.arange(6) / 7


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.zarr.zip"


@pytest.mark.parametrize("shards", [None, 8])
def test_write_append_and_replace(path, shards):
    first = write_sets(path, SETS[:2], Y[:2], chunk_rows=4, shards=shards)
    second = first.append(SETS[2:], Y[2:])
    assert_same_sets(second.load(), SETS)
    np.testing.assert_array_equal(second.targets["y"], Y)
    second.verify()
    assert_same_sets(first.load(), SETS[:2])
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_sets(path, SETS)
    replaced = write_sets(path, SETS[:1], overwrite=True)
    replaced.verify()
    assert_same_sets(open_sets(path).load(), SETS[:1])
    assert os.listdir(path.parent) == [path.name]


def test_entries_are_unique_uncompressed_and_plain_zarr(path):
    write_sets(path, SETS[:2], Y[:2], chunk_rows=4).append(SETS[2:], Y[2:])
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
        assert {entry.compress_type for entry in file.infolist()} == {zipfile.ZIP_STORED}
    assert len(set(names)) == len(names)
    assert len([name for name in names if name.startswith("commits/") and name.endswith("/c/0")]) == 1
    group = zarr.open_group(ZipStore(path), mode="r")
    np.testing.assert_array_equal(group["points"][:], SETS.points)


def write_and_fail(path, before):
    with SetWriter(path, 2, "a") as writer:
        writer.append(SETS[2:], Y[2:])
        assert path.read_bytes() == before
        raise ZeroDivisionError


def test_a_file_is_unchanged_until_the_commit_and_after_a_failure(path):
    write_sets(path, SETS[:2], Y[:2])
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError):
        write_and_fail(path, before)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


KILLED = """
import os, sys
from dkdist import SampleSets
from dkdist.io import SetWriter
from dkdist.io._zarr.location.zipped import ZipStagingFolder

ZipStagingFolder.publish = lambda folder: os._exit(7)
with SetWriter(sys.argv[1], 2, "a") as writer:
    writer.append(SampleSets([[0.0, 1.0]], [0, 1], [1.0]), [5.0])
"""


def test_a_writer_that_is_killed_before_its_commit_leaves_the_last_one(path):
    write_sets(path, SETS[:2], Y[:2])
    before = path.read_bytes()
    env = {**os.environ, "PYTHONPATH": str(Path(dk.__file__).parents[1])}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=env, check=False)
    assert killed.returncode == 7
    assert path.read_bytes() == before
    assert len(os.listdir(path.parent)) == 2
    assert_same_sets(open_sets(path).append(SETS[2:], Y[2:]).load(), SETS)
    assert os.listdir(path.parent) == [path.name]


def test_of_two_writers_one_commits(path):
    write_sets(path, SETS[:1])
    first, second = SetWriter(path, 2, "a"), SetWriter(path, 2, "a")
    first.append(SETS[1:])
    second.append(SETS[2:])
    first.close()
    with pytest.raises(StoreFormatError, match=r"another writer committed.*Nothing was committed"):
        second.close()
    assert_same_sets(open_sets(path).load(), SETS)


def test_an_append_copies_only_names_of_zarr(path):
    write_sets(path, SETS[:2], Y[:2])
    with zipfile.ZipFile(path, "a") as file:
        for name in ("../escaped/zarr.json", "/escaped/zarr.json", "a/../../escaped/c/0", "photo.png"):
            file.writestr(name, b"x")
    open_sets(path).append(SETS[2:], Y[2:]).verify()
    with zipfile.ZipFile(path) as file:
        assert not [name for name in file.namelist() if "escaped" in name or "photo" in name]
    assert os.listdir(path.parent) == [path.name]


def test_imports_and_compaction(path):
    dk.import_sets(path, range(6), lambda i: (SETS[i : i + 1], Y[i : i + 1]), chunk_rows=4)
    assert_same_sets(open_sets(path).load(), SETS)
    assert_same_sets(dk.compact(open_sets(path)[:3], path.parent / "t.zip").load(), SETS[:3])
    assert_same_sets(dk.compact(path).load(), SETS)
