"""Explanations of models with named dimensions, by dimension and at points, do not warn."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk


@pytest.fixture(scope="module")
def named():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    arrays = [rng.normal(0, 1 + c, (20, 2)) for c in y]
    return dk.SampleSets.from_arrays(arrays, names=["cd3", "cd4"]), y


def test_stored_background_has_names(named):
    sets, y = named
    model = dk.SetClassifier(["moments"], random_state=0).fit(sets, y)
    assert model.background_.names == ("cd3", "cd4")
    unnamed = dk.SetClassifier(["moments"], random_state=0).fit(list(sets), y)
    result = model.explain(sets[:2], by="dimension", random_state=0)
    np.testing.assert_array_equal(result, unnamed.explain(list(sets[:2]), by="dimension", random_state=0))


def test_explain_at_points_of_named_sets(named):
    sets, y = named
    model = dk.SetClassifier(["moments"], random_state=0).fit(sets, y)
    unnamed = dk.SetClassifier(["moments"], random_state=0).fit(list(sets), y)
    points = [[0.0, 1.0], [2.0, 3.0]]
    np.testing.assert_array_equal(
        model.explain(sets[:2], at=points), unnamed.explain(list(sets[:2]), at=points)
    )
