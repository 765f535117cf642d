"""Files as sources: an outline matches the data of a full read, and reads only what it needs."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist._utils.archives import Archive
from dkdist.io.readers import array_files, table_source
from dkdist.io.readers.sources import batches_of, outline_of

from .samples import assert_same_sets, random_sets

pytestmark = pytest.mark.filterwarnings("ignore:ignored arrays")
SIZES = [[3, 1, 4], [1, 5, 9, 2], [6]]


def parts():
    for i, sizes in enumerate(SIZES):
        ids = np.array([f"{i}{k}" for k in range(len(sizes))])
        yield random_sets(sizes, 2, (), seed=i), {"y": np.arange(len(sizes)) + i, "name": ids}, ids


def write_arrays(folder):
    for i, (sets, targets, ids) in enumerate(parts()):
        arrays = {"values": sets.points, "offsets": sets.offsets, "w": sets.weights, "ids": ids, **targets}
        (np.savez_compressed if i else np.savez)(folder / f"{i}.npz", **arrays)
        yield folder / f"{i}.npz"


def write_tables(folder, suffix):
    for i, (sets, targets, ids) in enumerate(parts()):
        of = np.repeat(np.arange(len(sets)), sets.sizes)
        columns = {"id": ids[of], "a": sets.points[:, 0], "b": sets.points[:, 1], "w": sets.weights}
        table = pa.table({**columns, "y": targets["y"][of], "name": targets["name"][of]})
        path = folder / f"{i}{suffix}"
        (pq.write_table if suffix == ".parquet" else pa.csv.write_csv)(table, path)
        yield path


READERS = {
    ".npz": dk.ArrayReader(weight="w", targets=["y", "name"]),
    ".parquet": dk.TableReader("id", ["a", "b"], "w", ["y", "name"]),
    ".csv": dk.TableReader("id", weight="w", targets=["y", "name"], text=["id", "name"]),
}


def written(folder, suffix):
    return list(write_arrays(folder) if suffix == ".npz" else write_tables(folder, suffix))


@pytest.mark.parametrize("suffix", READERS)
def test_an_outline_matches_a_full_read(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(table_source, "PIECE_ROWS", 3)
    monkeypatch.setattr(array_files, "BATCH_POINTS", 3)
    for path in written(tmp_path, suffix):
        outline, batches = READERS[suffix].outline(path), list(batches_of(READERS[suffix], path))
        np.testing.assert_array_equal(outline.sizes, np.concatenate([b.sets.sizes for b in batches]))
        np.testing.assert_array_equal(outline.ids, np.concatenate([b.columns["ids"] for b in batches]))
        assert all(batch.form == outline.form for batch in batches)
        whole = outline_of(READERS[suffix], path, read_all=True)
        assert whole.form == outline.form


@pytest.mark.parametrize("suffix", READERS)
def test_files_become_one_store(suffix, tmp_path):
    sets = dk.import_sets(MemoryStore(), written(tmp_path, suffix), READERS[suffix])
    output = list(parts())
    np.testing.assert_array_equal(sets.ids, np.concatenate([ids for _, _, ids in output]))
    for name in ("y", "name"):
        np.testing.assert_array_equal(sets.targets[name], np.concatenate([t[name] for _, t, _ in output]))
    start = 0
    for expected, _, _ in output:
        assert_same_sets(sets[start : start + len(expected)].load(), expected)
        start += len(expected)
    assert start == len(sets)


def test_array_files_are_imported_without_a_reader(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 4, 2)))
    np.savez(tmp_path / "b.npz", cube=np.ones((2, 4, 2)))
    sets = dk.import_sets(MemoryStore(), [tmp_path / "a.npy", str(tmp_path / "b.npz")])
    assert sets.load().points.sum() == 16


def test_an_outline_of_arrays_reads_no_values(tmp_path, monkeypatch):
    loaded, read = [], Archive.read
    monkeypatch.setattr(Archive, "read", lambda self, name: loaded.append(name) or read(self, name))
    READERS[".npz"].outline(next(write_arrays(tmp_path)))
    assert loaded == ["offsets", "ids"]


def test_an_outline_of_a_table_reads_only_ids_and_targets(tmp_path, monkeypatch):
    requested, pieces = [], table_source.TableSource.pieces
    monkeypatch.setattr(
        table_source.TableSource,
        "pieces",
        lambda self, names, *rows: requested.append(names) or pieces(self, names, *rows),
    )
    READERS[".parquet"].outline(next(write_tables(tmp_path, ".parquet")))
    assert requested == [["id", "y", "name"]]


def test_incompatible_files_are_named_before_any_is_read(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", cube=np.zeros((3, 4, 2)), y=np.arange(3))
    np.savez(tmp_path / "b.npz", cube=np.zeros((3, 4, 2)), y=np.arange(3.0))
    (tmp_path / "c.npz").write_bytes(b"PK nothing")
    monkeypatch.setattr(dk.ArrayReader, "read", lambda self, path: 1 / 0)
    with pytest.raises(dk.SourceError, match=r"got target y of dtype float64 in .*b\.npz and .*a\.npz"):
        dk.import_sets(MemoryStore(), [tmp_path / "a.npz", tmp_path / "b.npz"])
    with pytest.raises(dk.SourceError, match=r"c\.npz.* cannot be read"):
        dk.import_sets(MemoryStore(), [tmp_path / "a.npz", tmp_path / "c.npz"])
    with pytest.raises(dk.SourceError, match=r"FileNotFoundError: there is no file .*d\.npz"):
        dk.import_sets(MemoryStore(), [tmp_path / "d.npz"])


def test_an_id_in_two_files_is_named_before_any_is_read(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(f"id,x\nz,1\n{name},2\n")
    monkeypatch.setattr(dk.TableReader, "read", lambda self, path: 1 / 0)
    with pytest.raises(dk.SourceError, match=r"got 'z' in .*a\.csv.* and in .*b\.csv"):
        dk.import_sets(MemoryStore(), [tmp_path / "a.csv", tmp_path / "b.csv"], dk.TableReader("id"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    "suffix", [".csv", ".tsv", ".parquet", ".fcs", ".lmd", ".las", ".laz", ".npz", ".npy"]
)
def test_named_pipes_are_refused(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    os.mkfifo(path)
    # with a writer open, a reader that opens the pipe fails instead of blocking forever
    writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(writer, b"id,x\n1,2\n")
        is_table = suffix in (".csv", ".tsv", ".parquet")
        reader = dk.TableReader("id") if is_table else None
        for source in [path, [path]] if is_table else [path]:
            with pytest.raises(dk.SourceError, match=rf"x\{suffix} is a named pipe"):
                dk.import_sets(MemoryStore(), [source], reader)
    finally:
        os.close(writer)


def test_other_suffixes_are_refused(tmp_path):
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(dk.SourceError, match=r"must end in .*; got '\.json'"):
        dk.import_sets(MemoryStore(), [tmp_path / "t.json"], dk.TableReader("id"))
    np.savez(tmp_path / "s.npz", values=np.float64(3))
    with pytest.raises(
        dk.SourceError, match=r"must have shape \(points, dimensions\), with offsets, or .*; got \(\)"
    ):
        dk.import_sets(MemoryStore(), [tmp_path / "s.npz"])
