"""Sums of kernels in float32 compared with the kernels in float64, for rows alone and in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist._numba.products import is_blas_deterministic
from dkdist.auto.kernel_sums import MAX_SINGLE_COLUMNS, ROWS_MULTIPLE, KernelSums
from dkdist.auto.representation_rows import RowKernel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 40)).astype(np.float32)
IMAGES = RNG.normal(size=(2, 70, 40)).astype(np.float32)
DUALS, CENTRE = RNG.normal(size=(70, 2)), RNG.normal(size=40)


@pytest.mark.parametrize(
    ("kernel", "n_images"), [(RowKernel(None, 2.5), 1), (RowKernel(7.0), 1), (RowKernel(7.0), 2)]
)
def test_sums_match_float64(kernel: RowKernel, n_images: int) -> None:
    """Exponents are rounded by 2 float32 units of |x|^2 + |y|^2 = 160 in units of the squared width of 49."""
    images = tuple(IMAGES[:n_images])
    expected = kernel.of(X.astype(float), images, CENTRE) @ DUALS
    tolerance = 2 * 2.0**-23 * 160 / 49 * np.abs(DUALS).sum() if kernel.sigma else 1e-12
    np.testing.assert_allclose(
        KernelSums(kernel, images, DUALS, CENTRE).of(X), expected, rtol=1e-12, atol=tolerance
    )


@pytest.mark.parametrize("n_outputs", [2, MAX_SINGLE_COLUMNS + 5])
def test_sums_of_a_row_do_not_depend_on_other_rows(n_outputs: int) -> None:
    coef = np.resize(DUALS, (70, n_outputs))
    sums = KernelSums(RowKernel(7.0), (IMAGES[0],), coef, CENTRE)
    all_values = sums.of(X)
    for rows in (slice(0, 1), slice(5, 150), slice(127, 300), slice(299, 300)):
        np.testing.assert_array_equal(sums.of(X[rows]), all_values[rows])
    assert sums.of(X[:0]).shape == (0, n_outputs)


def test_padded_products_are_deterministic_or_computed_by_integers() -> None:
    """With OpenBLAS and AVX-512, all multiples of 64 training rows are deterministic; other widths are not."""
    results = [
        is_blas_deterministic(k, n) for k in (2, 48, 1024) for n in (ROWS_MULTIPLE, 13 * ROWS_MULTIPLE)
    ]
    assert len(set(results)) == 1


def test_distant_rows_have_kernel_zero() -> None:
    far = np.full((1, 40), 1e30, np.float32)
    np.testing.assert_array_equal(KernelSums(RowKernel(7.0), (IMAGES[0],), DUALS, CENTRE).of(far), 0)
