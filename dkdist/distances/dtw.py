"""Dynamic time warping between series of any lengths.

    D_ij = c(x_i, y_j) + min(D_(i-1)j, D_i(j-1), D_(i-1)(j-1)),   D_(-1)(-1) = 0,   d(x, y) = D_(n-1)(m-1)

and infinity outside the table. Landmarks of similar length are packed, one per SIMD lane, and padded to the longest.
The padding does not affect results, because each lane is read at the corner of its own table. If there are too few
series for a pack, they are compared one by one along the diagonals of their tables (`_series_numba.py`), with the same
additions in the same order. A pack is processed with four points of the object at a time, so that each landmark point
is loaded once for four, and the cells of a column stay in registers; objects are padded at the start to a multiple of
four by points at infinity. Costs are computed from differences, so a common offset of all series only affects the
rounding of points. Computations are elementwise in float32, with a relative error of about sqrt(n + m) * 6e-8. Cost per
pair: n m (2 d + 3) flops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.elementary import squared_distances
from dkdist._numba.points import cache_lines, read_only
from dkdist._numba.simd import (
    SIMD_WIDTH,
    load,
    plus,
    smaller,
    square_roots,
    store,
    where_between,
)
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.distances._series_numba import WARP, fill_diagonals
from dkdist.distances._tuning import DIAGONAL_OVERHEAD_POINTS, MAX_UNPACKED_SERIES
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.series import BackwardSeries, pack_backward, require_band

N_LANES = SIMD_WIDTH  # series per pack (python benchmarks/roofline.py distances)


class PackedSeries(NamedTuple):
    """Landmarks in packs of `N_LANES`; the remaining ones are in ``unpacked``.

    ``values`` holds the coordinates of each pack, from ``starts`` on, in the order (point, dimension, lane).
    ``lengths`` and ``columns`` are (n_packs, N_LANES); lanes without a series have length zero.
    """

    n_omegas: int
    n_dims: int
    values: F32
    starts: I64
    lengths: I64
    columns: I64
    unpacked: BackwardSeries


EMPTY_PACKS = (
    np.empty(0, np.float32),
    np.zeros(1, np.int64),
    np.empty((0, N_LANES), np.int64),
    np.empty((0, N_LANES), np.int64),
)


def pack_series(points: F32, offsets: I64) -> PackedSeries:
    """Pack series, the longest first."""
    sizes = offsets[1:] - offsets[:-1]
    order = (-sizes).argsort(kind="stable")
    n_packed = len(order) - _n_unpacked(sizes, order)
    values, starts, lengths, columns = _pack(points, offsets, order[:n_packed]) if n_packed else EMPTY_PACKS
    unpacked = pack_backward(points, offsets, order[n_packed:])
    return PackedSeries(len(order), points.shape[1], values, starts, lengths, columns, unpacked)


def _n_unpacked(sizes: I64, order: I64) -> int:
    """Return the number of unpacked series: the last incomplete pack, if padding it would cost more than diagonals."""
    n = len(order) % N_LANES
    longest = int(sizes[order[len(order) - n]]) if n else 0
    return n if n * (longest + DIAGONAL_OVERHEAD_POINTS) <= MAX_UNPACKED_SERIES * longest else 0


def _pack(points: F32, offsets: I64, order: I64) -> tuple[F32, I64, I64, I64]:
    d, sizes = points.shape[1], np.diff(offsets)
    n_packs = -(-len(order) // N_LANES)
    lengths, columns = np.zeros((n_packs, N_LANES), np.int64), np.zeros((n_packs, N_LANES), np.int64)
    lengths.flat[: len(order)], columns.flat[: len(order)] = sizes[order], order
    packs = [np.zeros((longest, d, N_LANES), np.float32) for longest in lengths.max(axis=1)]
    for k, j in enumerate(order):
        series = points[offsets[j] : offsets[j + 1]]
        packs[k // N_LANES][: len(series), :, k % N_LANES] = series
    starts = np.cumsum([0, *(pack.size for pack in packs)])
    (values,) = cache_lines(int(starts[-1]))  # aligned, because other vectors would span two cache lines
    np.concatenate([pack.ravel() for pack in packs], out=values)
    return values, starts, lengths, columns


N_ROWS = 4  # points of a series per pass over a pack (python benchmarks/sequence_distances.py dtw)
GROUND_COSTS = "sqeuclidean", "euclidean"

f32 = np.float32
INF = f32(np.inf)  # value of cells outside the band (tests/distances/test_dtw.py)


@serializable("DynamicTimeWarping")
@dataclass(frozen=True)
class DynamicTimeWarping(Distance):
    """Dynamic time warping of multivariate series.

    ``ground`` is the cost of a pair of points, "sqeuclidean" or "euclidean"; ``root`` takes the square root of the sum
    of costs. ("sqeuclidean", False) is the DTW of aeon, ("sqeuclidean", True) that of dtaidistance.

    ``band`` in [0, 1] is the Sakoe-Chiba band: paths may use cell (i, j) of an n x m table if

        -max(0, n - m) - r <= j - i <= max(0, m - n) + r,   r = floor(band * max(n, m)),

    so every band contains both corners and a path between them. For equal lengths, band = 0 is the diagonal
    (dtaidistance: window = r + 1; aeon, for equal lengths: window = band). None and 1 allow all cells.

    ``normalize`` divides the sum of costs by n + m, before the root.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> series = [np.array([[0.0], [1.0], [1.0]]), np.array([[0.0], [0.0], [2.0]])]
    >>> round(float(dk.distance_matrix(series, distance=dk.DynamicTimeWarping(root=True))[0, 1]), 4)
    1.4142
    """

    ground: str = "sqeuclidean"
    root: bool = False
    band: float | None = None
    normalize: bool = False

    ordered = squares_coordinates = True

    def __post_init__(self) -> None:
        check_bool("root", self.root)
        check_bool("normalize", self.normalize)
        if not isinstance(self.ground, str) or self.ground not in GROUND_COSTS:
            raise ValueError(f"ground must be one of {GROUND_COSTS}; got {self.ground!r}.")
        require_band(self.band)

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs of comparisons with packs."""
        return CostModel(N_LANES, 100 / sizes.mean())

    def prepare(self, points: F32, offsets: I64, weights: F32 | None = None) -> PackedSeries:
        """Pack the landmarks, the longest first; needs memory for the points, padded within each pack."""
        self.reject_weights(weights)
        return pack_series(points, offsets)

    def fill(self, packed: PackedSeries, points: F32, offsets: I64, weights: F32 | None, out: F32) -> None:
        """Compute out[i, j], the distance of series i to landmark j."""
        self.reject_weights(weights)
        if points.shape[1] != packed.n_dims:
            raise ValueError(
                f"series must have {packed.n_dims} dimensions, like the landmarks; got {points.shape[1]}."
            )
        rows = np.ascontiguousarray(points, np.float32)
        euclidean, band = self.ground == "euclidean", -1.0 if self.band is None else self.band
        omegas = packed.values, packed.starts, packed.lengths, packed.columns
        if len(packed.lengths):
            arguments, longest = (
                (omegas, read_only(rows), read_only(offsets)),
                max(1, int(packed.lengths.max())),
            )
            borders, above = cache_lines((N_ROWS + 1) * N_LANES, longest * N_LANES)
            _fill(*arguments, euclidean, self.root, self.normalize, band, borders, above, out)
        if len(packed.unpacked.columns):
            series = packed.unpacked
            arrays = series.values, series.edges, series.columns, rows, offsets
            options = WARP, euclidean, np.float32(0), np.float32(0), float(band), self.root, self.normalize
            fill_diagonals(*options, *(read_only(array) for array in arrays), out)


