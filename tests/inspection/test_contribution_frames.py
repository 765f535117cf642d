"""Data frames of contributions: rows in the order of points, and columns that join to the frame of points."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import dkdist as dk

RNG = np.random.default_rng(0)
IDS = np.array([f"donor {i}" for i in range(30)])
ARRAYS = [RNG.normal(i % 3, 1, (5 + i % 4, 2)) for i in range(30)]
SETS = dk.SampleSets.from_arrays(ARRAYS).labelled(IDS, ["cd3", "cd4"])
CLASSES = np.array(["a", "b", "c"])[np.arange(30) % 3]


@pytest.fixture(scope="module")
def model() -> dk.SetClassifier:
    return dk.SetClassifier(["means"], random_state=0).fit(SETS, CLASSES)


def test_contributions_join_to_the_frame_of_points(model: dk.SetClassifier) -> None:
    shuffled = pd.DataFrame(np.concatenate(ARRAYS), columns=["cd3", "cd4"])
    shuffled["donor"] = np.repeat(IDS, SETS.sizes)
    shuffled = shuffled.sample(frac=1, random_state=0).reset_index(drop=True)
    shuffled["point"] = shuffled.groupby("donor").cumcount()
    sets = dk.SampleSets.from_frame(shuffled.drop(columns="point"), set_id="donor")
    frame = model.explain(sets, as_frame=True)
    assert list(frame) == ["set", "point", *(f"contribution_{c}" for c in "abc")]
    joined = shuffled.merge(frame, left_on=["donor", "point"], right_on=["set", "point"], validate="1:1")
    assert len(joined) == len(shuffled)
    expected = model.explain(sets)
    for name, x, c in zip(sets.ids, sets, expected, strict=True):
        rows_of_set = joined[joined.set == name].sort_values("point")
        np.testing.assert_allclose(rows_of_set[["cd3", "cd4"]], x, rtol=1e-6)
        np.testing.assert_array_equal(rows_of_set[[f"contribution_{k}" for k in "abc"]], c)


def test_frames_of_stores_and_sets_without_ids(model: dk.SetClassifier, tmp_path: Path) -> None:
    dk.write_sets(tmp_path / "s.zarr", SETS)
    frame = model.explain(SETS[:8], as_frame=True)
    store = dk.open_sets(tmp_path / "s.zarr", block_sets=3)
    pd.testing.assert_frame_equal(model.explain(store[:8], as_frame=True), frame)
    named = dk.SampleSets.from_arrays(ARRAYS[:8]).labelled(names=["cd3", "cd4"])
    without_ids = model.explain(named, as_frame=True)
    assert without_ids["set"].tolist() == np.repeat(np.arange(8), SETS.sizes[:8]).tolist()
    pd.testing.assert_frame_equal(without_ids.drop(columns="set"), frame.drop(columns="set"))


def test_frames_of_dimensions_and_points(model: dk.SetClassifier) -> None:
    frame = model.explain(SETS[:4], by="dimension", as_frame=True)
    assert frame.dimension.tolist() == ["cd3", "cd4"] * 4
    assert frame["set"].tolist() == np.repeat(IDS[:4], 2).tolist()
    expected = model.explain(SETS[:4], by="dimension")
    np.testing.assert_array_equal(frame.contribution_b, expected[:, :, 1].ravel())
    influences = model.explain(SETS[:4], at=[[0.0, 0], [1, 1], [2, 2]], as_frame=True)
    assert list(influences) == ["set", "place", *(f"influence_{c}" for c in "abc")]
    assert influences.place.tolist() == [0, 1, 2] * 4


def test_frames_of_pipelines_and_several_outputs() -> None:
    y = np.arange(30) % 2
    pipeline = make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidge(random_state=0)).fit(SETS, y)
    frame = dk.explain(pipeline, SETS[:3], as_frame=True)
    assert list(frame) == ["set", "point", "contribution"]
    np.testing.assert_array_equal(frame.contribution, np.concatenate(dk.explain(pipeline, SETS[:3])))
    classifier = make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidgeClassifier(random_state=0)).fit(
        SETS, CLASSES
    )
    assert list(dk.explain(classifier, SETS[:3], as_frame=True))[2:] == [f"contribution_{c}" for c in "abc"]
    regressor = dk.SetRegressor(["means"], random_state=0).fit(ARRAYS, np.column_stack([y, -y]).astype(float))
    assert list(dk.explain(regressor, ARRAYS[:3], as_frame=True))[2:] == ["contribution_0", "contribution_1"]
    assert dk.explain(regressor, ARRAYS[:3], by="dimension", as_frame=True).dimension.tolist() == [0, 1] * 3


def test_invalid_as_frame_and_missing_pandas_raise(
    model: dk.SetClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises((TypeError, ValueError), match="as_frame"):
        model.explain(SETS[:2], as_frame="yes")
    find_spec = importlib.util.find_spec

    def find_spec_without_pandas(name: str, *args: Any) -> Any:
        return None if name == "pandas" else find_spec(name, *args)

    monkeypatch.setattr("dkdist.pairwise_matrices.matrix_frames.find_spec", find_spec_without_pandas)
    with pytest.raises(ImportError, match=r"dkdist\[frames\]"):
        model.explain(SETS[:2], as_frame=True)
