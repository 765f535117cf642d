"""Parquet files written by hand: values are correct, and damage is refused with the file name."""

from __future__ import annotations

import numpy as np
import pytest
from zarr.storage import MemoryStore

import dkdist as dk

from .parquet_bytes import parquet_bytes

dd = pytest.importorskip("dask.dataframe")
N = 2000
X = np.arange(N, dtype="f8")
COLUMNS = {"donor": ["a"] * 1000 + ["b"] * 1000, "x": X, "y": -np.arange(N)}


def flipped(content, value):
    """Flip one bit of a value: 1234.0 becomes 617.0."""
    changed = bytearray(content)
    changed[changed.find(np.float64(value).tobytes()) + 6] ^= 0x10
    return bytes(changed)


def imported(path):
    return dk.import_sets(MemoryStore(), [path], dk.TableReader("donor"))


def test_values_written_by_hand_are_read(tmp_path):
    path = tmp_path / "cells.parquet"
    for has_checksums in (True, False):
        path.write_bytes(parquet_bytes(COLUMNS, has_checksums=has_checksums))
        sets = imported(path)
        assert sets.ids.tolist() == ["a", "b"]
        np.testing.assert_array_equal(np.concatenate(list(sets)), np.stack([X, -X], axis=1))


def test_checksums_of_pages_are_verified(tmp_path):
    folder = tmp_path / "cells"
    folder.mkdir()
    (folder / "1.parquet").write_bytes(parquet_bytes(COLUMNS))
    later = {**COLUMNS, "donor": ["c"] * N}
    (folder / "2.parquet").write_bytes(flipped(parquet_bytes(later), 1234))
    words = r"2\.parquet cannot be read.*CRC checksum.*[Ww]rite it again"
    for source in (folder / "2.parquet", folder):
        with pytest.raises(dk.SourceError, match=words):
            imported(source)
    with pytest.raises(dk.SampleSetError, match=words):
        dk.import_frame(tmp_path / "s.zarr", dd.read_parquet(folder), "donor")
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1000],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content[:-8] + b"\xff\xff\xff\x7f" + b"PAR1",
        lambda content: b"PAR1" * 3,
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, damage):
    path = tmp_path / "cells.parquet"
    path.write_bytes(damage(parquet_bytes(COLUMNS)))
    with pytest.raises(dk.SourceError, match=r"cells\.parquet cannot be read as Parquet \(.*Write it again"):
        imported(path)
