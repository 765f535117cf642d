"""Registered distances are available by name."""

import numpy as np
import pytest

import dkdist as dk
from dkdist.distances.distance_embedding_params import DISTANCE_FACTORIES

SETS = [np.full((n, 1), float(n)) for n in (1, 2, 4)]


def gap(x, y):
    return abs(float(x.mean()) - float(y.mean()))


@pytest.fixture(autouse=True)
def registered():
    dk.register_distance("gap", dk.pairwise(gap))
    yield
    del DISTANCE_FACTORIES["gap"]


def test_matrices_and_embeddings_know_the_name():
    expected = [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    np.testing.assert_array_equal(dk.distance_matrix(SETS, distance="gap"), expected)
    assert dk.DistanceEmbedding("gap", n_components=3, random_state=0).fit_transform(SETS).shape == (3, 3)


def test_a_name_in_use_is_refused():
    dk.register_distance("gap", dk.pairwise(gap))  # registering the same distance again is allowed
    with pytest.raises(ValueError, match="name must be new; got 'gap'"):
        dk.register_distance("gap", dk.pairwise(max))
    with pytest.raises(ValueError, match="name must be a nonempty string; got None"):
        dk.register_distance(None, dk.pairwise(gap))
    with pytest.raises(ValueError, match=r"distance must be a name .* Pass pairwise\(function\)"):
        dk.register_distance("other", gap)
    with pytest.raises(ValueError, match="distance must be an object; got the name 'dtw'"):
        dk.register_distance("other", "dtw")
    with pytest.raises(ValueError, match="name must be new; got 'dtw'"):
        dk.register_distance("dtw", dk.pairwise(gap))
