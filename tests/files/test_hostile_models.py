"""Hostile model files and checkpoints: they cannot run code, exhaust memory, hang, or load in part."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import joblib
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk
from dkdist._runtime.checkpoint import Checkpoint
from dkdist._utils.archives import open_archive
from dkdist._utils.memory_budget import resident_bytes
from dkdist.kernels.random_fourier_params import FourierSpec
from dkdist.models.model_file import _sha256
from dkdist.models.model_text import require_working

RNG = np.random.default_rng(0)
SETS = [RNG.normal(i % 2, 1, (20, 2)) for i in range(40)]
ROWS = RNG.normal(size=(40, 5)).astype("f4")
LABELS = np.arange(40) % 2


def pipeline(**more: Any) -> Any:
    return make_pipeline(
        dk.DivergenceEmbedding(),
        dk.RandomFourierFeatures(10, random_state=0),
        StandardScaler(),
        dk.IncrementalSGDClassifier(n_epochs=1, random_state=0, **more),
    ).fit(SETS, LABELS)


def write_forged(model: Any, path: Path, change: Any) -> Path:
    """Write a model file with changed content and a matching checksum."""
    dk.save_model(model, path)
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files}
    header = json.loads(arrays.pop("model.json").tobytes())
    change(header["model"], arrays)
    header["sha256"] = _sha256(header["model"], arrays)
    np.savez(path, **{"model.json": np.frombuffer(json.dumps(header).encode(), np.uint8)}, **arrays)
    return path


def test_checkpoint_and_cache_paths_are_not_saved(tmp_path: Path) -> None:
    model = pipeline(checkpoint=tmp_path / "ck").set_params(memory=str(tmp_path / "cache"))
    dk.save_model(model, tmp_path / "m.npz")
    again = dk.load_model(tmp_path / "m.npz")
    assert again.memory is None
    assert again[-1].checkpoint is None
    assert again.predict(SETS).tolist() == model.predict(SETS).tolist()


def test_models_with_too_many_random_numbers_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    """A file of 1 kB can declare any sizes; they are checked before numbers are drawn, and on saving."""
    monkeypatch.setattr(FourierSpec, "materialize", lambda spec: pytest.fail(f"{spec} was drawn"))
    model = dk.RandomFourierFeatures(10, method="iid", random_state=0).fit(np.eye(4, dtype=np.float32))
    sizes = {"iid": (2**20, 2**10), "orthogonal": (2**16, 2**14), "structured": (2**24 + 2, 4)}
    for method, (n_components, n_inputs) in sizes.items():
        spec = replace(model.spec_, method=method, n_components=n_components, n_inputs=n_inputs)
        with pytest.raises(
            ValueError, match=r"must draw at most .* numbers; got|rows must have 1 to 16777216 features; got"
        ):
            require_working("RandomFourierFeatures", spec)
    model.spec_ = replace(model.spec_, n_components=2**24, n_inputs=2**10)
    with pytest.raises(
        ValueError, match=r"RandomFourierFeatures must draw at most 6\.71e\+07 numbers; got 1\.72e\+10"
    ):
        dk.save_model(model, tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (dk.DivergenceEmbedding("hellinger", 8, bandwidth=0.2), {"n_basis": 2**12}),
        (dk.DivergenceEmbedding("hellinger", 8, bandwidth=0.2, structure="marginal"), {"n_basis": 2**20}),
        (dk.MeanEmbedding(20, method="sobol", random_state=0), {"n_components": 2**22}),
    ],
    ids=["joint", "marginal", "mean"],
)
def test_oversized_embeddings_are_refused_before_they_are_drawn(
    model: Any, sizes: dict[str, int], monkeypatch: Any
) -> None:
    spec = replace(model.fit(SETS).spec_, **sizes)
    monkeypatch.setattr(type(spec), "materialize", lambda spec: pytest.fail("it was drawn"))
    with pytest.raises(ValueError, match=r"must draw at most .* numbers; got"):
        require_working("it", spec)


def test_arrays_of_files_check_the_memory_limit(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(2**22))
    with (
        dask.config.set({"dkdist.memory-limit": resident_bytes() + 2**24}),
        open_archive(tmp_path / "a.npz", compressed=False) as archive,
        pytest.raises(MemoryError, match=r"array 'x' needs 33.6 MB"),
    ):
        archive.read("x")


def test_a_planted_cache_is_never_opened(tmp_path: Path) -> None:
    def plant(described: Any, arrays: Any) -> None:
        described["params"]["memory"] = str(tmp_path / "cache")
        described["params"]["steps"]["list"][-1]["tuple"][1]["params"]["checkpoint"] = str(tmp_path / "ck")

    joblib.Memory(tmp_path / "cache", verbose=0)
    loaded = dk.load_model(write_forged(pipeline(), tmp_path / "m.npz", plant))
    loaded.fit(SETS, LABELS)
    assert not (tmp_path / "ck").exists()
    assert not list((tmp_path / "cache").rglob("*.pkl"))


def of_step(i: int, change: Any) -> Any:
    return lambda described, arrays: change(described["params"]["steps"]["list"][i]["tuple"][1], arrays)


def set_fitted(**values: Any) -> Any:
    return lambda described, arrays: described["fitted"].update(values)


def poison(name: str, value: float) -> Any:
    def change(described: Any, arrays: Any) -> None:
        key = described["fitted"][name]["array"]
        arrays[key] = arrays[key].copy()
        arrays[key].reshape(-1)[0] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_step(3, poison("coef_", np.nan)), r"IncrementalSGDClassifier\.coef_ .*not finite"),
        (of_step(2, poison("scale_", np.inf)), r"StandardScaler\.scale_ .*not finite"),
        (of_step(3, set_fitted(predict=1)), r"no attribute 'predict'"),
        (of_step(3, set_fitted(checkpoint="/tmp/ck")), r"no attribute 'checkpoint'"),
        (set_fitted(memory="/tmp/cache"), r"Pipeline has no attribute 'memory'"),
        (of_step(3, lambda d, a: d["fitted"].pop("coef_")), r"lacks coef_"),
        (of_step(3, set_fitted(coef_="text")), r"coef_ is 'text'"),
        (of_step(1, lambda d, a: d["fitted"]["spec_"]["fields"].update(n_components="x")),
         r"n_components must be int; got 'x'"),
        (of_step(1, lambda d, a: d["fitted"]["spec_"]["fields"].update(n_components=2**40)),
         r"n_components must be from 1 to"),
        (of_step(1, lambda d, a: d["fitted"]["spec_"]["fields"].update(n_components=20)), r"takes 10 features"),
        (of_step(1, lambda d, a: d["fitted"]["spec_"]["fields"].update(sigma=float("nan"))),
         r"sigma must be .*; got nan"),
        (of_step(0, lambda d, a: d["fitted"]["spec_"]["fields"].update(masses={"tuple": []})),
         r"equal numbers of frequencies and masses; got \d+ and 0"),
        (of_step(0, lambda d, a: d["fitted"].update(n_features_in_=3)), r"must have a domain of 3 dimensions; got"),
        (lambda d, a: d["params"]["steps"]["list"].insert(0, "code"), r"the steps of a Pipeline"),
        (lambda d, a: d["params"]["steps"]["list"][0]["tuple"].__setitem__(1, 3), r"the steps of a Pipeline"),
        (lambda d, a: d["params"].update(steps={"list": []}), r"the steps of a Pipeline"),
        (lambda d, a: d["params"]["steps"]["list"].pop(1), r"takes 10 features"),
        (lambda d, a: d["params"].update(other={"eval": "1"}), r"'eval' is not a tag"),
        (lambda d, a: d["params"].update(other=1), r"cannot load .*other"),
    ],
)  # fmt: skip
def test_forged_parts_are_refused_by_name(change: Any, message: str, tmp_path: Path) -> None:
    path = write_forged(pipeline(), tmp_path / "m.npz", change)
    with pytest.raises(ValueError, match=message) as refused:
        dk.load_model(path)
    assert str(path) in str(refused.value)


def with_text(path: Path, text: bytes) -> Path:
    np.savez(path, **{"model.json": np.frombuffer(text, np.uint8)})
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 500_000 + b"]" * 500_000, "nested levels"),
        (b'{"format": ' + b"[" * 100 + b"]" * 100 + b"}", "nested levels"),
        (
            b'{"format": "dkdist.model", "version": true, "sha256": 1, "model": 2}',
            "'version' of its JSON text must be a int",
        ),
        (
            b'{"format": "dkdist.model", "version": 1, "sha256": "", "model": [1]}',
            "'model' of its JSON text must be a dict",
        ),
        (b'{"nbformat": 4}', "'format' of its JSON text must be a str"),
        (b"[1, 2]", "must be an object; got a list"),
        (b"\xff\xfe", "UnicodeDecodeError"),
    ],
)
def test_foreign_and_deep_texts_are_refused_by_name(text: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"not a model file.*{message}"):
        dk.load_model(with_text(tmp_path / "m.npz", text))


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def write_zip_bomb(path: Path, n: int) -> Path:
    """Write an archive with n zeros at a compression ratio of about 1000."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("model.json.npy", "w") as member,
    ):
        member.write(npy(np.zeros(n, "u1"))[:128])
        for _ in range(n // 2**20):
            member.write(bytes(2**20))
    return path


READERS = {
    "model": "dk.load_model(path)",
    "checkpoint": "Checkpoint(path.parent, {}).load()",
    "npz": "list(dk.ArrayReader().read(path))",
}
CHILD = """
import resource, sys, pathlib, dkdist as dk, numpy as np
from dkdist._runtime.checkpoint import Checkpoint
path = pathlib.Path(sys.argv[1]); dk.load_model; dk.ArrayReader
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for call in sys.argv[2:]:
    try:
        eval(call)
    except ValueError as error:
        print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_zip_bombs_are_refused_before_decompression(tmp_path: Path) -> None:
    path = write_zip_bomb(tmp_path / "state.npz", 2**29)
    assert path.stat().st_size < 2**22
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), *READERS.values()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    *message, kilobytes = child.stdout.splitlines()
    assert len(message) == 3
    assert all("compressed" in line or "can exhaust memory" in line for line in message)
    assert int(kilobytes) < 50_000


def test_compressed_imports_are_read_and_hostile_headers_refused(tmp_path: Path) -> None:
    good = tmp_path / "good.npz"
    np.savez_compressed(good, values=ROWS, offsets=[0, 10, 40], y=np.zeros(2), flag=np.array([True, False]))
    ((sets, targets, _),) = dk.ArrayReader().read(good)
    assert sets.points.tobytes() == ROWS.tobytes()
    assert targets["flag"].tolist() == [True, False]
    for shape in ("(1000000000000, 5)", "(-8, -5)", "(40, -5)", "(41, 5)", "(8, 5)", "(True, 200)"):
        content = npy(ROWS)
        text = content[10:128].replace(b"(40, 5)", shape.encode()).rstrip()
        assert shape.encode() in text
        changed = content[:10] + text.ljust(117) + b"\n" + content[128:]
        for path in (tmp_path / "bad.npz", tmp_path / "bad.npy"):
            if path.suffix == ".npy":
                path.write_bytes(changed)
            else:
                with zipfile.ZipFile(path, "w") as archive:
                    archive.writestr("values.npy", changed)
                    archive.writestr("offsets.npy", npy(np.array([0, 40])))
            with pytest.raises(ValueError, match=r"cannot be read .*(must have [0-9]+ bytes|of sizes >= 0)"):
                list(dk.ArrayReader().read(path))


CORNERS = np.array([[0.0, 0.0], [1.0, 1.0], [0.2, 0.7]])


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (dk.L2Embedding(4, 0.1), {"n_basis": 1}),  # compiled code would write out of bounds
        (dk.MeanEmbedding(8, sigma=1.0, method="iid", random_state=0), {"method": "no"}),
        (dk.MeanEmbedding(8, sigma=1.0, method="iid", random_state=0), {"sigmas": {"tuple": []}}),
        (dk.MeanEmbedding(200, sigma=1.0, method="fourier"), {"cutoffs": {"tuple": [1e9]}}),
        (dk.MeanEmbedding(8, sigma=1.0, method="iid", random_state=0), {"seed": -1}),
        (dk.InvariantFeatures(dk.HistogramEmbedding(3)), {"elements": {"tuple": [{"tuple": [1, 9]}]}}),
    ],
)
def test_invalid_parameters_are_refused_on_loading(model: Any, fields: Any, tmp_path: Path) -> None:
    path = write_forged(
        model.fit([CORNERS, CORNERS / 2]),
        tmp_path / "m.npz",
        lambda d, a: d["fitted"]["spec_"]["fields"].update(fields),
    )
    with pytest.raises(ValueError, match="a model that this version of dkdist cannot load"):
        dk.load_model(path)


def test_a_model_that_was_not_fitted_is_refused(tmp_path: Path) -> None:
    path = write_forged(pipeline(), tmp_path / "m.npz", of_step(3, lambda d, a: d["fitted"].clear()))
    with pytest.raises(ValueError, match="NotFitted"):
        dk.load_model(path)


def test_an_estimator_parameter_may_be_unfitted(tmp_path: Path) -> None:
    model = dk.InvariantFeatures(dk.HistogramEmbedding(3)).fit([CORNERS, CORNERS / 2])
    dk.save_model(model, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    assert np.array_equal(loaded.transform([CORNERS]), model.transform([CORNERS]))


@pytest.mark.parametrize("kind", READERS)
def test_named_pipes_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    os.mkfifo(path)
    with pytest.raises(ValueError, match=r"must be a regular file; .* is a named pipe"):
        eval(READERS[kind], {"dk": dk, "Checkpoint": Checkpoint, "path": path})


def test_saving_does_not_follow_planted_links(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("m.npz", "state.npz"):
        (tmp_path / f"{name}.{os.getpid()}.tmp").symlink_to(victim)
    dk.save_model(dk.RandomFourierFeatures(4, random_state=0).fit(ROWS), tmp_path / "m.npz")
    Checkpoint(tmp_path, {}).save({"a": np.ones(2)}, {})
    assert victim.read_text() == "mine"


CHANGES: list[tuple[Any, Any, str]] = [
    (lambda a: a.update(coef=np.zeros((9, 5), "f4")), None, "array 'coef'"),
    (lambda a: a.update(coef=a["coef"].astype("f8")), None, "array 'coef'"),
    (lambda a: a.update(coef=a["coef"] * np.float32(np.nan)), None, "array 'coef' is not finite"),
    (lambda a: a.pop("sums"), None, "array 'sums'"),
    (lambda a: a.update(other=np.ones(1)), None, "array 'other'"),
    (None, lambda n: n.pop("seed"), "its seed is None"),
    (None, lambda n: n.update(epoch=-1), "its epoch is -1"),
    (None, lambda n: n.update(eta0="x"), "its eta0 is 'x'"),
    (None, lambda n: n.update(losses=3), "its losses are 3"),
    (None, lambda n: n.update(losses=[0.1] * 9), "not those of"),
]


@pytest.mark.parametrize(("of_arrays", "of_notes", "message"), CHANGES)
def test_a_forged_checkpoint_is_refused(of_arrays: Any, of_notes: Any, message: str, tmp_path: Path) -> None:
    model = dk.IncrementalSGDClassifier(n_epochs=2, checkpoint=tmp_path, random_state=0).fit(ROWS, LABELS)
    with np.load(tmp_path / "state.npz") as content:
        arrays = {name: content[name] for name in content.files}
    header = json.loads(arrays.pop("checkpoint.json").tobytes())
    (of_arrays or (lambda _: None))(arrays)
    (of_notes or (lambda _: None))(header["notes"])
    Checkpoint(tmp_path, header["fingerprint"]).save(arrays, header["notes"])
    with pytest.raises(ValueError, match=f"damaged .*{message}.*Delete it"):
        model.fit(ROWS, LABELS)


def test_pickle_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.pkl"
    path.write_bytes(pickle.dumps(pipeline()))
    with pytest.raises(ValueError, match="not a model file"):
        dk.load_model(path)
    with pytest.raises(TypeError, match="path of a file must be a str or a Path; got int"):
        dk.load_model(3)  # type: ignore[arg-type]
