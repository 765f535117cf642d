"""Energy distance against SciPy in one and several dimensions, and its properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.spatial.distance import cdist
from scipy.stats import energy_distance

from distances.set_laws import (
    SEEDS,
    assert_same_bits,
    collection,
    expected,
    matrix,
    shuffle_points,
    stack,
    weighted_and_repeated,
)
from dkdist.distances.energy import Energy


def squared_energy(x, a, y, b):
    return 2 * a @ cdist(x, y) @ b - a @ cdist(x, x) @ a - b @ cdist(y, y) @ b


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_equals_the_definition_with_scipy_distances(d, weighted):
    rng = np.random.default_rng(d)
    omegas, objects = collection(rng, 70, d, weighted), collection(rng, 5, d, weighted, largest=150)
    D2, right = matrix(Energy(squared=True), omegas, objects), expected(squared_energy, omegas, objects)
    np.testing.assert_allclose(D2, right, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(matrix(Energy(), omegas, objects), np.sqrt(right), rtol=1e-5)


def test_in_one_dimension_it_equals_scipy_energy_distance():
    rng = np.random.default_rng(0)
    omegas, objects = collection(rng, 9, 1, True), collection(rng, 5, 1, True)
    right = expected(lambda x, a, y, b: energy_distance(x[:, 0], y[:, 0], a, b), omegas, objects)
    np.testing.assert_allclose(matrix(Energy(), omegas, objects), right, rtol=1e-6)


@given(seed=SEEDS)
def test_points_on_a_line_in_the_plane_have_the_one_dimensional_distance(seed):
    """The points of the plane have two equal coordinates."""
    rng = np.random.default_rng(seed)
    points, offsets, weights = collection(rng, 6, 1, bool(rng.integers(2)))
    plane = np.repeat(points / 8, 2, axis=1)
    result = matrix(Energy(squared=True), *[(plane, offsets, weights)] * 2)
    line = matrix(Energy(squared=True), *[(points, offsets, weights)] * 2)
    np.testing.assert_allclose(result, line * np.sqrt(2) / 8, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("distance", [Energy(), Energy(squared=True)], ids=repr)
@given(seed=SEEDS)
def test_entries_do_not_depend_on_other_rows_and_columns(distance, seed):
    rng = np.random.default_rng(seed)
    d, weighted = int(rng.choice([1, 2, 3, 5])), bool(rng.integers(2))
    omegas, objects = collection(rng, 140, d, weighted, 9), collection(rng, 6, d, weighted, 70)
    assert_same_bits(distance, rng, omegas, objects)


@given(seed=SEEDS)
def test_it_is_a_metric(seed):
    rng = np.random.default_rng(seed)
    sets = collection(rng, 8, int(rng.integers(1, 5)), bool(rng.integers(2)), largest=6)
    D = matrix(Energy(), sets, sets).astype(np.float64)
    np.testing.assert_allclose(D, D.T, rtol=1e-6, atol=1e-7)
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + 1e-6 * D.max()).all()
    again = matrix(Energy(), shuffle_points(rng, *sets), sets)
    np.testing.assert_allclose(again, D, rtol=1e-6, atol=1e-7)
    off = ~np.eye(8, dtype=bool)
    assert again.diagonal().max() < 1e-6 < again[off].min()


@pytest.mark.parametrize("d", [1, 3])
@given(seed=SEEDS)
def test_weights_count_as_repeated_points(d, seed):
    rng = np.random.default_rng(seed)
    objects, objects_again = weighted_and_repeated(rng, *collection(rng, 4, d)[:2])
    omegas, omegas_again = weighted_and_repeated(rng, *collection(rng, 7, d)[:2])
    result, right = matrix(Energy(), omegas, objects), matrix(Energy(), omegas_again, objects_again)
    np.testing.assert_allclose(result, right, rtol=1e-6)


@pytest.mark.parametrize("d", [1, 2, 20])
def test_distances_are_translation_invariant(d):
    rng = np.random.default_rng(d)
    sets = stack([rng.integers(-8, 8, (n, d)) / 8 for n in (1, 5, 9, 40)])
    far = ((sets[0] + 1e6).astype(np.float32), *sets[1:])
    np.testing.assert_array_equal(matrix(Energy(), far, far), matrix(Energy(), sets, sets))


@pytest.mark.parametrize("d", [1, 2])
def test_one_point_sets(d):
    x, y = stack([np.zeros((1, d))]), stack([np.full((1, d), 3.0), np.zeros((1, d)), np.zeros((5, d))])
    np.testing.assert_allclose(matrix(Energy(squared=True), y, x), [[6 * np.sqrt(d), 0, 0]], rtol=1e-6)
