"""Certified errors of kernel energies compared with the kernel of pairs of points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

from dkdist._numba.weighted_points import WeightedPoints
from dkdist.kernels._cells_numba import cell_energy, kernel_cells
from dkdist.kernels._mesh_numba import kernel_mesh, mesh_energy
from dkdist.kernels._taylor_numba import n_terms, taylor_energy, taylor_order
from dkdist.kernels._trees_numba import box_tree, separated_energy, tree_energy
from dkdist.kernels.fourier_grid import fourier_grid
from dkdist.kernels.methods import MAX_TRUNCATION_RATIO, plan_fourier


def kernel_errors(widths, sigma, compute_energy, rng, n_pairs=150):
    """Return the maximum of |k~ - k| over pairs of points; two points of weight 1 have the energy 2 + 2 k~."""
    low, high = np.zeros(len(widths)), np.asarray(widths)
    one = np.ones((1, 1))
    errors = []
    for _ in range(n_pairs):
        x = rng.uniform(low, high)
        step = rng.standard_normal(len(widths)) * sigma * rng.choice([0.1, 1, 3])
        y = np.clip(x + step, low, high)
        self_energy = compute_energy(np.stack([x]), one) + compute_energy(np.stack([y]), one)
        k = (compute_energy(np.stack([x, y]), np.ones((2, 1))) - self_energy) / 2
        errors += [
            abs(k - np.exp(-((x - y) ** 2).sum() / (2 * sigma**2))),
            abs(compute_energy(np.stack([x]), one) - 1),
        ]
    return max(errors)


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-5, 1e-8, 1e-12])
@pytest.mark.parametrize(("widths", "sigma"), [((1.0,), 0.1), ((1.0, 3.0), 0.4), ((1.0, 0.5, 0.2), 0.2)])
def test_error_of_cells_is_within_bound(eps, widths, sigma):
    cells = kernel_cells(np.array(widths), sigma, eps)
    assert cells.error <= eps

    def compute_energy(x, z):
        corners = np.stack([np.zeros(len(widths)), np.array(widths)])  # weight 0: they only span the box
        points, weights = np.concatenate([x, corners]), np.concatenate([z, np.zeros((2, 1))])
        return cell_energy(WeightedPoints.of(points, weights), sigma, cells)

    error = kernel_errors(widths, sigma, compute_energy, np.random.default_rng(0))
    assert error <= cells.error + 1e-14
    assert cells.error < 20 * error + 1e-11  # the bound is tight


def test_cells_beyond_float64_precision_are_none():
    assert kernel_cells(np.ones(2), 0.1, 1e-13) is None
    assert plan_fourier(np.ones(2), 0.1, 1e-13, 1.0, 100) is None


def test_flat_boxes_have_few_cells():
    wide, flat = kernel_cells(np.ones(3), 0.1, 1e-5), kernel_cells(np.array([1.0, 0.0, 0.0]), 0.1, 1e-5)
    assert flat.n_cells < wide.n_cells / 100
    assert flat.shape[:2] == (1, 1)


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-5, 1e-8, 1e-11])
@pytest.mark.parametrize("n", [10, 10**7])  # fewer or more cells, splines of higher or lower order
@pytest.mark.parametrize(("widths", "sigma"), [((1.0,), 0.1), ((1.0, 3.0), 0.4), ((1.0, 0.5, 0.2), 0.2)])
def test_error_of_meshes_is_within_bound(eps, n, widths, sigma):
    mesh = kernel_mesh(np.array(widths), sigma, eps, n)
    assert mesh.error <= eps

    def compute_energy(x, z):
        corners = np.stack([np.zeros(len(widths)), np.array(widths)])  # weight 0: they only span the box
        points, weights = np.concatenate([x, corners]), np.concatenate([z, np.zeros((2, 1))])
        return mesh_energy(WeightedPoints.of(points, weights), sigma, mesh)

    error = kernel_errors(widths, sigma, compute_energy, np.random.default_rng(0))
    assert error <= mesh.error + 1e-14
    assert mesh.error < 100 * error + 1e-10  # the bound is tight


def test_unsupported_meshes_are_none():
    assert kernel_mesh(np.ones(2), 0.1, 1e-12, 100) is None
    assert kernel_mesh(np.zeros(2), 0.1, 1e-3, 100) is None
    for sigma in (1e-9, 1e-30, 1e-100):
        assert kernel_mesh(np.ones(1), sigma, 1e-3, 100) is None
    for d in (1, 2, 3):  # cells are used, or their number is reported
        assert plan_fourier(np.ones(d), 1e-90, 1e-3, 1.0, 100).n_modes >= 1e90


@pytest.mark.parametrize(
    ("d", "sigma"), [(1, 1e-4), (1, 0.3), (2, 0.003), (2, 0.03), (2, 30.0), (3, 0.03), (3, 0.3), (3, 30.0)]
)
@pytest.mark.parametrize("C", [1, 3])
def test_fourier_plans_are_within_their_errors(d, sigma, C):
    rng = np.random.default_rng(d)
    x, z = rng.random((400, d)), rng.standard_normal((400, C))
    W = float(np.sqrt((z**2).sum(axis=1)).sum())
    exact = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / (2 * sigma**2))
    expected = float(np.einsum("ic,ij,jc->", z, exact, z))
    algorithms = set()
    for eps in (1e-2, 1e-4, 1e-7, 3e-12):
        for n in (1, 400, 10**8):  # a plan for n points is valid for other numbers of points
            plan = plan_fourier(x.max(axis=0) - x.min(axis=0), sigma, eps * W**2, W, n)
            assert plan.error <= eps * W**2
            if plan.n_modes <= 10**6:
                algorithms.add(plan.energy.func.__name__)
                assert abs(plan.energy(WeightedPoints.of(x, z)) - expected) <= plan.error + 1e-14 * W**2
    assert algorithms >= (
        {"mesh_energy", "frequency_energy"}
        if sigma > 0.1
        else {"mesh_energy"}
        if d > 1 or sigma > 1e-3
        else {"cell_energy"}
    )


@pytest.mark.parametrize("delta", [0.0, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_taylor_bound_is_attained(delta, d):
    order, error = taylor_order(delta, 1e-6)
    assert error <= 1e-6
    assert error == pytest.approx(float(poisson.sf(order - 1, delta**2)), rel=1e-9)
    if delta > 0:
        assert poisson.sf(order - 2, delta**2) > 1e-6  # no smaller order is sufficient
    if n_terms(d, order) > 20_000:
        return
    rng = np.random.default_rng(0)
    u = rng.standard_normal((40, d))
    u *= delta / np.sqrt((u**2).sum(axis=1, keepdims=True))

    def energy_of(u, z):
        return taylor_energy(WeightedPoints.of(3 * u + 1, z), np.ones(d), 3.0, order)

    single = [1 - energy_of(u[i : i + 1], np.ones((1, 1))) for i in range(40)]
    np.testing.assert_allclose(single, error, atol=1e-13)
    z = rng.standard_normal((40, 2))
    expected = np.einsum("ic,ij,jc->", z, np.exp(-((u[:, None] - u) ** 2).sum(axis=2) / 2), z)
    assert abs(energy_of(u, z) - expected) <= error * np.sqrt((z**2).sum(axis=1)).sum() ** 2 + 1e-11


def test_n_terms_of_taylor_series():
    assert [n_terms(3, order) for order in (1, 2, 3, 4)] == [1, 4, 10, 20]


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("spread", [0.01, 1.0, 100.0])
def test_errors_of_trees_are_within_eps(d, spread):
    rng = np.random.default_rng(d)
    x = (
        np.concatenate([rng.standard_normal((300, d)), np.zeros((50, d)), 5 + 1e-9 * rng.random((50, d))])
        * spread
    )
    z = rng.standard_normal((400, 2))
    W = np.sqrt((z**2).sum(axis=1)).sum()
    expected = np.einsum("ic,ij,jc->", z, np.exp2(-((x[:, None] - x) ** 2).sum(axis=2)), z)
    for eps in (1e-1, 1e-3, 1e-6):
        assert abs(tree_energy(box_tree(x, z, 8), eps) - expected) <= eps * W**2
        assert abs(separated_energy(box_tree(x, z, 1), eps) - expected) <= eps * W**2 + 1e-11
    if spread == 1:
        assert abs(separated_energy(box_tree(x, z, 1), 0.1) - expected) > 1e-9  # some pairs are approximated


def test_boxes_are_tight_and_partition_the_points():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, (500, 2)).astype(float)
    tree = box_tree(x, np.arange(500.0)[:, None], 10)
    np.testing.assert_array_equal(np.sort(tree.weights[:, 0]), np.arange(500))
    np.testing.assert_array_equal(tree.columns.T, x[tree.weights[:, 0].astype(int)])
    for k in range(len(tree.child)):
        part = tree.columns[:, tree.first[k] : tree.last[k]]
        np.testing.assert_array_equal(part.min(axis=1), tree.low[k])
        np.testing.assert_array_equal(part.max(axis=1), tree.high[k])
        assert tree.sums[k, 0] == tree.weights[tree.first[k] : tree.last[k]].sum()
        if tree.child[k] == 0:
            assert part.shape[1] <= 10 or (tree.low[k] == tree.high[k]).all()


def test_early_end_of_grid_search_does_not_change_plans(monkeypatch):
    """The best plans of random boxes, with and without the early end of the search."""
    rng, n_ended_early = np.random.default_rng(0), 0
    for _ in range(300):
        d = int(rng.integers(1, 4))
        widths, sigma = 10 ** rng.uniform(-1, 1, d), 10 ** rng.uniform(-2, 0.5)
        value = widths, sigma, 10 ** rng.uniform(-7, -1), 1.0, int(10 ** rng.uniform(2, 6.5))
        result = []
        for max_ratio in (MAX_TRUNCATION_RATIO, np.inf):
            monkeypatch.setattr("dkdist.kernels.methods.MAX_TRUNCATION_RATIO", max_ratio)
            searches = []
            monkeypatch.setattr(
                "dkdist.kernels.methods.fourier_grid",
                lambda *box, searches=searches: (searches.append(box), fourier_grid(*box))[1],
            )
            plan = plan_fourier(*value)
            result.append((plan.energy.func, plan.error, plan.n_modes, len(searches)))
        assert result[0][:3] == result[1][:3]
        n_ended_early += result[0][3] < result[1][3]
    assert n_ended_early > 3  # searches that are skipped
