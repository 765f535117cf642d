"""Automatic models and searches as model files: the same bits after loading, and hostile edits are refused by name."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist._utils import text as json_text
from dkdist._utils.serialization import serializable
from dkdist.auto import _tuning
from dkdist.auto.leaderboard import Leaderboard
from dkdist.models.model_file import _sha256
from dkdist.models.model_text import describe, make

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 2
SETS = [RNG.normal(label, 1 + label, (int(RNG.integers(15, 25)), 2)) for label in LABELS]
NEW = [RNG.normal(0.5, 1.5, (18, 2)) for _ in range(9)]
NUMBERS = np.array([one.mean() for one in SETS])
CASES = (
    "two",
    "many",
    "text",
    "series",
    "streamed",
    "groups",
    "named",
    "own",
    "one target",
    "two targets",
    "times",
)


def fitted(case: str) -> tuple[Any, Any]:
    """A fitted automatic model, and sets to predict."""
    simple: dict[str, Any] = {"candidates": ["hellinger", "symmetric"], "cv": 3, "random_state": 0}
    words = np.array(["left", "right"])[LABELS]
    match case:
        case "two":
            return dk.SetClassifier(**simple, class_weight={"left": 2, "right": 1}).fit(SETS, words), NEW
        case "many":
            y = np.array(["a", "b", "c"], dtype=object)[np.arange(60) % 3]
            return dk.SetClassifier(**simple, scoring="balanced_accuracy").fit(SETS, y), NEW
        case "text":
            rng = np.random.default_rng(1)
            texts = ["".join(rng.choice(list("abc" if y else "bcd"), 8)) for y in LABELS]
            return dk.SetClassifier(cv=3, random_state=0).fit(texts, LABELS), ["abcabc", "dddcb", "bcb"]
        case "series":
            walks = [np.cumsum(RNG.normal(0.1 * y, 1, (30, 1)), axis=0) for y in LABELS]
            return dk.SetClassifier(["dtw"], cv=3, random_state=0).fit(walks, LABELS), walks[:5]
        case "streamed":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_tuning, "MAX_EXACT_SETS", 40)
                patch.setattr(_tuning, "N_LANDMARKS", 32)
                return dk.SetClassifier(**simple).fit(SETS, LABELS), NEW
        case "groups":
            return dk.SetClassifier(**simple).fit(SETS, LABELS, groups=np.arange(60) // 4), NEW
        case "named":
            named = dk.SampleSets.from_arrays(SETS).labelled(names=("height", "width"))
            weights = np.where(np.arange(60) < 5, 0.0, 1.0)
            model = dk.SetClassifier(**simple).fit(named, LABELS, sample_weight=weights)
            return model, named[:7]
        case "own":
            own = [dk.MomentEmbedding(2), dk.MeanEmbedding(20, sigma=1.0, random_state=0)]
            return dk.SetClassifier(own, cv=3, random_state=0, budget={"seconds": 600}).fit(SETS, LABELS), NEW
        case "times":
            y = np.array(
                list(zip(LABELS, np.arange(1, 61), strict=True)), dtype=[("event", bool), ("time", float)]
            )
            return dk.SetSurvival(**simple).fit(SETS, y), NEW
        case "one target":
            return dk.SetRegressor(**simple).fit(SETS, NUMBERS), NEW
        case _:
            return dk.SetRegressor(**simple).fit(SETS, np.stack([NUMBERS, -2 * NUMBERS], axis=1)), NEW


def reloaded(model: Any, folder: Path) -> Any:
    dk.save_model(model, folder / "m.npz")
    return dk.load_model(folder / "m.npz")


def all_outputs(model: Any, X: Any) -> Iterator[tuple[str, Any]]:
    """Yield all outputs and attributes of a model by name."""
    methods = "predict", "decision_function", "predict_proba", "predict_set", "predict_interval"
    for name in (*methods, "predict_survival_function", "predict_lower_bound"):
        if hasattr(model, name):
            yield name, getattr(model, name)(X)
    yield "by point", np.concatenate(model.explain(X))
    if model.background_ is not None:
        yield "by dimension", model.explain(X, by="dimension")
    if not isinstance(model, dk.SetSurvival):
        yield "score", model.score(X, model.predict(X))
    yield "best estimator", model.best_estimator_.predict(X)
    for name in ("classes_", "judged_"):
        if hasattr(model, name):
            yield name, getattr(model, name)
    for name in ("best_name_", "leads_"):
        yield name, getattr(model, name)
    yield "leaderboard", repr(model.leaderboard_)
    yield "page", model.leaderboard_._repr_html_()
    yield "summary", model.summary()


def bits(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return value.dtype, value.shape, value.tolist() if value.dtype.hasobject else value.tobytes()


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_automatic_model_gives_the_same_bits(case: str, tmp_path: Path) -> None:
    model, X = fitted(case)
    again = reloaded(model, tmp_path)
    assert type(again) is type(model)
    assert type(again.leaderboard_) is Leaderboard
    assert vars(again).keys() == vars(model).keys()
    if case != "own":  # candidates are estimators, which do not define equality
        assert again.get_params() == model.get_params()
    expected, result = dict(all_outputs(model, X)), dict(all_outputs(again, X))
    assert {k: bits(v) for k, v in result.items()} == {k: bits(v) for k, v in expected.items()}
    if model.fallback_ is None:
        n_rows = len(again.machine_.parts[0].duals)
        assert n_rows == (32 if case == "streamed" else len(again._weights))


def test_saving_a_loaded_model_gives_the_same_bytes_and_it_can_be_refitted(tmp_path: Path) -> None:
    model, X = fitted("two")
    again = reloaded(model, tmp_path)
    first = (tmp_path / "m.npz").read_bytes()
    dk.save_model(again, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == first
    words = np.array(["left", "right"])[LABELS]
    assert np.array_equal(again.fit(SETS, words).predict_proba(X), model.predict_proba(X))


def test_an_automatic_model_can_be_a_step_of_a_saved_pipeline(tmp_path: Path) -> None:
    model = make_pipeline(dk.SetPCA(1), dk.SetClassifier(["hellinger"], cv=3, random_state=0)).fit(
        SETS, LABELS
    )
    assert np.array_equal(reloaded(model, tmp_path).predict_proba(NEW), model.predict_proba(NEW))


def search(**more: Any) -> Any:
    learner = dk.IncrementalRidgeClassifier(random_state=0)
    model = make_pipeline(dk.DivergenceEmbedding(n_basis=6), learner)
    grid = [
        {"divergenceembedding__bandwidth": [0.1, 0.3], "incrementalridgeclassifier__alphas": [(0.1, 1.0)]},
        {
            "divergenceembedding": [dk.MomentEmbedding(2)],
            "incrementalridgeclassifier__alphas": np.array([1.0]),
        },
    ]
    return dk.OnePassSearch(model, grid, 0.3, random_state=0, **more).fit(SETS, np.array(["a", "b"])[LABELS])


def test_a_loaded_search_gives_the_same_bits(tmp_path: Path) -> None:
    model = search(scoring="f1_macro")
    again, y = reloaded(model, tmp_path), np.array(["a", "b", "a"] * 3)
    for name in ("predict", "predict_proba", "decision_function"):
        assert bits(getattr(again, name)(NEW)) == bits(getattr(model, name)(NEW))
    assert again.score(NEW, y) == model.score(NEW, y) != np.mean(model.predict(NEW) == y)
    assert (again.best_score_, again.best_index_) == (model.best_score_, model.best_index_)
    assert again.best_params_ is again.cv_results_["params"][again.best_index_]
    assert bits(again.classes_) == bits(model.classes_)
    assert bits(again.held_out_) == bits(model.held_out_)
    assert again.cv_results_.keys() == model.cv_results_.keys()
    assert bits(again.cv_results_["mean_test_score"]) == bits(model.cv_results_["mean_test_score"])
    column = "param_divergenceembedding__bandwidth"
    assert again.cv_results_[column].tolist() == model.cv_results_[column].tolist() == [0.1, 0.3, None]
    assert again.cv_results_[column].mask.tolist() == [False, False, True]
    assert bits(again.fit(SETS, np.array(["a", "b"])[LABELS]).predict_proba(NEW)) == bits(
        model.predict_proba(NEW)
    )


def test_a_search_without_refit_is_saved(tmp_path: Path) -> None:
    model = search(refit=False)
    again = reloaded(model, tmp_path)
    assert not hasattr(again, "best_estimator_")
    assert again.best_score_ == model.best_score_


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"scoring": lambda model, X, y: 1.0}, r"SetClassifier\.scoring"),
        ({"cv": StratifiedKFold(3)}, r"SetClassifier\.cv"),
        ({"random_state": np.random.default_rng(0)}, r"SetClassifier\.random_state"),
        (
            {"candidates": [dk.DivergenceEmbedding(lambda x, y: (x - y) ** 2)]},
            r"DivergenceEmbedding\.divergence",
        ),
    ],
)
def test_code_in_parameters_is_refused_by_name(params: dict[str, Any], named: str, tmp_path: Path) -> None:
    model, X = fitted("two")
    options = model.get_params(deep=False)
    model.set_params(**params)
    with pytest.raises(ValueError, match=named):
        dk.save_model(model, tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []
    again = reloaded(model.set_params(**options), tmp_path)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_grids_with_paths_are_refused(tmp_path: Path) -> None:
    learner = dk.IncrementalSGDClassifier(n_epochs=1, random_state=0)
    rows = RNG.normal(size=(60, 3)).astype("f4")
    model = dk.OnePassSearch(learner, {"alpha": [1e-4, 1e-3]}, 0.3, random_state=0).fit(rows, LABELS)
    model.param_grid = {"checkpoint": [str(tmp_path / "ck")]}
    with pytest.raises(ValueError, match=r"param_grid has 'checkpoint', which may be a path"):
        dk.save_model(model, tmp_path / "m.npz")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return paths of valid model files by name."""
    folder = tmp_path_factory.mktemp("models")
    models = {case: fitted(case)[0] for case in ("many", "text", "two targets", "streamed")} | {
        "search": search()
    }
    for name, model in models.items():
        dk.save_model(model, folder / name)
    return {name: folder / name for name in models}


