"""Parallel import of many sources gives a store that is bit-identical to that of one sequential writer."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import dask
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.io import maintenance as store_writing
from dkdist.io.import_sets import MAX_SAMPLED_SOURCES
from dkdist.io.readers.catalogue import Catalogue
from dkdist.io.readers.sources import Outline

from .samples import assert_same_sets, content, counted_batch, random_sets


class Sources:
    """A reader of random sources that counts how often each is read."""

    def __init__(self, sizes, d=2, weights=None, columns=True):
        self.made = [random_sets(s, d, weights, seed=i) for i, s in enumerate(sizes)]
        self.columns, self.reads = columns, [0] * len(sizes)

    def read(self, i):
        self.reads[i] += 1
        sets = self.made[i]
        if not self.columns:
            return sets
        numbers = np.arange(len(sets)) + 100 * i
        targets = {"y": numbers / 7, "pair": np.stack([numbers, -numbers], 1), "name": numbers.astype(str)}
        return sets, targets, [f"{i}-{k}" for k in range(len(sets))]

    def write_sequentially(self, **layout):
        memory = MemoryStore()
        with dk.SetWriter(memory, self.made[0].n_dims, **layout) as writer:
            for i in range(len(self.made)):
                given = Sources.read(self, i)
                writer.append(*(given if self.columns else [given]))
        self.reads = [0] * len(self.made)
        return memory


class Sized(Sources):
    def sizes(self, i):
        return self.made[i].sizes


class InBatches(Sources):
    """A reader that yields one set at a time."""

    def read(self, i):
        sets, targets, ids = super().read(i)
        for k in range(len(sets)):
            yield sets[k : k + 1], {n: v[k : k + 1] for n, v in targets.items()}, ids[k : k + 1]


def import_in_parts(reader, part_bytes=64, **layout):
    memory = MemoryStore()
    with patch.object(store_writing, "PART_BYTES", (part_bytes, part_bytes)):
        dk.import_sets(memory, range(len(reader.made)), reader, **layout)
    return memory


SIZES = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=8)


@given(
    sizes=SIZES,
    kind=st.sampled_from([Sources, Sized, InBatches]),
    weights=st.sampled_from([None, (), (2,)]),
    layout=st.sampled_from([{"chunk_rows": 1}, {"chunk_rows": 4}, {"chunk_rows": 4, "shards": 12}, {}]),
    part_bytes=st.sampled_from([1, 64, 300]),
    scheduler=st.sampled_from(["sync", "threads"]),
)
def test_parallel_import_equals_a_sequential_writer(sizes, kind, weights, layout, part_bytes, scheduler):
    reader = kind(sizes, weights=weights)
    expected = reader.write_sequentially(**layout)
    with dask.config.set(scheduler=scheduler):
        result = import_in_parts(reader, part_bytes, **{"shards": None, **layout})
    assert content(result) == content(expected)
    dk.open_sets(result).verify()


def test_tasks_of_several_sources_keep_their_sizes():
    reader = Sized([[k % 7 + 1] for k in range(200)])
    expected = reader.write_sequentially(chunk_rows=64)
    assert content(import_in_parts(reader, chunk_rows=64, shards=None)) == content(expected)


@pytest.mark.parametrize("sizes", [[[40] * 5] * 30, [[3]] * 200, [[700]] * 12])
def test_each_source_is_read_twice_apart_from_samples(sizes):
    reader = Sized(sizes)
    import_in_parts(reader, chunk_rows=64, shards=None)
    reads = np.array(reader.reads)
    assert reads[0] <= 4  # one more read for the data types
    assert reads.max(initial=0, where=np.arange(len(reads)) > 0) <= 3
    assert (reads > 2).sum() <= MAX_SAMPLED_SOURCES  # one more read for the origin
    assert min(reader.reads) >= 1


def test_part_boundaries_between_sources_are_preferred():
    reader = Sized([[27] * 4] * 40)  # 108 rows: every other source begins with a chunk
    import_in_parts(reader, part_bytes=8 * 500, chunk_rows=8, shards=None)
    assert set(reader.reads[1:]) == {1, 2}
    assert sum(reader.reads[1:]) <= 39 + MAX_SAMPLED_SOURCES  # sampled sources are also read for the origin


def test_uint8_codes_and_arbitrary_source_objects_are_imported():
    def read(source):
        return np.full((3, source["n"], 1), source["code"], np.uint8)

    sets = dk.import_sets(MemoryStore(), ({"n": n, "code": n + 1} for n in (2, 5)), read)
    assert sets.points_dtype == np.uint8
    assert sets.sizes.tolist() == [2, 2, 2, 5, 5, 5]
    assert sets[5].ravel().tolist() == [6] * 5


def test_an_import_with_many_segments_equals_a_sequential_writer(monkeypatch):
    monkeypatch.setattr(store_writing, "PARTS_PER_SEGMENT", 2)
    reader = Sized([[5, 6]] * 9)
    assert content(import_in_parts(reader, 1, chunk_rows=4)) == content(
        reader.write_sequentially(chunk_rows=4)
    )


def test_parts_list_their_overlapping_sources():
    sizes = [np.array(s) for s in ([3, 4], [5], [1, 1], [6])]
    form = {"points": ("float32", (2,))}
    catalogue = Catalogue.of("abcd", [Outline(s, None, form) for s in sizes])
    assert catalogue.row_bounds.tolist() == [0, 7, 12, 14, 20]
    part = catalogue.part(7, 13)
    assert (part.sources, part.first_row) == (("b", "c"), 7)
    part = catalogue.part(8, 15)
    assert (part.sources, part.first_row) == (("b", "c", "d"), 7)
    assert [s.tolist() for s in part.sizes] == [[5], [1, 1], [6]]


def test_a_killed_import_leaves_the_old_store(tmp_path):
    place = tmp_path / "s"
    dk.write_sets(place, counted_batch(0, 50))
    code = (
        "import pathlib, sys, time, dkdist as dk\n"
        "from samples import counted_batch\n"
        "beside = pathlib.Path(sys.argv[1]).parent\n"
        "reads = []\n"
        "def read(i):\n"
        "    reads.append(i)\n"
        "    if i == 9 and reads.count(9) == 2:\n"
        "        while len(list(beside.glob('.s.writing-*/store/points/c/*'))) < 4: time.sleep(0.01)\n"
        "        print('far\\n', end='', flush=True); time.sleep(60)\n"
        "    return counted_batch(100 * i, 100)\n"
        "class Reader:\n"
        "    sizes = staticmethod(lambda i: counted_batch(100 * i, 100).sizes)\n"
        "    read = staticmethod(read)\n"
        "from dkdist.io import maintenance as store_writing\n"
        "store_writing.PART_BYTES = (64, 64)\n"
        "dk.import_sets(sys.argv[1], range(10), Reader(), overwrite=True, chunk_rows=64)\n"
    )
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{here.parents[1]}"}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE, text=True, env=env
    ) as run:
        assert run.stdout.readline() == "far\n"
        run.kill()
    assert len(list(tmp_path.glob(".s.writing-*"))) == 1  # it was killed while writing
    store = dk.open_sets(place)
    assert_same_sets(store.load(), counted_batch(0, 50))
    store.verify()
    again = dk.import_sets(place, range(3), lambda i: counted_batch(10 * i, 10), overwrite=True)
    assert_same_sets(again.load(), counted_batch(0, 30))
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


@pytest.mark.network
def test_import_compact_and_verify_on_a_process_cluster(tmp_path):
    from distributed import Client

    reader = Sized([[50, 60, 70]] * 30)
    expected = reader.write_sequentially(chunk_rows=64)
    with Client(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
        with patch.object(store_writing, "PART_BYTES", (4096, 4096)):
            sets = dk.import_sets(tmp_path / "s", range(30), reader, chunk_rows=64, verbose=True)
            with pytest.raises(dk.StoreFormatError, match="workers use another file system"):
                dk.import_sets(MemoryStore(), range(30), reader, chunk_rows=64)
            with pytest.raises(dk.SourceError, match=r"source 30 cannot be imported \(IndexError"):
                dk.import_sets(tmp_path / "t", range(31), reader, chunk_rows=64)
        compacted = dk.compact(sets[::2], tmp_path / "half")
        assert dk.verify_sets(sets).n_sets == 90
    assert not (tmp_path / "t").exists()
    assert_same_sets(compacted.load(), sets.load()[::2])
    for path in (tmp_path / "s").rglob("c/*"):
        if path.is_file() and "commits" not in path.parts:  # the key of a table contains the generation
            assert path.read_bytes() == expected._store_dict[str(path.relative_to(tmp_path / "s"))].to_bytes()
