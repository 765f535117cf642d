"""Stores and checkpoints of an earlier version can be read, appended to and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

import dkdist as dk

from . import stored_files
from .collection_cases import contents
from .inputs import N_SETS, strings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stored_files.extract(tmp_path)
    return tmp_path


def require_equal(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(actual[key], value, err_msg=key)
        assert np.asarray(actual[key]).dtype.kind == np.asarray(value).dtype.kind, key


def test_read_store_of_sets(folder: Path) -> None:
    sets, expected = dk.open_sets(folder / "sets.zarr"), stored_files.labelled_sets()
    require_equal(contents(sets), contents(expected))
    assert {name: values.dtype for name, values in sets.targets.items() if values.dtype.kind != "U"} == {
        name: values.dtype for name, values in expected.targets.items() if values.dtype.kind != "U"
    }
    assert sets.verify().n_sets == N_SETS
    require_equal(contents(sets[[20, 3]]), contents(expected[[20, 3]]))


def test_append_to_store_of_sets(folder: Path) -> None:
    expected = stored_files.labelled_sets()
    first = expected[:3].labelled(ids=["new 0", "new 1", "new 2"])
    longer = dk.open_sets(folder / "sets.zarr").append(first)
    np.testing.assert_array_equal(longer[N_SETS:].load().points, expected[:3].points)
    assert longer.verify().n_sets == N_SETS + 3


def test_read_store_of_strings(folder: Path) -> None:
    words = dk.open_sets(folder / "words.zarr").load()
    assert words.strings() == list(strings())


def test_read_store_of_features(folder: Path) -> None:
    rows = dk.open_features(folder / "features.zarr")
    np.testing.assert_array_equal(rows.compute(), stored_files.features())


def test_resume_interrupted_features(folder: Path) -> None:
    """Only the last block is missing; the other blocks cannot be recomputed."""
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(InterruptedError):
            dk.write_features(folder / "new.zarr", stored_files.lazy_features(0))
        rows = dk.write_features(folder / "interrupted.zarr", stored_files.lazy_features(0))
    np.testing.assert_array_equal(rows.compute(), stored_files.features())


def test_resume_fit_from_a_checkpoint(folder: Path) -> None:
    """Bits of the compiled steps may differ between versions: 4 float32 operations in each of 6,000 steps."""
    expected = np.load(folder / stored_files.COEFFICIENTS)
    model = stored_files.learner(folder / "checkpoint").fit(*stored_files.training_rows())
    np.testing.assert_allclose(model.coef_, expected, rtol=0, atol=24_000 * 2.0**-24 * np.abs(expected).max())
    other_rows = stored_files.training_rows()[0] + 1
    with pytest.raises(ValueError, match="features"):
        stored_files.learner(folder / "checkpoint").fit(other_rows, stored_files.training_rows()[1])
