"""The Fourier grid compared with the Gaussian: the error bound holds, is tight, and the grid is minimal."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dkdist.kernels.fourier_grid import fourier_grid, grid_layout


def lattice(grid):
    """Return all frequencies of the grid, with both signs."""
    axes = []
    for L in grid.periods:
        max_index = int(grid.cutoff * L / (2 * np.pi)) if L else 0
        axes.append([2 * np.pi * k / L if k else 0.0 for k in range(-max_index, max_index + 1)])
    return np.array([w for w in itertools.product(*axes) if sum(x * x for x in w) <= grid.cutoff**2])


def series(grid, sigma, t):
    """Return sum_k w_k cos(w_k . t) in float64."""
    w = lattice(grid)
    steps = [np.sqrt(2 * np.pi) * sigma / L for L in grid.periods if L]
    return np.cos(t @ w.T) @ (np.prod(steps) * np.exp(-((w**2).sum(axis=1)) * sigma**2 / 2))


def differences(widths, rng):
    """Return differences of points of the box: random ones, and those with the largest errors of images and cutoff."""
    d = len(widths)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, {1: 999, 2: 41, 3: 13}[d])] * d, indexing="ij"), axis=-1)
    near_boundary = 1 - rng.exponential(0.02, (1000, d))
    pairs = rng.uniform(0, 1, (2000, d)) - rng.uniform(0, 1, (2000, d))
    small = 0.05 * rng.standard_normal((1000, d))
    return np.clip(np.concatenate([grid.reshape(-1, d), near_boundary, pairs, small]), -1, 1) * widths


CASES = [
    (widths, sigma, max_features)
    for widths in ([1.0], [3.0, 1.0], [1.0, 1.0], [2.0, 1.0, 1.5], [1e-3, 2.0], [0.0, 1.0, 2.0])
    for sigma, max_features in ((0.07, 60), (0.3, 40), (0.3, 700), (5.0, 900))
]


@pytest.mark.parametrize(("widths", "sigma", "max_features"), CASES)
def test_error_bound_holds(widths, sigma, max_features):
    widths = np.array(widths)
    grid = fourier_grid(widths, sigma, 1e-7, max_features)
    t = differences(widths, np.random.default_rng(0))
    error = np.abs(series(grid, sigma, t) - np.exp(-(t**2).sum(axis=1) / (2 * sigma**2)))
    assert error.max() <= grid.error + 1e-14
    assert grid.error < 12 * error.max()  # the bound is tight
    assert grid.n_features == len(lattice(grid)) <= max_features


@pytest.mark.parametrize("widths", [[1.0], [1.0, 2.0], [1.0, 2.0, 0.5]])
def test_error_decreases_with_features_and_grid_is_minimal(widths):
    widths, sizes = np.array(widths), (1, 2, 5, 20, 80, 300, 1000, 3000)
    grids = [fourier_grid(widths, 0.4, 1e-5, max_features) for max_features in sizes]
    errors = np.array([grid.error for grid in grids])
    assert (np.diff(errors[errors > 1e-5]) <= 0).all()
    assert errors[-1] <= 1e-5
    enough = grids[-1].n_features
    assert fourier_grid(widths, 0.4, 1e-5, enough) == grids[-1]
    assert fourier_grid(widths, 0.4, 1e-5, enough - 1).error > 1e-5


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e6, 1e30])
def test_grid_scales_with_units(scale):
    grid, other = (fourier_grid(s * np.array([1.0, 2.0]), s * 0.3, 1e-7, 100) for s in (1.0, scale))
    assert other.n_features == grid.n_features
    np.testing.assert_allclose(other.error, grid.error, rtol=1e-4)
    np.testing.assert_allclose(np.array(other.periods) / scale, grid.periods, rtol=1e-6)


def test_too_wide_box_has_a_large_error():
    grid = fourier_grid(np.array([1e9, 1.0]), 1e-3, 1e-7, 100)
    assert grid.n_features <= 100
    assert grid.error > 0.5
    assert fourier_grid(np.zeros(2), 1.0, 1e-7, 10).n_features == 1  # one point: the kernel is 1


@pytest.mark.parametrize("widths", [[1.0], [1.0, 2.0], [1.0, 0.0, 0.5]])
def test_products_of_the_layout_match_the_series(widths):
    widths, sigma = np.array(widths), 0.3
    grid = fourier_grid(widths, sigma, 1e-7, 200)
    layout = grid_layout(grid.periods, grid.cutoff, sigma)
    assert len(layout.scales) == layout.lengths.sum() == grid.n_features
    x = np.random.default_rng(0).uniform(0, 1, (2, 40, len(widths))) * widths
    z = [features(points, grid.periods, layout) for points in x]
    np.testing.assert_allclose((z[0] * z[1]).sum(axis=1), series(grid, sigma, x[0] - x[1]), atol=1e-13)


def features(x, periods, layout):
    """Return products of 1, cos t, sin t, cos 2t, .. in the order of the layout, in float64."""
    n, d = x.shape
    axes = [np.ones((n, 1))] * (3 - d)
    counts = (*layout.lengths.shape, layout.lengths.max())[3 - d :]
    for j, (L, count) in enumerate(zip(periods, counts, strict=True)):
        t = 2 * np.pi * x[:, j] / L if L else np.zeros(n)
        functions = [np.ones(n)] + [f(k * t) for k in range(1, count // 2 + 1) for f in (np.cos, np.sin)]
        axes.append(np.stack(functions, axis=1))
    columns = [
        axes[0][:, a, None] * axes[1][:, b, None] * axes[2][:, :length]
        for (a, b), length in np.ndenumerate(layout.lengths)
    ]
    return np.concatenate(columns, axis=1) * layout.scales
