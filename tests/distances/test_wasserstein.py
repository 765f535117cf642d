"""Exact Wasserstein distance against SciPy's assignment and one-dimensional distance, and its properties."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

from distances.set_laws import (
    assert_same_bits,
    collection,
    expected,
    matrix,
    shuffle_points,
    stack,
    weighted_and_repeated,
)
from dkdist import SampleSetError, distance_matrix
from dkdist.distances import wasserstein
from dkdist.distances.wasserstein import Wasserstein


@pytest.fixture
def _pot():
    pytest.importorskip("ot", reason="pip install 'dkdist[transport]'")


def by_assignment(p):
    """Solve an assignment of points repeated to the least common multiple of both sizes (equal weights)."""

    def pair(x, a, y, b):
        n = np.lcm(len(x), len(y))
        C = cdist(np.repeat(x, n // len(x), axis=0), np.repeat(y, n // len(y), axis=0)) ** p
        return C[linear_sum_assignment(C)].mean() ** (1 / p)

    return pair


def assert_equals_assignment(p, d):
    rng = np.random.default_rng(p)
    omegas, objects = collection(rng, 9, d, largest=9), collection(rng, 5, d, largest=9)
    right = expected(by_assignment(p), omegas, objects)
    np.testing.assert_allclose(matrix(Wasserstein(p), omegas, objects), right, rtol=1e-6)


@pytest.mark.usefixtures("_pot")
@pytest.mark.parametrize("p", [1, 2])
def test_equals_assignment(p):
    assert_equals_assignment(p, 3)


@pytest.mark.usefixtures("_pot")
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("unit", [1e-12, 1e-8, 1e-6, 1e12])
def test_scaled_points_equal_assignment(p, unit):
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(n, 2)) for n in (30, 40, 50)]
    scaled = [np.asarray(s * unit, np.float32).astype(np.float64) for s in sets]
    right = [[by_assignment(p)(x, None, y, None) for y in scaled] for x in scaled]
    np.testing.assert_allclose(distance_matrix(scaled, distance=Wasserstein(p)), right, rtol=1e-6)


@pytest.mark.usefixtures("_pot")
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("far", [1e4, 1e6, 1e8])
def test_shared_outliers_keep_accuracy(p, far):
    rng = np.random.default_rng(0)
    x, y, z = (np.r_[rng.normal(size=(n, 2)), [[far, 0]] * (n // 19)] for n in (19, 19, 38))
    sets = stack([x, y, z])
    right = expected(by_assignment(p), sets, sets)
    np.testing.assert_allclose(matrix(Wasserstein(p), sets, sets), right, rtol=1e-6)


@pytest.mark.usefixtures("_pot")
def test_nearly_equal_sets_keep_accuracy():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2)).astype(np.float32)
    sets = stack([x, x + rng.normal(size=x.shape) * 1e-6, x[::-1]])
    right = expected(by_assignment(2), sets, sets)
    np.testing.assert_allclose(matrix(Wasserstein(2), sets, sets), right, rtol=1e-6)


@pytest.mark.usefixtures("_pot")
def test_an_uncertified_plan_is_refused(monkeypatch):
    monkeypatch.setattr(wasserstein, "RELATIVE_GAP_TOL", -1.0)
    sets = list(np.random.default_rng(0).normal(size=(3, 5, 2)))
    with pytest.raises(SampleSetError, match=r"set 0 to set 1 cannot be certified.*Remove points"):
        distance_matrix(sets, distance=Wasserstein(), verbose=0)


@pytest.mark.usefixtures("_pot")
@pytest.mark.parametrize("n", [5, 30])
def test_each_unordered_pair_is_solved_once(monkeypatch, n):
    import ot

    calls = []
    emd = ot.emd
    monkeypatch.setattr(ot, "emd", lambda *args, **options: calls.append(1) or emd(*args, **options))
    sets = list(np.random.default_rng(0).normal(size=(n, 4, 2)))
    D = distance_matrix(sets, distance=Wasserstein())
    assert len(calls) == n * (n + 1) // 2
    assert (D == D.T).all()


def test_integer_masses():
    np.testing.assert_array_equal(wasserstein._integer_masses(np.array([0.375, 0.0, 1.125])), [1, 0, 3])
    masses = wasserstein._integer_masses(np.array([0.1, np.pi, 2.0]))
    assert masses.sum() == wasserstein.GRID_TOTAL
    np.testing.assert_allclose(masses / masses.sum(), np.array([0.1, np.pi, 2.0]) / (2.1 + np.pi), rtol=1e-14)


def test_equals_scipy_in_one_dimension():
    rng = np.random.default_rng(0)
    omegas, objects = collection(rng, 9, 1, True), collection(rng, 5, 1, True)
    right = expected(lambda x, a, y, b: wasserstein_distance(x[:, 0], y[:, 0], a, b), omegas, objects)
    np.testing.assert_allclose(matrix(Wasserstein(), omegas, objects), right, rtol=1e-6)
    assert_same_bits(Wasserstein(2), rng, omegas, objects)


@pytest.mark.parametrize("p", [1, 2])
def test_equals_assignment_in_one_dimension(p):
    assert_equals_assignment(p, 1)


@pytest.mark.usefixtures("_pot")
@pytest.mark.parametrize("p", [1, 2])
def test_metric_properties_weights_and_order_of_points(p):
    rng = np.random.default_rng(p)
    distance = Wasserstein(p)
    sets = collection(rng, 6, 2, True, largest=8)
    D = matrix(distance, sets, sets).astype(np.float64)
    np.testing.assert_allclose(D, D.T, rtol=1e-5, atol=1e-6)
    assert D.diagonal().max() < 1e-6
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + 1e-5).all()
    np.testing.assert_allclose(matrix(distance, shuffle_points(rng, *sets), sets), D, rtol=1e-5, atol=1e-6)
    weighted, again = weighted_and_repeated(rng, *collection(rng, 4, 2, largest=8)[:2])
    np.testing.assert_allclose(matrix(distance, sets, weighted), matrix(distance, sets, again), rtol=1e-5)
    assert_same_bits(distance, rng, sets, weighted)


@pytest.mark.usefixtures("_pot")
def test_one_point_sets():
    x, y = stack([np.zeros((1, 2))]), stack([[[3.0, 4.0]], np.zeros((1, 2)), [[3.0, 4.0], [0.0, 0.0]]])
    np.testing.assert_allclose(matrix(Wasserstein(2), y, x), [[5, 0, np.sqrt(12.5)]], rtol=1e-6)


def test_missing_pot_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r"pip install 'dkdist\[transport\]'"):
        Wasserstein().prepare(*stack([np.zeros((1, 2))]))


def test_an_invalid_order_is_refused_by_name():
    with pytest.raises(ValueError, match="p must be 1 or 2; got 3"):
        Wasserstein(3)
