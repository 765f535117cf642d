"""Model files: loaded models predict the same bits; unsupported or untrusted content is refused by name."""

from __future__ import annotations

import inspect
import io
import json
import zipfile

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import dkdist as dk
from dkdist.models.model_text import estimator_named

RNG = np.random.default_rng(0)
SETS = [RNG.normal(i % 2, 1, (20, 2)) for i in range(60)]
TEXT = np.array(["left", "right"])[np.arange(60) % 2]
NUMBERS = np.arange(60) % 2 + RNG.normal(size=60) / 10
ROWS = RNG.normal(size=(60, 5)).astype(np.float32)


def pipeline(learner, divergence="jensen-shannon"):
    return make_pipeline(
        dk.DivergenceEmbedding(divergence),
        dk.RandomFourierFeatures(40, random_state=0),
        StandardScaler(),
        learner,
    )


def reloaded(model, folder):
    path = folder / "model.npz"
    dk.save_model(model, path)
    return dk.load_model(path)


@pytest.mark.parametrize(
    ("learner", "targets"),
    [
        (dk.IncrementalRidgeClassifier(alphas=(0.1, 1.0), random_state=0), TEXT),
        (dk.IncrementalRidgeClassifier(random_state=0), TEXT.astype(object)),
        (dk.IncrementalSGDClassifier(n_epochs=2, random_state=0), TEXT == "left"),
        (
            dk.IncrementalRidge(alphas=np.array([0.1, 1.0]), random_state=0),
            np.stack([NUMBERS, -NUMBERS], axis=1),
        ),
        (dk.IncrementalSGDRegressor(loss="huber", epsilon=0.1, n_epochs=2, random_state=0), NUMBERS),
    ],
)
def test_a_loaded_pipeline_predicts_the_same_bits(learner, targets, tmp_path):
    model = pipeline(learner).fit(SETS, targets)
    again = reloaded(model, tmp_path)
    new = [RNG.normal(size=(9, 2)).clip(-1, 1) for _ in range(10)]
    expected, result = model.predict(new), again.predict(new)
    assert result.dtype == expected.dtype
    assert result.tobytes() == expected.tobytes() or result.tolist() == expected.tolist()
    assert again[:-1].transform(new).tobytes() == model[:-1].transform(new).tobytes()
    assert again.named_steps.keys() == model.named_steps.keys()
    for step, loaded in zip(model, again, strict=True):
        assert vars(loaded).keys() == vars(step).keys()
    assert again[:2].get_feature_names_out().tolist() == model[:2].get_feature_names_out().tolist()


@pytest.mark.parametrize(
    ("model", "more"),
    [
        (dk.IncrementalSGDClassifier(random_state=0), {"classes": ["left", "right"]}),
        (dk.IncrementalSGDRegressor(random_state=0), {}),
    ],
)
def test_partial_fit_continues_after_loading(model, more, tmp_path):
    targets = TEXT if more else NUMBERS
    model.partial_fit(ROWS[:30], targets[:30], **more)
    again = reloaded(model, tmp_path)
    again.partial_fit(ROWS[30:], targets[30:])
    model.partial_fit(ROWS[30:], targets[30:])
    assert again.coef_.tobytes() == model.coef_.tobytes()


def test_parameters_round_trip(tmp_path):
    model = dk.DivergenceEmbedding("chi2", n_basis=6, bandwidth=(0.2, 0.3), domain=((-9, -9), (9, 9))).fit(
        SETS
    )
    again = reloaded(model, tmp_path)
    assert again.get_params() == model.get_params()
    assert again.spec_ == model.spec_
    assert hash(again.spec_) == hash(model.spec_)


def test_every_public_estimator_can_be_saved():
    public = {n for n in dk.__all__ if inspect.isclass(c := getattr(dk, n)) and issubclass(c, BaseEstimator)}
    assert {name for name in public if not estimator_named(name)} == set()


