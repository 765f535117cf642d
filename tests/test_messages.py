"""Messages for wrong inputs state the remedy: paths, sparse matrices, missing values, shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.cli import main

RNG = np.random.default_rng(0)
SETS = [RNG.normal(i % 2, 1, (20, 2)) for i in range(20)]
LABELS = np.arange(20) % 2
MISSING = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": pd.array([1, 2, 3], dtype="Int64")})
COMPLETE = MISSING.fillna(2)


@pytest.mark.parametrize(
    "features", [3, np.zeros(0), np.zeros((2, 2, 2)), "z.zarr", [[1, "a"]], np.ones((2, 2), "M8[s]")]
)
def test_write_features_of_invalid_arrays_raises(features: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"features must (be|contain) real numbers"):
        dk.write_features(tmp_path / "z.zarr", features)
    assert not (tmp_path / "z.zarr").exists()


def test_search_of_sets_without_embedding_raises(tmp_path: Path) -> None:
    stored = dk.write_sets(tmp_path / "s.zarr", SETS)
    for model in (dk.IncrementalRidge(), make_pipeline(dk.RandomFourierFeatures(8), dk.IncrementalRidge())):
        for X in (SETS, stored):
            with pytest.raises(
                ValueError,
                match=r"X must be an array of features .*got sample sets\. Insert an embedding of sets first",
            ):
                dk.OnePassSearch(model, {}).fit(X, LABELS)


@pytest.mark.parametrize("path", ["bags.zarr", Path("bags.zarr")])
def test_path_instead_of_sets_raises(path: Any) -> None:
    models: list[Any] = [
        dk.DivergenceEmbedding(),
        make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidge()),
        dk.OnePassSearch(dk.IncrementalRidge(), {}),
        dk.IncrementalRidge(),
        dk.IncrementalSGDClassifier(),
    ]
    for model in models:
        with pytest.raises(ValueError, match=r"For the path of a store, pass dk.open_sets"):
            model.fit(path, LABELS)
    with pytest.raises(ValueError, match=r"pass dk.open_sets"):
        dk.RandomFourierFeatures(8).fit(path)


@pytest.mark.parametrize(
    "embed", [dk.SetClassifier().fit, dk.MomentEmbedding().fit, lambda X, _: dk.distance_matrix(X)]
)
def test_frame_instead_of_sets_raises(embed: Any) -> None:
    frame = pd.DataFrame({"donor": np.repeat(np.arange(20), 20), "x": np.concatenate(SETS)[:, 0]})
    with pytest.raises(dk.SampleSetError, match=r"got DataFrame.*SampleSets\.from_frame\(X, set_id=\.\.\.\)"):
        embed(frame, LABELS)


LEARNERS = (
    dk.IncrementalRidge,
    dk.IncrementalRidgeClassifier,
    dk.IncrementalSGDRegressor,
    dk.IncrementalSGDClassifier,
)


@pytest.mark.parametrize("learner", [*LEARNERS, dk.SetClassifier, dk.SetRegressor, dk.SetSurvival])
def test_mapping_of_targets_raises(learner: Any) -> None:
    sets = dk.SampleSets.from_arrays(SETS, targets={"ill": LABELS, "age": LABELS + 40})
    X = sets if hasattr(learner, "summary") else np.array([x.mean(axis=0) for x in SETS])
    with pytest.raises(
        ValueError, match=r"y must be an array .* got a mappingproxy of 'ill', 'age'. Pass one"
    ):
        learner().fit(X, sets.targets)


@pytest.mark.parametrize("learner", LEARNERS)
def test_empty_rows_raise(learner: Any) -> None:
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        learner().fit(np.zeros((0, 2)), np.zeros(0))


def test_sets_instead_of_rows_raise(tmp_path: Path) -> None:
    sets = dk.SampleSets.from_arrays(SETS)
    for X in (sets, dk.write_sets(tmp_path / "s.zarr", sets)):
        for fit in (lambda X: dk.IncrementalRidge().fit(X, LABELS), dk.RandomFourierFeatures(8).fit):
            with pytest.raises(
                ValueError, match=r"must be rows of features; got sample sets.*Put an embedding"
            ):
                fit(X)


@pytest.mark.parametrize(
    ("invalid_points", "message"),
    [
        (sp.csr_matrix(SETS[0]), r"must be dense; got a sparse csr_matrix\. Pass \.toarray"),
        (sp.coo_array(SETS[0]), r"must be dense; got a sparse coo_array"),
        (MISSING, r"got 1 missing values \(first: row 1\)\. Fill them"),
        (np.array([[1 + 2j, 0]]), "must contain real numbers; got dtype complex128"),
        (np.array([["a", "b"]]), "must contain real numbers; got dtype <U1"),
    ],
)
def test_invalid_points_raise(invalid_points: Any, message: str) -> None:
    calls: list[Any] = [
        lambda: dk.MomentEmbedding().fit([invalid_points, invalid_points]),
        lambda: dk.SampleSets(invalid_points, [0, invalid_points.shape[0]]),
        lambda: dk.kernel_distance(invalid_points, SETS[1], sigma=1.0),
        lambda: dk.kernel_distance(SETS[1], invalid_points, sigma=1.0),
        lambda: dk.coreset(invalid_points, 2, sigma=1.0),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


def test_nullable_integers_without_missing_values_are_valid() -> None:
    sets = dk.SampleSets.from_arrays([COMPLETE, COMPLETE])
    assert sets[0].tolist() == [[1, 1], [2, 2], [3, 3]]
    numbers = COMPLETE.to_numpy(float)
    assert dk.kernel_distance(COMPLETE, numbers, sigma=1.0) == dk.kernel_distance(numbers, numbers, sigma=1.0)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["predict", "s.zarr", "--model", "none.npz", "--output", "o.csv"], "no file none.npz. Check"),
        (["predict", "s.zarr", "--model", "o.npz", "--output", "o.csv"], "o.npz is not a model file"),
        (["fit", "cells.csv", "--target", "y", "--model", "m.npz"], "a store must be a directory; got the file "),
        (["info", "cells.csv"], "a store must be a directory; got the file "),
    ],
)  # fmt: skip
def test_commands_with_wrong_files_fail(
    argv: list[str], message: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    dk.write_sets("s.zarr", SETS, targets=LABELS)
    (tmp_path / "cells.csv").write_text("a,b\n1,2\n")
    np.savez(tmp_path / "o.npz", a=np.zeros(3))
    assert main(argv) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("learner", [dk.IncrementalRidge, dk.IncrementalRidgeClassifier])
def test_score_of_sparse_targets_raises(learner: Any) -> None:
    rows = np.array([x.mean(axis=0) for x in SETS])
    with pytest.raises(TypeError, match="Sparse data was passed for y"):
        learner().fit(rows, LABELS).score(rows, sp.csr_matrix(LABELS[:, None]))
