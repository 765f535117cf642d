"""Apply a matrix along each axis of a 3-D array: Y = (D1 x D2 x D3) X, as three small matrix products.

A missing dimension is an axis of length one with the 1 x 1 matrix [1], so d = 1, 2 and 3 are one piece of
code.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

F32 = NDArray[np.float32]


def three_axes(matrices: list[F32]) -> list[F32]:
    """Pad one, two or three matrices with [1] to three."""
    return matrices + [np.ones((1, 1), np.float32)] * (3 - len(matrices))


@njit(nogil=True, forceinline=True)
def separable(D1, D2, D3t, X, Y):  # type: ignore[no-untyped-def]
    """Y[a, b, c] = sum D1[a, i] D2[b, j] D3t[k, c] X[i, j, k], for contiguous float32 arrays."""
    (A, _), (B, J), (K, C) = D1.shape, D2.shape, D3t.shape
    first = np.dot(D1, X.reshape(D1.shape[1], J * K)).reshape(A, J, K)
    second = np.empty((A, B, K), X.dtype)
    for a in range(A):
        np.dot(D2, first[a], second[a])
    np.dot(second.reshape(A * B, K), D3t, Y.reshape(A * B, C))
