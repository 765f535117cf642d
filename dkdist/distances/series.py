"""Series packed in reverse order, so that the points of both series along an antidiagonal are contiguous."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist.distances._series_numba import CELLS_PER_BLOCK

PADDING = np.zeros(CELLS_PER_BLOCK, np.float32)


class BackwardSeries(NamedTuple):
    """Concatenated flat series, each (d, m) from its last point to its first; ``columns`` are the landmark indices.

    `CELLS_PER_BLOCK` zeros follow the last series, because compiled functions read whole blocks of cells.
    """

    n_omegas: int
    n_dims: int
    values: F32
    edges: I64
    columns: I64
    self_distances: F32 | None = None


def pack_backward(points: F32, offsets: I64, columns: I64) -> BackwardSeries:
    """Pack the series ``columns`` for `fill_diagonals`."""
    bounds, edges, parts = offsets.tolist(), [0], []
    for j in columns.tolist():
        first, end = bounds[j], bounds[j + 1]
        parts.append(points[first:end][::-1].T.ravel())
        edges.append(edges[-1] + end - first)
    values = np.concatenate([*parts, PADDING]).astype(np.float32, copy=False)
    return BackwardSeries(len(bounds) - 1, points.shape[1], values, np.array(edges), columns)


def require_band(band: object) -> None:
    """Raise ValueError unless the band is None or in [0, 1]."""
    is_number = isinstance(band, (int, float, np.integer, np.floating)) and not isinstance(band, bool)
    if band is not None and not (is_number and 0 <= band <= 1):  # type: ignore[operator]
        raise ValueError(f"band must be None or from 0 to 1; got {band!r:.200}.")
