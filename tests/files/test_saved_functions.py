"""Models with a user function: files store its name, and only functions passed by the caller are called."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.models.model_file import _sha256, summarize_file

SETS = [np.random.default_rng(i).normal(i % 2, 1, (9, 2)) for i in range(20)]


def spread(points: Any) -> Any:
    return np.concatenate([points.min(axis=0), points.max(axis=0)])


def other(points: Any) -> Any:
    return -spread(points)


class Features:
    @staticmethod
    def width(points: Any) -> Any:
        return np.ptp(points, axis=0)


NAME = f"{__name__}:spread"


def save_fitted(path: Path, function: Any = spread) -> Any:
    model = make_pipeline(dk.FunctionEmbedding(function), dk.IncrementalRidgeClassifier(alphas=[1.0]))
    dk.save_model(model.fit(SETS, np.arange(20) % 2), path)
    return model


@pytest.mark.parametrize("function", [spread, Features.width, np.ravel])
def test_a_passed_function_predicts_the_same_bits(function: Any, tmp_path: Path) -> None:
    model = save_fitted(tmp_path / "m.npz", function)
    loaded = dk.load_model(tmp_path / "m.npz", functions=[other, function])
    np.testing.assert_array_equal(loaded[0].transform(SETS), model[0].transform(SETS))
    np.testing.assert_array_equal(loaded.predict_proba(SETS), model.predict_proba(SETS))
    assert loaded[0].function is function
    dk.save_model(loaded, tmp_path / "again.npz")


def test_a_moved_function_is_passed_under_its_old_name(tmp_path: Path) -> None:
    save_fitted(tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz", functions={NAME: other})
    np.testing.assert_array_equal(loaded[0].transform(SETS), [other(x.astype("f4")) for x in SETS])


@pytest.mark.parametrize("functions", [(), [other], {"spread": spread}])
def test_a_function_that_was_not_passed_is_named(functions: Any, tmp_path: Path) -> None:
    save_fitted(tmp_path / "m.npz")
    with pytest.raises(ValueError, match=rf"calls the function '{NAME}'.*functions=\[function\]"):
        dk.load_model(tmp_path / "m.npz", functions)
    assert summarize_file(tmp_path / "m.npz").steps[0].parameters["function"] == NAME


def local() -> Any:
    def inside(points: Any) -> Any:
        return points.mean(axis=0)

    return inside


class Callable:
    def __call__(self, points: Any) -> Any:
        return points.mean(axis=0)


renamed = local()
renamed.__qualname__ = "spread"  # a name that refers to another function


@pytest.mark.parametrize("function", [lambda points: points.mean(axis=0), local(), Callable(), renamed])
def test_functions_that_are_not_importable_are_refused(function: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"FunctionEmbedding\.function is .*importable"):
        save_fitted(tmp_path / "m.npz", function)
    assert not (tmp_path / "m.npz").exists()
    save_fitted(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="functions must be importable"):
        dk.load_model(tmp_path / "m.npz", functions=[function])


def rewrite_embedding(path: Path, change: Any) -> Path:
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files}
    header = json.loads(arrays.pop("model.json").tobytes())
    change(header["model"]["params"]["steps"]["list"][0]["tuple"][1])
    header["sha256"] = _sha256(header["model"], arrays)
    np.savez(path, **{"model.json": np.frombuffer(json.dumps(header).encode(), np.uint8)}, **arrays)
    return path


def test_functions_named_in_a_file_are_never_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    save_fitted(tmp_path / "m.npz")
    name = {"function": "planted:features"}

    def plant(embedding: Any) -> None:
        embedding["params"]["function"] = embedding["fitted"]["spec_"]["fields"]["function"] = name

    with pytest.raises(ValueError, match="calls the function 'planted:features'"):
        dk.load_model(rewrite_embedding(tmp_path / "m.npz", plant), functions=[spread])
    assert "planted" not in sys.modules


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e["params"].update(on_error={"function": NAME}), r"FunctionEmbedding\.on_error is .*invalid"),
        (lambda e: e["params"].update(function=5), r"FunctionEmbedding\.function is 5"),
        (lambda e: e["fitted"]["spec_"]["fields"].update(function="x"), r"Params\.function must be .*; got 'x'"),
        (lambda e: e["fitted"]["spec_"]["fields"].update(n_dims={"function": NAME}), r"FunctionParams\.n_dims"),
        (lambda e: e["fitted"].update(origin_={"function": NAME}), r"FunctionEmbedding\.origin_"),
        (lambda e: e["params"].update(function={"function": ["x"]}), r"calls the function \['x'\]"),
    ],
)  # fmt: skip
def test_functions_in_other_fields_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    save_fitted(tmp_path / "m.npz")
    with pytest.raises(ValueError, match=message):
        dk.load_model(rewrite_embedding(tmp_path / "m.npz", change), functions=[spread])
