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
    with pytest.raises(ValueError, match="order p is 3"):
        Wasserstein(3)
