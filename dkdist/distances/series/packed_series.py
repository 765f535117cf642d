"""Series side by side in packs of lanes, as many as fill them, and those that are left one after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist.distances.series.backward_series import BackwardSeries, backwards
from dkdist.loops.array_types import F32, I64
from dkdist.loops.points import cache_lines

LANES = 128
FEW, SHORT = 50, 100  # so many long series leave lanes empty enough; fewer where diagonals are short, too


class PackedSeries(NamedTuple):
    """Series in packs of `LANES`, and those that are left: what dynamic time warping compares with.

    ``values`` holds, pack after pack from ``starts`` on, the coordinates by (point, dimension, lane). ``lengths`` and
    ``columns`` are (n_packs, LANES); lanes without a series have length zero.
    """

    n_omegas: int
    n_dims: int
    values: F32
    starts: I64
    lengths: I64
    columns: I64
    left: BackwardSeries


NO_PACKS = (
    np.empty(0, np.float32),
    np.zeros(1, np.int64),
    np.empty((0, LANES), np.int64),
    np.empty((0, LANES), np.int64),
)


def packed_series(points: F32, offsets: I64) -> PackedSeries:
    """Series made ready, the longest first."""
    sizes = offsets[1:] - offsets[:-1]
    order = (-sizes).argsort(kind="stable")
    n_packed = len(order) - _n_left(sizes, order)
    values, starts, lengths, columns = _packs(points, offsets, order[:n_packed]) if n_packed else NO_PACKS
    left = backwards(points, offsets, order[n_packed:])
    return PackedSeries(len(order), points.shape[1], values, starts, lengths, columns, left)


def _n_left(sizes: I64, order: I64) -> int:
    """How many series go one by one: those that fill no pack, if these are few enough for how long they are."""
    n = len(order) % LANES
    longest = int(sizes[order[len(order) - n]]) if n else 0
    return n if n * (longest + SHORT) <= FEW * longest else 0


def _packs(points: F32, offsets: I64, order: I64) -> tuple[F32, I64, I64, I64]:
    """The series of this order, the longest first, side by side."""
    d, sizes = points.shape[1], np.diff(offsets)
    n_packs = -(-len(order) // LANES)
    lengths, columns = np.zeros((n_packs, LANES), np.int64), np.zeros((n_packs, LANES), np.int64)
    lengths.flat[: len(order)], columns.flat[: len(order)] = sizes[order], order
    packs = [np.zeros((most, d, LANES), np.float32) for most in lengths.max(axis=1)]
    for k, j in enumerate(order):
        series = points[offsets[j] : offsets[j + 1]]
        packs[k // LANES][: len(series), :, k % LANES] = series
    starts = np.cumsum([0, *(pack.size for pack in packs)])
    (values,) = cache_lines(int(starts[-1]))  # a vector of another place lies in two lines
    np.concatenate([pack.ravel() for pack in packs], out=values)
    return values, starts, lengths, columns
