"""Tiling of all pairs: each pair is computed once, with little extra work, and results do not depend on the tiling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dkdist as dk
from dkdist.distances.base import CostModel
from dkdist.pairwise_matrices.symmetric_tiling import MAX_TILE_SIDE, TileRange, split_at_diagonal, tile_matrix

ONE = CostModel(64, 1)
cost_models = st.builds(
    CostModel, st.sampled_from([1, 16, 64, 128, 390]), st.sampled_from([0, 0.1, 2, 25, 400])
)
sizes = st.integers(1, 1500)


def coverage_counts(shape, tiles):
    n_computed = np.zeros(shape, np.int64)
    for tile in tiles:
        assert 0 <= tile.row_start < tile.row_stop <= shape[0]
        assert 0 <= tile.col_start < tile.col_stop <= shape[1]
        n_computed[tile.row_start : tile.row_stop, tile.col_start : tile.col_stop] += 1
    return n_computed


@given(sizes, cost_models, st.integers(1, 9))
def test_symmetric_tiling_covers_the_upper_triangle_once(n, cost_model, tasks):
    pairs = tile_matrix(n, None, cost_model, True, tasks)
    upper = np.triu(np.ones((n, n), bool))
    assert (coverage_counts((n, n), pairs.ranges)[upper] == 1).all()
    assert (
        coverage_counts(
            (n, n), [part for tile in pairs.ranges for part in split_at_diagonal(tile, cost_model)]
        )[upper]
        == 1
    ).all()
    assert len(pairs.tiles) == pairs.n_tiles
    assert pairs.n_read == (sum(s.row_stop - s.row_start + s.col_stop - s.col_start for s in pairs.ranges), 0)


@given(sizes, st.one_of(st.none(), sizes), cost_models, st.integers(1, 9))
def test_tiling_covers_all_pairs_once(n, m, cost_model, tasks):
    pairs = tile_matrix(n, m, cost_model, m is not None, tasks)
    assert pairs.shape == (n, m or n)
    assert (coverage_counts(pairs.shape, pairs.ranges) == 1).all()


@pytest.mark.parametrize(
    "cost_model", [CostModel(1, 2), CostModel(64, 4), CostModel(128, 2), CostModel(32, 25)]
)
@pytest.mark.parametrize("n", [50, 100, 333, 512, 2000])
def test_symmetric_tiling_has_little_extra_work(n, cost_model):
    """The work is half the matrix and a band along the diagonal: one SIMD group, or tiles too small to halve."""
    tiles = [
        part
        for tile in tile_matrix(n, None, cost_model, True, 8).ranges
        for part in split_at_diagonal(tile, cost_model)
    ]
    n_computed = sum(
        (s.row_stop - s.row_start)
        * -(-(s.col_stop - s.col_start) // cost_model.group_size)
        * cost_model.group_size
        for s in tiles
    )
    extra_per_row = max(cost_model.group_size, 3 * cost_model.prepare_cost, 24)
    assert n_computed <= n * (n + 1) / 2 + n * (extra_per_row + cost_model.group_size) / 2


def test_number_and_size_of_tiles_are_limited():
    assert tile_matrix(100, None, ONE, True, 1).ranges == (TileRange(0, 100, 0, 100),)
    assert 8 <= tile_matrix(100, None, ONE, True, 8).n_tiles <= 10
    assert (
        max(s.row_stop - s.row_start for s in tile_matrix(9000, None, ONE, True, 8).ranges) <= MAX_TILE_SIDE
    )


@pytest.mark.parametrize(
    "distance", ["dtw", "twed", "energy", "modified-hausdorff", "wasserstein", "sliced-wasserstein"]
)
def test_values_do_not_depend_on_the_number_of_pairs(distance):
    """Compare submatrices of few sets, of many sets, and of two collections."""
    rng = np.random.default_rng(0)
    d = 1 if distance == "wasserstein" else 2
    sets = dk.SampleSets.from_arrays([rng.standard_normal((n, d)) for n in rng.integers(2, 40, 300)])
    full_matrix = dk.distance_matrix(sets, distance=distance, random_state=0)
    np.testing.assert_array_equal(full_matrix, full_matrix.T)
    for part in (slice(0, 3), slice(7, 90), slice(150, 300)):
        result = dk.distance_matrix(sets[part], distance=distance, random_state=0)
        np.testing.assert_array_equal(result, full_matrix[part, part])
    cross = dk.distance_matrix(sets[:70], sets[70:], distance=distance, random_state=0)
    np.testing.assert_array_equal(cross, full_matrix[:70, 70:])


@pytest.mark.parametrize(
    "distance", ["levenshtein", "osa", "jaro-winkler", dk.Levenshtein(insertion=2, deletion=2)]
)
def test_values_of_strings_do_not_depend_on_the_number_of_pairs(distance):
    rng = np.random.default_rng(1)
    texts = ["".join(rng.choice(list("abcd"), n)) for n in rng.integers(1, 90, 900)]
    full_matrix = dk.distance_matrix(texts, distance=distance)
    np.testing.assert_array_equal(full_matrix, full_matrix.T)
    np.testing.assert_array_equal(
        dk.distance_matrix(texts[350:410], distance=distance), full_matrix[350:410, 350:410]
    )


def test_user_function_is_called_once_per_pair():
    calls = []

    def distance(a, b):
        calls.append((a[0, 0], b[0, 0]))
        return abs(float(a[0, 0] - b[0, 0]))

    points = np.arange(40.0)
    result = dk.distance_matrix(points[:, None, None], distance=dk.pairwise(distance))
    np.testing.assert_array_equal(result, abs(points[:, None] - points))
    n_validation_calls = 8**2  # `distance_matrix` validates the function first
    assert sorted(calls[n_validation_calls:]) == [(a, b) for a in points for b in points if a <= b]


def test_asymmetric_distance_computes_both_directions():
    rng = np.random.default_rng(2)
    texts = ["".join(rng.choice(list("ab"), n)) for n in rng.integers(1, 30, 200)]
    asymmetric = dk.Levenshtein(insertion=1, deletion=2)
    result = dk.distance_matrix(texts, distance=asymmetric)
    np.testing.assert_array_equal(result, dk.distance_matrix(texts, texts, distance=asymmetric))
    assert (result != result.T).any()
