"""``dkdist info MODEL``: describes the estimators of a file without instantiating any of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk
from dkdist.cli import help as json_keys
from dkdist.cli import main


def test_json_describes_a_model(bag_models, capsys, monkeypatch):
    path = str(bag_models / "wide.npz")
    model = dk.load_model(path)
    for kind in (dk.DivergenceEmbedding, dk.RandomFourierFeatures, dk.IncrementalRidgeClassifier):
        monkeypatch.setattr(kind, "__init__", lambda *_, **__: 1 / 0)
    assert main(["info", path, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == list(json_keys.MODEL)
    assert result["format_version"] == 1
    assert result["saved_by"] == {
        "dkdist": dk.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }
    assert (result["n_dims"], result["n_features"], result["classes"]) == (2, 60, ["narrow", "wide"])
    assert result["origin"] == model[0].origin_.tolist()
    assert [(one["step"], one["estimator"]) for one in result["steps"]] == [
        (name, type(step).__name__) for name, step in model.steps
    ]
    first, second, last = result["steps"]
    assert first["parameters"]["domain"] == [-5, 5]
    assert first["fitted"]["bandwidth_"] == model[0].bandwidth_.tolist()
    assert second["fitted"]["sigma_"] == model[1].sigma_
    assert last["fitted"]["coef_"] == f"{model[2].coef_.dtype} array of shape {model[2].coef_.shape}"


def test_text_describes_a_model(bag_models, capsys):
    assert main(["info", str(bag_models / "wide.npz")]) == 0
    text = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    text = {name.strip(): value.strip() for name, value in text.items()}
    assert text["model of"] == "3 steps"
    assert text["step 1"].startswith(
        "DivergenceEmbedding(bandwidth=0.1, domain=[-5, 5], random_state=0): bandwidth_"
    )
    assert text["step 3"].startswith("IncrementalRidgeClassifier(random_state=0): alpha_ ")
    assert text["classes"] == "['narrow', 'wide']"
    assert text["saved by"].startswith(f"dkdist {dk.__version__}, numpy ")


def test_a_single_estimator_is_described(tmp_path, capsys):
    dk.save_model(StandardScaler().fit(np.arange(90.0).reshape(3, 30)), tmp_path / "m.npz")
    assert main(["info", str(tmp_path / "m.npz"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["n_dims"], result["classes"], result["origin"]) == (30, None, None)
    (step,) = result["steps"]
    assert (step["step"], step["estimator"]) == ("", "StandardScaler")
    assert step["fitted"]["mean_"] == "float64 array of shape (30,)"


def test_files_that_are_not_models_are_refused(tmp_path, bag_models, capsys):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("other.npz", "text.npz"):
        assert main(["info", str(tmp_path / name)]) == 2
        assert "is not a model file, or is damaged" in capsys.readouterr().err


def write_forged(model, path, change):
    """Write a model file with a changed header and a matching checksum."""
    from dkdist.models.model_file import _sha256

    with np.load(model) as content:
        arrays = {name: content[name] for name in content.files}
    header = json.loads(arrays.pop("model.json").tobytes())
    change(header)
    header["sha256"] = _sha256(header["model"], arrays)
    np.savez(path, **{"model.json": np.frombuffer(json.dumps(header).encode(), np.uint8)}, **arrays)
    return str(path)


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"estimator": "Pipeline"},
        {"estimator": "Pipeline", "params": {"steps": {"list": [1]}}},
        {"estimator": "Pipeline", "params": {"steps": {"list": [{"tuple": [1]}]}}},
        {"estimator": "Pipeline", "params": {"steps": {"list": [{"tuple": ["a", {"estimator": "b"}]}]}}},
        {"estimator": "a", "params": [], "fitted": {}},
        {"estimator": "a", "params": {"b": {}}, "fitted": {}},
        {"estimator": "a", "params": {"b": {"array": "absent"}}, "fitted": {}},
        {"estimator": "a", "params": {"b": {"array": []}}, "fitted": {}},
        {"estimator": "a", "params": {"b": {"record": "c"}}, "fitted": {}},
    ],
)
def test_malformed_descriptions_are_refused(model, bag_models, tmp_path, capsys):
    path = write_forged(
        bag_models / "wide.npz", tmp_path / "m.npz", lambda header: header.update(model=model)
    )
    assert main(["info", path]) == 2
    assert f"{path} describes a model that this version of dkdist cannot read" in capsys.readouterr().err


def test_control_characters_of_a_file_are_not_printed(bag_models, tmp_path, capsys):
    evil = "\x1b[2J\x07evil"

    def change(header):
        steps = header["model"]["params"]["steps"]["list"]
        steps[0]["tuple"][1]["estimator"] = steps[0]["tuple"][0] = evil
        steps[1]["tuple"][1]["params"][evil] = evil
        steps[2]["tuple"][1]["fitted"]["classes_"] = {"strings": [evil]}
        header["saved_by"] = {evil: evil}

    path = write_forged(bag_models / "wide.npz", tmp_path / "m.npz", change)
    for options in ([], ["--json"]):
        assert main(["info", path, *options]) == 0
        out = capsys.readouterr().out
        assert "evil" in out
        assert not {"\x1b", "\x07"} & set(out)


def test_invalid_versions_are_shown_as_unknown(bag_models, tmp_path, capsys):
    path = write_forged(
        bag_models / "wide.npz", tmp_path / "m.npz", lambda header: header.update(saved_by=[1])
    )
    assert main(["info", path]) == 0
    assert "saved by    unknown" in capsys.readouterr().out


def test_automatic_models_and_searches_are_predicted_scored_and_described(bags, tmp_path, capsys):
    sets = dk.open_sets(bags)
    y = sets.targets["wide"]
    automatic = dk.SetClassifier(["hellinger"], cv=3, random_state=0).fit(sets, y)
    steps = dk.MomentEmbedding(2), dk.IncrementalRidgeClassifier(random_state=0)
    grid = {"incrementalridgeclassifier__alphas": np.logspace(-2, 0, 3)}
    search = dk.OnePassSearch(make_pipeline(*steps), grid, 0.3, random_state=0).fit(sets, y)
    for model in (automatic, search):
        path = str(tmp_path / f"{type(model).__name__}.npz")
        dk.save_model(model, path)
        assert main(["score", bags, "--model", path, "--target", "wide", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["accuracy"] == np.mean(model.predict(sets) == y)
        assert main(["info", path]) == 0
        assert f"{type(model).__name__}(" in capsys.readouterr().out
        assert main(["predict", bags, "--model", path, "--output", f"{path}.npy"]) == 0
        assert np.array_equal(np.load(f"{path}.npy"), model.predict(sets))
        capsys.readouterr()


@pytest.mark.parametrize("step", [None, "passthrough"])
@pytest.mark.parametrize("last", [True, False])
def test_a_passthrough_step_is_described_and_prediction_refused(step, last, tmp_path, capsys):
    sets = dk.write_sets(tmp_path / "s.zarr", [np.eye(2), np.ones((3, 2))], targets=[0, 1])
    steps = [("means", dk.MomentEmbedding()), ("none", step)]
    model = Pipeline(steps if last else steps[::-1]).fit(sets)
    path = str(tmp_path / "m.npz")
    dk.save_model(model, path)
    assert main(["info", path, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {one["step"]: one["estimator"] for one in result["steps"]} == {
        "means": "MomentEmbedding",
        "none": "passthrough",
    }
    assert result["n_dims"] == result["n_features"] == 2
    store, out = str(tmp_path / "s.zarr"), str(tmp_path / "o.csv")
    for command in (
        ["predict", store, "--model", path, "--output", out],
        ["score", store, "--model", path, "--target", "y"],
        ["report", path, store, "--output", str(tmp_path / "r.html")],
    ):
        assert main(command) == 2
        assert "m.npz cannot predict: its last step is" in capsys.readouterr().err
