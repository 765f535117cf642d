"""Exact kernel energies compared with float64 NumPy over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist._numba.weighted_points import WeightedPoints
from dkdist.kernels.kernel_sums import energy, scaled, sums
from dkdist.kernels.registry import KERNELS


def kernel_values(y, x, sigma, kernel="gaussian"):
    """Return k of all pairs, from differences."""
    t = np.abs(y[:, None] - x[None]) / sigma
    r = np.sqrt((t**2).sum(axis=2))
    return {
        "gaussian": lambda: np.exp(-(r**2) / 2),
        "laplace": lambda: np.exp(-t.sum(axis=2)),
        "laplacian": lambda: np.exp(-r),
        "matern12": lambda: np.exp(-r),
        "matern32": lambda: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
        "matern52": lambda: (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r),
        "rational-quadratic": lambda: 1 / (1 + r**2 / 2),
        "energy": lambda: -r,
        "epanechnikov": lambda: np.maximum(0, 1 - r**2),
        "triangle": lambda: np.maximum(0, 1 - r),
        "ball": lambda: np.where(r <= 1, 1.0, 0.0),
    }[kernel]()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 11])
@pytest.mark.parametrize(("n", "C"), [(1, 1), (63, 1), (64, 2), (65, 3), (600, 1), (300, 6)])
def test_energy_of_gaussian_kernel(d, n, C):
    check_all_pairs("gaussian", d, n, C)


@pytest.mark.parametrize("kernel", sorted(set(KERNELS) - {"gaussian"}))
@pytest.mark.parametrize(("d", "n", "C"), [(1, 65, 3), (2, 300, 1), (5, 130, 2), (6, 1, 1)])
def test_energy_of_other_kernels(kernel, d, n, C):
    check_all_pairs(kernel, d, n, C)


def check_all_pairs(kernel, d, n, C):
    rng = np.random.default_rng(n + d)
    x, z = rng.standard_normal((n, d)), rng.standard_normal((n, C))
    sigma = 1.3 * np.sqrt(d)
    K = kernel_values(x, x, sigma, kernel)
    result = energy(WeightedPoints.of(x, z), sigma, kernel)
    assert result == pytest.approx(
        float(np.einsum("ic,ij,jc->", z, K, z)), abs=1e-13 * (np.abs(z).sum()) ** 2
    )
    y = rng.standard_normal((70, d))
    at = sums(scaled(y, sigma, kernel), scaled(x, sigma, kernel), z, kernel)
    np.testing.assert_allclose(at, kernel_values(y, x, sigma, kernel) @ z, atol=1e-13 * np.abs(z).sum())


@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("sigma", [1e-8, 1e-3, 1e8])
def test_energy_for_extreme_bandwidths(d, sigma):
    """Products of coordinates would have errors of 1e-16 (width / sigma)^2, so differences are used."""
    rng = np.random.default_rng(d)
    x = rng.uniform(-1, 1, (200, d))
    x = np.concatenate([x, x + sigma * rng.standard_normal(x.shape)])  # near pairs for every bandwidth
    z = rng.standard_normal((400, 1))
    expected = float(z[:, 0] @ kernel_values(x, x, sigma) @ z[:, 0])
    assert energy(WeightedPoints.of(x, z), sigma) == pytest.approx(
        expected, abs=1e-9 * float(np.abs(z).sum())
    )


@pytest.mark.parametrize("d", [1, 4])
def test_opposite_weights_of_equal_points_cancel(d):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((500, d)), rng.random((500, 1)) / 500
    both = WeightedPoints.of(np.tile(x, (2, 1)), np.concatenate([w, -w]))
    assert abs(energy(both, 0.7)) < 1e-16


def test_exponential_is_accurate():
    """Values below 2^-1000 are replaced by it."""
    r = np.concatenate([[0], np.geomspace(1e-9, 60, 3000)])
    result = sums(scaled(r[:, None], 1.0), np.zeros((1, 1)), np.ones((1, 1)))[:, 0]
    expected = np.exp(-(r**2) / 2)
    near = expected > 1e-300
    assert np.abs(result / np.maximum(expected, 1e-300) - 1)[near].max() < 4e-13  # rounding of the exponent
    assert np.abs(result / np.maximum(expected, 1e-300) - 1)[r < 3].max() < 4e-15
    assert result[~near].max() < 1e-299
    assert result[0] == 1
