"""Compaction keeps every value; parallel verification gives the same result as sequential reading."""

from unittest.mock import patch

import dask
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.io import maintenance as store_care
from dkdist.io import maintenance as store_writing
from dkdist.io import open_sets, write_sets
from dkdist.io._zarr.reading import CommitReader
from dkdist.io._zarr.verify import spans_of

from .samples import assert_same_sets, random_sets


def columns(n):
    numbers = np.arange(n)
    targets = {
        "y": numbers / 7,
        "flag": numbers % 2 == 0,
        "name": numbers.astype(str),
        "pair": np.ones((n, 2), "i2"),
    }
    return targets, np.array([f"set {i}" for i in numbers], dtype=np.str_)


def write_set_by_set(place, sizes, weights=None):
    """Write a store by appending single sets, in small chunks."""
    sets = random_sets(sizes, 2, weights)
    targets, ids = columns(len(sets))
    write_sets(place, sets[:1], {n: v[:1] for n, v in targets.items()}, ids[:1], chunk_rows=4)
    for i in range(1, len(sets)):
        open_sets(place).append(
            sets[i : i + 1], {n: v[i : i + 1] for n, v in targets.items()}, ids[i : i + 1]
        )
    return open_sets(place)


def assert_same_store(result, expected):
    assert_same_sets(result.load(), expected.load())
    assert result.targets.keys() == expected.targets.keys()
    for name, values in expected.targets.items():
        np.testing.assert_array_equal(result.targets[name], values)
        assert result.targets[name].dtype == values.dtype
    np.testing.assert_array_equal(result.ids, expected.ids)
    result.verify()


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    weights=st.sampled_from([None, (), (2,)]),
    layout=st.sampled_from([{}, {"chunk_rows": 2}, {"chunk_rows": 8, "shards": 16}]),
    chosen=st.sampled_from([slice(None), slice(1, None), slice(None, None, -1), [0, 0], slice(0, 1)]),
)
def test_a_compacted_copy_has_the_same_values(sizes, weights, layout, chosen):
    old, new = write_set_by_set(MemoryStore(), sizes, weights)[chosen], MemoryStore()
    if not len(old):
        with pytest.raises(ValueError, match="the view is empty"):
            dk.compact(old, new, **layout)
        return
    with patch.object(store_writing, "PART_BYTES", (16, 16)), dask.config.set(scheduler="sync"):
        copy = dk.compact(old, new, **layout)
    assert_same_store(copy, old)
    chunk = copy._reader.arrays["points"]
    assert chunk.chunks[0] == layout.get("chunk_rows", 2**17)
    assert (chunk.shards or (None,))[0] == layout.get("shards")