@inline_jit()
def _fill_columns(Y, x, d, euclidean, bands, i, begin, end, borders, above):  # type: ignore[no-untyped-def]
    """Compute cells (i .. i + 3, begin .. end - 1) of a pack; ``above`` (points, N_LANES) becomes its last row.

    ``borders`` are the corner D_(i-1)(begin-1) and four cells of the column before ``begin``. All cells of a column
    stay in registers.
    """
    corner, left0 = load(borders, 0, 0, 1, N_LANES), load(borders, N_LANES, 0, 1, N_LANES)
    left1, left2 = load(borders, 2 * N_LANES, 0, 1, N_LANES), load(borders, 3 * N_LANES, 0, 1, N_LANES)
    left3 = load(borders, 4 * N_LANES, 0, 1, N_LANES)
    for j in range(begin, end):
        c0, c1, c2, c3 = squared_distances(x, 0, 1, N_ROWS, Y, j * d * N_LANES, N_LANES, d)
        if euclidean:
            c0, c1, c2, c3 = square_roots(c0), square_roots(c1), square_roots(c2), square_roots(c3)
        if len(bands):
            low, high, shift = load(bands, 0, 0, 1, N_LANES), load(bands, N_LANES, 0, 1, N_LANES), j - i
            c0 = where_between(c0, f32(shift), low, high, INF)
            c1 = where_between(c1, f32(shift - 1), low, high, INF)
            c2 = where_between(c2, f32(shift - 2), low, high, INF)
            c3 = where_between(c3, f32(shift - 3), low, high, INF)
        up = load(above, j * N_LANES, 0, 1, N_LANES)
        d0 = plus(c0, smaller(smaller(left0, corner), up))
        d1 = plus(c1, smaller(smaller(left1, left0), d0))
        d2 = plus(c2, smaller(smaller(left2, left1), d1))
        left3 = plus(c3, smaller(smaller(left3, left2), d2))
        corner, left0, left1, left2 = up, d0, d1, d2
        store(left3, above, j * N_LANES, 0)


