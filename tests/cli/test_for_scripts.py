"""``--json``: prints one document with the keys listed in the help; all other text goes to standard error."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score

import dkdist as dk
from dkdist.cli import help as json_keys
from dkdist.cli import main, parser
from dkdist.cli.console import to_json_value


def json_output(command, capsys):
    """Return the JSON document of a command, which must be its only output."""
    assert main([*command, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


def test_info_describes_sets(bags, capsys):
    result, sets = json_output(["info", bags], capsys), dk.open_sets(bags)
    assert list(result) == list(json_keys.SETS)
    assert (result["kind"], result["n_sets"], result["n_points"], result["n_dims"]) == ("sets", 60, 2400, 2)
    assert result["set_sizes"] == {"min": 40, "median": 40, "max": 40}
    assert result["origin"] == sets.origin.tolist()
    assert result["weights"] is None
    wide, spread = result["targets"]["wide"], result["targets"]["spread"]
    assert wide["counts"] == [{"value": "narrow", "count": 30}, {"value": "wide", "count": 30}]
    assert (spread["min"], spread["max"]) == (sets.targets["spread"].min(), sets.targets["spread"].max())
    assert result["ids"]["distinct"] == 60
    assert result["ids"]["counts"] is None


def test_info_describes_features(tmp_path, capsys):
    dk.write_features(tmp_path / "z.zarr", np.ones((6, 4), "f4"))
    result = json_output(["info", str(tmp_path / "z.zarr")], capsys)
    assert result == {"kind": "features", "n_rows": 6, "n_features": 4, "n_blocks": 1, "dtype": "float32"}


def test_verify_reports_counts(bags, capsys):
    result = json_output(["verify", bags, "--progress"], capsys)
    assert list(result) == list(json_keys.VERIFY)
    assert (result["good"], result["n_sets"], result["n_points"]) == (True, 60, 2400)


def test_score_and_predict_report_metrics_and_columns(bags, bag_models, tmp_path, capsys):
    sets = dk.open_sets(bags)
    for target, key, oracle in (("wide", "accuracy", accuracy_score), ("spread", "r2", r2_score)):
        model = str(bag_models / f"{target}.npz")
        result = json_output(["score", bags, "--model", model, "--target", target], capsys)
        assert list(result) == list(json_keys.SCORE)
        assert result[key] == pytest.approx(oracle(sets.targets[target], dk.load_model(model).predict(sets)))
        assert result["accuracy" if target == "spread" else "r2"] is None
        output = str(tmp_path / f"{target}.csv")
        result = json_output(["predict", bags, "--model", model, "--output", output], capsys)
        assert list(result) == list(json_keys.PREDICT)
        assert (result["output"], result["columns"]) == (output, ["set", "prediction"])
        assert result["classes"] == (["narrow", "wide"] if target == "wide" else None)


def test_fit_reports_training_and_held_out_scores(bags, small, tmp_path, capsys):
    model = str(tmp_path / "m.npz")
    command = ["fit", bags, "--target", "wide", "--model", model, "--train-fraction", "0.75", *small]
    result = json_output([*command, "--progress"], capsys)
    assert list(result) == list(json_keys.FIT)
    assert (result["task"], result["target"], result["learner"]) == ("classify", "wide", "ridge")
    assert (result["n_train"], result["model"]) == (45, model)
    assert list(result["held_out"]) == list(json_keys.SCORE)
    assert result["held_out"]["n_sets"] == 15
    assert result["leaderboard"] is None


def test_an_error_leaves_standard_output_empty(tmp_path, capsys):
    assert main(["info", str(tmp_path / "absent.zarr"), "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("dkdist: error: ")


def test_nan_and_infinity_become_null():
    result = to_json_value(
        {"a": np.float32("nan"), "b": np.array([1, np.inf]), "c": np.int64(3), "d": (np.True_, "x")}
    )
    assert json.dumps(result, allow_nan=False) == '{"a": null, "b": [1.0, null], "c": 3, "d": [true, "x"]}'


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
