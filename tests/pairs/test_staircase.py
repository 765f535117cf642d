"""All pairs are cut so that each is made once, few beside those that are needed; and no bit depends on the cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dkdist as dk
from dkdist.distances.base import CostModel
from dkdist.pairwise_matrices.symmetric_tiling import MAX_TILE_SIDE, TileRange, split_at_diagonal, tile_matrix

ONE = CostModel(64, 1)
grains = st.builds(CostModel, st.sampled_from([1, 16, 64, 128, 390]), st.sampled_from([0, 0.1, 2, 25, 400]))
sizes = st.integers(1, 1500)


def times(shape, steps):
    output = np.zeros(shape, np.int64)
    for step in steps:
        assert 0 <= step.row_start < step.row_stop <= shape[0]
        assert 0 <= step.col_start < step.col_stop <= shape[1]
        output[step.row_start : step.row_stop, step.col_start : step.col_stop] += 1
    return output


@given(sizes, grains, st.integers(1, 9))
def test_of_a_symmetric_distance_every_pair_on_and_above_the_diagonal_is_in_one_tile(n, cost_model, tasks):
    pairs = tile_matrix(n, None, cost_model, True, tasks)
    upper = np.triu(np.ones((n, n), bool))
    assert (times((n, n), pairs.ranges)[upper] == 1).all()
    assert (
        times((n, n), [part for step in pairs.ranges for part in split_at_diagonal(step, cost_model)])[upper]
        == 1
    ).all()
    assert len(pairs.tiles) == pairs.n_tiles
    assert pairs.n_read == (sum(s.row_stop - s.row_start + s.col_stop - s.col_start for s in pairs.ranges), 0)


@given(sizes, st.one_of(st.none(), sizes), grains, st.integers(1, 9))
def test_of_others_every_pair_is_in_one_tile(n, m, cost_model, tasks):
    pairs = tile_matrix(n, m, cost_model, m is not None, tasks)
    assert pairs.shape == (n, m or n)
    assert (times(pairs.shape, pairs.ranges) == 1).all()


@pytest.mark.parametrize(
    "cost_model", [CostModel(1, 2), CostModel(64, 4), CostModel(128, 2), CostModel(32, 25)]
)
@pytest.mark.parametrize("n", [50, 100, 333, 512, 2000])
def test_little_is_made_beside_what_is_needed(n, cost_model):
    """Half, and at most a step of lanes, or of what is not worth halving, along the diagonal."""
    steps = [
        part
        for step in tile_matrix(n, None, cost_model, True, 8).ranges
        for part in split_at_diagonal(step, cost_model)
    ]
    output = sum(
        (s.row_stop - s.row_start)
        * -(-(s.col_stop - s.col_start) // cost_model.group_size)
        * cost_model.group_size
        for s in steps
    )
    beside = max(cost_model.group_size, 3 * cost_model.prepare_cost, 24)
    assert output <= n * (n + 1) / 2 + n * (beside + cost_model.group_size) / 2


def test_tasks_are_neither_larger_nor_more_than_asked_for():
    assert tile_matrix(100, None, ONE, True, 1).ranges == (TileRange(0, 100, 0, 100),)
    assert 8 <= tile_matrix(100, None, ONE, True, 8).n_tiles <= 10
    assert (
        max(s.row_stop - s.row_start for s in tile_matrix(9000, None, ONE, True, 8).ranges) <= MAX_TILE_SIDE
    )


@pytest.mark.parametrize(
    "distance", ["dtw", "twed", "energy", "modified-hausdorff", "wasserstein", "sliced-wasserstein"]
)
def test_no_bit_of_a_pair_depends_on_how_many_there_are(distance):
    """A pair's rows are the first of both: of a few, of many that are halved, and of many of two collections."""
    rng = np.random.default_rng(0)
    d = 1 if distance == "wasserstein" else 2
    sets = dk.SampleSets.from_arrays([rng.standard_normal((n, d)) for n in rng.integers(2, 40, 300)])
    many = dk.distance_matrix(sets, distance=distance, random_state=0)
    np.testing.assert_array_equal(many, many.T)
    for part in (slice(0, 3), slice(7, 90), slice(150, 300)):
        result = dk.distance_matrix(sets[part], distance=distance, random_state=0)
        np.testing.assert_array_equal(result, many[part, part])
    beside = dk.distance_matrix(sets[:70], sets[70:], distance=distance, random_state=0)
    np.testing.assert_array_equal(beside, many[:70, 70:])


@pytest.mark.parametrize(
    "distance", ["levenshtein", "osa", "jaro-winkler", dk.Levenshtein(insertion=2, deletion=2)]
)
def test_nor_of_strings(distance):
    rng = np.random.default_rng(1)
    texts = ["".join(rng.choice(list("abcd"), n)) for n in rng.integers(1, 90, 900)]
    many = dk.distance_matrix(texts, distance=distance)
    np.testing.assert_array_equal(many, many.T)
    np.testing.assert_array_equal(
        dk.distance_matrix(texts[350:410], distance=distance), many[350:410, 350:410]
    )


def test_a_function_is_called_once_for_every_pair():
    seen = []

    def apart(a, b):
        seen.append((a[0, 0], b[0, 0]))
        return abs(float(a[0, 0] - b[0, 0]))

    points = np.arange(40.0)
    result = dk.distance_matrix(points[:, None, None], distance=dk.pairwise(apart))
    np.testing.assert_array_equal(result, abs(points[:, None] - points))
    tried = 8**2  # which `distance_matrix` looks at first
    assert sorted(seen[tried:]) == [(a, b) for a in points for b in points if a <= b]


def test_of_a_distance_that_depends_on_the_direction_both_are_made():
    rng = np.random.default_rng(2)
    texts = ["".join(rng.choice(list("ab"), n)) for n in rng.integers(1, 30, 200)]
    one_way = dk.Levenshtein(insertion=1, deletion=2)
    result = dk.distance_matrix(texts, distance=one_way)
    np.testing.assert_array_equal(result, dk.distance_matrix(texts, texts, distance=one_way))
    assert (result != result.T).any()
