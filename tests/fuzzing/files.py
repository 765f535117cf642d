"""Files of all kinds: a small valid one, forged ones with valid checksums, and outcomes of reading changed copies."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk
from dkdist._runtime.checkpoint import digest, digest_parts
from dkdist.models.model_file import _sha256

from .mutations import mutate, mutate_json

NAMED = (ValueError, TypeError, OSError)  # SampleSetError, StoreFormatError and SourceError are ValueErrors
MIN_MESSAGE_LENGTH = 20  # characters of a message
RNG = np.random.default_rng(0)
SETS = [RNG.normal(i % 2, 1, (4, 2)).astype("f4") for i in range(12)]
ROWS = RNG.normal(size=(12, 5)).astype("f4")
LABELS = np.arange(12) % 2
SQUARE = np.abs(np.subtract.outer(np.arange(12.0), np.arange(12.0)))


@dataclass(frozen=True)
class Kind:
    """A kind of file: functions that write it into a folder and read it as arrays.

    ``forge`` changes a file and updates its checksums, so that it may be read as another valid file with finite
    values. ``bare`` files have no checksums, so that changes are not detected.
    """

    write: Callable[[Path], object]
    read: Callable[[Path], list[Any]]
    forge: Callable[[random.Random, Path], None] | None = None
    bare: bool = False


def _model(make: Callable[[], Any], use: str = "transform", X: Any = SETS) -> Kind:
    """Return the kind of a fitted model, which is read as its results for X."""

    def write(folder: Path) -> None:
        dk.save_model(make().fit(X, LABELS), folder / "m.npz")

    def read(folder: Path) -> list[Any]:
        result = getattr(dk.load_model(folder / "m.npz"), use)(X)
        return [result.points, result.offsets] if isinstance(result, dk.SampleSets) else [*_as_tuple(result)]

    return Kind(write, read, _forge_model)


def _density_model() -> Kind:
    def write(folder: Path) -> None:
        model = dk.DensityRegressor(dk.MomentEmbedding(), n_basis=4, alphas=1.0, random_state=0)
        dk.save_model(model.fit(SETS, SETS), folder / "m.npz")

    def read(folder: Path) -> list[Any]:
        return [density.coefficients for density in dk.load_model(folder / "m.npz").predict(SETS)]

    return Kind(write, read, _forge_model)


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _pipeline() -> Any:
    steps = dk.DivergenceEmbedding(), dk.RandomFourierFeatures(10, random_state=0), StandardScaler()
    return make_pipeline(*steps, dk.IncrementalSGDClassifier(n_epochs=1, random_state=0))


def _forge_model(rng: random.Random, folder: Path) -> None:
    arrays, header = _open(folder / "m.npz", "model.json")
    if arrays and rng.random() < 0.3:
        name = rng.choice(list(arrays))
        invalid_values = (np.nan, np.inf, 1e30)
        array = arrays[name].astype(rng.choice(("f4", "f8"))).reshape(-1)
        if len(array):
            array[rng.randrange(len(array))] = rng.choice(invalid_values)
        arrays[name] = array if rng.random() < 0.5 else array[:-1]
    else:
        header["model"] = _change_json(rng, header["model"])
    header["sha256"] = _sha256(header["model"], arrays)
    _save(folder / "m.npz", "model.json", arrays, header)


def _forge_checkpoint(rng: random.Random, folder: Path) -> None:
    arrays, header = _open(folder / "state.npz", "checkpoint.json")
    if rng.random() < 0.4:
        name = rng.choice(list(arrays))
        array = arrays[name]
        arrays[name] = rng.choice((array.reshape(-1)[:-1], array.astype("f8") * np.nan, np.zeros(3)))
        header["digest"] = digest(*digest_parts(arrays))
    else:
        header = _change_json(rng, header)
    _save(folder / "state.npz", "checkpoint.json", arrays, header)


def _open(path: Path, text: str) -> tuple[dict[str, Any], Any]:
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files}
    return arrays, json.loads(arrays.pop(text).tobytes())


def _save(path: Path, text: str, arrays: dict[str, Any], header: Any) -> None:
    np.savez(path, **{text: np.frombuffer(json.dumps(header).encode(), "u1")}, **arrays)


def _change_json(rng: random.Random, value: Any) -> Any:
    return json.loads(mutate_json(rng, json.dumps(value).encode()).decode(errors="replace"))


def _train(folder: Path) -> list[Any]:
    model = dk.IncrementalSGDClassifier(n_epochs=2, checkpoint=folder, random_state=0).fit(ROWS, LABELS)
    return [model.coef_, model.intercept_]


def _sets(folder: Path) -> list[Any]:
    view = dk.open_sets(folder / "s.zarr")
    sets = view.load()
    return [sets.points, sets.offsets, view.ids, *(view.targets[name] for name in sorted(view.targets))]


def _write_store(folder: Path) -> None:
    names = np.array([f"n{i}" for i in range(12)])
    dk.write_sets(folder / "s.zarr", SETS, {"y": LABELS, "name": names}, np.arange(12))


def _rows(folder: Path) -> list[Any]:
    return [dk.open_features(folder / "z.zarr").compute()]


def _arrays(folder: Path) -> list[Any]:
    (path,) = folder.iterdir()
    values: list[Any] = []
    for sets, targets, ids in dk.ArrayReader().read(path):
        values += [sets.points, sets.offsets, *(targets or {}).values(), ids]
    return values


ARRAYS: dict[str, Any] = {"values": np.concatenate(SETS), "offsets": np.arange(13) * 4, "y": LABELS}
KINDS = {
    "store": Kind(_write_store, _sets),
    "features": Kind(lambda folder: dk.write_features(folder / "z.zarr", ROWS), _rows),
    "pipeline": _model(_pipeline, "decision_function"),
    "fourier": _model(lambda: dk.RandomFourierFeatures(10, sigma=1.0, random_state=0), X=ROWS),
    "mean": _model(lambda: dk.MeanEmbedding(8, random_state=0)),
    "grid mean": _model(lambda: dk.MeanEmbedding(8, method="fourier")),
    "distance": _model(lambda: dk.DistanceEmbedding("energy", n_components=6, random_state=0)),
    "l2": _model(lambda: dk.L2Embedding()),
    "histogram": _model(lambda: dk.HistogramEmbedding(4)),
    "moments": _model(lambda: dk.MomentEmbedding()),
    "invariant": _model(lambda: dk.InvariantFeatures(dk.HistogramEmbedding(3), features=None)),
    "uniform": _model(lambda: dk.DivergenceEmbedding(nodes="uniform", n_nodes=20, random_state=0)),
    "thinning": _model(lambda: dk.CoresetThinning(2, sigma=1.0, random_state=0)),
    "components": _model(lambda: dk.SetPCA(1)),
    "profiles": _model(lambda: dk.DistanceProfiles(2)),
    "rotation": _model(lambda: dk.InvariantFeatures("rotation")),
    "scaler": _model(lambda: dk.SetScaler()),
    "ranks": _model(lambda: dk.SetScaler("quantile")),
    "nearest": _model(lambda: dk.NearestSets(2), "kneighbors", ROWS),
    "smoother": _model(lambda: dk.SetSmoother(n_neighbors=3), "predict"),
    "densities": _density_model(),
    "points on a line": _model(lambda: dk.PseudoEuclideanEmbedding(), X=SQUARE),
    "classifier": _model(
        lambda: dk.SetClassifier(["hellinger", "symmetric"], cv=2, random_state=0), "predict_proba"
    ),
    "regressor": _model(lambda: dk.SetRegressor(["marginals"], cv=2, random_state=0), "predict_interval"),
    "search": _model(
        lambda: dk.OnePassSearch(dk.IncrementalRidge(), {"alphas": [1.0, 2.0]}, 0.3, random_state=0),
        "predict",
        ROWS,
    ),
    "ridge": _model(lambda: dk.IncrementalRidge(random_state=0), "predict", ROWS),
    "checkpoint": Kind(_train, _train, _forge_checkpoint),
    "npz": Kind(lambda folder: np.savez(folder / "a.npz", **ARRAYS), _arrays, bare=True),
    "packed": Kind(lambda folder: np.savez_compressed(folder / "a.npz", **ARRAYS), _arrays, bare=True),
    "npy": Kind(lambda folder: np.save(folder / "a.npy", np.stack(SETS)), _arrays, bare=True),
}


def prepare(folder: Path) -> Callable[[tuple[str, int]], str]:
    """Write and read the valid files, and return a function that reads changed copies by kind and seed."""
    dask.config.set(scheduler="synchronous")
    warnings.simplefilter("ignore")
    place = Path(tempfile.mkdtemp(dir=folder))
    expected = {}
    for name, kind in KINDS.items():
        (place / name / "valid").mkdir(parents=True)
        kind.write(place / name / "valid")
        expected[name] = kind.read(place / name / "valid")

    def read_changed(kind_and_seed: tuple[str, int]) -> str:
        name, seed = kind_and_seed
        rng = random.Random(f"{name} {seed}")
        copy = place / name / str(seed)  # a unique name, so that caches are not shared
        shutil.copytree(place / name / "valid", copy)
        try:
            forged = _change(rng, KINDS[name], copy)
            return "no file" if forged is None else outcome(KINDS[name], copy, expected[name], forged=forged)
        finally:
            shutil.rmtree(copy)

    return read_changed


def _change(rng: random.Random, kind: Kind, copy: Path) -> bool | None:
    """Change a folder, and return whether it was forged, or None if forging failed."""
    if kind.forge is None or rng.random() > 0.4:
        path = rng.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
        path.write_bytes(mutate(rng, path.read_bytes()))
        return False
    try:
        kind.forge(rng, copy)
    except (ValueError, TypeError, RecursionError, KeyError):
        return None
    return True


def outcome(kind: Kind, folder: Path, expected: list[Any], *, forged: bool) -> str:
    """Return the outcome of reading a folder: "same", "refused", "another" if allowed, or a description of a bug."""
    try:
        values = kind.read(folder)
    except MemoryError:
        raise
    except NAMED as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
        if len(str(error)) <= MIN_MESSAGE_LENGTH:
            return f"BUG message too short: {text}"
        is_own = "/dkdist/" in frame.filename or "/sklearn/" in frame.filename
        return "refused" if is_own else f"BUG error of another package: {text}"
    if is_same(values, expected):
        return "same"
    if kind.bare:
        return "another"
    if forged:
        return "another" if has_valid_values(values, expected) else "BUG a forged file gives invalid values"
    return "WRONG other values"


def is_same(values: list[Any], expected: list[Any]) -> bool:
    """Whether all values are bit-identical."""
    return [_bits(value) for value in values] == [_bits(value) for value in expected]


def _bits(value: Any) -> Any:
    if value is None:
        return None
    array = np.asarray(value)
    return array.shape, array.dtype, array.tolist() if array.dtype.hasobject else array.tobytes()


def has_valid_values(values: list[Any], expected: list[Any]) -> bool:
    """Whether values are finite and have the expected number and dimensions."""
    kinds = [np.ndim(value) for value in values] == [np.ndim(value) for value in expected]
    return kinds and all(np.isfinite(value).all() for value in values)
