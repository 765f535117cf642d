"""Matrix products with the same bits on any number of BLAS threads.

    A B = sum_c A[:, c] B[c, :]   over slices c of 256 columns, summed in order

BLAS itself splits a longer sum where its number of threads says; it sums up to 256 terms in one piece.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SLICE = 256

F32 = NDArray[np.float32]


def steady_product(A: F32, B: F32, out: F32) -> None:
    """out = A B, for (n, k), (k, m) and (n, m) float32; a row's bits depend on n, so keep n the same."""
    np.matmul(A[:, :SLICE], B[:SLICE], out=out)
    for start in range(SLICE, A.shape[1], SLICE):
        out += A[:, start : start + SLICE] @ B[start : start + SLICE]
