"""Files that an earlier version wrote, in one archive: stores of sets, words and features, and a checkpoint.

``PYTHONPATH=.:tests python -m golden.stored_files`` writes the archive with the current version. Models are in
``tests/files/saved``.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray

import dkdist as dk

from .harness import FOLDER
from .inputs import N_SETS, arrays, rounded, strings, targets

ARCHIVE = FOLDER / "stored_files.zip"
COEFFICIENTS = "coefficients.npy"  # of the fit whose checkpoint is stored, without interruption
N_FIRST = 10  # sets of the first commit; the others are appended
FEATURE_NAME = "golden_features"  # of a dask array, by which an interrupted run recognises its features
BLOCK_ROWS, FAILING_BLOCK = 64, 4


def labelled_sets() -> dk.SampleSets:
    """Weighted sets far from zero, with ids, names, and targets of every kind."""
    rng = np.random.default_rng(21)
    sets = [x + np.array([1e6, 0]) for x in arrays("plane")]
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in sets])])
    weights = rounded(rng.uniform(0.5, 2, offsets[-1]))
    return dk.SampleSets(np.concatenate(sets), offsets, weights, origin=[1e6, 0]).labelled(
        ids=[f"donor {i}" for i in range(N_SETS)],
        names=["width", "height"],
        targets={
            "float64": targets(),
            "float32": targets().astype("f4"),
            "int16": np.arange(N_SETS, dtype="i2") - 5,
            "bool": np.arange(N_SETS) % 3 == 0,
            "text": np.array(["é", "b", "long text"])[np.arange(N_SETS) % 3],
            "two": np.stack([targets(), -targets()], axis=1),
        },
    )


def features() -> NDArray[np.float32]:
    """300 rows of features."""
    return rounded(np.random.default_rng(22).normal(size=(300, 6))).astype(np.float32)


def lazy_features(failing: int | None = None) -> Any:
    """The features in blocks; the one that is numbered ``failing`` cannot be computed."""

    def block(values: Any, number: int) -> Any:
        if number == failing:
            raise InterruptedError
        return values

    parts = np.split(features(), range(BLOCK_ROWS, 300, BLOCK_ROWS))
    graph = {(FEATURE_NAME, i, 0): (block, part, i) for i, part in enumerate(parts)}
    chunks = (tuple(map(len, parts)), (6,))
    return da.Array(graph, FEATURE_NAME, chunks, dtype=np.float32)


def training_rows() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows of three blocks, and classes."""
    rng = np.random.default_rng(23)
    X = rounded(rng.normal(size=(3000, 4))).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] > 0.5).astype(np.int64)


def learner(checkpoint: str | Path | None) -> dk.IncrementalSGDClassifier:
    """Two epochs of six batches."""
    return dk.IncrementalSGDClassifier(n_epochs=2, random_state=0, checkpoint=checkpoint)


def extract(folder: Path) -> None:
    """Put the stored files into a folder."""
    with zipfile.ZipFile(ARCHIVE) as file:
        file.extractall(folder)


def _interrupted_fit(folder: Path) -> None:
    from dkdist._runtime import map_reduce
    from dkdist._runtime.checkpoint import Checkpoint

    save, n_saved = Checkpoint.save, 0

    def save_and_stop(self: Any, *state: Any) -> None:
        nonlocal n_saved
        save(self, *state)
        n_saved += 1
        if n_saved == 2:
            raise InterruptedError

    map_reduce.MAX_GRAPH_JOBS, Checkpoint.save = 1, save_and_stop  # type: ignore[method-assign]
    try:
        learner(folder / "checkpoint").fit(*training_rows())
    except InterruptedError:
        return
    raise AssertionError("the fit was not interrupted")


def write(folder: Path) -> None:
    """Write all files with the current version."""
    np.save(folder / COEFFICIENTS, learner(None).fit(*training_rows()).coef_)
    _interrupted_fit(folder)
    sets = labelled_sets()
    dk.write_sets(folder / "sets.zarr", sets[:N_FIRST]).append(sets[N_FIRST:])
    dk.write_sets(folder / "words.zarr", list(strings()))
    dk.write_features(folder / "features.zarr", features())
    try:
        with dask.config.set(scheduler="synchronous"):
            dk.write_features(folder / "interrupted.zarr", lazy_features(FAILING_BLOCK))
    except InterruptedError:
        return
    raise AssertionError("the features were not interrupted")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as file:
        write(Path(name))
        for path in sorted(Path(name).rglob("*")):
            if path.is_file():
                file.write(path, path.relative_to(name))
    print(ARCHIVE.name, os.path.getsize(ARCHIVE), "bytes")
