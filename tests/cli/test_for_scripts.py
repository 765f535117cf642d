"""``--json``: one document on standard output with the keys that the help lists, and all else on standard error."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score

import dkdist as dk
from dkdist.cli import help as json_keys
from dkdist.cli import main, parser
from dkdist.cli.console import to_json_value


def told(command, capsys):
    """The document that a command prints, which is all that it prints."""
    assert main([*command, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


def test_info_of_sets(bags, capsys):
    found, sets = told(["info", bags], capsys), dk.open_sets(bags)
    assert list(found) == list(json_keys.SETS)
    assert (found["kind"], found["n_sets"], found["n_points"], found["n_dims"]) == ("sets", 60, 2400, 2)
    assert found["set_sizes"] == {"min": 40, "median": 40, "max": 40}
    assert found["origin"] == sets.origin.tolist()
    assert found["weights"] is None
    wide, spread = found["targets"]["wide"], found["targets"]["spread"]
    assert wide["counts"] == [{"value": "narrow", "count": 30}, {"value": "wide", "count": 30}]
    assert (spread["min"], spread["max"]) == (sets.targets["spread"].min(), sets.targets["spread"].max())
    assert found["ids"]["distinct"] == 60
    assert found["ids"]["counts"] is None


def test_info_of_features(tmp_path, capsys):
    dk.write_features(tmp_path / "z.zarr", np.ones((6, 4), "f4"))
    found = told(["info", str(tmp_path / "z.zarr")], capsys)
    assert found == {"kind": "features", "n_rows": 6, "n_features": 4, "n_blocks": 1, "dtype": "float32"}


def test_verify(bags, capsys):
    found = told(["verify", bags, "--progress"], capsys)
    assert list(found) == list(json_keys.VERIFY)
    assert (found["good"], found["n_sets"], found["n_points"]) == (True, 60, 2400)


def test_score_and_predict(bags, bag_models, tmp_path, capsys):
    sets = dk.open_sets(bags)
    for target, key, oracle in (("wide", "accuracy", accuracy_score), ("spread", "r2", r2_score)):
        model = str(bag_models / f"{target}.npz")
        found = told(["score", bags, "--model", model, "--target", target], capsys)
        assert list(found) == list(json_keys.SCORE)
        assert found[key] == pytest.approx(oracle(sets.targets[target], dk.load_model(model).predict(sets)))
        assert found["accuracy" if target == "spread" else "r2"] is None
        output = str(tmp_path / f"{target}.csv")
        found = told(["predict", bags, "--model", model, "--output", output], capsys)
        assert list(found) == list(json_keys.PREDICT)
        assert (found["output"], found["columns"]) == (output, ["set", "prediction"])
        assert found["classes"] == (["narrow", "wide"] if target == "wide" else None)


def test_fit(bags, small, tmp_path, capsys):
    model = str(tmp_path / "m.npz")
    command = ["fit", bags, "--target", "wide", "--model", model, "--train-fraction", "0.75", *small]
    found = told([*command, "--progress"], capsys)
    assert list(found) == list(json_keys.FIT)
    assert (found["task"], found["target"], found["learner"]) == ("classify", "wide", "ridge")
    assert (found["n_train"], found["model"]) == (45, model)
    assert list(found["held_out"]) == list(json_keys.SCORE)
    assert found["held_out"]["n_sets"] == 15
    assert found["leaderboard"] is None


def test_an_error_leaves_standard_output_empty(tmp_path, capsys):
    assert main(["info", str(tmp_path / "absent.zarr"), "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("dkdist: error: ")


def test_what_is_no_number_is_null():
    found = to_json_value(
        {"a": np.float32("nan"), "b": np.array([1, np.inf]), "c": np.int64(3), "d": (np.True_, "x")}
    )
    assert json.dumps(found, allow_nan=False) == '{"a": null, "b": [1.0, null], "c": 3, "d": [true, "x"]}'


@pytest.mark.parametrize(
    ("command", "documents"),
    [
        ("info", ("SETS", "FEATURES", "MODEL")),
        ("verify", ("VERIFY",)),
        ("score", ("SCORE",)),
        ("predict", ("PREDICT",)),
        ("fit", ("FIT",)),
        ("plan", ("PLAN",)),
        ("warm", ("WARM",)),
    ],
)
def test_the_help_lists_the_keys(command, documents, capsys):
    with pytest.raises(SystemExit, match="0"):
        parser.build_parser().parse_args([command, "--help"])
    lines = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("    ")}
    for document in documents:
        assert set(getattr(json_keys, document)) <= lines
