"""Other packages register readers with the entry point group dkdist.readers."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main
from dkdist.io.readers import kinds


class LinesReader:
    """Reader of text files: a file is a set, a line is a point."""

    def read(self, path):
        return [np.loadtxt(path, ndmin=2)]


class OtherReader(LinesReader):
    pass


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.lines"
    path.write_text("1 2\n3 4\n5 6\n")
    return path


def register(monkeypatch, *names):
    result = [EntryPoint("lines", f"{__name__}:{name}", kinds.READERS_GROUP) for name in names]
    monkeypatch.setattr(
        kinds,
        "entry_points",
        lambda group, name: [one for one in result if (one.group, one.name) == (group, name)],
    )


def test_files_are_read_by_their_suffix(source, tmp_path, monkeypatch):
    register(monkeypatch, "LinesReader")
    store = dk.import_sets(tmp_path / "sets.zarr", [source])
    np.testing.assert_array_equal(store[0], [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize("folder", [False, True])
def test_the_command_line_knows_the_suffix(source, tmp_path, monkeypatch, capsys, folder):
    register(monkeypatch, "LinesReader")
    assert main(["import", str(source.parent if folder else source), str(tmp_path / "sets.zarr")]) == 0
    assert "1 sets of 3 points in 2 dimensions" in capsys.readouterr().out


def test_options_of_other_readers_are_refused(source, tmp_path, monkeypatch, capsys):
    register(monkeypatch, "LinesReader")
    assert main(["import", str(source), str(tmp_path / "sets.zarr"), "--set-id", "id"]) == 2
    assert "--set-id applies to tables and h5ad files only" in capsys.readouterr().err


def test_two_packages_for_one_suffix_are_refused(source, tmp_path, monkeypatch):
    register(monkeypatch, "LinesReader", "OtherReader")
    with pytest.raises(
        ValueError, match=r"\.lines is read by several packages .*:LinesReader, .*:OtherReader\)"
    ):
        dk.import_sets(tmp_path / "sets.zarr", [source])
    assert not Path(tmp_path / "sets.zarr").exists()


def test_without_a_reader_the_suffix_is_refused(source, tmp_path):
    with pytest.raises(ValueError, match="without read=, sources must be files"):
        dk.import_sets(tmp_path / "sets.zarr", [source])
