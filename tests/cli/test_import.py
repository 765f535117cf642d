"""``dkdist import``: the store has exactly the values of the source; invalid sources are refused by name."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dkdist as dk
from dkdist.cli import main
from dkdist.io.readers import table_source

pytestmark = pytest.mark.filterwarnings("default:ignored arrays")
RNG = np.random.default_rng(0)
N_SETS = 40
SIZES = RNG.integers(1, 30, N_SETS)
NAMES = [f"bag {i:02d}" for i in RNG.permutation(N_SETS)]
POINTS = [RNG.normal(size=(n, 2)).astype(np.float32) for n in SIZES]
WEIGHTS = [RNG.uniform(0.1, 1, n).astype(np.float32) for n in SIZES]
LABELS = [("cat", "dog")[i % 2] for i in range(N_SETS)]
HEIGHTS = RNG.normal(size=N_SETS)
COLUMNS = ["bag", "label", "x", "y", "w", "height"]
ROWS = [
    [NAMES[i], LABELS[i], *map(float, POINTS[i][k]), float(WEIGHTS[i][k]), float(HEIGHTS[i])]
    for i in range(N_SETS)
    for k in range(SIZES[i])
]
USUAL_OPTIONS = ["--set-id", "bag", "--weight", "w", "--target", "label", "height"]


def write_table(path, rows=ROWS, columns=COLUMNS):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))), path)
        return path
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def import_source(source, *options, code=0):
    store = source.parent / "bags.zarr"
    assert main(["import", str(source), str(store), *options]) == code
    return dk.open_sets(store) if code == 0 else store


def import_error(capsys, source, *options):
    existed = (source.parent / "bags.zarr").exists()
    store = import_source(source, *options, code=2)
    assert store.exists() == existed
    *_, error = capsys.readouterr().err.splitlines()
    assert error.startswith("dkdist: error: ")
    return error


def assert_all_sets(sets, order=range(N_SETS)):
    assert list(sets.ids) == [NAMES[i] for i in order]
    assert list(sets.targets) == ["height", "label"]
    assert list(sets.targets["label"]) == [LABELS[i] for i in order]
    assert sets.targets["height"].tolist() == [HEIGHTS[i] for i in order]
    for place, i in enumerate(order):
        assert np.array_equal(sets[place], POINTS[i])
        assert np.array_equal(sets.weights_of(place), WEIGHTS[i])


@pytest.fixture(params=[7, 2**17])
def small_pieces(request, monkeypatch):
    """Read in pieces that end inside sets, and in one piece."""
    monkeypatch.setattr(table_source, "PIECE_BYTES", 40 * request.param)
    monkeypatch.setattr(table_source, "PIECE_ROWS", request.param)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet"])
def test_a_table_comes_back_set_by_set(name, tmp_path, small_pieces):
    assert_all_sets(import_source(write_table(tmp_path / name), *USUAL_OPTIONS))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_sorting_keeps_the_order_within_sets(name, tmp_path, small_pieces):
    mixed = sorted(range(len(ROWS)), key=lambda r: RNG.random())
    place = {id(row): i for i, row in enumerate(ROWS)}
    # rows of a set are not adjacent
    rows = sorted((ROWS[r] for r in mixed), key=lambda row: place[id(row)] % 5)
    within = {n: [r for r in rows if r[0] == n] for n in NAMES}
    sets = import_source(write_table(tmp_path / name, rows), *USUAL_OPTIONS, "--sort")
    assert list(sets.ids) == sorted(NAMES)
    for i, n in enumerate(sorted(NAMES)):
        assert np.array_equal(sets[i], np.array([r[2:4] for r in within[n]], np.float32))


def test_points_are_the_named_columns_in_the_given_order(tmp_path):
    sets = import_source(write_table(tmp_path / "t.csv"), "--set-id", "bag", "--points", "y,x,w")
    assert sets.n_dims == 3
    assert np.array_equal(sets[5], np.column_stack([POINTS[5][:, ::-1], WEIGHTS[5]]))
    assert sets.weights_shape is None


def test_a_column_of_integers_and_later_fractions_is_imported(tmp_path, small_pieces):
    rows = [[i, k if i < 20 else k + 0.5] for i in range(40) for k in range(9)]
    sets = import_source(write_table(tmp_path / "t.csv", rows, ["bag", "x"]), "--set-id", "bag")
    assert sets[39].ravel().tolist() == [k + 0.5 for k in range(9)]
    assert sets.ids.tolist() == list(range(40))


def test_ids_with_leading_zeros_stay_text(tmp_path):
    rows = [[f"{i:03d}", 0.5] for i in range(98, 102)]
    sets = import_source(write_table(tmp_path / "t.csv", rows, ["bag", "x"]), "--set-id", "bag")
    assert sets.ids.tolist() == ["098", "099", "100", "101"]
    more = write_table(tmp_path / "more.csv", [[102, 0.5]], ["bag", "x"])
    assert import_source(more, "--set-id", "bag", "--append").ids.tolist()[3:] == ["101", "102"]


def test_the_text_option_imports_integers_as_text(tmp_path):
    rows = [[i, 0.5] for i in range(3)]
    sets = import_source(
        write_table(tmp_path / "t.csv", rows, ["bag", "x"]), "--set-id", "bag", "--text", "bag"
    )
    assert sets.ids.tolist() == ["0", "1", "2"]


def test_parquet_dictionaries_and_uint8_codes_are_imported(tmp_path):
    table = pa.table(
        {"bag": pa.array(["b", "b", "a"]).dictionary_encode(), "code": pa.array([3, 9, 4], pa.uint8())}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    sets = import_source(tmp_path / "t.parquet", "--set-id", "bag")
    assert sets.points_dtype == np.uint8
    assert sets.ids.tolist() == ["b", "a"]
    assert sets[0].ravel().tolist() == [3, 9]


def test_append_and_overwrite_options(tmp_path, capsys):
    half = [row for row in ROWS if row[0] in NAMES[:20]]
    rest = [row for row in ROWS if row[0] in NAMES[20:]]
    first, second = write_table(tmp_path / "a.csv", half), write_table(tmp_path / "b.csv", rest)
    import_source(first, *USUAL_OPTIONS)
    assert "already exists" in import_error(capsys, second, *USUAL_OPTIONS)
    assert_all_sets(import_source(second, *USUAL_OPTIONS, "--append"))
    assert "in the store already" in import_error(capsys, second, *USUAL_OPTIONS, "--append")
    assert len(import_source(first, *USUAL_OPTIONS, "--overwrite")) == 20


@pytest.mark.usefixtures("small_pieces")
def test_rows_of_a_set_need_not_be_adjacent(tmp_path):
    sets = import_source(write_table(tmp_path / "t.csv", [*ROWS, ROWS[0]]), *USUAL_OPTIONS)
    assert list(sets.ids) == NAMES
    assert np.array_equal(sets[0], np.concatenate([POINTS[0], POINTS[0][:1]]))
    assert np.array_equal(sets[1], POINTS[1])


@pytest.mark.usefixtures("small_pieces")
def test_a_target_that_changes_within_a_set_is_named(tmp_path, capsys):
    i = int(np.argmax(SIZES[10:] > 1)) + 10
    place = int(SIZES[:i].sum()) + 1
    rows = [list(row) for row in ROWS]
    rows[place][1] = "cow"
    error = import_error(capsys, write_table(tmp_path / "t.csv", rows), *USUAL_OPTIONS)
    assert f"target 'label' is {LABELS[i]!r} and then 'cow' within set {NAMES[i]} (row {place + 1} " in error


@pytest.mark.parametrize(
    ("value", "what"), [("", "has no value"), ("inf", "is not a finite"), ("1e60", "is not a finite")]
)
@pytest.mark.usefixtures("small_pieces")
def test_an_invalid_coordinate_is_named(value, what, tmp_path, capsys):
    rows = [list(row) for row in ROWS]
    rows[100][3] = value
    error = import_error(capsys, write_table(tmp_path / "t.csv", rows), *USUAL_OPTIONS)
    assert f"column 'y' {what}" in error
    assert "in row 101 of" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "a table requires --set-id"),
        (["--set-id", "sack"], "has no column 'sack'; it has bag, label, x, y, w, height"),
        (["--set-id", "bag", "--points", "x,label"], "column 'label' .* must hold numbers; got text"),
        (["--set-id", "label", "--target", "w"], "target 'w' is .* and then .* within set"),
        (["--set-id", "bag", "--values", "x"], "--values applies to arrays only"),
    ],
)
def test_invalid_columns_are_named(options, message, tmp_path, capsys):
    import re

    assert re.search(message, import_error(capsys, write_table(tmp_path / "t.csv"), *options))


def test_a_coordinate_that_is_text_later_in_the_file_is_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(table_source, "PIECE_BYTES", 100)
    rows = [[i, 0.5] for i in range(100)] + [[7, "a"]]
    error = import_error(capsys, write_table(tmp_path / "t.csv", rows, ["bag", "x"]), "--set-id", "bag")
    assert "invalid value 'a'" in error
    assert "Pass the coordinates as points" in error


def test_ids_that_are_text_later_in_the_file_are_text(tmp_path, monkeypatch):
    monkeypatch.setattr(table_source, "PIECE_BYTES", 100)
    rows = [[i, 0.5] for i in range(100)] + [["a", 0.5]]
    sets = import_source(write_table(tmp_path / "t.csv", rows, ["bag", "x"]), "--set-id", "bag")
    assert sets.ids.tolist() == [*map(str, range(100)), "a"]


def test_missing_pyarrow_names_the_extra(tmp_path, capsys, monkeypatch):
    from dkdist.io.readers import table_files

    monkeypatch.setattr(table_files, "find_spec", lambda name: None)
    assert "pip install 'dkdist[frames]'" in import_error(
        capsys, write_table(tmp_path / "t.csv"), *USUAL_OPTIONS
    )


def arrays(**changes):
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    usual = {
        "values": np.concatenate(POINTS),
        "offsets": offsets,
        "label": np.array(LABELS),
        "height": HEIGHTS,
    }
    return {**usual, "ids": np.array(NAMES), "w": np.concatenate(WEIGHTS), **changes}


@pytest.mark.parametrize("batch", [5, 2**20])
def test_ragged_arrays_are_imported(batch, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dkdist.io.readers.array_files.BATCH_POINTS", batch)
    np.savez(tmp_path / "a.npz", **arrays(extra=np.zeros(3)))
    assert_all_sets(import_source(tmp_path / "a.npz", "--weight", "w"))
    assert "ignored arrays without one entry for each of the 40 sets: extra" in capsys.readouterr().err


def test_arrays_with_other_names_are_imported_by_option(tmp_path):
    known = arrays()
    np.savez(tmp_path / "a.npz", p=known["values"][:, 0], o=known["offsets"], a=HEIGHTS, b=HEIGHTS)
    sets = import_source(tmp_path / "a.npz", "--values", "p", "--offsets", "o", "--target", "b")
    assert list(sets.targets) == ["b"]
    assert np.array_equal(sets[3], POINTS[3][:, :1])


def test_uint8_codes_keep_their_dtype(tmp_path):
    codes = RNG.integers(0, 4, SIZES.sum()).astype(np.uint8)
    np.savez(tmp_path / "a.npz", **arrays(values=codes))
    assert import_source(tmp_path / "a.npz").points_dtype == np.uint8


@pytest.mark.parametrize("save", [np.save, lambda path, cube: np.savez(path, images=cube, y=np.arange(6))])
def test_a_three_dimensional_array_is_sets_of_equal_size(save, tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.io.readers.array_files.BATCH_POINTS", 9)
    cube = RNG.normal(size=(6, 4, 3)).astype(np.float32)
    path = tmp_path / ("c.npy" if save is np.save else "c.npz")
    save(path, cube)
    sets = import_source(path)
    assert np.array_equal(np.stack(list(sets.load())), cube)
    assert list(sets.targets) == ([] if save is np.save else ["y"])


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"offsets": np.array([0, 5, 5, SIZES.sum()])}, [], "offsets must be increasing integers"),
        ({"offsets": np.arange(3)}, [], "the number of points"),
        ({}, ["--values", "points"], "has no array 'points'; it has values, offsets"),
        ({}, ["--target", "z"], "has no array 'z'"),
        ({"w": np.zeros(4)}, ["--weight", "w"], "must have one weight for each"),
        ({"label": np.array([{}], dtype=object)}, [], "without Python objects"),
        ({"values": np.full((SIZES.sum(), 2), np.nan)}, [], "sets 0 to 39 of"),
        ({}, ["--set-id", "x"], "--set-id applies to tables and h5ad files only"),
    ],
)
def test_invalid_arrays_are_named(changes, options, message, tmp_path, capsys):
    np.savez(tmp_path / "a.npz", **arrays(**changes))
    assert message in import_error(capsys, tmp_path / "a.npz", *options)


def test_an_invalid_set_is_numbered_within_its_batch(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dkdist.io.readers.array_files.BATCH_POINTS", 8)
    cube = np.zeros((6, 4, 3))
    cube[5, 2, 1] = np.nan
    np.save(tmp_path / "c.npy", cube)
    error = import_error(capsys, tmp_path / "c.npy")
    assert "sets 4 to 5 of" in error
    assert "point 2 of set 1" in error


def test_missing_unsupported_and_damaged_files_are_refused(tmp_path, capsys):
    assert "does not exist" in import_error(capsys, tmp_path / "absent.csv", "--set-id", "a")
    (tmp_path / "a.json").write_text("{}")
    assert "must end in one of .csv" in import_error(capsys, tmp_path / "a.json")
    (tmp_path / "a.npz").write_bytes(b"PK nothing")
    assert "cannot be read" in import_error(capsys, tmp_path / "a.npz")
    (tmp_path / "a.csv").write_text("")
    assert "Empty CSV" in import_error(capsys, tmp_path / "a.csv", "--set-id", "a")
