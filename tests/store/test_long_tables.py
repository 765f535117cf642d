"""Long tables, split and shuffled in many ways, give the same sets as grouping all rows at once."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.io.readers import gathered_rows, indexed_table, set_index, table_source

from .samples import content

RNG = np.random.default_rng(0)
SIZES = RNG.integers(1, 30, 40)
IDS = np.array([f"{i:03d}" for i in RNG.permutation(40)])
AGES = RNG.integers(20, 90, 40)
CELLS = pd.DataFrame(
    {
        "donor": np.repeat(IDS, SIZES),
        "cd3": RNG.normal(size=SIZES.sum()).astype("f4").astype("f8"),
        "label": np.repeat(np.where(AGES > 50, "old", "young"), SIZES),
        "cd4": RNG.integers(0, 100, SIZES.sum()),
        "age": np.repeat(AGES, SIZES),
        "w": RNG.uniform(0.1, 1, SIZES.sum()).astype("f4").astype("f8"),
    }
)
READER = dk.TableReader("donor", weight="w", targets=["age", "label"])
SORTED = dk.TableReader("donor", weight="w", targets=["age", "label"], sort=True)


@pytest.fixture
def pieces(monkeypatch):
    """Set sizes of pieces, batches and buckets so that there are several of each and they end inside sets."""
    monkeypatch.setattr(table_source, "PIECE_BYTES", 2000)
    monkeypatch.setattr(table_source, "PIECE_ROWS", 31)
    monkeypatch.setattr(indexed_table, "SCATTER_PIECE_ROWS", 50)
    monkeypatch.setattr(indexed_table, "MAX_BATCH_BYTES", 120 * 16)
    monkeypatch.setattr(gathered_rows, "BUCKET_BYTES", 4000)
    monkeypatch.setattr(set_index, "MAX_HELD_RUNS", 100)


def write(frame, path, index=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=index)
    else:
        frame.to_csv(path, index=index, sep="\t" if path.suffix == ".tsv" else ",")


def shuffled(frame):
    return frame.sample(frac=1, random_state=1)


def in_files(frame, folder, suffix, n=3):
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), n)):
        write(frame.iloc[rows], folder / "deep" / f"part-{k}{suffix}")


def in_partitions(frame, folder, suffix):
    for (label, age), rows in frame.groupby(["label", "age"], sort=False):
        write(rows.drop(columns=["label", "age"]), folder / f"label={label}" / f"age={age}" / f"p{suffix}")


def by_donor(frame, folder, suffix):
    for donor, rows in frame.groupby("donor"):
        write(rows.drop(columns="donor"), folder / f"donor={donor}" / f"a{suffix}")


def from_spark(frame, folder, suffix):
    in_files(frame, folder, suffix, 5)
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.crc").write_bytes(b"crc")
    if suffix == ".csv":
        (folder / "part-empty.csv").write_text("")


LAYOUTS = {
    "one file": lambda f, folder, suffix: write(f, folder / f"all{suffix}"),
    "shuffled": lambda f, folder, suffix: write(shuffled(f), folder / f"all{suffix}"),
    "files": in_files,
    "shuffled files": lambda f, folder, suffix: in_files(shuffled(f), folder, suffix),
    "partitions": lambda f, folder, suffix: in_partitions(shuffled(f), folder, suffix),
    "a folder a set": lambda f, folder, suffix: by_donor(shuffled(f), folder, suffix),
    "spark": lambda f, folder, suffix: from_spark(shuffled(f), folder, suffix),
}


def rows_of(sets, i):
    """Return the rows of a set with their weights, sorted."""
    return sorted(map(tuple, np.column_stack([sets[i], sets.weights_of(i)]).tolist()))


def assert_sets_of_frame(sets, frame=CELLS, order=None):
    """Assert that the sets equal a plain grouping of all rows."""
    groups = dict(list(frame.groupby("donor")))
    assert sorted(sets.ids.tolist()) == sorted(groups)
    assert order is None or sets.ids.tolist() == order
    loaded = sets.load()
    ages, labels = sets.targets["age"].tolist(), sets.targets["label"].tolist()
    for i, donor in enumerate(sets.ids.tolist()):
        group = groups[donor]
        expected = group[["cd3", "cd4", "w"]].to_numpy().astype("f4")
        assert rows_of(loaded, i) == sorted(map(tuple, expected.tolist()))
        assert (ages[i], labels[i]) == (group["age"].iloc[0], group["label"].iloc[0])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("way", LAYOUTS)
def test_sets_do_not_depend_on_how_a_table_is_split(way, suffix, tmp_path, pieces):
    LAYOUTS[way](CELLS, tmp_path / "t", suffix)
    sets = dk.import_sets(MemoryStore(), [tmp_path / "t"], SORTED)
    assert_sets_of_frame(sets, order=sorted(IDS))
    sets.verify()


@pytest.mark.parametrize("way", ["one file", "partitions"])
def test_tables_smaller_than_a_piece_are_imported(way, tmp_path):
    LAYOUTS[way](CELLS, tmp_path / "t", ".parquet")
    assert_sets_of_frame(dk.import_sets(MemoryStore(), tmp_path / "t", READER))


def test_stores_are_bit_identical_if_rows_within_sets_keep_their_order(tmp_path, pieces):
    """Rows are shuffled across sets, but not within a set."""
    numbered = CELLS.assign(row=CELLS.groupby("donor").cumcount())
    mixed = shuffled(numbered).sort_values("row", kind="stable").drop(columns="row")
    result = []
    for suffix, frame in ((".csv", CELLS), (".parquet", CELLS), (".parquet", mixed), (".tsv", mixed)):
        memory, folder = MemoryStore(), tmp_path / f"{len(result)}"
        in_files(frame, folder, suffix)
        dk.import_sets(memory, folder, SORTED)
        result.append(content(memory))
    assert all(other == result[0] for other in result[1:])


def test_sets_are_ordered_by_first_row_and_keep_the_order_of_rows(tmp_path, pieces):
    mixed = shuffled(CELLS)
    in_files(mixed, tmp_path / "t", ".parquet")
    sets = dk.import_sets(MemoryStore(), tmp_path / "t", READER)
    assert_sets_of_frame(sets, order=list(dict.fromkeys(mixed["donor"])))
    first = mixed[mixed["donor"] == sets.ids[0]][["cd3", "cd4"]].to_numpy().astype("f4")
    np.testing.assert_array_equal(sets[0], first)


def test_a_list_of_files_is_one_table(tmp_path):
    in_files(shuffled(CELLS), tmp_path, ".parquet")
    files = sorted((tmp_path / "deep").iterdir())
    assert_sets_of_frame(dk.import_sets(MemoryStore(), [files], READER))
    with pytest.raises(dk.SourceError, match=r"part-0\.parquet is given twice"):
        dk.import_sets(MemoryStore(), [[*files, files[0]]], READER)
    with pytest.raises(
        dk.SourceError, match=r"in .*part-.*and in .*if they are files of one table, pass their"
    ):
        dk.import_sets(MemoryStore(), files, READER)
    with pytest.raises(dk.SourceError, match=r"sources must be unique; got .* twice"):
        dk.import_sets(MemoryStore(), [tmp_path, tmp_path], READER)


def test_the_origin_of_a_shuffled_table_is_near_its_points(tmp_path, pieces):
    far = CELLS.assign(cd3=CELLS["cd3"] + 1e9)
    in_files(shuffled(far), tmp_path / "t", ".parquet")
    sets = dk.import_sets(MemoryStore(), tmp_path / "t", SORTED)
    assert abs(sets.origin[0] - 1e9) < 4
    result = np.sort(sets[0][:, 0]) - 1e9
    expected = np.sort(far.loc[far["donor"] == min(IDS), "cd3"]) - 1e9
    np.testing.assert_allclose(result, expected, atol=1e-6)


def test_verbose_lists_the_imported_columns(tmp_path, capsys):
    write(CELLS, tmp_path / "t.csv")
    for verbose, lines in ((True, ["import: points: cd3, cd4; left out: label (text)"]), (False, [])):
        reader = dk.TableReader("donor", weight="w", targets=["age"])
        dk.import_sets(MemoryStore(), tmp_path / "t.csv", reader, verbose=verbose)
        assert [line for line in capsys.readouterr().err.splitlines() if "points: " in line] == lines


def test_index_columns_are_omitted_and_logged(tmp_path, caplog, pieces):
    caplog.set_level(logging.INFO, "dkdist.importing")
    frame = CELLS.drop(columns=["w", "label", "age"]).assign(note="x", index=np.arange(len(CELLS)))
    write(shuffled(frame), tmp_path / "a.csv", index=True)
    sets = dk.import_sets(MemoryStore(), tmp_path / "a.csv", dk.TableReader("donor"))
    assert sets.names == ("cd3", "cd4")
    assert caplog.messages == [
        "points: cd3, cd4; left out: the unnamed column (an index), note (text), index (an index)"
    ]
    named = dk.TableReader("donor", ["cd3", "index"])
    assert dk.import_sets(MemoryStore(), tmp_path / "a.csv", named).n_dims == 2
    frame.loc[7, "index"] = 3
    write(frame.rename(columns={"cd3": "Unnamed: 0"}), tmp_path / "b.parquet")
    dk.import_sets(MemoryStore(), tmp_path / "b.parquet", dk.TableReader("donor"))
    assert caplog.messages[-1] == "points: cd4, index; left out: Unnamed: 0 (an index), note (text)"


def test_an_index_that_restarts_in_each_file_is_omitted(tmp_path):
    for k in range(2):
        part = CELLS[["donor", "cd3"]].iloc[k::2].reset_index(drop=True).reset_index()
        write(part, tmp_path / f"{k}.parquet")
    assert dk.import_sets(MemoryStore(), tmp_path, dk.TableReader("donor")).n_dims == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_sets_without_a_target_are_named_or_dropped(suffix, tmp_path, pieces, caplog):
    lost = set(IDS[[3, 17, 30]])
    frame = CELLS.assign(age=CELLS["age"].where(~CELLS["donor"].isin(lost)))
    frame.loc[frame["donor"] == IDS[5], "label"] = None
    for way in ("one file", "shuffled files"):
        folder = tmp_path / way
        LAYOUTS[way](frame, folder, suffix)
        with pytest.raises(dk.SourceError, match="target 'age' is missing for 3 of 40 sets of") as error:
            dk.import_sets(MemoryStore(), folder, READER)
        assert all(repr(str(one)) in str(error.value) for one in lost)
        dropping = dk.TableReader("donor", weight="w", targets=["age", "label"], missing_targets="drop")
        sets = dk.import_sets(MemoryStore(), folder, dropping)
        assert_sets_of_frame(sets, CELLS[~CELLS["donor"].isin([*lost, IDS[5]])])
        assert caplog.messages[-1] == "4 sets were dropped: without a target"


def test_a_table_without_remaining_sets_is_refused(tmp_path):
    write(CELLS.assign(age=np.nan), tmp_path / "t.parquet")
    reader = dk.TableReader("donor", ["cd3"], targets=["age"], missing_targets="drop")
    with pytest.raises(dk.SourceError, match="must have at least one set"):
        dk.import_sets(MemoryStore(), tmp_path / "t.parquet", reader)
    with pytest.raises(ValueError, match="missing_targets must be 'raise' or 'drop'; got 'skip'"):
        dk.TableReader("donor", missing_targets="skip")


INVALID_VALUES = {
    "infinite": (np.inf, r"'cd3' is not a finite number .* in row 301 of .*part-0"),
    "beyond float32": (1e39, r"'cd3' is not a finite number .* in row 301 of .*part-0"),
    "missing": (None, r"'cd3' has no value in row 301 of .*part-0"),
}


@pytest.mark.parametrize("kind", INVALID_VALUES)
def test_invalid_values_in_later_pieces_are_named(kind, tmp_path, pieces):
    value, text = INVALID_VALUES[kind]
    frame = CELLS.copy()
    frame.loc[300, "cd3"] = value
    in_files(frame, tmp_path / "t", ".parquet", 1)
    with pytest.raises(dk.SourceError, match=text):
        dk.import_sets(MemoryStore(), tmp_path / "t", READER)


def test_columns_that_leave_the_origin_in_later_batches_are_refused(tmp_path, pieces):
    far = CELLS.assign(cd3=CELLS["cd3"] + np.where(np.arange(len(CELLS)) < 300, 0, 1e9))
    in_files(far, tmp_path / "t", ".parquet", 1)
    with pytest.raises(dk.SourceError, match="float32 rounds to a few"):
        dk.import_sets(MemoryStore(), tmp_path / "t", READER)


@pytest.mark.parametrize("value", [91, None])
def test_a_target_that_varies_between_distant_rows_is_named(value, tmp_path, pieces):
    frame = shuffled(CELLS).assign(age=CELLS["age"].astype("float"))
    row = int(np.flatnonzero(frame["donor"] == IDS[0])[-1])
    frame.iloc[row, frame.columns.get_loc("age")] = value
    in_files(frame, tmp_path / "t", ".parquet", 1)
    for missing in ("raise", "drop"):
        reader = dk.TableReader("donor", ["cd3"], targets=["age"], missing_targets=missing)
        then = "missing" if value is None else "91.0"
        text = rf"'age' is {AGES[0]}\.0 and then {then} within set {IDS[0]} \(row {row + 1} of .*part-0\.parquet\)"
        with pytest.raises(dk.SourceError, match=text):
            dk.import_sets(MemoryStore(), tmp_path / "t", reader)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rows_without_an_id_or_a_coordinate_are_named(suffix, tmp_path):
    for column, what in (("donor", "Remove or fill such rows"), ("cd3", "Remove or fill such rows")):
        frame = CELLS.copy()
        frame.loc[9, column] = None
        write(frame, tmp_path / column / f"a{suffix}")
        with pytest.raises(dk.SourceError, match=f"'{column}' has no value in row 10 of .*a{suffix}.*{what}"):
            dk.import_sets(MemoryStore(), tmp_path / column, READER)


def test_csv_files_of_one_import_share_column_types(tmp_path):
    for name, ids, y in (("a", ["001", "002"], [1, 2]), ("b", ["100", "101"], [0.5, 3])):
        write(pd.DataFrame({"id": ids, "x": [1.0, 2], "y": y}), tmp_path / f"{name}.csv")
    both = dk.import_sets(
        MemoryStore(), sorted(tmp_path.glob("*.csv")), dk.TableReader("id", ["x"], targets=["y"])
    )
    assert both.ids.tolist() == ["001", "002", "100", "101"]
    assert both.targets["y"].tolist() == [1, 2, 0.5, 3]
    assert both[2].tolist() == [[1]]


@pytest.mark.parametrize("ids", [[7, 8], ["007", "8"], ["a", "8"]])
def test_ids_of_csv_and_parquet_are_identical(ids, tmp_path):
    for suffix in (".csv", ".parquet"):
        write(pd.DataFrame({"id": ids, "x": [1.0, 2]}), tmp_path / f"t{suffix}")
        sets = dk.import_sets(MemoryStore(), tmp_path / f"t{suffix}", dk.TableReader("id"))
        assert sets.ids.tolist() == ids


def test_sources_with_columns_in_another_order_are_refused(tmp_path):
    write(pd.DataFrame({"id": ["a"], "x": [1.0], "y": [2.0]}), tmp_path / "1.csv")
    write(pd.DataFrame({"id": ["b"], "y": [1.0], "x": [2.0]}), tmp_path / "2.csv")
    files = sorted(tmp_path.iterdir())
    with pytest.raises(dk.SourceError, match=r"equal dimensions; got y, x in .*2\.csv and x, y in .*1\.csv"):
        dk.import_sets(MemoryStore(), files, dk.TableReader("id"))
    for value in (files, [tmp_path]):
        sets = dk.import_sets(MemoryStore(), value, dk.TableReader("id", ["x", "y"]))
        assert [one.tolist() for one in sets] == [[[1, 2]], [[2, 1]]]


def test_a_folder_with_mixed_or_no_tables_is_refused(tmp_path):
    with pytest.raises(dk.SourceError, match=r"has no file that ends in one of \.csv"):
        dk.import_sets(MemoryStore(), tmp_path, READER)
    write(CELLS, tmp_path / "a.csv")
    write(CELLS, tmp_path / "b.parquet")
    with pytest.raises(dk.SourceError, match=r"must contain tables of one kind; got \.csv, \.parquet"):
        dk.import_sets(MemoryStore(), tmp_path, READER)


def test_a_table_that_changes_between_passes_is_refused(tmp_path):
    for frame in (CELLS, shuffled(CELLS)):
        path = tmp_path / "t.parquet"
        write(frame, path)
        table = READER.outline(path).source
        for other in (frame.iloc[1:], pd.concat([frame, frame.iloc[:1]])):
            write(other, path)
            with pytest.raises(ValueError, match="changed between two passes"):
                list(READER.read(table))


def test_numbers_with_leading_zeros_are_text_unless_named_as_points(tmp_path):
    (tmp_path / "t.csv").write_text("id,code,x\na,007,0.5\na,012,00.25\n")
    with pytest.raises(dk.SourceError, match="has no numeric columns for coordinates"):
        dk.import_sets(MemoryStore(), tmp_path / "t.csv", dk.TableReader("id"))
    sets = dk.import_sets(MemoryStore(), tmp_path / "t.csv", dk.TableReader("id", ["code", "x"]))
    assert sets[0].tolist() == [[7, 0.5], [12, 0.25]]


def test_empty_files_are_ignored_unless_all_are_empty(tmp_path):
    (tmp_path / "0.csv").write_text("id,x\n")
    with pytest.raises(dk.SourceError, match="has no rows"):
        dk.import_sets(MemoryStore(), tmp_path, dk.TableReader("id"))
    (tmp_path / "1.csv").write_text("id,x\na,1\n")
    assert dk.import_sets(MemoryStore(), tmp_path, dk.TableReader("id"))[0].tolist() == [[1]]


def test_an_invalid_row_leaves_no_temporary_files_open(tmp_path, pieces, monkeypatch):
    opened, make = [], gathered_rows.tempfile.TemporaryFile
    monkeypatch.setattr(
        gathered_rows.tempfile, "TemporaryFile", lambda **a: opened.append(make(**a)) or opened[-1]
    )
    frame = shuffled(CELLS).astype({"cd3": "f4", "cd4": "f4"})  # float32 columns need no origin
    frame.iloc[-1, 1] = np.inf
    write(frame, tmp_path / "t.parquet")
    with pytest.raises(dk.SourceError, match=f"'cd3' is not a finite number .* in row {len(frame)} of"):
        dk.import_sets(MemoryStore(), tmp_path / "t.parquet", READER)
    assert all(file.closed for file in opened)
    assert len(opened) > 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_boolean_columns_become_0_and_1(suffix, tmp_path):
    write(pd.DataFrame({"id": ["a", "a"], "on": [True, False], "x": [0.5, 2]}), tmp_path / f"t{suffix}")
    sets = dk.import_sets(MemoryStore(), tmp_path / f"t{suffix}", dk.TableReader("id"))
    assert sets.names == ("on", "x")
    assert sets[0].tolist() == [[1, 0.5], [0, 2]]
