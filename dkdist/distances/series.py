"""Series from their last points to their first, so that a diagonal of a table is two runs of neighbours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist.distances._series_numba import WHOLE

BEYOND = np.zeros(WHOLE, np.float32)


class BackwardSeries(NamedTuple):
    """Series one after the other, each (d, m) from its last point to the first, flat; those of ``columns``. At the end
    ``WHOLE`` zeros, for loops that take so many cells at once.
    """

    n_omegas: int
    n_dims: int
    values: F32
    edges: I64
    columns: I64
    own: F32 | None = None


def backwards(points: F32, offsets: I64, columns: I64) -> BackwardSeries:
    """Some series as `fill_diagonals` takes them."""
    bounds, edges, parts = offsets.tolist(), [0], []
    for j in columns.tolist():
        first, end = bounds[j], bounds[j + 1]
        parts.append(points[first:end][::-1].T.ravel())
        edges.append(edges[-1] + end - first)
    values = np.concatenate([*parts, BEYOND]).astype(np.float32, copy=False)
    return BackwardSeries(len(bounds) - 1, points.shape[1], values, np.array(edges), columns)


def require_band(band: object) -> None:
    """Refuse a band that is no share of a length."""
    known = isinstance(band, (int, float, np.integer, np.floating)) and not isinstance(band, bool)
    if band is not None and not (known and 0 <= band <= 1):  # type: ignore[operator]
        raise ValueError(f"expected band to be None or between 0 and 1, found {band!r:.200}")
