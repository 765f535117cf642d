"""``dkdist import`` of several files: one store in file order; incompatible files are refused by name."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main

from .test_import import N_SETS, NAMES, ROWS, USUAL_OPTIONS, assert_all_sets, import_source, write_table


def write_halves(folder, name):
    """The same table in two files, cut between sets."""
    half = [row for row in ROWS if row[0] in NAMES[:20]]
    rest = [row for row in ROWS if row[0] in NAMES[20:]]
    folder.mkdir()
    return [write_table(folder / f"{part}{name}", rows) for part, rows in (("1", half), ("2", rest))]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_many_files_a_directory_and_a_pattern_are_one_store(suffix, tmp_path, capsys):
    files = write_halves(tmp_path / "parts", suffix)
    store = str(tmp_path / "bags.zarr")
    for sources in ([*map(str, files)], [str(tmp_path / "parts")], [str(tmp_path / "parts" / f"*{suffix}")]):
        assert main(["import", *sources, store, "--overwrite", *USUAL_OPTIONS]) == 0
        assert_all_sets(dk.open_sets(store))
        assert f"wrote {N_SETS} sets of {len(ROWS)} points in 2 dim" in capsys.readouterr().out.replace(
            ",", ""
        )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_folder_is_one_table_whose_files_share_sets(suffix, tmp_path, capsys):
    folder = tmp_path / "cells"
    for k in range(3):
        (folder / f"part={k}").mkdir(parents=True)
        write_table(folder / f"part={k}" / f"a{suffix}", ROWS[k::3])
    store = str(tmp_path / "bags.zarr")
    arguments = [
        "import",
        str(folder),
        store,
        "--set-id",
        "bag",
        "--weight",
        "w",
        "--target",
        "label,height",
        "--sort",
    ]
    assert main(arguments) == 0
    message = "points: x, y; left out: part (a partition)"
    assert message in capsys.readouterr().out.splitlines()
    sets = dk.open_sets(store)
    assert sets.ids.tolist() == sorted(NAMES)
    assert sets.sizes.tolist() == [sum(row[0] == name for row in ROWS) for name in sorted(NAMES)]
    assert list(sets.targets) == ["height", "label"]


def test_sets_without_a_target_are_refused_or_dropped(tmp_path, capsys):
    rows = [[*row[:5], "" if row[0] == NAMES[3] else row[5]] for row in ROWS]
    source, store = str(write_table(tmp_path / "t.csv", rows)), str(tmp_path / "bags.zarr")
    assert main(["import", source, store, *USUAL_OPTIONS]) == 2
    assert f"'height' is missing for 1 of 40 sets of {source}: '{NAMES[3]}'." in capsys.readouterr().err
    assert main(["import", source, store, *USUAL_OPTIONS, "--missing-targets", "drop"]) == 0
    assert "1 set was dropped" in capsys.readouterr().out
    assert NAMES[3] not in dk.open_sets(store).ids
    assert main(["import", source, store, "--set-id", "bag", "--points", "x,y", "--overwrite"]) == 0
    assert len(dk.open_sets(store)) == N_SETS


def test_several_array_files_are_imported_and_appended(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    np.save(folder / "a.npy", np.zeros((3, 4, 2)))
    np.save(folder / "b.npy", np.ones((2, 4, 2)))
    (folder / "README").write_text("left alone in a directory")
    store = str(tmp_path / "s.zarr")
    assert main(["import", str(folder), store]) == 0
    assert main(["import", str(folder / "a.npy"), str(folder / "b.npy"), store, "--append"]) == 0
    assert [one[0, 0] for one in dk.open_sets(store)] == [0, 0, 0, 1, 1] * 2


def test_one_file_with_progress_is_imported(tmp_path, capsys):
    assert_all_sets(import_source(write_table(tmp_path / "t.csv"), *USUAL_OPTIONS, "--progress"))
    assert "import: 40 sets" in capsys.readouterr().err


def test_incompatible_files_are_refused(tmp_path, capsys):
    files = [str(path) for path in write_halves(tmp_path / "parts", ".csv")]
    np.save(tmp_path / "a.npy", np.zeros((3, 4, 2)))
    store = str(tmp_path / "s.zarr")
    for arguments, message in (
        ([*files, str(tmp_path / "a.npy"), store], "sources must be of one kind"),
        ([str(tmp_path / "absent*.csv"), store], "does not exist"),
        ([str(tmp_path / "absent*.csv"), store, "--append", "--progress"], "does not exist"),
        ([str(tmp_path), store, "--set-id", "bag"], "--set-id applies to tables and h5ad files only"),
        ([*files, files[0], store, *USUAL_OPTIONS], f"sources must be unique; got {files[0]} twice"),
        (
            [files[0], store, *USUAL_OPTIONS, "--append", "--progress"],
            "--append reads one file after another",
        ),
    ):
        assert main(["import", *arguments]) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["import", str(tmp_path / "empty"), store]) == 2
    assert "that ends in one of .csv" in capsys.readouterr().err
    assert not (tmp_path / "s.zarr").exists()
