"""Quadrature rules on the unit cube: exactness, order of nodes, and convergence."""

import numpy as np
import pytest

from dkdist.embeddings.nodes import folded_lattice, midpoints, tensor_weights


@pytest.mark.parametrize("q", [2, 3, 10, 17])
def test_midpoints_integrate_cosines_below_degree_2q(q):
    x, w = midpoints(q)
    assert w.sum() == pytest.approx(1, abs=1e-15)
    integrals = [w @ np.cos(np.pi * a * x) for a in range(2 * q + 1)]
    np.testing.assert_allclose(integrals[:-1], [1] + [0] * (2 * q - 1), atol=1e-14)
    assert integrals[-1] == pytest.approx(-1)  # exact up to degree 2q - 1 only


def test_midpoints_make_cosines_orthogonal():
    x, w = midpoints(8)
    a = np.arange(8)
    basis = np.cos(np.pi * np.outer(a, x)) * np.sqrt(np.where(a > 0, 2, 1))[:, None]
    np.testing.assert_allclose((basis * w) @ basis.T, np.eye(8), atol=1e-14)


def test_midpoints_beat_gauss_legendre_on_a_reflected_density():
    x, w = midpoints(10)
    g, v = np.polynomial.legendre.leggauss(10)
    g, v = (g + 1) / 2, v / 2

    def bump(t):
        return sum(np.exp(-((t - s) ** 2) / (2 * 0.07**2)) for s in (0.3, -0.3, 1.7, 0.95, 1.05))

    fine = midpoints(4000)
    exact = fine[1] @ bump(fine[0])
    assert abs(w @ bump(x) - exact) < abs(v @ bump(g) - exact) / 20


def test_last_dimension_varies_fastest():
    rules = [(np.arange(2.0), np.array([0.25, 0.75])), (np.arange(3.0), np.array([0.5, 0.3, 0.2]))]
    np.testing.assert_allclose(tensor_weights(rules), [0.125, 0.075, 0.05, 0.375, 0.225, 0.15])
    assert tensor_weights([midpoints(5)] * 3).sum() == pytest.approx(1)


@pytest.mark.parametrize("d", [4, 5, 6])
def test_lattice_is_in_the_cube_and_evenly_spread(d):
    x = folded_lattice(256, d)
    assert x.shape == (256, d)
    assert ((x >= 0) & (x <= 1)).all()
    for j in range(d):  # one-dimensional projections are 256 strata, folded onto 128
        counts = np.histogram(x[:, j], 128, (0, 1))[0]
        assert (counts == 2).all()


@pytest.mark.parametrize("d", [4, 5, 6])
def test_lattice_errors_decrease_faster_than_monte_carlo(d):
    rng = np.random.default_rng(d)

    def error(n):
        x, errors = folded_lattice(n, d), []
        for c in rng_c:
            errors.append(np.prod(1 + c * (x**2 - 1 / 3), axis=1).mean() - 1)  # the integral is 1
        return np.sqrt(np.mean(np.square(errors)))

    rng_c = rng.uniform(0.3, 1.0, (20, d))
    coarse, middle, fine = error(64), error(512), error(4096)
    assert middle < coarse / 3  # Monte Carlo: sqrt(8) = 2.8
    assert fine < coarse / 16  # Monte Carlo: 8
    sampled = np.prod(1 + rng_c[:, None, :] * (rng.random((4096, d)) ** 2 - 1 / 3), axis=2).mean(axis=1) - 1
    assert fine < np.sqrt(np.mean(sampled**2)) / 3
