"""``dkdist import``: what is written in the source, and nothing else, is in the store; what cannot be is named."""

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
USUAL = ["--set-id", "bag", "--weight", "w", "--target", "label", "height"]


def write_table(path, rows=ROWS, columns=COLUMNS):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))), path)
        return path
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def imported(source, *options, code=0):
    store = source.parent / "bags.zarr"
    assert main(["import", str(source), str(store), *options]) == code
    return dk.open_sets(store) if code == 0 else store


def refused(capsys, source, *options):
    existed = (source.parent / "bags.zarr").exists()
    store = imported(source, *options, code=2)
    assert store.exists() == existed
    *_, error = capsys.readouterr().err.splitlines()
    assert error.startswith("dkdist: error: ")
    return error


def check(sets, order=range(N_SETS)):
    assert list(sets.ids) == [NAMES[i] for i in order]
    assert list(sets.targets) == ["height", "label"]
    assert list(sets.targets["label"]) == [LABELS[i] for i in order]
    assert sets.targets["height"].tolist() == [HEIGHTS[i] for i in order]
    for place, i in enumerate(order):
        assert np.array_equal(sets[place], POINTS[i])
        assert np.array_equal(sets.weights_of(place), WEIGHTS[i])


@pytest.fixture(params=[7, 2**17])
def small_pieces(request, monkeypatch):
    """Pieces that end inside sets, and one that holds everything."""
    monkeypatch.setattr(table_source, "PIECE_BYTES", 40 * request.param)
    monkeypatch.setattr(table_source, "PIECE_ROWS", request.param)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet"])
def test_a_table_comes_back_set_by_set(name, tmp_path, small_pieces):
    check(imported(write_table(tmp_path / name), *USUAL))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_sorting_keeps_the_order_within_sets(name, tmp_path, small_pieces):
    mixed = sorted(range(len(ROWS)), key=lambda r: RNG.random())
    place = {id(row): i for i, row in enumerate(ROWS)}
    rows = sorted((ROWS[r] for r in mixed), key=lambda row: place[id(row)] % 5)  # sets are torn apart
    within = {n: [r for r in rows if r[0] == n] for n in NAMES}
    sets = imported(write_table(tmp_path / name, rows), *USUAL, "--sort")
    assert list(sets.ids) == sorted(NAMES)
    for i, n in enumerate(sorted(NAMES)):
        assert np.array_equal(sets[i], np.array([r[2:4] for r in within[n]], np.float32))


def test_points_are_the_columns_that_are_named_in_that_order(tmp_path):
    sets = imported(write_table(tmp_path / "t.csv"), "--set-id", "bag", "--points", "y,x,w")
    assert sets.n_dims == 3
    assert np.array_equal(sets[5], np.column_stack([POINTS[5][:, ::-1], WEIGHTS[5]]))
    assert sets.weights_shape is None


def test_integers_then_fractions_are_coordinates_all_the_same(tmp_path, small_pieces):
    rows = [[i, k if i < 20 else k + 0.5] for i in range(40) for k in range(9)]
    sets = imported(write_table(tmp_path / "t.csv", rows, ["bag", "x"]), "--set-id", "bag")
    assert sets[39].ravel().tolist() == [k + 0.5 for k in range(9)]
    assert sets.ids.tolist() == list(range(40))


def test_ids_with_leading_zeros_stay_text(tmp_path):
    rows = [[f"{i:03d}", 0.5] for i in range(98, 102)]
    sets = imported(write_table(tmp_path / "t.csv", rows, ["bag", "x"]), "--set-id", "bag")
    assert sets.ids.tolist() == ["098", "099", "100", "101"]
    more = write_table(tmp_path / "more.csv", [[102, 0.5]], ["bag", "x"])
    assert imported(more, "--set-id", "bag", "--append").ids.tolist()[3:] == ["101", "102"]


def test_whole_numbers_are_text_if_asked(tmp_path):
    rows = [[i, 0.5] for i in range(3)]
    sets = imported(write_table(tmp_path / "t.csv", rows, ["bag", "x"]), "--set-id", "bag", "--text", "bag")
    assert sets.ids.tolist() == ["0", "1", "2"]


