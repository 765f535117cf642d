"""`dkdist predict` writes the predictions and probabilities of the model, identical in every file format."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow.parquet as pq
import pytest

import dkdist as dk
from dkdist.cli import main

IDS = [f"bag {i}" for i in range(60)]


@pytest.fixture(scope="module")
def expected(bags, bag_models):
    """Return (predictions, probabilities) of the estimator itself."""
    model, sets = dk.load_model(bag_models / "wide.npz"), dk.open_sets(bags)
    return model.predict(sets), model.predict_proba(sets)


def predicted(bags, bag_models, output, *options, model="wide"):
    return main(
        ["predict", bags, "--model", str(bag_models / f"{model}.npz"), "--output", str(output), *options]
    )


def test_probabilities_are_identical_in_every_format(bags, bag_models, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.cli.predict.PREDICT_BATCH_SETS", 25)
    for name in ("p.csv", "p.parquet", "p.npz"):
        assert predicted(bags, bag_models, tmp_path / name, "--probabilities") == 0
    with open(tmp_path / "p.csv", newline="") as file:
        header, *rows = csv.reader(file)
    table = pq.read_table(tmp_path / "p.parquet")
    names = ["set", "prediction", "probability_narrow", "probability_wide"]
    assert header == names == table.column_names
    assert [row[0] for row in rows] == table["set"].to_pylist() == IDS
    assert [row[1] for row in rows] == table["prediction"].to_pylist() == expected[0].tolist()
    np.testing.assert_array_equal([[float(v) for v in row[2:]] for row in rows], expected[1])
    np.testing.assert_array_equal(np.column_stack([table[name] for name in names[2:]]), expected[1])
    with np.load(tmp_path / "p.npz") as result:
        np.testing.assert_array_equal(result["probabilities"], expected[1])
        assert result["classes"].tolist() == ["narrow", "wide"]
        assert result["ids"].tolist() == IDS


def test_standard_output_is_only_csv(bags, bag_models, expected, capsys):
    assert predicted(bags, bag_models, "-", "--progress") == 0
    captured = capsys.readouterr()
    header, *rows = csv.reader(io.StringIO(captured.out))
    assert header == ["set", "prediction"]
    assert rows == [list(row) for row in zip(IDS, expected[0].tolist(), strict=True)]
    assert "predict" in captured.err


def test_sets_without_ids_are_named_by_position(bags, bag_models, tmp_path, capsys):
    dk.write_sets(tmp_path / "s.zarr", [np.ones((3, 2)), np.zeros((4, 2))])
    assert predicted(str(tmp_path / "s.zarr"), bag_models, "-", model="spread") == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["set", "0", "1"]


def test_unsupported_outputs_are_refused_before_any_work(bags, bag_models, tmp_path, capsys, monkeypatch):
    assert predicted(bags, bag_models, tmp_path / "p.csv", "--probabilities", model="spread") == 2
    assert "has no probabilities" in capsys.readouterr().err
    monkeypatch.setattr(dk, "open_sets", None)
    assert predicted(bags, bag_models, tmp_path / "p.npy", "--probabilities") == 2
    assert "can contain only one array" in capsys.readouterr().err
    assert predicted(bags, bag_models, "-", "--json") == 2
    assert "would both write to standard output" in capsys.readouterr().err
    monkeypatch.setattr("dkdist.cli.prediction_table.find_spec", lambda name: None)
    assert predicted(bags, bag_models, tmp_path / "p.parquet") == 2
    assert "pip install 'dkdist[frames]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


HOSTILE_IDS = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "\tx",
    "-4.5e3",
    "\x1b]0;title\x07",
    "a\x9bb\u202ec",
]


def hostile_store(tmp_path):
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(9, 2)) for _ in HOSTILE_IDS]
    return str(
        dk.write_sets(tmp_path / "s.zarr", sets, ids=HOSTILE_IDS, targets={"id": HOSTILE_IDS})
        and tmp_path / "s.zarr"
    )


def test_formula_like_ids_are_escaped_in_csv_and_exact_in_parquet(bag_models, tmp_path):
    store = hostile_store(tmp_path)
    for name in ("p.csv", "p.parquet"):
        assert predicted(store, bag_models, tmp_path / name) == 0
    with open(tmp_path / "p.csv", newline="") as file:
        ids = [row["set"] for row in csv.DictReader(file)]
    assert ids[:5] == [f"'{text}" for text in HOSTILE_IDS[:5]]
    assert ids[5:] == HOSTILE_IDS[5:]
    assert pq.read_table(tmp_path / "p.parquet")["set"].to_pylist() == HOSTILE_IDS


def test_control_characters_of_ids_are_escaped(bag_models, tmp_path, capsys):
    store = hostile_store(tmp_path)
    assert predicted(store, bag_models, "-") == 0
    assert main(["info", store]) == 0
    assert main(["predict", f"{tmp_path}/\x1b[31mno.zarr", "--model", "m.npz", "--output", "-"]) == 2
    captured = capsys.readouterr()
    assert "\\x1b]0;title\\x07" in captured.out
    assert "\\x1b[31mno.zarr" in captured.err
    assert not set(captured.out + captured.err) & set("\x1b\x07\x9b\u202e")
