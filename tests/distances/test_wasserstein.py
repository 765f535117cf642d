"""Exact Wasserstein distance against SciPy's assignment and its distance on the line, and its laws."""

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
    repeated,
    shuffled,
    stack,
)
from dkdist import SampleSetError, distance_matrix
from dkdist.distances import wasserstein
from dkdist.distances.wasserstein import Wasserstein


@pytest.fixture
def _pot():
    pytest.importorskip("ot", reason="pip install 'dkdist[transport]'")


def by_assignment(p):
    """Equal weights, repeated to the least common multiple of both sizes."""

    def pair(x, a, y, b):
        n = np.lcm(len(x), len(y))
        C = cdist(np.repeat(x, n // len(x), axis=0), np.repeat(y, n // len(y), axis=0)) ** p
        return C[linear_sum_assignment(C)].mean() ** (1 / p)

    return pair


def assert_as_assignment(p, d):
    rng = np.random.default_rng(p)
    omegas, objects = collection(rng, 9, d, largest=9), collection(rng, 5, d, largest=9)
    right = expected(by_assignment(p), omegas, objects)
    np.testing.assert_allclose(matrix(Wasserstein(p), omegas, objects), right, rtol=1e-6)


@pytest.mark.usefixtures("_pot")
@pytest.mark.parametrize("p", [1, 2])
def test_as_assignment(p):
    assert_as_assignment(p, 3)


@pytest.mark.usefixtures("_pot")
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("unit", [1e-12, 1e-8, 1e-6, 1e12])
def test_any_unit(p, unit):
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(n, 2)) for n in (30, 40, 50)]
    scaled = [np.asarray(s * unit, np.float32).astype(np.float64) for s in sets]
    right = [[by_assignment(p)(x, None, y, None) for y in scaled] for x in scaled]
    np.testing.assert_allclose(distance_matrix(scaled, distance=Wasserstein(p)), right, rtol=1e-6)


@pytest.mark.usefixtures("_pot")
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("far", [1e4, 1e6, 1e8])
def test_far_points_that_both_sets_share(p, far):
    rng = np.random.default_rng(0)
    x, y, z = (np.r_[rng.normal(size=(n, 2)), [[far, 0]] * (n // 19)] for n in (19, 19, 38))
    sets = stack([x, y, z])
    right = expected(by_assignment(p), sets, sets)
    np.testing.assert_allclose(matrix(Wasserstein(p), sets, sets), right, rtol=1e-6)


@pytest.mark.usefixtures("_pot")
def test_nearly_equal_sets():
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


def test_on_the_line_as_scipy():
    rng = np.random.default_rng(0)
    omegas, objects = collection(rng, 9, 1, True), collection(rng, 5, 1, True)
    right = expected(lambda x, a, y, b: wasserstein_distance(x[:, 0], y[:, 0], a, b), omegas, objects)
    np.testing.assert_allclose(matrix(Wasserstein(), omegas, objects), right, rtol=1e-6)
    assert_same_bits(Wasserstein(2), rng, omegas, objects)


@pytest.mark.parametrize("p", [1, 2])
def test_on_the_line_as_assignment(p):
    assert_as_assignment(p, 1)


@pytest.mark.usefixtures("_pot")
@pytest.mark.parametrize("p", [1, 2])
def test_laws(p):
    rng = np.random.default_rng(p)
    distance = Wasserstein(p)
    sets = collection(rng, 6, 2, True, largest=8)
    D = matrix(distance, sets, sets).astype(np.float64)
    np.testing.assert_allclose(D, D.T, rtol=1e-5, atol=1e-6)
    assert D.diagonal().max() < 1e-6
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + 1e-5).all()
    np.testing.assert_allclose(matrix(distance, shuffled(rng, *sets), sets), D, rtol=1e-5, atol=1e-6)
    weighted, again = repeated(rng, *collection(rng, 4, 2, largest=8)[:2])
    np.testing.assert_allclose(matrix(distance, sets, weighted), matrix(distance, sets, again), rtol=1e-5)
    assert_same_bits(distance, rng, sets, weighted)


@pytest.mark.usefixtures("_pot")
def test_one_point_sets():
    x, y = stack([np.zeros((1, 2))]), stack([[[3.0, 4.0]], np.zeros((1, 2)), [[3.0, 4.0], [0.0, 0.0]]])
    np.testing.assert_allclose(matrix(Wasserstein(2), y, x), [[5, 0, np.sqrt(12.5)]], rtol=1e-6)


def test_without_pot_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r"pip install 'dkdist\[transport\]'"):
        Wasserstein().prepare(*stack([np.zeros((1, 2))]))


def test_a_wrong_order_is_named():
    with pytest.raises(ValueError, match="p must be 1 or 2; got 3"):
        Wasserstein(3)
