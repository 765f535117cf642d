"""Dynamic time warping between series of any lengths.

    D_ij = c(x_i, y_j) + min(D_(i-1)j, D_i(j-1), D_(i-1)(j-1)),   D_(-1)(-1) = 0,   d(x, y) = D_(n-1)(m-1)

and infinity outside the table. Landmarks of similar length are packed into 128 SIMD lanes and padded to the longest.
The padding does not affect results, because each lane is read at the corner of its own table. If there are too few
series for a pack, they are compared one by one along the diagonals of their tables (`_series_numba.py`), with the same
additions in the same order. A pack is processed with four points of the object at a time, so that each landmark point
is loaded once for four; objects are padded at the start to a multiple of four by points at infinity. Costs are computed
from differences, so a common offset of all series only affects the rounding of points. Computations are elementwise in
float32, with a relative error of about sqrt(n + m) * 6e-8. Cost per pair: n m (2 d + 5) flops, in vector registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist._numba.compilation import FMA, jit
from dkdist._numba.points import cache_lines, read_only
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.distances._series_numba import WARP, fill_diagonals
from dkdist.distances._tuning import DIAGONAL_OVERHEAD_POINTS, MAX_UNPACKED_SERIES
from dkdist.distances.base import CostModel, Distance
from dkdist.distances.series import BackwardSeries, pack_backward, require_band

# Series per pack: eight 512-bit vectors of float32 (python benchmarks/sequence_distances.py growth).
N_LANES = 128


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
            work, above = cache_lines((2 * N_ROWS + 1) * N_LANES, longest * N_LANES)
            _fill(*arguments, euclidean, self.root, self.normalize, band, work, above, out)
        if len(packed.unpacked.columns):
            series = packed.unpacked
            arrays = series.values, series.edges, series.columns, rows, offsets
            options = WARP, euclidean, np.float32(0), np.float32(0), float(band), self.root, self.normalize
            fill_diagonals(*options, *(read_only(array) for array in arrays), out)


@jit(FMA)
def _add_costs(y, x, c, first):  # type: ignore[no-untyped-def]
    """Add the squared differences of one dimension: y (N_LANES,), x (N_ROWS,), c (N_ROWS * N_LANES,)."""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    for r in range(N_LANES):
        a = y[r]
        c[r] = (f32(0.0) if first else c[r]) + (x0 - a) * (x0 - a)
        c[r + N_LANES] = (f32(0.0) if first else c[r + N_LANES]) + (x1 - a) * (x1 - a)
        c[r + 2 * N_LANES] = (f32(0.0) if first else c[r + 2 * N_LANES]) + (x2 - a) * (x2 - a)
        c[r + 3 * N_LANES] = (f32(0.0) if first else c[r + 3 * N_LANES]) + (x3 - a) * (x3 - a)


@jit(FMA)
def _add_costs_of_four_dims(y, x, c, first):  # type: ignore[no-untyped-def]
    """Add the squared differences of four dimensions: y (4 * N_LANES,), x (4 * N_ROWS,)."""
    p0, p1, p2, p3 = x[0], x[1], x[2], x[3]
    q0, q1, q2, q3 = x[4], x[5], x[6], x[7]
    s0, s1, s2, s3 = x[8], x[9], x[10], x[11]
    t0, t1, t2, t3 = x[12], x[13], x[14], x[15]
    for r in range(N_LANES):
        p, q, s, t = y[r], y[r + N_LANES], y[r + 2 * N_LANES], y[r + 3 * N_LANES]
        c0 = f32(0.0) if first else c[r]
        c1 = f32(0.0) if first else c[r + N_LANES]
        c2 = f32(0.0) if first else c[r + 2 * N_LANES]
        c3 = f32(0.0) if first else c[r + 3 * N_LANES]
        c0 = (((c0 + (p0 - p) * (p0 - p)) + (q0 - q) * (q0 - q)) + (s0 - s) * (s0 - s)) + (t0 - t) * (t0 - t)
        c1 = (((c1 + (p1 - p) * (p1 - p)) + (q1 - q) * (q1 - q)) + (s1 - s) * (s1 - s)) + (t1 - t) * (t1 - t)
        c2 = (((c2 + (p2 - p) * (p2 - p)) + (q2 - q) * (q2 - q)) + (s2 - s) * (s2 - s)) + (t2 - t) * (t2 - t)
        c3 = (((c3 + (p3 - p) * (p3 - p)) + (q3 - q) * (q3 - q)) + (s3 - s) * (s3 - s)) + (t3 - t) * (t3 - t)
        c[r], c[r + N_LANES], c[r + 2 * N_LANES], c[r + 3 * N_LANES] = c0, c1, c2, c3


@jit()
def _roots(c):  # type: ignore[no-untyped-def]
    for r in range(N_ROWS * N_LANES):
        c[r] = np.sqrt(c[r])


@jit()
def _close_outside_band(c, low, high, shift):  # type: ignore[no-untyped-def]
    """Set the costs of one row to infinity outside the band; ``shift`` is the j - i of its cells."""
    for r in range(N_LANES):
        c[r] = c[r] if (low[r] <= shift) & (shift <= high[r]) else INF


@jit()
def _update_cells(c, left, corner, above):  # type: ignore[no-untyped-def]
    """Compute a column of four cells: ``left`` (N_ROWS * N_LANES,) becomes this column, ``above`` its last row."""
    for r in range(N_LANES):
        up, diagonal = above[r], corner[r]
        corner[r] = up
        l0, l1, l2, l3 = left[r], left[r + N_LANES], left[r + 2 * N_LANES], left[r + 3 * N_LANES]
        d0 = c[r] + min(min(l0, diagonal), up)
        d1 = c[r + N_LANES] + min(min(l1, l0), d0)
        d2 = c[r + 2 * N_LANES] + min(min(l2, l1), d1)
        d3 = c[r + 3 * N_LANES] + min(min(l3, l2), d2)
        left[r], left[r + N_LANES], left[r + 2 * N_LANES], left[r + 3 * N_LANES] = d0, d1, d2, d3
        above[r] = d3


@jit()
def _fill_columns(Y, x, d, euclidean, bands, i, begin, end, work, above):  # type: ignore[no-untyped-def]
    """Compute cells (i .. i + 3, begin .. end - 1) of a pack."""
    c, left, corner = (
        work[: N_ROWS * N_LANES],
        work[N_ROWS * N_LANES : 2 * N_ROWS * N_LANES],
        work[2 * N_ROWS * N_LANES :],
    )
    for j in range(begin, end):
        y = Y[j * d * N_LANES : (j + 1) * d * N_LANES]
        for k in range(0, d - d % 4, 4):
            _add_costs_of_four_dims(
                y[k * N_LANES : (k + 4) * N_LANES], x[k * N_ROWS : (k + 4) * N_ROWS], c, k == 0
            )
        for k in range(d - d % 4, d):
            _add_costs(y[k * N_LANES : (k + 1) * N_LANES], x[k * N_ROWS : (k + 1) * N_ROWS], c, k == 0)
        if euclidean:
            _roots(c)
        for row in range(N_ROWS if len(bands) else 0):
            shift = np.int32(j - i - row)
            _close_outside_band(
                c[row * N_LANES : (row + 1) * N_LANES], bands[:N_LANES], bands[N_LANES:], shift
            )
        _update_cells(c, left, corner, above[j * N_LANES : (j + 1) * N_LANES])


@jit()
def _lane_bands(n, lengths, band):  # type: ignore[no-untyped-def]
    """Return the minimum and the maximum j - i of each lane, concatenated; zeros for unused lanes."""
    bands = np.zeros(2 * N_LANES if band >= 0 else 0, np.int32)
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
def _fill(packed, points, offsets, euclidean, root, normalize, band, work, buffer, out):  # type: ignore[no-untyped-def]
    """Fill ``out``; ``work`` and ``buffer`` are aligned, because other vectors would span two cache lines."""
    (values, starts, lengths, columns), d = packed, points.shape[1]
    for p in range(len(lengths)):
        Y, M = values[starts[p] : starts[p + 1]], max(lengths[p, 0], 1)
        above = buffer[: M * N_LANES]
        for s in range(len(offsets) - 1):
            n = offsets[s + 1] - offsets[s]
            x, pad = _group_rows(points[offsets[s] : offsets[s + 1]], d, n)
            bands = _lane_bands(n, lengths[p], band)
            lowest, highest = (bands[:N_LANES].min(), bands[N_LANES:].max()) if len(bands) else (-n, M)
            above[:] = INF
            for i in range(-pad, n, N_ROWS):
                begin, end = max(0, i + lowest), min(M, i + N_ROWS + highest)
                work[:] = INF
                if begin > 0:
                    for lane in range(N_LANES):
                        work[2 * N_ROWS * N_LANES + lane] = above[(begin - 1) * N_LANES + lane]
                elif i <= 0:  # set D_(-1)(-1) = 0, above-left of the first real cell
                    zero = (2 * N_ROWS if pad == 0 else N_ROWS + pad - 1) * N_LANES
                    work[zero : zero + N_LANES] = f32(0.0)
                block = (i + pad) * d
                _fill_columns(
                    Y, x[block : block + N_ROWS * d], d, euclidean, bands, i, begin, end, work, above
                )
            for r in range(N_LANES):
                m = lengths[p, r]
                if m:
                    total = above[(m - 1) * N_LANES + r]
                    total = total / f32(n + m) if normalize else total
                    out[s, columns[p, r]] = np.sqrt(total) if root else total
