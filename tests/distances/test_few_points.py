"""Fast path for few plain points: values, errors and warnings equal those of the general path, bit for bit."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings

import dkdist as dk
from dkdist.distances import base as distance_module
from dkdist.distances.base import small_sample_sets
from dkdist.pairwise_matrices import distance_matrix as few_plain_sets
from dkdist.sets.conversion import as_sample_sets
from tests.distances.set_laws import SEEDS

DISTANCES = (
    dk.DynamicTimeWarping(root=True),
    dk.DynamicTimeWarping("euclidean", band=0.1, normalize=True),
    dk.ERP(gap=0.5),
    dk.TWED(),
    dk.MSM(),
    dk.SoftDTW(),
    dk.GlobalAlignment(),
    dk.Hausdorff(),
    dk.ModifiedHausdorff(),
    dk.DirectedModifiedHausdorff(),
    dk.Chamfer(),
    dk.Energy(),
    dk.Wasserstein(),
    dk.Levenshtein(),
    dk.pairwise(lambda a, b: abs(a.sum() - b.sum())),
    "dtw",
    "energy",
)


def outcome(call):
    """Return the bytes of the result or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as message:
        warnings.simplefilter("always")
        try:
            result = np.asarray(call()).tobytes()
        except Exception as error:
            result = type(error), str(error), getattr(error, "__notes__", None)
    return result, [str(warning.message) for warning in message]


@contextmanager
def without_fast_path():
    """Disable the fast path for few plain points."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (distance_module, few_plain_sets):
            patch.setattr(module, "small_sample_sets", lambda arrays: None)
        yield


def outcome_without_fast_path(call):
    """Return the outcome of the general path."""
    with without_fast_path():
        return outcome(call)


def draw_arrays(rng):
    """Return some arrays that may or may not be eligible for the fast path."""
    d, n_sets = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    scale, shift = (
        rng.choice([1e-16, 1e-15, 1e-9, 1, 300, 1e14, 1e15, 1e17]),
        rng.choice([0, 0, 1, 50, 1e5, 1e9]),
    )
    arrays = []
    for _ in range(n_sets):
        x = rng.standard_normal((int(rng.integers(1, 30)), d)) * scale + shift * scale
        kind = rng.integers(0, 12)
        if kind == 0:
            x = np.rint(x / scale) * scale
        elif kind == 1:
            x[:] = x[:1]
        elif kind == 2:
            x = np.repeat(x, 2, axis=0) * (1 + 1e-12 * rng.standard_normal((2 * len(x), d)))
        elif kind == 3:
            x[rng.integers(len(x)), rng.integers(d)] = rng.choice([np.nan, np.inf, -np.inf, 1e300, 0, 1e-300])
        elif kind == 4:
            x = np.asfortranarray(np.exp(np.clip(x, -700, 700)))
        elif kind == 5:
            x = x[:, : int(rng.integers(0, d + 1))]
        elif kind == 6:
            x = x[: int(rng.integers(0, 2))]
        with np.errstate(over="ignore"):
            arrays.append(x.astype(rng.choice(["f8", "f8", "f8", "f4"])))
    return arrays


@given(SEEDS)
@settings(max_examples=300, deadline=None)
def test_fast_path_builds_the_same_sets_as_the_general_path(seed):
    arrays = draw_arrays(np.random.default_rng(seed))
    few = small_sample_sets(arrays)
    if few is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sets = as_sample_sets(arrays)
        assert few.relative.dtype == sets.relative.dtype
        assert few.relative.tobytes() == sets.relative.tobytes()
        assert few.offsets.tolist() == sets.offsets.tolist()
        assert not few.origin.any()
        assert not sets.origin.any()


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_fast_and_general_path_have_the_same_values_and_errors(seed):
    rng = np.random.default_rng(seed)
    arrays, distance = draw_arrays(rng), DISTANCES[rng.integers(len(DISTANCES))]
    other = draw_arrays(rng) if rng.integers(2) else None

    def matrix():
        return dk.distance_matrix(arrays, other, distance)

    assert outcome(matrix) == outcome_without_fast_path(matrix)
    if not isinstance(distance, str):

        def pair():
            return distance(arrays[0], arrays[-1])

        assert outcome(pair) == outcome_without_fast_path(pair)


@pytest.mark.parametrize("distance", DISTANCES[:13], ids=lambda distance: type(distance).__name__)
def test_typical_points_take_the_fast_path(distance):
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((200, 1)), axis=0)
    usual = [
        walk,
        rng.standard_normal((3, 2)),
        np.ones((4, 1)),
        np.array([[0.0], [1.0]]),
        walk.astype("f4") + 50,
    ]
    for x in usual:
        assert small_sample_sets([x, x]) is not None

        def both(x=x):
            return dk.distance_matrix([x[1:], x], distance=distance), distance(x[1:], x)

        if distance.n_parts == 1:
            matrix, pair = both()
            assert matrix[0, 1] == pair
            with without_fast_path():
                ordinary_matrix, ordinary_pair = both()
            np.testing.assert_array_equal(matrix, ordinary_matrix)
            assert pair == ordinary_pair


@pytest.mark.parametrize("distance", DISTANCES[:13], ids=lambda distance: type(distance).__name__)
def test_fast_path_for_one_tile_equals_the_general_path(distance):
    """More points than the limit, computed at once because the matrix is a single tile."""
    walk = np.cumsum(np.random.default_rng(1).standard_normal((100, 1)), axis=0)
    sets = [(k + 1) * walk[k:] for k in range(6)]
    for other in (None, sets[:2]):

        def matrix(other=other):
            return dk.distance_matrix(sets, other, distance)

        assert outcome(matrix) == outcome_without_fast_path(matrix)
    if isinstance(distance, dk.DynamicTimeWarping):
        assert few_plain_sets.small_point_matrix(distance, sets, None) is not None


@pytest.mark.parametrize(
    "arrays",
    [
        [],
        ["text"],
        [[[0.0], [1.0]]],
        [np.zeros(3)],
        [np.zeros((0, 1))],
        [np.zeros((2, 0))],
        [np.zeros((2, 1)), np.zeros((2, 2))],
        [np.zeros((2, 1), np.int64)],
        [np.ma.zeros((2, 1))],
        [np.zeros((2000, 1))],
        [np.zeros((2, 100))],
        [np.array([[0.0], [np.nan]])],
        [np.array([[0.0], [-np.inf]])],
        [np.array([[0.0], [1e15]])],
        [np.array([[0.0], [1e-15]])],
        [np.array([[1.0], [1 + 2.0**-20]])],
        [np.random.default_rng(0).standard_normal((100, 1)) + 1e3],
        [np.array([[0.1], [0.1 + 1e-12], [0.3], [0.7]])],
    ],
)
def test_unusual_input_leaves_the_fast_path(arrays):
    assert small_sample_sets(arrays) is None