def test_dictionaries_and_codes_of_a_parquet_file(tmp_path):
    table = pa.table(
        {"bag": pa.array(["b", "b", "a"]).dictionary_encode(), "code": pa.array([3, 9, 4], pa.uint8())}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    sets = imported(tmp_path / "t.parquet", "--set-id", "bag")
    assert sets.points_dtype == np.uint8
    assert sets.ids.tolist() == ["b", "a"]
    assert sets[0].ravel().tolist() == [3, 9]


def test_appending_and_overwriting(tmp_path, capsys):
    half = [row for row in ROWS if row[0] in NAMES[:20]]
    rest = [row for row in ROWS if row[0] in NAMES[20:]]
    first, second = write_table(tmp_path / "a.csv", half), write_table(tmp_path / "b.csv", rest)
    imported(first, *USUAL)
    assert "already exists" in refused(capsys, second, *USUAL)
    check(imported(second, *USUAL, "--append"))
    assert "in the store already" in refused(capsys, second, *USUAL, "--append")
    assert len(imported(first, *USUAL, "--overwrite")) == 20


@pytest.mark.usefixtures("small_pieces")
def test_a_set_that_comes_back_has_the_rows_of_both_places(tmp_path):
    sets = imported(write_table(tmp_path / "t.csv", [*ROWS, ROWS[0]]), *USUAL)
    assert list(sets.ids) == NAMES
    assert np.array_equal(sets[0], np.concatenate([POINTS[0], POINTS[0][:1]]))
    assert np.array_equal(sets[1], POINTS[1])


@pytest.mark.usefixtures("small_pieces")
def test_a_target_that_changes_within_a_set_is_named(tmp_path, capsys):
    i = int(np.argmax(SIZES[10:] > 1)) + 10
    place = int(SIZES[:i].sum()) + 1
    rows = [list(row) for row in ROWS]
    rows[place][1] = "cow"
    error = refused(capsys, write_table(tmp_path / "t.csv", rows), *USUAL)
    assert f"target 'label' is {LABELS[i]!r} and then 'cow' within set {NAMES[i]} (row {place + 1} " in error


@pytest.mark.parametrize(
    ("value", "what"), [("", "has no value"), ("inf", "is not a finite"), ("1e60", "is not a finite")]
)
@pytest.mark.usefixtures("small_pieces")
def test_a_coordinate_that_is_no_number_is_named(value, what, tmp_path, capsys):
    rows = [list(row) for row in ROWS]
    rows[100][3] = value
    error = refused(capsys, write_table(tmp_path / "t.csv", rows), *USUAL)
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
def test_wrong_columns_are_named(options, message, tmp_path, capsys):
    import re

    assert re.search(message, refused(capsys, write_table(tmp_path / "t.csv"), *options))


def test_a_coordinate_that_is_text_later_in_the_file_is_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(table_source, "PIECE_BYTES", 100)
    rows = [[i, 0.5] for i in range(100)] + [[7, "a"]]
    error = refused(capsys, write_table(tmp_path / "t.csv", rows, ["bag", "x"]), "--set-id", "bag")
    assert "invalid value 'a'" in error
    assert "Pass the coordinates as points" in error


def test_ids_that_are_text_later_in_the_file_are_text(tmp_path, monkeypatch):
    monkeypatch.setattr(table_source, "PIECE_BYTES", 100)
    rows = [[i, 0.5] for i in range(100)] + [["a", 0.5]]
    sets = imported(write_table(tmp_path / "t.csv", rows, ["bag", "x"]), "--set-id", "bag")
    assert sets.ids.tolist() == [*map(str, range(100)), "a"]


def test_a_missing_pyarrow_is_said(tmp_path, capsys, monkeypatch):
    from dkdist.io.readers import table_files

    monkeypatch.setattr(table_files, "find_spec", lambda name: None)
    assert "pip install 'dkdist[frames]'" in refused(capsys, write_table(tmp_path / "t.csv"), *USUAL)


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
def test_ragged_arrays(batch, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dkdist.io.readers.array_files.BATCH_POINTS", batch)
    np.savez(tmp_path / "a.npz", **arrays(extra=np.zeros(3)))
    check(imported(tmp_path / "a.npz", "--weight", "w"))
    assert "ignored arrays without one entry for each of the 40 sets: extra" in capsys.readouterr().err


def test_arrays_by_other_names(tmp_path):
    known = arrays()
    np.savez(tmp_path / "a.npz", p=known["values"][:, 0], o=known["offsets"], a=HEIGHTS, b=HEIGHTS)
    sets = imported(tmp_path / "a.npz", "--values", "p", "--offsets", "o", "--target", "b")
    assert list(sets.targets) == ["b"]
    assert np.array_equal(sets[3], POINTS[3][:, :1])


def test_codes_stay_codes(tmp_path):
    codes = RNG.integers(0, 4, SIZES.sum()).astype(np.uint8)
    np.savez(tmp_path / "a.npz", **arrays(values=codes))
    assert imported(tmp_path / "a.npz").points_dtype == np.uint8


@pytest.mark.parametrize("save", [np.save, lambda path, cube: np.savez(path, images=cube, y=np.arange(6))])
def test_a_cube_is_sets_of_equal_size(save, tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.io.readers.array_files.BATCH_POINTS", 9)
    cube = RNG.normal(size=(6, 4, 3)).astype(np.float32)
    path = tmp_path / ("c.npy" if save is np.save else "c.npz")
    save(path, cube)
    sets = imported(path)
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
        ({}, ["--set-id", "x"], "--set-id applies to tables only"),
    ],
)
def test_wrong_arrays_are_named(changes, options, message, tmp_path, capsys):
    np.savez(tmp_path / "a.npz", **arrays(**changes))
    assert message in refused(capsys, tmp_path / "a.npz", *options)


def test_a_bad_set_of_a_later_batch_is_counted_from_its_first(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dkdist.io.readers.array_files.BATCH_POINTS", 8)
    cube = np.zeros((6, 4, 3))
    cube[5, 2, 1] = np.nan
    np.save(tmp_path / "c.npy", cube)
    error = refused(capsys, tmp_path / "c.npy")
    assert "sets 4 to 5 of" in error
    assert "point 2 of set 1" in error


def test_other_files_are_refused(tmp_path, capsys):
    assert "does not exist" in refused(capsys, tmp_path / "absent.csv", "--set-id", "a")
    (tmp_path / "a.json").write_text("{}")
    assert "must end in one of .csv" in refused(capsys, tmp_path / "a.json")
    (tmp_path / "a.npz").write_bytes(b"PK nothing")
    assert "cannot be read" in refused(capsys, tmp_path / "a.npz")
    (tmp_path / "a.csv").write_text("")
    assert "Empty CSV" in refused(capsys, tmp_path / "a.csv", "--set-id", "a")
