"""Sliced Wasserstein distance against SciPy, quantiles in NumPy and POT, and its properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.stats import wasserstein_distance

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
from dkdist.distances.sliced_wasserstein import SlicedWasserstein

LINE = np.ones((1, 1))


def directions(rng, L, d):
    U = rng.standard_normal((L, d))
    return U / np.linalg.norm(U, axis=1, keepdims=True)


def by_quantiles(U, p):
    """Integrate both quantile functions on a fine grid: exact if weights are multiples of its step."""

    def pair(x, a, y, b):
        total = 0.0
        for u in U:
            values = []
            for z, w in ((x @ u, a), (y @ u, b)):
                order = np.argsort(z)
                levels = (np.arange(27_720) + 0.5) / 27_720
                values.append(z[order][np.searchsorted(np.cumsum(w[order]), levels).clip(max=len(z) - 1)])
            total += np.mean(np.abs(values[0] - values[1]) ** p)
        return (total / len(U)) ** (1 / p)

    return pair


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scipy_in_one_dimension(weighted):
    rng = np.random.default_rng(0)
    omegas, objects = collection(rng, 20, 1, weighted), collection(rng, 5, 1, weighted)
    right = expected(lambda x, a, y, b: wasserstein_distance(x[:, 0], y[:, 0], a, b), omegas, objects)
    np.testing.assert_allclose(matrix(SlicedWasserstein(LINE, 1), omegas, objects), right, rtol=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_equals_the_distance_of_quantile_functions(p):
    rng = np.random.default_rng(p)
    U = directions(rng, 7, 3)
    omegas, objects = collection(rng, 12, 3, largest=12), collection(rng, 6, 3, largest=12)
    right = expected(by_quantiles(U, p), omegas, objects)
    np.testing.assert_allclose(matrix(SlicedWasserstein(U, p), omegas, objects), right, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1, 2])
def test_equals_pot(p, weighted):
    ot = pytest.importorskip("ot", reason="pip install 'dkdist[transport]'")
    rng = np.random.default_rng(p)
    U = directions(rng, 11, 4)
    omegas, objects = collection(rng, 9, 4, weighted), collection(rng, 5, 4, weighted)

    def pair(x, a, y, b):
        return ot.sliced_wasserstein_distance(x, y, a, b, projections=U.T, p=p)

    right = expected(pair, omegas, objects)
    np.testing.assert_allclose(matrix(SlicedWasserstein(U, p), omegas, objects), right, rtol=1e-6)


@pytest.mark.parametrize("p", [1, 2])
@given(seed=SEEDS)
def test_weights_count_as_repeated_points(p, seed):
    rng = np.random.default_rng(seed)
    distance = SlicedWasserstein(directions(rng, 5, 3), p)
    objects, objects_again = weighted_and_repeated(rng, *collection(rng, 4, 3)[:2])
    omegas, omegas_again = weighted_and_repeated(rng, *collection(rng, 7, 3)[:2])
    right = matrix(distance, omegas_again, objects_again)
    for pair in ((omegas, objects), (omegas_again, objects), (omegas, objects_again)):
        np.testing.assert_allclose(matrix(distance, *pair), right, rtol=1e-6)


@pytest.mark.parametrize("p", [1, 2])
@given(seed=SEEDS)
def test_entries_do_not_depend_on_other_rows_and_columns(p, seed):
    rng = np.random.default_rng(seed)
    d, weighted = int(rng.choice([1, 2, 5])), bool(rng.integers(2))
    distance = SlicedWasserstein(directions(rng, int(rng.integers(1, 20)), d), p)
    omegas, objects = collection(rng, 20, d, weighted, 9), collection(rng, 6, d, weighted, 30)
    assert_same_bits(distance, rng, omegas, objects)


@pytest.mark.parametrize("p", [1, 2])
@given(seed=SEEDS)
def test_it_is_a_metric(p, seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    distance = SlicedWasserstein(directions(rng, 6, d), p)
    sets = collection(rng, 8, d, bool(rng.integers(2)), largest=6)
    D = matrix(distance, sets, sets).astype(np.float64)
    np.testing.assert_allclose(D, D.T, rtol=1e-6)
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + 1e-6 * D.max()).all()
    again = matrix(distance, shuffle_points(rng, *sets), sets)
    # weighted levels are summed in another order
    np.testing.assert_allclose(again, D, rtol=1e-6, atol=1e-6)
    assert D.diagonal().max() == 0


@pytest.mark.parametrize("p", [1, 2])
def test_distances_are_translation_invariant(p):
    rng = np.random.default_rng(p)
    sets = stack([rng.integers(-8, 8, (n, 3)) / 8 for n in (1, 5, 9, 40)])
    far = ((sets[0] + 1e6).astype(np.float32), *sets[1:])
    distance = SlicedWasserstein(directions(rng, 9, 3), p)
    np.testing.assert_allclose(matrix(distance, far, far), matrix(distance, sets, sets), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("p", [1, 2])
def test_one_point_sets(p):
    x, y = stack([np.zeros((1, 1))]), stack([[[3.0]], [[0.0]], np.zeros((5, 1)), [[1.0], [-7.0]]])
    last = 4 if p == 1 else 5
    np.testing.assert_array_equal(matrix(SlicedWasserstein(LINE, p), y, x), [[3, 0, 0, last]])


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="p must be 1 or 2; got 3"):
        SlicedWasserstein(LINE, 3)
    with pytest.raises(ValueError, match=r"\(0, 2\)"):
        SlicedWasserstein(np.empty((0, 2)))
    for wrong in (0.0, 2.0, np.nan):
        with pytest.raises(ValueError, match=f"unit vectors; got length {wrong:g} for direction 1"):
            SlicedWasserstein(np.array([[0.6, 0.8], [wrong, 0.0]]))
    with pytest.raises(ValueError, match="2 dimensions, like the points; got 1"):
        SlicedWasserstein(LINE).prepare(*stack([np.zeros((3, 2))]))
