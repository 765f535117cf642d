"""Leverage of rows in ridge regression: how much less sure the model is there than the noise alone would make it.

    h(x) = 1/n + z' (Z'Z + alpha I)^-1 z,    z = x - mean,    Var(prediction error at x) = noise (1 + h(x))

with rows Z of the n that were learned from, about their mean: the posterior variance of the Gaussian model whose mean
is ridge regression. For a row that was learned from, the model of all others has 1 + h = 1 / (1 - h(x_i)). For fewer
rows than columns, (Z'Z + alpha)^-1 = (I - Z' (ZZ' + alpha)^-1 Z) / alpha. (Hastie, Tibshirani, Friedman: The elements
of statistical learning, 3.4.1; Rasmussen, Williams: Gaussian processes, 2.1.)
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkdist.loops.array_types import F64

MOST = 1 - 1e-9  # of a leverage within the rows that were learned from


class RidgeLeverage:
    """Leverages by the rows (n, m) that were learned from and the penalty alpha > 0.

    One factor of n^2 m + n^3 / 3 or n m^2 + m^3 / 3 operations, whichever is less, and n m or m^2 / 2 of them for each
    row that is asked for. Raises ValueError for a penalty that is not positive.
    """

    def __init__(self, rows: NDArray[np.floating], alpha: float) -> None:
        if not alpha > 0:
            raise ValueError(
                f"alpha must be positive; found {alpha}: without a penalty leverages are no numbers"
            )
        self._n, self._alpha = len(rows), float(alpha)
        self._mean = rows.mean(axis=0, dtype=np.float64)
        Z = rows - self._mean
        self._dual = len(rows) < rows.shape[1]
        self._rows = Z if self._dual else None
        products = Z @ Z.T if self._dual else Z.T @ Z
        products[np.diag_indices_from(products)] += self._alpha
        self._factor = scipy.linalg.cholesky(products, lower=True, overwrite_a=True)

    def __call__(self, rows: NDArray[np.floating]) -> F64:
        """(k,) h of ``rows`` (k, m)."""
        z = rows - self._mean
        right = (z if self._rows is None else z @ self._rows.T).T
        explained = (scipy.linalg.solve_triangular(self._factor, right, lower=True) ** 2).sum(axis=0)
        if self._dual:
            explained = np.maximum((z**2).sum(axis=1) - explained, 0) / self._alpha
        return np.asarray(1 / self._n + explained)


def spread(leverage: F64) -> F64:
    """sqrt(1 + h) of rows that were not learned from, the noise being one."""
    return np.asarray(np.sqrt(1 + leverage))


def left_out_spread(leverage: F64) -> F64:
    """sqrt(1 / (1 - h)) of rows that were learned from: what their spread is by the model of all others."""
    return np.asarray(1 / np.sqrt(1 - np.minimum(leverage, MOST)))