def write_forged(source: Path, path: Path, change: Any) -> Path:
    """Write a changed file with a matching checksum; ``change`` gets the fitted parts by name and the arrays."""
    with np.load(source) as content:
        arrays = {name: content[name] for name in content.files}
    header = json.loads(arrays.pop("model.json").tobytes())
    change(header["model"]["fitted"], arrays)
    header["sha256"] = _sha256(header["model"], arrays)
    np.savez(path, **{"model.json": np.frombuffer(json.dumps(header).encode(), np.uint8)}, **arrays)
    return path


def machine(fitted_parts: Any) -> Any:
    return fitted_parts["machine_"]["fields"]


def part(fitted_parts: Any) -> Any:
    return machine(fitted_parts)["parts"]["tuple"][0]["fields"]


def root(fitted_parts: Any) -> Any:
    return machine(fitted_parts)["trees"]["fields"]["roots"]["tuple"][0]["fields"]


def change_array(find: Any, change: Any) -> Any:
    def apply(fitted_parts: Any, arrays: Any) -> None:
        key = find(fitted_parts)["array"]
        arrays[key] = change(arrays[key].copy())

    return apply


def with_first_nan(array: Any) -> Any:
    array.reshape(-1)[0] = np.nan
    return array


def update(find: Any, **values: Any) -> Any:
    return lambda fitted_parts, arrays: find(fitted_parts).update(values)


