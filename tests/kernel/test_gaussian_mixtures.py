"""Gaussian mixtures of kernels: errors are within their bounds, for all widths, distances and errors.

``pytest -s -m slow`` on this file runs 10,000 mixtures and prints the maximum ratio of error and bound.
"""

from __future__ import annotations

import numpy as np
import pytest

from dkdist.kernels.registry import MIN_CERTIFIED_ERROR, get_kernel, names_with

from .kernel_profiles import PROFILES


def max_ratio(n_trials):
    """Return the maximum of error / bound at 400 distances and near the widths of the Gaussians."""
    ratios, kernels = [], sorted(names_with("gaussian_mixture"))
    for seed in range(n_trials):
        rng = np.random.default_rng([seed, 0x4D49])
        kernel, R = kernels[seed % len(kernels)], 10.0 ** rng.uniform(-4, 4)
        error = 10.0 ** rng.uniform(-9, -1)
        result = get_kernel(kernel).gaussian_mixture(R, error)
        if result is None:
            assert (kernel, error < 1e-6 * R) == ("energy", True)  # rounding dominates for large R
            continue
        assert result.error <= error
        r = np.concatenate([[0, R], R * 10.0 ** rng.uniform(-10, 0, 398), result.sigmas * rng.uniform(0, 3)])
        r = r[r <= R]
        at = (
            np.exp(-((r[:, None] / result.sigmas) ** 2) / 2) @ result.weights
            + result.constant
            + result.quadratic * r**2
        )
        ratios.append(np.abs(at - PROFILES[kernel](r)).max() / result.error)
    return max(ratios)


def test_errors_of_mixtures_are_within_bounds():
    assert 0.1 < max_ratio(300) <= 1


@pytest.mark.slow
def test_errors_of_10_000_mixtures_are_within_bounds():
    ratio = max_ratio(10_000)
    print(f"greatest error / bound {ratio:.4f}")
    assert ratio <= 1


def test_number_of_gaussians_grows_with_roughness():
    counts = [
        len(get_kernel(k).gaussian_mixture(10.0, 1e-5).sigmas) for k in ("matern52", "matern32", "matern12")
    ]
    assert counts == sorted(counts)
    assert counts[-1] < 60
    assert get_kernel("matern52").gaussian_mixture(1.0, MIN_CERTIFIED_ERROR / 2) is None
