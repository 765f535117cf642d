"""Kernels of rows with training rows or landmarks, in float32 products, and weighted sums of them.

    sum_j a_j exp(x.y_j - |x|^2 / 2 - |y_j|^2 / 2),    rows minus a centre, divided by the width of the kernel

Errors of exponents are about 1e-7 of |x|^2 + |y|^2; sums are float64. Each row of the result depends only on its row of
X, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist._numba.products import TILE_ROWS, Factor, deterministic_factor
from dkdist.auto.representation_rows import RowKernel, squared_norms

# products with OpenBLAS are deterministic for multiples of this number of training rows
ROWS_MULTIPLE = 64  # tests/automatic/test_kernel_sums.py
# larger numbers in units of the width are clipped: squares of 1e8 columns are finite in float32, and kernels are 0
MAX_SCALED_VALUE = 1e15  # tests/automatic/test_kernel_sums.py
# With more columns, one product of all is faster than one of each (tests/automatic/test_kernel_sums.py).
MAX_SINGLE_COLUMNS = 16


class GaussianColumns:
    """Gaussian kernels of several widths with training rows, averaged over images of these."""

    def __init__(self, sigmas: Sequence[float], images: Sequence[Any], centre: F64) -> None:
        self._centre, self._sigma, self.n_columns = np.asarray(centre, np.float64), sigmas[0], len(images[0])
        self._ratios = [np.float32((sigmas[0] / sigma) ** 2) for sigma in sigmas]
        self._factors: list[tuple[Factor, F32]] = []
        for image in images:
            Y = np.pad(self._scaled(image), ((0, -len(image) % ROWS_MULTIPLE), (0, 0)))
            factor = deterministic_factor(np.ascontiguousarray(Y.T))
            self._factors.append((factor, (0.5 * squared_norms(Y)).astype(np.float32)))

    def tiles(self, X: F32) -> Iterator[list[F32]]:
        """Yield the columns (128, m) of each width for tiles of rows X (n, k)."""
        for start in range(0, len(X), TILE_ROWS):
            tile = self._scaled(X[start : start + TILE_ROWS])
            # einsum of converted numbers splits rows at buffers
            norms = squared_norms(tile.astype(np.float64))
            half_squares = (0.5 * norms).astype(np.float32)[:, None]
            K = np.empty((len(tile), len(self._factors[0][1])), np.float32)
            totals = [np.zeros_like(K) for _ in self._ratios]
            for factor, half_squares_of_rows in self._factors:
                factor.product(tile, K)
                K -= half_squares
                K -= half_squares_of_rows
                np.minimum(K, 0, out=K)
                for ratio, total in zip(self._ratios, totals, strict=True):
                    total += np.exp(K if ratio == 1 else K * ratio)
            yield [total[:, : self.n_columns] / np.float32(len(self._factors)) for total in totals]

    def _scaled(self, rows: F32) -> F32:
        scaled = (rows - self._centre) / self._sigma
        return np.clip(scaled, -MAX_SCALED_VALUE, MAX_SCALED_VALUE, out=scaled).astype(np.float32)


class KernelSums:
    """Sums over training rows sum_j k(x, y_j) a_j of a kernel, averaged over images of the training rows."""

    def __init__(self, kernel: RowKernel, images: Sequence[Any], duals: F64, centre: F64) -> None:
        self._centre, self._coef, self._columns = np.asarray(centre, np.float64), duals, None
        if kernel.sigma is None:
            self._coef = ((images[0] - self._centre) / kernel.scale).T @ duals
        else:
            self._columns = GaussianColumns([kernel.sigma], images, centre)

    def of(self, X: F32) -> F64:
        """Return the sums (n, t) of rows X (n, m)."""
        if self._columns is None:
            return _row_products(X - self._centre, self._coef)
        parts = [_row_products(K.astype(np.float64), self._coef) for (K,) in self._columns.tiles(X)]
        return np.concatenate(parts) if parts else np.empty((0, self._coef.shape[1]))


def _row_products(A: F64, B: F64) -> F64:
    """Return A B (n, t); einsum sums each row in the same order, unlike a BLAS."""
    if B.shape[1] > MAX_SINGLE_COLUMNS:
        return np.asarray(np.einsum("ij,jk->ik", A, B))
    return np.stack([np.einsum("ij,j->i", A, column) for column in np.ascontiguousarray(B.T)], axis=1)
