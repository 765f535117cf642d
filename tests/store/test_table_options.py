"""Options of tables: CSV dialects, dropped rows, and one error for all problems of a table."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.cli import main
from dkdist.io.readers import table_source

from .parquet_bytes import parquet_bytes

GERMAN = "spender;cd3;cd4;größe\nä;1,5;2;1,75\nä;-1,5;1e3;1,75\nb;0,25;3;1,6\n"
POINTS = [[1.5, 2], [-1.5, 1000], [0.25, 3]]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252", "utf-16"])
def test_csv_dialects_and_encodings_are_read(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_text(GERMAN, encoding=encoding)
    reader = dk.TableReader("spender", targets=["größe"], delimiter=";", decimal=",", encoding=encoding)
    sets = dk.import_sets(MemoryStore(), [path], reader)
    assert sets.ids.tolist() == ["ä", "b"]
    assert sets.targets["größe"].tolist() == [1.75, 1.6]
    np.testing.assert_array_equal(np.concatenate(list(sets)), np.array(POINTS, "f4"))
    store = str(tmp_path / "s.zarr")
    options = ["--delimiter", ";", "--decimal", ",", "--encoding", encoding, "--target", "größe"]
    assert main(["import", str(path), store, "--set-id", "spender", *options]) == 0
    assert dk.open_sets(store).ids.tolist() == ["ä", "b"]


def test_a_wrong_delimiter_or_encoding_is_named(tmp_path):
    path = tmp_path / "a.csv"
    remedies = {"latin-1": r"set delimiter=';' \(--delimiter\)", "utf-16": "set encoding='utf-16'"}
    for encoding, remedy in remedies.items():
        path.write_text(GERMAN, encoding=encoding)
        words = rf"a\.csv cannot be read as CSV .*{remedy}"
        with pytest.raises(dk.SourceError, match=words):
            dk.import_sets(MemoryStore(), [path], dk.TableReader("spender"))
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet_bytes({"id": ["a"], "x": np.ones(1)}))
    with pytest.raises(
        dk.SourceError, match=r"decimal applies to CSV files only; .*a\.parquet has \.parquet"
    ):
        dk.import_sets(MemoryStore(), [path], dk.TableReader("id", decimal=","))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": ";;"}, "delimiter must be one ASCII character; got ';;'"),
        ({"decimal": ";"}, "decimal must be '.' or ','; got ';'"),
        ({"delimiter": ",", "decimal": ","}, "delimiter and decimal must differ; got ',' for both"),
        ({"encoding": "klingon"}, "encoding must be a known encoding, such as 'latin-1'; got 'klingon'"),
        ({"missing_points": "skip"}, "missing_points must be 'raise' or 'drop'; got 'skip'"),
    ],
)
def test_invalid_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        dk.TableReader("id", **options)


FRAME = pd.DataFrame(
    {
        "id": ["a", "a", None, "b", "b", "c", "a"],
        "x": [1.0, None, 3, 4, 5, None, 7],
        "y": [1.0, 2, 3, np.nan, 5, 6, 7],
        "index": range(7),
        "age": [3.0, 3, 3, 4, 4, 5, 3],
    }
)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("in_order", [True, False])
def test_rows_with_missing_values_may_be_dropped(tmp_path, suffix, in_order, caplog, monkeypatch):
    monkeypatch.setattr(table_source, "PIECE_ROWS", 2)
    path = tmp_path / f"a{suffix}"
    frame = FRAME.iloc[:6] if in_order else FRAME
    (frame.to_csv if suffix == ".csv" else frame.to_parquet)(path, index=False)
    with caplog.at_level(logging.INFO, "dkdist.importing"):
        reader = dk.TableReader("id", targets=["age"], missing_points="drop")
        sets = dk.import_sets(MemoryStore(), [path], reader)
    assert sets.names == ("x", "y")  # 'index' counts all rows, so it is omitted as an index
    assert sets.ids.tolist() == ["a", "b"]
    expected = [[[1, 1]] if in_order else [[1, 1], [7, 7]], [[5, 5]]]
    assert [result.tolist() for result in sets] == expected
    assert sets.targets["age"].tolist() == [3, 4]
    assert "dropped rows with missing values: 4" in caplog.text


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_errors_give_row_numbers_of_the_file_despite_dropped_rows(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(table_source, "PIECE_ROWS", 2)
    path = tmp_path / f"a{suffix}"
    for name, value, words in (
        ("age", 9, rf"target 'age' is 3\.0 and then 9\.0 within set a \(row 7 of .*a\{suffix}\)"),
        ("y", np.inf, rf"column 'y' is not a finite number .* in row 7 of .*a\{suffix} \(1 such rows\)"),
    ):
        frame = FRAME.copy()
        frame.loc[6, name] = value
        (frame.to_csv if suffix == ".csv" else frame.to_parquet)(path, index=False)
        with pytest.raises(dk.SourceError, match=words):
            dk.import_sets(
                MemoryStore(), [path], dk.TableReader("id", targets=["age"], missing_points="drop")
            )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_one_error_names_all_problems_of_a_table(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(table_source, "PIECE_ROWS", 2)
    path = tmp_path / f"a{suffix}"
    frame = FRAME.assign(w=[1, 1, 1, 1, np.inf, 1, np.inf], site=["k", "l", "k", "m", "m", None, "k"])
    frame.loc[6, "age"] = 9
    (frame.to_csv if suffix == ".csv" else frame.to_parquet)(path, index=False)
    with pytest.raises(dk.SourceError) as error:
        dk.import_sets(MemoryStore(), [path], dk.TableReader("id", ["x", "y"], "w", ["age", "site"]))
    for words in (
        f"column 'id' has no value in row 3 of {path} (1 such rows)",
        f"column 'x' has no value in row 2 of {path} (2 such rows)",
        f"column 'y' has no value in row 4 of {path} (1 such rows)",
        f"column 'w' is not a finite number (of 32 bits) in row 5 of {path} (2 such rows)",
        f"target 'age' is 3.0 and then 9.0 within set a (row 7 of {path})",
        f"target 'site' is 'k' and then 'l' within set a (row 2 of {path})",
    ):
        assert words in str(error.value)
    with pytest.raises(dk.SourceError, match="has no column 'z', 'u'; it has id, x, y"):
        dk.import_sets(MemoryStore(), [path], dk.TableReader("id", ["x", "z"], "u"))
    with pytest.raises(
        dk.SourceError,
        match=r"'id' of .* must hold numbers; got text; column 'site' of .* must hold numbers; got text",
    ):
        dk.import_sets(MemoryStore(), [path], dk.TableReader("y", ["id", "site"]))