def test_the_best_estimator_of_a_search_can_be_saved(tmp_path):
    search = dk.OnePassSearch(dk.IncrementalRidge(), {"alphas": [0.1, 1.0]}, random_state=0)
    X = np.random.default_rng(0).standard_normal((50, 4)).astype("f4")
    search.fit(X, X[:, 0])
    np.testing.assert_array_equal(reloaded(search.best_estimator_, tmp_path).predict(X), search.predict(X))


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (pipeline(dk.IncrementalRidge(), lambda x, y: (x - y) ** 2 / (x + y)), "DivergenceEmbedding.divergence"),
        (pipeline(dk.IncrementalSGDClassifier(random_state=np.random.default_rng(0))), "Classifier.random_state"),
        (make_pipeline(dk.DivergenceEmbedding(), MinMaxScaler(), dk.IncrementalRidgeClassifier()), "MinMaxScaler"),
    ],
)  # fmt: skip
def test_unsupported_parameters_and_steps_are_refused_by_name(model, named, tmp_path):
    model.fit(SETS, TEXT == "left")
    with pytest.raises(ValueError, match=named):
        dk.save_model(model, tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_masked_value_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="the model is masked, which a model file cannot hold"):
        dk.save_model(np.ma.masked, tmp_path / "model.npz")


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        dk.save_model(pipeline(dk.IncrementalRidge()), tmp_path / "model.npz")


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    old = dk.RandomFourierFeatures(10, random_state=0).fit(ROWS)
    dk.save_model(old, path)

    def full(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space"):
        dk.save_model(dk.RandomFourierFeatures(10, random_state=1).fit(ROWS), path)
    assert dk.load_model(path).spec_ == old.spec_
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]


def test_flipped_bits_are_refused_or_change_no_prediction(tmp_path):
    path = tmp_path / "model.npz"
    model = dk.IncrementalRidge(alphas=1.0).fit(ROWS, NUMBERS)
    dk.save_model(model, path)
    whole = path.read_bytes()
    expected = model.predict(ROWS).tobytes()
    refused = 0
    for place in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            assert dk.load_model(path).predict(ROWS).tobytes() == expected
        except ValueError:
            refused += 1
    assert refused > len(whole) // 6
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="model file"):
            dk.load_model(path)


def rewrite_header(path, change):
    """Rewrite the file with a changed header and an unchanged checksum."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(np.load(io.BytesIO(members["model.json.npy"])).tobytes())
    change(header)
    buffer = io.BytesIO()
    np.save(buffer, np.frombuffer(json.dumps(header).encode(), np.uint8))
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, buffer.getvalue() if name == "model.json.npy" else content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.update(format="other"), "format must be 'dkdist.model'; got 'other'"),
        (lambda header: header.update(version=2), "version 2.*update dkdist"),
        (lambda header: header["model"]["params"].update(sigma=3.0), "damaged.*checksum"),
        (lambda header: header.pop("format"), "not a model file"),
    ],
)
def test_changed_headers_are_refused(change, message, tmp_path):
    path = tmp_path / "model.npz"
    dk.save_model(dk.RandomFourierFeatures(10, random_state=0).fit(ROWS), path)
    rewrite_header(path, change)
    with pytest.raises(ValueError, match=message):
        dk.load_model(path)


@pytest.mark.parametrize("name", ["SVC", "Popen", "os.system"])
def test_unlisted_classes_are_never_instantiated(name, tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    model = dk.RandomFourierFeatures(10, random_state=0).fit(ROWS)
    from dkdist.models import model_file

    describe = model_file.describe
    monkeypatch.setattr(model_file, "describe", lambda *a: {**describe(*a), "estimator": name})
    dk.save_model(model, path)  # a well-formed file with a fitting checksum
    with pytest.raises(ValueError, match=f"names the class '{name}'"):
        dk.load_model(path)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float64])
def test_headers_of_other_dtypes_are_refused(tmp_path, dtype):
    path = tmp_path / "model.npz"
    np.savez(path, **{"model.json": np.zeros(8, dtype)})
    with pytest.raises(ValueError, match=r"its model\.json is not text"):
        dk.load_model(path)


def test_pickles_are_never_read(tmp_path):
    path = tmp_path / "model.npz"
    np.savez(path, **{"model.json": np.array([{"format": "dkdist.model"}], dtype=object)})
    with pytest.raises(ValueError, match="not a model file"):
        dk.load_model(path)
    with pytest.raises(FileNotFoundError):
        dk.load_model(tmp_path / "absent.npz")