def remove_last_item(find: Any, tag: str) -> Any:
    return lambda fitted_parts, arrays: find(fitted_parts)[tag].pop()


def whole(fitted_parts: Any) -> Any:
    return fitted_parts


HOSTILE: list[tuple[str, Any, str]] = [
    ("many", change_array(lambda f: part(f)["duals"], with_first_nan), r"KernelMachine\.duals .*not finite"),
    ("many", change_array(lambda f: part(f)["duals"], lambda a: a[:-1]), "rows of a kernel member"),
    ("many", change_array(lambda f: part(f)["duals"], lambda a: a[:, :-1]), "leaf 2 must predict 3 finite numbers"),
    ("many", change_array(lambda f: part(f)["rows"]["tuple"][0], lambda a: a[:, :-1]), "rows of a kernel member"),
    ("many", change_array(lambda f: part(f)["centre"], lambda a: a[:-1]), "rows of a kernel member"),
    ("many", update(part, leaf=99), "leaf 99, which is not in the feature graph"),
    ("many", update(part, leaf=-2), r"KernelMachine\.leaf must be from -1 to 16777216; got -2"),
    ("many", update(root, leaf=98), r"must have the widths .* got \{98: 5\}"),
    ("many", update(part, share=float("nan")), r"share must be float; got nan"),
    ("many", update(machine, n_outputs=2), "leaf 2 must predict 2 finite numbers"),
    ("many", update(machine, parts={"tuple": []}), "must have at least 1 member; got 0"),
    ("many", update(lambda f: machine(f)["widths"], tuple=[]), r"must have the widths \(\)"),
    ("many", remove_last_item(lambda f: f["classes_"], "strings"), "2 classes, 3 outputs"),
    ("many", remove_last_item(lambda f: f["sets_"]["fields"]["by_class"], "tuple"), "sets of 2 classes"),
    ("many", remove_last_item(lambda f: f["sets_"]["fields"]["scores"]["fields"]["values"], "tuple"), "got 59 for 60"),
    ("many", change_array(lambda f: f["calibration_"], lambda a: a[:1]), "calibration of shape"),
    ("many", change_array(lambda f: f["prior_"], lambda a: a - 1), "prior_ must be 3 probabilities"),
    ("many", update(whole, shrinkage_=-0.1), r"shrinkage_ between 0 and 1; got .* and -0\.1"),
    ("many", change_array(lambda f: f["_weights"], lambda a: a[1:]), r"training set; got \(59,\)"),
    ("many", update(whole, n_features_in_=3), r"model has 3 dimensions, but its parts have \[2\]"),
    ("many", update(whole, machine_=None), r"machine_ must be Machine; got None"),
    ("many", update(whole, predict=1), "no attribute 'predict'"),
    ("many", lambda f, a: f.pop("machine_"), "lacks machine_"),
    ("many", update(lambda f: f["leads_"], dict=[]), "KeyError"),
    ("many", update(lambda f: f["leaderboard_"], items=["x"]), "leaderboard entry must be a dict .* got 'x'"),
    ("text", change_array(lambda f: part(f)["centre"], lambda a: a[:-1]), "rows of a kernel member"),
    ("text", update(whole, n_features_in_=2), r"model has 2 dimensions, but its parts have \[1\]"),
    ("two targets", lambda f, a: f["intervals_"]["list"].pop(), "1 intervals"),
    ("two targets", update(whole, single_=True), "2 intervals, .* inconsistent"),
    ("two targets", change_array(lambda f: f["mean_"], lambda a: a[:1]), "means and scales"),
    ("streamed", change_array(lambda f: part(f)["intercept"], with_first_nan), r"intercept .*not finite"),
    ("streamed", change_array(lambda f: part(f)["intercept"], lambda a: a[:-1]), "model that this version"),
    ("search", update(whole, best_index_=3), "best_index_ must be below 3, the number of candidates; got 3"),
    ("search", update(whole, best_index_=-1), "best_index_ must be below 3, the number of candidates; got -1"),
    ("search", update(whole, best_estimator_={"list": []}), r"best_estimator_ must be .*; got \[\]"),
    ("search", lambda f, a: f["cv_results_"]["dict"].pop(0), "KeyError: 'params'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), HOSTILE)
def test_forged_parts_are_refused_by_name(
    name: str, change: Any, message: str, files: dict[str, Path], tmp_path: Path
) -> None:
    path = write_forged(files[name], tmp_path / "m.npz", change)
    with pytest.raises(ValueError, match=message) as refused:
        dk.load_model(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("name", ["many", "two targets", "search"])
def test_flipped_bytes_are_refused_or_change_nothing(
    name: str, files: dict[str, Path], tmp_path: Path
) -> None:
    content, path = files[name].read_bytes(), tmp_path / "m.npz"
    expected, rng, n_refused = dk.load_model(files[name]).predict(NEW), random.Random(0), 0
    for _ in range(150):
        changed = bytearray(content)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # zipfile warns about duplicate names
                result = dk.load_model(path).predict(NEW)
        except ValueError:
            n_refused += 1
        else:
            assert bits(result) == bits(expected)
    assert n_refused > 75


@serializable("Verdict")
class Verdict(NamedTuple):
    """A record like those of an automatic model."""

    text: str
    figures: tuple[float, ...]


@serializable("Tree")
@dataclass(frozen=True)
class Tree:
    """Arrays of numbers and booleans, and records in lists."""

    feature: NDArray[np.int64]
    is_leaf: NDArray[np.bool_]
    verdicts: list[Verdict]


def round_trip(value: Any) -> Any:
    arrays: dict[str, Any] = {}
    text = json.dumps(describe(value, "it", arrays))
    return make(json.loads(text), arrays)


def test_records_of_every_form_round_trip() -> None:
    tree = Tree(np.arange(3), np.array([True, False]), [Verdict("better", (1.0, 2.0)), Verdict("", ())])
    result = round_trip(tree)
    assert (bits(result.feature), bits(result.is_leaf)) == (bits(tree.feature), bits(tree.is_leaf))
    assert result.verdicts == tree.verdicts
    assert type(result.verdicts[0]) is Verdict
    for wrong in (
        Tree(np.array(["a"]), tree.is_leaf, []),  # type: ignore[arg-type]
        Tree(tree.feature, np.arange(2), []),  # type: ignore[arg-type]
        Tree(tree.feature, tree.is_leaf, [("better", (1.0,))]),  # type: ignore[list-item]
        Tree(tree.feature, tree.is_leaf, [Verdict("better", ("x",))]),  # type: ignore[arg-type]
        Tree(tree.feature, tree.is_leaf, ()),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=r"must be .*; got"):
            round_trip(wrong)


@pytest.mark.parametrize(
    "number",
    [np.float32(0.1), np.float64(0.1), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True), np.float16(0.1)],
)
def test_numpy_scalars_keep_their_dtype(number: Any) -> None:
    result = round_trip(number)
    assert type(result) is type(number)
    assert result == number


@pytest.mark.parametrize("described", [{"number": "1", "dtype": "<f8"}, {"number": 1, "dtype": "<U8"}])
def test_malformed_numbers_are_refused(described: Any) -> None:
    with pytest.raises(ValueError, match="a number is"):
        make(described, {})


def test_arrays_keep_the_order_of_their_axes() -> None:
    rows = RNG.normal(size=(4, 3))
    for array in (rows, rows.T, np.asfortranarray(rows)[:2], rows[:, 1:].T):
        result = round_trip(array)
        assert bits(result) == bits(array)
        assert np.argsort(result.strides).tolist() == np.argsort(array.strides).tolist()


def test_a_model_that_could_not_be_loaded_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = dk.SetPCA(1).fit(SETS)
    monkeypatch.setattr(json_text, "MAX_JSON_BYTES", 100)
    with pytest.raises(ValueError, match=r"too large for a model file: its JSON text must have at most 100"):
        dk.save_model(model, tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []
