"""Which rows of a matrix are finite: a row whose sum is finite holds neither NaN nor infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

SUMS = {"reassoc", "contract", "nsz", "arcp"}  # sums in lanes; NaN and infinity keep their meaning


def not_finite(X: NDArray[Any]) -> NDArray[np.int64]:
    """The rows of X (n, D), float32 or float64 in C order, that hold NaN or infinity, sorted."""
    largest = X.dtype.type(np.finfo(X.dtype).max)
    suspects: NDArray[np.int64] = np.flatnonzero(_suspect(X, largest))
    lost: NDArray[np.int64] = suspects[~np.isfinite(X[suspects]).all(axis=1)]
    return lost


@njit(nogil=True, cache=True, fastmath=SUMS)
def _suspect(X, largest):  # type: ignore[no-untyped-def]
    """Rows whose sum is not finite: those that hold NaN or infinity, and perhaps some that overflow."""
    found = np.zeros(len(X), np.bool_)
    for i in range(len(X)):
        total = X.dtype.type(0.0)
        for j in range(X.shape[1]):
            total += X[i, j]
        found[i] = not (abs(total) <= largest)  # isfinite is x - x == 0, which reassociation would fold
    return found
