"""Every file that is read, damaged and forged: a named error or the exact right result, in 1 GB and 5 seconds."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk
from dkdist.estimators.model_file import _sha256
from dkdist.execution.checkpoint import _items, digest

from .children import in_child, in_fresh_process
from .mutations import mutated, of_json

NAMED = (ValueError, TypeError, OSError)  # SampleSetError, StoreFormatError and SourceError are ValueErrors
RNG = np.random.default_rng(0)
SETS = [RNG.normal(i % 2, 1, (20, 2)).astype("f4") for i in range(30)]
ROWS = RNG.normal(size=(30, 5)).astype("f4")
LABELS = np.arange(30) % 2


@dataclass(frozen=True)
class Kind:
    """A way of keeping something: how it is written into a folder, and read again as bytes."""

    write: Callable[[Path], None]
    read: Callable[[Path], bytes]
    forge: Callable[[random.Random, Path], None] | None = None


def _model() -> Any:
    steps = dk.DivergenceEmbedding(), dk.RandomFourierFeatures(10, random_state=0), StandardScaler()
    return make_pipeline(*steps, dk.IncrementalSGDClassifier(n_epochs=1, random_state=0)).fit(SETS, LABELS)


def _predict(folder: Path) -> bytes:
    with dask.config.set(scheduler="synchronous"):
        return np.asarray(dk.load_model(folder / "m.npz").decision_function(SETS)).tobytes()


def _forge_model(rng: random.Random, folder: Path) -> None:
    with np.load(folder / "m.npz") as content:
        arrays = {name: content[name] for name in content.files}
    header = json.loads(arrays.pop("model.json").tobytes())
    if rng.random() < 0.3:
        name = rng.choice(list(arrays))
        odd = (np.nan, np.inf, 1e30)
        array = arrays[name].astype(rng.choice(("f4", "f8"))).reshape(-1)
        if len(array):
            array[rng.randrange(len(array))] = rng.choice(odd)
        arrays[name] = array if rng.random() < 0.5 else array[:-1]
    else:
        header["model"] = json.loads(
            of_json(rng, json.dumps(header["model"]).encode()).decode(errors="replace")
        )
    header["sha256"] = _sha256(header["model"], arrays)
    np.savez(folder / "m.npz", **{"model.json": np.frombuffer(json.dumps(header).encode(), "u1")}, **arrays)


def _forge_checkpoint(rng: random.Random, folder: Path) -> None:
    with np.load(folder / "state.npz") as content:
        arrays = {name: content[name] for name in content.files}
    header = json.loads(arrays.pop("checkpoint.json").tobytes())
    if rng.random() < 0.4:
        name = rng.choice(list(arrays))
        arrays[name] = rng.choice(
            (arrays[name].reshape(-1)[:-1], arrays[name].astype("f8") * np.nan, np.zeros(3))
        )
        header["digest"] = digest(*_items(arrays))
    else:
        header = json.loads(of_json(rng, json.dumps(header).encode()).decode(errors="replace"))
    np.savez(
        folder / "state.npz",
        **{"checkpoint.json": np.frombuffer(json.dumps(header).encode(), "u1")},
        **arrays,
    )


def _train(folder: Path, n_epochs: int = 2) -> bytes:
    model = dk.IncrementalSGDClassifier(n_epochs=n_epochs, checkpoint=folder, random_state=0)
    return np.asarray(model.fit(ROWS, LABELS).coef_).tobytes()


def _sets(folder: Path) -> bytes:
    view = dk.open_sets(folder / "s.zarr")
    sets = view.load()
    ids = b"" if view.ids is None else repr(view.ids.tolist()).encode()
    targets = repr({name: values.tolist() for name, values in view.targets.items()}).encode()
    return sets.points.tobytes() + sets.offsets.tobytes() + ids + targets


def _arrays(folder: Path) -> bytes:
    (path,) = folder.iterdir()
    parts = [
        (s.points.tobytes(), s.offsets.tobytes(), repr(t), repr(i)) for s, t, i in dk.ArrayReader().read(path)
    ]
    return repr(parts).encode()


def _store(folder: Path) -> None:
    dk.write_sets(
        folder / "s.zarr", SETS, {"y": LABELS, "name": np.array([f"n{i}" for i in range(30)])}, np.arange(30)
    )


def _features(folder: Path) -> bytes:
    with dask.config.set(scheduler="synchronous"):
        return np.asarray(dk.open_features(folder / "z.zarr").compute()).tobytes()


POINTS, OFFSETS = np.concatenate(SETS), np.arange(31) * 20
KINDS = {
    "model": Kind(lambda folder: dk.save_model(_model(), folder / "m.npz"), _predict, _forge_model),
    "checkpoint": Kind(lambda folder: (_train(folder), None)[1], _train, _forge_checkpoint),
    "npz": Kind(lambda f: np.savez(f / "a.npz", values=POINTS, offsets=OFFSETS, y=LABELS), _arrays),
    "packed": Kind(
        lambda f: np.savez_compressed(f / "a.npz", values=POINTS, offsets=OFFSETS, y=LABELS), _arrays
    ),
    "npy": Kind(lambda folder: np.save(folder / "a.npy", np.stack(SETS)), _arrays),
    "store": Kind(_store, _sets),
    "features": Kind(lambda folder: (dk.write_features(folder / "z.zarr", ROWS), None)[1], _features),
}


@functools.cache
def originals(kind: str, folder: Path) -> tuple[Path, bytes]:
    """A folder with a valid file of a kind, and what is read from it; made in children, for threads do not fork."""
    place = folder / kind
    place.mkdir()
    for work in (KINDS[kind].write, lambda place: (folder / "expected").write_bytes(KINDS[kind].read(place))):
        said = in_child(lambda work=work: f"{work(place) and ''}", more_bytes=0)  # type: ignore[misc]
        assert "BUG" not in said, said
    return place, (folder / "expected").read_bytes()


def fuzz(kind: str, seed: int, folder: Path) -> str:
    """What becomes of one changed copy: "same", the name of an error, or what no reader may do."""
    place, expected = originals(kind, folder)
    rng = random.Random(f"{kind} {seed}")
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place, copy)
    one = KINDS[kind]
    forged = one.forge is not None and rng.random() < 0.4
    if forged and one.forge is not None:
        try:
            one.forge(rng, copy)
        except (ValueError, TypeError, RecursionError, KeyError):
            return "no file"
    else:
        paths = sorted(path for path in copy.rglob("*") if path.is_file())
        path = rng.choice(paths)
        path.write_bytes(mutated(rng, path.read_bytes()))

    def read() -> str:
        warnings.simplefilter("ignore")
        try:
            found = one.read(copy)
        except MemoryError:
            raise
        except NAMED as error:
            text = f"{type(error).__name__}: {error}"
            return "refused" if len(str(error)) > 20 else f"BUG says too little: {text}"
        return "same" if found == expected else "other"

    said = in_child(read)
    return "refused" if forged and said == "other" else said


def allowed(kind: str) -> set[str]:
    """What may become of a changed file.

    Only a model or a checkpoint that was forged by someone who has made its checksum fit may be read as another one
    (finite and whole); arrays without a checksum are whatever their bytes say.
    """
    return {"same", "refused", "no file"} | ({"other"} if kind in ("npy", "npz", "packed") else set())


def run(kinds: list[str], seeds: range, folder: Path) -> tuple[dict[str, Counter[str]], list[str]]:
    """How often what became of changed files of each kind, and what should not have."""
    warnings.simplefilter("ignore")
    table, odd = {}, []
    for kind in kinds:
        found: Counter[str] = Counter()
        for seed in seeds:
            said = fuzz(kind, seed, folder)
            found[said.split("\n")[0][:40]] += 1
            if said not in allowed(kind):
                odd.append(f"{kind}, seed {seed}: {said}")
        table[kind] = found
    return table, odd


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_changed_files_are_refused_by_name_or_read_right(tmp_path: Path) -> None:
    check(range(30), tmp_path)


@pytest.mark.chaos
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_ten_thousand_changed_files(tmp_path: Path) -> None:
    check(range(1000, 2430), tmp_path)


def check(seeds: range, folder: Path) -> None:
    table, odd = in_fresh_process(run, list(KINDS), seeds, folder)
    print({kind: dict(found) for kind, found in table.items()})
    assert not odd, f"{len(odd)} files: " + "\n".join(odd[:10])
    assert all(found["refused"] > len(seeds) // 4 for found in table.values())


def test_the_oracles_of_the_fuzz_can_fail(tmp_path: Path) -> None:
    assert in_child(lambda: "fine") == "fine"
    assert in_child(lambda: str(len(bytes(2**31)))).startswith("MEMORY")
    assert in_child(lambda: [][0]).startswith("BUG")
    assert in_child(lambda: os.abort() or "").startswith("CRASH")
    assert in_child(lambda: os.read(os.pipe()[0], 1).decode(), seconds=0.3) == "HANG"
