"""A model that knows the names of the dimensions explains by dimension and at places, and warns of nothing."""

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


def test_the_kept_background_has_the_names(named):
    sets, y = named
    model = dk.SetClassifier(["moments"], random_state=0).fit(sets, y)
    assert model.background_.names == ("cd3", "cd4")
    bare = dk.SetClassifier(["moments"], random_state=0).fit(list(sets), y)
    result = model.explain(sets[:2], by="dimension", random_state=0)
    np.testing.assert_array_equal(result, bare.explain(list(sets[:2]), by="dimension", random_state=0))


def test_places_have_the_dimensions_of_the_sets(named):
    sets, y = named
    model = dk.SetClassifier(["moments"], random_state=0).fit(sets, y)
    bare = dk.SetClassifier(["moments"], random_state=0).fit(list(sets), y)
    places = [[0.0, 1.0], [2.0, 3.0]]
    np.testing.assert_array_equal(model.explain(sets[:2], at=places), bare.explain(list(sets[:2]), at=places))
