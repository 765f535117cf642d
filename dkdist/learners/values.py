"""Decision values X W' + b with the same bits for a row whatever its neighbours: products over tiles of 128 rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TILE = 128


def decision_values(X: NDArray[Any], W: NDArray[Any], b: Any) -> NDArray[Any]:
    """(n, k) values of rows X (n, D) for W (k, D) and b (k,), or (n,) for W (D,); the last tile is padded."""
    out = np.empty((len(X), *W.shape[:-1]), np.result_type(X, W, b))
    full = len(X) - len(X) % TILE
    for start in range(0, full, TILE):
        out[start : start + TILE] = X[start : start + TILE] @ W.T + b
    if full < len(X):
        last = np.zeros((TILE, X.shape[1]), X.dtype)
        last[: len(X) - full] = X[full:]
        out[full:] = (last @ W.T + b)[: len(X) - full]
    return out