def test_compaction_in_place_keeps_the_values(tmp_path):
    old = write_set_by_set(tmp_path / "s", [50, 3, 70, 9] * 3)
    before = old.load(), old.targets["y"], old.ids
    n_files = sum(1 for path in (tmp_path / "s/points/c").rglob("*") if path.is_file())
    new = dk.compact(tmp_path / "s", verbose=False)
    assert_same_sets(new.load(), before[0])
    np.testing.assert_array_equal(new.targets["y"], before[1])
    np.testing.assert_array_equal(new.ids, before[2])
    assert n_files == 99
    assert sum(1 for path in (tmp_path / "s/points/c").rglob("*") if path.is_file()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
    assert new.append(random_sets([2]), {n: v[:1] for n, v in columns(1)[0].items()}, ["more"]).sizes[-1] == 2


def test_views_of_the_old_store_are_refused_and_never_read_other_rows(tmp_path):
    old = write_set_by_set(tmp_path / "s", [50, 3, 70, 9])
    old.load()  # opens its arrays
    part, expected = old[1:3], old[1:3].load()
    new = dk.compact(old)
    assert new.generation > old.generation
    for read in (
        old.load,
        part.load,
        lambda: old[2],
        lambda: old.targets["y"],
        lambda: old[::2].load(),
        old.verify,
    ):
        with pytest.raises(dk.StoreFormatError, match="was replaced"):
            read()
    assert_same_sets(new[1:3].load(), expected)


def test_partial_stale_and_memory_views_are_not_compacted_in_place(tmp_path):
    old = write_set_by_set(tmp_path / "s", [5, 6, 7])
    with pytest.raises(ValueError, match="cannot compact a view"):
        dk.compact(old[:2])
    with pytest.raises(ValueError, match="cannot compact a view"):
        dk.compact(old[:2], tmp_path / "s", overwrite=True)
    write_sets(tmp_path / "t", random_sets([3]))
    with pytest.raises(FileExistsError, match="overwrite=True"):
        dk.compact(old, tmp_path / "t")
    assert_same_store(dk.compact(old, tmp_path / "t", overwrite=True), old)
    memory = MemoryStore()
    write_sets(memory, random_sets([3, 4]))
    with pytest.raises(ValueError, match="Pass to="):
        dk.compact(memory)
    write_sets(tmp_path / "u", random_sets([3]))
    stale = open_sets(tmp_path / "u")
    stale.append(random_sets([4]))
    with pytest.raises(dk.StoreFormatError, match="was modified after opening"):
        dk.compact(stale)
    assert len(open_sets(tmp_path / "u")) == 2


def test_a_damaged_store_is_not_replaced(tmp_path):
    old = write_set_by_set(tmp_path / "s", [50, 3, 70, 9])
    chunk = tmp_path / "s/points/c/3/0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(dk.StoreFormatError, match="chunk 3 of array 'points'"):
        dk.compact(tmp_path / "s")
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
    assert len(open_sets(tmp_path / "s")) == len(old)


def test_an_append_during_compaction_is_kept(tmp_path):
    place = tmp_path / "s"
    write_sets(place, random_sets([3, 4]))
    old = open_sets(place)
    batches = store_care.view_batches

    def interrupted(part):
        open_sets(place).append(random_sets([5]))
        return batches(part)

    with (
        patch.object(store_care, "view_batches", interrupted),
        pytest.raises(dk.StoreFormatError, match="another writer committed"),
    ):
        dk.compact(old)
    assert open_sets(place).sizes.tolist() == [3, 4, 5]


def sequential_error(committed):
    """Return the error of a verification that reads spans sequentially."""
    for span in spans_of(committed):
        try:
            span.check(committed)
        except dk.StoreFormatError as error:
            return str(error)
    return None


@pytest.mark.parametrize("seed", range(6))
def test_parallel_verification_reports_the_first_damage(seed, tmp_path):
    rng = np.random.default_rng(seed)
    sets = random_sets([40] * 30, 2, ())
    store = write_sets(tmp_path / "s", sets, *columns(30), chunk_rows=8, shards=16 if seed % 2 else None)
    chunks = sorted(p for p in (tmp_path / "s").rglob("c/**/*") if p.is_file() and "offsets" not in str(p))
    assert dk.verify_sets(store) == store.verify()
    for path in rng.choice(chunks, 3, replace=False):
        data = bytearray(path.read_bytes())
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
    expected = sequential_error(CommitReader(store._address, store._commit))
    assert expected is not None
    for verify in (store.verify, lambda: dk.verify_sets(store), lambda: dk.verify_sets(tmp_path / "s")):
        with pytest.raises(dk.StoreFormatError) as error:
            verify()
        assert str(error.value) == expected


def test_the_verification_report_counts_everything(tmp_path, monkeypatch):
    store = write_sets(tmp_path / "s", random_sets([40] * 30, 2, ()), np.arange(30.0), chunk_rows=8)
    monkeypatch.setattr(store_care, "TASKS_PER_SEGMENT", 2)
    report = dk.verify_sets(tmp_path / "s")
    assert (report.n_sets, report.n_points) == (30, 1200)
    assert report.n_bytes == 1200 * 12 + 31 * 8 + 30 * 8
    assert report.n_chunks == 150 + 150 + 1 + 1
    assert report == store.verify()
    with pytest.raises(ValueError, match="Open the whole store"):
        dk.verify_sets(store[1:])