@jit()
def _lane_bands(n, lengths, band):  # type: ignore[no-untyped-def]
    """Return the minimum and the maximum j - i of each lane, concatenated; zeros for unused lanes."""
    bands = np.zeros(2 * N_LANES if band >= 0 else 0, f32)  # exact integers
    for r in range(len(bands) // 2):
        m = lengths[r]
        if m:
            radius = int(np.floor(band * max(n, m)))
            bands[r] = -max(0, n - m) - radius
            bands[N_LANES + r] = max(0, m - n) + radius
    return bands


@jit()
def _group_rows(x, n_dims, n):  # type: ignore[no-untyped-def]
    """Reorder an object (n, d) to a flat array (blocks, d, N_ROWS), padded at the start with points at infinity."""
    blocks = -(-n // N_ROWS)
    rows = np.full(blocks * N_ROWS * n_dims, INF, np.float32)
    pad = blocks * N_ROWS - n
    for i in range(n):
        block, row = (i + pad) // N_ROWS, (i + pad) % N_ROWS
        for k in range(n_dims):
            rows[(block * n_dims + k) * N_ROWS + row] = x[i, k]
    return rows, pad


@jit()
def _fill(packed, points, offsets, euclidean, root, normalize, band, borders, buffer, out):  # type: ignore[no-untyped-def]
    """Fill ``out``; ``borders`` and ``buffer`` are aligned, because other vectors would span two cache lines."""
    (values, starts, lengths, columns), d = packed, points.shape[1]
    for s in range(len(offsets) - 1):
        n = offsets[s + 1] - offsets[s]
        x, pad = _group_rows(points[offsets[s] : offsets[s + 1]], d, n)
        for p in range(len(lengths)):
            Y, M = values[starts[p] : starts[p + 1]], max(lengths[p, 0], 1)
            above = buffer[: M * N_LANES]
            bands = _lane_bands(n, lengths[p], band)
            lowest, highest = (
                (int(bands[:N_LANES].min()), int(bands[N_LANES:].max())) if len(bands) else (-n, M)
            )
            above[:] = INF
            for i in range(-pad, n, N_ROWS):
                begin, end = max(0, i + lowest), min(M, i + N_ROWS + highest)
                borders[:] = INF
                if begin > 0:
                    store(load(above, (begin - 1) * N_LANES, 0, 1, N_LANES), borders, 0, 0)
                elif i <= 0:  # set D_(-1)(-1) = 0, above-left of the first real cell
                    borders[pad * N_LANES : (pad + 1) * N_LANES] = f32(0.0)
                rows = x[(i + pad) * d : (i + pad + N_ROWS) * d]
                _fill_columns(Y, rows, d, euclidean, bands, i, begin, end, borders, above)
            for r in range(N_LANES):
                m = lengths[p, r]
                if m:
                    total = above[(m - 1) * N_LANES + r]
                    total = total / f32(n + m) if normalize else total
                    out[s, columns[p, r]] = np.sqrt(total) if root else total
