"""Sources that cannot be imported: errors name the source, and an existing store stays unchanged."""

import os
from unittest.mock import patch

import numpy as np
import pytest
from zarr.storage import MemoryStore, WrapperStore

import dkdist as dk
from dkdist.io import maintenance as store_writing

from .samples import assert_same_sets, random_sets


def assert_import_refused(tmp_path, sources, read, message, error=dk.SourceError):
    """Assert that an import fails with a message and leaves the existing store unchanged."""
    place = tmp_path / "s"
    old = dk.write_sets(place, random_sets([3]), overwrite=True)
    with patch.object(store_writing, "PART_BYTES", (64, 64)), pytest.raises(error, match=message):
        dk.import_sets(place, sources, read, overwrite=True, chunk_rows=4)
    assert_same_sets(dk.open_sets(place).load(), old.load())
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith((".", "s"))] == ["s"]


VALID_SETS = np.zeros((4, 5, 2))
INVALID_SOURCES = {
    "dims": (np.zeros((4, 5, 3)), r"points .* shape \(3,\) in 'dims' and points .* shape \(2,\) in 'a'"),
    "target": (
        (VALID_SETS, np.zeros(4)),
        r"target y of dtype float64 in 'target' and no target y in 'a'",
    ),
    "weights": (
        dk.SampleSets(np.zeros((3, 2)), [0, 3], np.ones(3)),
        r"weights of dtype float32 in 'weights' and no weights in 'a'",
    ),
    "nan": (np.full((4, 5, 2), np.nan), r"source 'nan' .* point 0 of set 0 is nan"),
    "empty": (np.zeros((0, 5, 2)), r"source 'empty' .* must have at least one set"),
    "rows": ((VALID_SETS, np.zeros(3)), r"source 'rows' .* must have one row per set, 4; got 3"),
    "long": ((VALID_SETS, None, None, None), r"source 'long' .* a tuple of 4"),
}


@pytest.mark.parametrize("name", INVALID_SOURCES)
@pytest.mark.parametrize("sized", [False, True])
def test_an_invalid_source_is_named(name, sized, tmp_path):
    class Reader:
        def read(self, source):
            return INVALID_SOURCES[source][0] if source in INVALID_SOURCES else VALID_SETS

    if sized:
        Reader.sizes = lambda self, source: [] if source == "empty" else [5] * 4
    assert_import_refused(tmp_path, ["a", "b", name, "c"], Reader(), INVALID_SOURCES[name][1])


def test_a_target_of_another_dtype_is_named(tmp_path):
    values = {"a": np.arange(4), "b": np.arange(4) / 2}
    message = "target y of dtype float64 in 'b' and target y of dtype int64 in 'a'"
    assert_import_refused(tmp_path, list("ab"), lambda source: (VALID_SETS, values[source]), message)


@pytest.mark.parametrize("sized", [False, True])
def test_an_id_in_two_sources_is_named_with_both(sized, tmp_path):
    class Reader:
        def read(self, source):
            return (
                VALID_SETS,
                None,
                [f"{source}{k}" for k in range(3)] + ["same" if source in "bd" else source],
            )

    if sized:
        Reader.sizes = lambda self, source: [5] * 4
    assert_import_refused(tmp_path, list("abcde"), Reader(), "got 'same' in 'b' and in 'd'")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ([5] * 3, "got 4 sets in the first and 3 sets in the second"),
        ([5] * 5, "and at least 5 sets in the second"),
        ([5, 5, 6, 5], "and 6 points instead of 5 in set 2"),
        ([5, 6, 4, 5], "and 6 points instead of 5 in set 1"),
    ],
)
def test_a_source_that_changes_in_the_second_pass_is_named(second, message, tmp_path):
    seen = set()

    def read(source):
        again = source in seen and source == "c"
        seen.add(source)
        return random_sets(second if again else [5] * 4)

    assert_import_refused(tmp_path, list("abcd"), read, f"source 'c' .* {message}")


def test_an_extra_batch_in_the_second_pass_is_detected(tmp_path):
    seen = set()

    def read(source):
        yield VALID_SETS
        if source in seen and source == "b":
            yield VALID_SETS
        seen.add(source)

    assert_import_refused(tmp_path, list("ab"), read, "source 'b' .* and at least 8 sets")


@pytest.mark.parametrize("sizes", [[2.0, 3.0], [0, 5], [[5]], "ab"])
def test_invalid_sizes_are_refused(sizes, tmp_path):
    class Reader:
        def read(self, source):
            return VALID_SETS

    Reader.sizes = lambda self, source: sizes
    assert_import_refused(tmp_path, list("ab"), Reader(), "source '[ab]' .* positive integers")


def test_a_source_that_cannot_be_read_is_named(tmp_path):
    def read(source):
        raise FileNotFoundError(f"no {source} here")

    assert_import_refused(tmp_path, ["x.h5"], read, r"source 'x.h5' .*FileNotFoundError: no x.h5 here")


def test_invalid_sources_readers_and_stores_are_refused(tmp_path):
    assert_import_refused(tmp_path, "a.npz", None, "'a.npz' cannot be imported .*there is no file")
    assert_import_refused(tmp_path, [], None, "sources must not be empty", ValueError)
    assert_import_refused(
        tmp_path, ["a.txt5"], None, "without read=, sources must be files .*; got 'a.txt5'", ValueError
    )
    assert_import_refused(tmp_path, [7], None, "without read=, sources must be files .*; got 7", ValueError)
    assert_import_refused(tmp_path, ["a"], 7, "read must be a function .*; got 7", TypeError)
    with pytest.raises(PermissionError, match="read-only"):
        dk.import_sets(MemoryStore(read_only=True), list("a"), lambda source: VALID_SETS)
    dk.write_sets(tmp_path / "t", VALID_SETS)
    called = []
    with pytest.raises(FileExistsError, match="overwrite=True"):
        dk.import_sets(tmp_path / "t", list("ab"), called.append)
    assert called == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        dk.import_sets(tmp_path / "s", list("a"), lambda source: VALID_SETS)


class Lossy(WrapperStore):
    """A store that drops chunks of points, like workers without a shared file system."""

    async def set(self, key, value, *args):
        if "points/c" not in key:
            await super().set(key, value, *args)


def test_chunks_written_to_another_file_system_are_detected():
    lossy = Lossy(MemoryStore())
    with pytest.raises(dk.StoreFormatError, match="workers use another file system"):
        dk.import_sets(lossy, list("ab"), lambda source: VALID_SETS)
    with pytest.raises(dk.StoreFormatError):
        dk.open_sets(lossy)


def test_an_import_is_refused_after_a_concurrent_replacement(tmp_path):
    """Another writer replaces the store while parts are read; the import commits nothing."""
    sets = random_sets([3])

    def read(source):
        if source == "b":
            dk.write_sets(tmp_path / "s", sets, overwrite=True)
        return VALID_SETS

    class Reader:
        sizes = staticmethod(lambda source: [5] * 4)

    Reader.read = staticmethod(read)
    with pytest.raises(dk.StoreFormatError, match="another writer"):
        dk.import_sets(tmp_path / "s", list("abc"), Reader())
    assert_same_sets(dk.open_sets(tmp_path / "s").load(), sets)
