"""Hausdorff and Chamfer distances against SciPy, and their properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.spatial.distance import cdist, directed_hausdorff

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
from dkdist.distances.hausdorff import Chamfer, DirectedModifiedHausdorff, Hausdorff, ModifiedHausdorff

WEIGHTED = [ModifiedHausdorff(), DirectedModifiedHausdorff(), Chamfer(), Chamfer(squared=False)]
ALL = [*WEIGHTED, Hausdorff()]


def directed(x, a, y, b, ground="euclidean"):
    D = cdist(x, y, ground)
    return D.min(axis=1) @ a, D.min(axis=0) @ b


ORACLES = {
    ModifiedHausdorff(): lambda *pair: max(directed(*pair)),
    Chamfer(): lambda *pair: sum(directed(*pair, "sqeuclidean")),
    Chamfer(squared=False): lambda *pair: sum(directed(*pair)),
    Hausdorff(): lambda x, a, y, b: max(directed_hausdorff(x, y)[0], directed_hausdorff(y, x)[0]),
}


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 128])
@pytest.mark.parametrize("distance", ORACLES, ids=repr)
def test_equals_scipy(distance, d):
    rng = np.random.default_rng(d)
    for weighted in (False, True)[: 1 + distance.takes_weights]:
        omegas, objects = collection(rng, 70, d, weighted), collection(rng, 5, d, weighted, largest=70)
        result, right = matrix(distance, omegas, objects), expected(ORACLES[distance], omegas, objects)
        np.testing.assert_allclose(result, right, rtol=1e-6)


def test_directed_means_are_two_features():
    rng = np.random.default_rng(0)
    omegas, objects = collection(rng, 66, 3, True), collection(rng, 4, 3, True)
    parts = matrix(DirectedModifiedHausdorff(), omegas, objects)
    for k in range(2):
        right = expected(lambda *pair, k=k: directed(*pair)[k], omegas, objects)
        np.testing.assert_allclose(parts[:, 66 * k : 66 * (k + 1)], right, rtol=1e-6)


def test_each_mean_is_over_its_own_set():
    """For sizes 1 and 3 the distance would be 6 or 2/3 with M and N of the paper swapped."""
    one, three = np.array([[0.0]]), np.array([[1.0], [2.0], [3.0]])
    assert matrix(ModifiedHausdorff(), stack([three]), stack([one])) == 2.0
    parts = matrix(DirectedModifiedHausdorff(), stack([three]), stack([one]))
    np.testing.assert_array_equal(parts, [[1.0, 2.0]])


@pytest.mark.parametrize("distance", ALL, ids=repr)
@given(seed=SEEDS)
def test_entries_do_not_depend_on_other_rows_and_columns(distance, seed):
    rng = np.random.default_rng(seed)
    d, weighted = int(rng.choice([1, 2, 3, 5, 33])), bool(rng.integers(2)) and distance.takes_weights
    omegas, objects = collection(rng, 140, d, weighted, 9), collection(rng, 6, d, weighted, 70)
    assert_same_bits(distance, rng, omegas, objects)


@pytest.mark.parametrize("distance", ALL, ids=repr)
@given(seed=SEEDS)
def test_symmetry_and_zero_only_for_equal_sets(distance, seed):
    rng = np.random.default_rng(seed)
    sets = collection(rng, 5, int(rng.integers(1, 12)))
    D = matrix(distance, sets, sets)
    mirrored = np.concatenate([D[:, 5:].T, D[:, :5].T], axis=1) if distance.n_parts == 2 else D.T
    np.testing.assert_allclose(mirrored, D, rtol=1e-6)
    other = shuffle_points(rng, *sets)
    np.testing.assert_allclose(matrix(distance, other, sets), D, rtol=1e-6)
    for k in range(distance.n_parts):  # zero exactly for sets of the same points
        part = matrix(distance, other, sets)[:, 5 * k : 5 * (k + 1)]
        np.testing.assert_array_equal(part == 0, np.eye(5, dtype=bool))


@given(seed=SEEDS)
def test_hausdorff_is_a_metric(seed):
    D = matrix(Hausdorff(), *[collection(np.random.default_rng(seed), 12, 2, largest=6)] * 2).astype(
        np.float64
    )
    assert (D[:, None, :] <= (D[:, :, None] + D[None, :, :]) * (1 + 1e-6)).all()


@pytest.mark.parametrize("distance", WEIGHTED, ids=repr)
@given(seed=SEEDS)
def test_weights_count_as_repeated_points(distance, seed):
    rng = np.random.default_rng(seed)
    objects, objects_again = weighted_and_repeated(rng, *collection(rng, 4, 3)[:2])
    omegas, omegas_again = weighted_and_repeated(rng, *collection(rng, 7, 3)[:2])
    np.testing.assert_allclose(
        matrix(distance, omegas, objects), matrix(distance, omegas_again, objects_again), rtol=1e-6
    )


def test_hausdorff_refuses_weights():
    sets = collection(np.random.default_rng(0), 3, 2)
    weights = np.ones(len(sets[0]), np.float32)
    with pytest.raises(ValueError, match="does not use weights"):
        Hausdorff().prepare(*sets[:2], weights)
    with pytest.raises(ValueError, match="does not use weights"):
        Hausdorff().fill(Hausdorff().prepare(*sets), *sets[:2], weights, np.empty((3, 3), np.float32))


@pytest.mark.parametrize("d", [2, 128])
@pytest.mark.parametrize("distance", ORACLES, ids=repr)
def test_accurate_far_from_the_origin_and_for_near_points(distance, d):
    rng = np.random.default_rng(d)
    x = (rng.integers(-8, 8, (9, d)) / 8 + 1e6).astype(np.float32)  # 2^-4 is float32's step there
    sets = stack([x, x + np.float32(0.0625), x[::-1], x[:3]])
    D, right = matrix(distance, sets, sets), expected(ORACLES[distance], sets, sets)
    np.testing.assert_allclose(D, right, rtol=1e-6)
    assert D[0, 0] == D[0, 2] == 0 < D[0, 1]
    y = rng.standard_normal((9, d)).astype(np.float32)
    near = stack([y, np.nextafter(y, np.float32(9))])
    np.testing.assert_allclose(
        matrix(distance, near, near), expected(ORACLES[distance], near, near), rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("distance", ALL, ids=repr)
def test_one_point_sets(distance):
    omegas, objects = stack([np.zeros((1, 2)), np.full((1, 2), 3.0)]), stack([np.array([[3.0, 4.0]])])
    factor = {Chamfer(): 50, Chamfer(squared=False): 10}.get(distance, 5)
    other = {Chamfer(): 2, Chamfer(squared=False): 2}.get(distance, 1)
    np.testing.assert_array_equal(matrix(distance, omegas, objects), [[factor, other] * distance.n_parts])
