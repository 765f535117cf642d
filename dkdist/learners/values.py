"""Decision values X W' + b with the same bits for a row whatever its neighbours, on any BLAS.

NumPy's own sums of products run along each row alone; a BLAS adds in an order that changes with the place in a tile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def decision_values(X: NDArray[Any], W: NDArray[Any], b: Any) -> NDArray[Any]:
    """(n, k) values of rows X (n, D) for W (k, D) and b (k,), or (n,) for W (D,)."""
    products = np.einsum("ij,kj->ik", np.ascontiguousarray(X), np.ascontiguousarray(np.atleast_2d(W)))
    return np.asarray(products.reshape(len(X), *W.shape[:-1]) + b)
