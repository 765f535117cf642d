"""Derivatives of the kernel distance on a mesh, within the certified error of sums over all pairs."""

import numpy as np
import pytest

import dkdist as dk
from dkdist.kernels._mesh_numba import ORDERS, kernel_mesh, mesh_field


def exact_and_mesh(P, Q, eps, **options):
    result = [
        dk.kernel_distance(P, Q, squared=True, gradient=True, method=method, eps=eps, **options)
        for method in ("exact", "fourier")
    ]
    return result[0], result[1]


def assert_certified(P, Q, weights, sigma, eps):
    """Check the errors of D^2 and of its terms, as documented by `kernel_distance`."""
    exact, mesh = exact_and_mesh(P, Q, eps, weights=weights, sigma=sigma)
    W = sum(np.abs(w).sum() for w in weights)
    assert abs(mesh[0] - exact[0]) <= eps
    for side, w in enumerate(weights):
        values = np.abs(mesh[1].weights[side] - exact[1].weights[side]) / 2
        assert values.max() <= eps / W
        slopes = np.abs((mesh[1].P, mesh[1].Q)[side] - (exact[1].P, exact[1].Q)[side]) / 2
        assert (slopes <= eps * np.abs(w)[:, None] / (W * sigma) + 1e-15 * W).all()


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_errors_are_within_eps(d, eps, sigma):
    rng = np.random.default_rng(d)
    P, Q = rng.normal(size=(400, d)), rng.uniform(-2, 3, (300, d))
    weights = rng.normal(size=400) / 200, rng.exponential(1, 300) / 300
    assert_certified(P, Q, weights, sigma, eps)


@pytest.mark.parametrize("eps", [1e-1, 1e-2, 1e-4, 1e-7, 1e-10])
def test_errors_of_point_pairs_are_within_eps(eps):
    """Check k and sigma k' for pairs at many distances and positions within a cell."""
    width, sigma = 7.3, 1.0
    mesh = kernel_mesh(np.array([width]), sigma, eps, 10**6, slopes=True)
    max_error = 0.0
    for position in np.linspace(0, mesh.side, 11):
        for distance in [*np.linspace(0, 4, 81), width - position]:
            x = np.array([0.0, position, min(position + distance, width), width])[:, None]
            f, g = mesh_field(x, np.array([0.0, 1.0, 0.0, 0.0]), sigma, mesh)
            r = x[:, 0] - position
            k = np.exp(-(r**2) / 2)
            max_error = max(max_error, np.abs(f - k).max(), np.abs(g[:, 0] + r * k).max())
    assert eps / 1000 < max_error <= eps


@pytest.mark.parametrize("order", ORDERS)
def test_errors_of_all_spline_orders_are_within_eps(order, monkeypatch):
    monkeypatch.setattr("dkdist.kernels._mesh_numba.ORDERS", (order,))
    rng = np.random.default_rng(order)
    P, Q = rng.random((50, 2)), rng.random((60, 2))
    assert_certified(P, Q, (np.full(50, 1 / 50), np.full(60, 1 / 60)), 0.3, 1e-2 if order == 4 else 1e-4)


def test_errors_on_lines_lattices_and_borders_are_within_eps():
    """Constant dimensions have no cells; lattices are aligned with the mesh; the boundary is the last cell."""
    rng = np.random.default_rng(0)
    line = np.stack([np.linspace(0, 1, 500), np.full(500, 3.0)], axis=1)
    lattice = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), axis=-1).reshape(-1, 2)
    equal_weights = lambda x: np.full(len(x), 1 / len(x))  # noqa: E731
    for P, Q, sigma in (
        (line, line[::3] + np.array([1e-3, 0]), 0.05),
        (lattice, lattice[rng.permutation(400)[:150]], 1.0),
        (lattice, rng.random((80, 2)) * 19, 0.37),
        (np.zeros((1, 3)), np.array([[4.0, 0, 0]]), 1.0),
    ):
        assert_certified(P, Q, (equal_weights(P), equal_weights(Q)), sigma, 1e-4)


def test_large_mesh_keeps_the_order_of_points():
    """Points are sorted by slabs internally."""
    rng = np.random.default_rng(1)
    P, Q = rng.random((300, 2)), rng.random((200, 2))
    weights = np.full(300, 1 / 300), np.full(200, 1 / 200)
    assert_certified(P, Q, weights, 0.01, 1e-4)


def test_mesh_gradients_of_several_bandwidths_and_matrices():
    rng = np.random.default_rng(2)
    P, Q = rng.normal(size=(200, 2)), rng.normal(0.3, 1, (150, 2))
    for sigma in ([0.4, 1.3], np.array([[1.0, 0.3], [0.0, 0.5]])):
        exact, mesh = exact_and_mesh(P, Q, 1e-9, sigma=sigma)
        np.testing.assert_allclose(mesh[1].P, exact[1].P, rtol=0, atol=1e-10)
        np.testing.assert_allclose(mesh[1].sigma, exact[1].sigma, rtol=0, atol=1e-8)


def test_derivatives_match_differences():
    rng = np.random.default_rng(3)
    P, Q, step = rng.normal(size=(40, 2)), rng.normal(0.5, 1, (30, 2)), 1e-4
    options = {"sigma": 0.8, "squared": True, "method": "fourier", "eps": 1e-10}
    slopes = dk.kernel_distance(P, Q, gradient=True, **options)[1]
    for i, j in ((0, 0), (7, 1), (39, 0)):
        moved = [P.copy(), P.copy()]
        moved[0][i, j] += step
        moved[1][i, j] -= step
        up, down = (dk.kernel_distance(x, Q, **options) for x in moved)
        assert abs((up - down) / (2 * step) - slopes.P[i, j]) < 2e-10 / step


def test_auto_uses_the_mesh_for_many_points_only(monkeypatch):
    import dkdist.kernels.gradient as module

    mesh_calls = []
    monkeypatch.setattr(module, "mesh_field", lambda *points: mesh_calls.append(1) or mesh_field(*points))
    rng = np.random.default_rng(4)
    P, Q = rng.normal(size=(9000, 2)), rng.normal(0.2, 1, (8000, 2))
    with_mesh = dk.kernel_distance(P, Q, sigma=0.5, squared=True, gradient=True)
    assert mesh_calls
    exact = dk.kernel_distance(P, Q, sigma=0.5, squared=True, gradient=True, method="exact")
    assert abs(with_mesh[0] - exact[0]) <= 1e-4
    mesh_calls.clear()
    dk.kernel_distance(P[:500], Q[:500], sigma=0.5, gradient=True)
    dk.kernel_distance(P, Q[:50], sigma=1.0, kernel="matern52", gradient=True)
    assert not mesh_calls


def test_unsupported_mesh_raises():
    x, far = np.zeros((3, 4)), np.array([[0.0], [1e9]])
    for points, options, message in (
        ((x, x + 1), {}, "at most 3 dimensions; got kernel='gaussian' and 4"),
        ((far, far + 0.5), {}, "method='fourier' has no mesh"),
        ((far, far + 0.5), {"eps": 1e-13}, "method='fourier' has no mesh"),
        ((far, far + 0.5), {"kernel": "matern52"}, "kernel='matern52'"),
    ):
        with pytest.raises(ValueError, match=message):
            dk.kernel_distance(*points, sigma=1.0, squared=True, gradient=True, method="fourier", **options)
