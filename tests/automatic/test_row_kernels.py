"""Kernels of rows compared with their formulas and with central differences."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist.auto.representation_rows import WIDTH_FACTORS, PairwiseRows, RowKernel

RNG = np.random.default_rng(0)
X, CENTRE = RNG.normal(size=(3, 4)), RNG.normal(size=4)
IMAGES = RNG.normal(size=(2, 5, 4))
DUALS = RNG.normal(size=(5, 2))
LINEAR, GAUSSIAN = RowKernel(None, 2.5), RowKernel(1.7)


def test_values_match_formulas() -> None:
    linear = [[(x - CENTRE) @ (y - CENTRE) / 2.5 for y in IMAGES[0]] for x in X]
    np.testing.assert_allclose(LINEAR.of(X, IMAGES[:1], CENTRE), linear)
    gaussian = [
        [np.mean([np.exp(-((x - y) @ (x - y)) / (2 * 1.7**2)) for y in IMAGES[:, j]]) for j in range(5)]
        for x in X
    ]
    np.testing.assert_allclose(GAUSSIAN.of(X, IMAGES, CENTRE), gaussian)


@pytest.mark.parametrize(("kernel", "images"), [(LINEAR, IMAGES[:1]), (GAUSSIAN, IMAGES)])
def test_gradients_match_central_differences(kernel: RowKernel, images: np.ndarray) -> None:
    h = 1e-5  # truncation h^2, rounding 1e-16 / h: both below 1e-9
    steps = h * np.eye(4)
    forward, backward = (kernel.of(X[0] + sign * steps, images, CENTRE) @ DUALS for sign in (1, -1))
    expected = (forward - backward) / (2 * h)
    np.testing.assert_allclose(kernel.gradient(X[0], images, DUALS, CENTRE), expected, atol=1e-8)


def test_bandwidths_are_multiples_of_the_median_nonzero_distance() -> None:
    """Three of four rows are equal: the distances are 0, 0, 0, 5, 5, 5."""
    rows = np.array([[0.0, 0.0]] * 3 + [[3.0, 4.0]], np.float32)
    result = [kernel.sigma for kernel in PairwiseRows([rows]).kernels() if kernel.sigma is not None]
    np.testing.assert_allclose(result, [5 * width for width in WIDTH_FACTORS], rtol=1e-6)
