"""Weighted sums of kernels with training rows, in float32 products: predictions of exact kernel models.

    sum_j a_j exp(x.y_j - |x|^2 / 2 - |y_j|^2 / 2),    rows minus a centre, divided by the width of the kernel

Errors of exponents are about 1e-7 of |x|^2 + |y|^2; sums are float64. Each row of the result depends only on its row of
X, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist._numba.products import TILE_ROWS, Factor, deterministic_factor
from dkdist.auto.representation_rows import RowKernel, squared_norms

# products with OpenBLAS are deterministic for multiples of this number of training rows
ROWS_MULTIPLE = 64  # tests/automatic/test_kernel_sums.py
# larger numbers in units of the width are clipped: squares of 1e8 columns are finite in float32, and kernels are 0
MAX_SCALED_VALUE = 1e15  # tests/automatic/test_kernel_sums.py


class KernelSums:
    """Sums over training rows sum_j k(x, y_j) a_j of a kernel, averaged over images of the training rows."""

    def __init__(self, kernel: RowKernel, images: Sequence[Any], duals: F64, centre: F64) -> None:
        self._centre = np.asarray(centre, np.float64)
        self._factors: list[tuple[Factor, F32]] = []
        if kernel.sigma is None:
            self._coef = ((images[0] - self._centre) / kernel.scale).T @ duals
            return
        self._sigma, padding = kernel.sigma, ((0, -len(duals) % ROWS_MULTIPLE), (0, 0))
        self._coef = np.pad(duals, padding)
        for image in images:
            Y = np.pad(self._scaled(image), padding)
            factor = deterministic_factor(np.ascontiguousarray(Y.T))
            self._factors.append((factor, (0.5 * squared_norms(Y)).astype(np.float32)))

    def of(self, X: F32) -> F64:
        """Return the sums (n, t) of rows X (n, m)."""
        if not self._factors:
            return _row_products(X - self._centre, self._coef)
        parts = [self._tile(X[i : i + TILE_ROWS]) for i in range(0, len(X), TILE_ROWS)]
        return np.concatenate(parts) if parts else np.empty((0, self._coef.shape[1]))

    def _scaled(self, rows: F32) -> F32:
        scaled = (rows - self._centre) / self._sigma
        return np.clip(scaled, -MAX_SCALED_VALUE, MAX_SCALED_VALUE, out=scaled).astype(np.float32)

    def _tile(self, X: F32) -> F64:
        X = self._scaled(X)
        norms = squared_norms(X.astype(np.float64))  # einsum of converted numbers would split rows at buffers
        half_squares = (0.5 * norms).astype(np.float32)[:, None]
        K, total = np.empty((len(X), len(self._coef)), np.float32), np.zeros((len(X), self._coef.shape[1]))
        for factor, half_squares_of_rows in self._factors:
            factor.product(X, K)
            K -= half_squares
            K -= half_squares_of_rows
            np.exp(np.minimum(K, 0, out=K), out=K)
            total += _row_products(K.astype(np.float64), self._coef)
        return total / len(self._factors)


def _row_products(A: F64, B: F64) -> F64:
    """Return A B (n, t); einsum sums each row in the same order, unlike a BLAS."""
    return np.stack([np.einsum("ij,j->i", A, column) for column in np.ascontiguousarray(B.T)], axis=1)
