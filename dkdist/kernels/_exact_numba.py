"""Exact sums of a kernel over all pairs of weighted points, and connected components of point sets.

    E(x, z) = sum_ij k(x_i, x_j) <z_i, z_j>,   D_K^2(P, Q) = E of all points of P and Q, with z = (w_P, -w_Q)
    f(y) = sum_i z_i k(x_i, y),   dE/dz_i = 2 f(x_i),   dE/dx_i = 2 z_i grad f(x_i)

z_i are signed, with C channels (1 for weights, d for currents). Each unordered pair is summed once: half of the pairs
of the three matrices in Joshi et al. (2011, equation 1.1). All sums are float64. Below `MIN_PRODUCT_DIMS` dimensions,
squared distances come from differences of 64 points at a time, with the kernel in the same loop. Above, they come from
|x - y|^2 = |x|^2 + |y|^2 - 2 x.y in blocks, unless the error of an exponent could exceed 1e-10. Points are read in
tiles, and the order of summation is fixed.

Components are more than ``reach`` apart along an axis, so k between them is at most k(reach) <= eps, and omitting these
pairs changes E by at most eps W^2, W = sum_i |z_i|.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dkdist._numba.arrays import F64, I64
from dkdist._numba.compilation import FINITE_FMA, inline_jit, jit
from dkdist._numba.weighted_points import WeightedPoints, tile_rows
from dkdist.kernels._profiles_numba import (
    DISTANCE,
    EXP2,
    GAUSSIAN,
    LANES_PER_GROUP,
    Profile,
    exp2,
    profile,
    slope,
    sqdist,
)

# from this dimension on, matrix products are faster than differences (python benchmarks/kernel.py exact)
MIN_PRODUCT_DIMS = 4
# Rows and columns of a block of products; a block stays in the L2 cache (python benchmarks/kernel.py exact).
BLOCK_ROWS, SMALL_BLOCK_ROWS = 256, 128
# rows squared per batch; the temporary array stays small (tests/kernel/test_kernel_memory.py)
NORM_BATCH_ROWS = 64
# Numbers of coordinates (n d) for which a large block would add noticeable memory (tests/kernel/test_kernel_memory.py).
SMALL_BLOCK_COORDINATES = range(2**17, 2**19)
# exponent error above which differences are used (tests/kernel/test_exact_sums.py)
MAX_PRODUCT_ROUNDING = 1e-10
DIRECT_ROUNDING = 1e-15  # rounding error of k computed from differences (tests/kernel/test_exact_sums.py)

f64 = np.float64


def total_variation_mass(z: F64) -> float:
    """Return W = sum_i |z_i| of weights (n, C); energies are at most W^2."""
    return float(np.sqrt(np.einsum("ic,ic->i", z, z)).sum())


def energy_in_tiles(points: WeightedPoints, unit: float, kernel: Profile) -> float:
    """Return E of points multiplied by ``unit``, with memory for a few tiles."""
    wide = kernel == GAUSSIAN and points.d >= MIN_PRODUCT_DIMS
    if wide and max(_tile_rounding(points, unit)) < MAX_PRODUCT_ROUNDING:
        return _by_products(points, unit)
    return _by_differences(points, unit, kernel)


def _by_differences(points: WeightedPoints, unit: float, kernel: Profile) -> float:
    step, total = tile_rows(points.d, len(points)), 0.0
    for first in range(0, len(points), step):
        last = min(first + step, len(points))
        columns, before = (
            pad_dims(points.scaled_x(unit, first, last)),
            np.zeros((last - first, points.channels)),
        )
        for start in range(0, first, step):
            _add_sums(
                columns,
                pad_dims(points.scaled_x(unit, start, start + step)),
                points.z(start, start + step),
                kernel,
                before,
            )
        total = self_energy(columns, points.z(first, last), kernel, before, total)
    return total


def _by_products(points: WeightedPoints, unit: float) -> float:
    """Return E from blocks of columns: products with earlier rows count twice, the diagonal block once."""
    side = SMALL_BLOCK_ROWS if len(points) * points.d in SMALL_BLOCK_COORDINATES else BLOCK_ROWS
    step, total, T = tile_rows(points.d, len(points)), 0.0, np.empty((side, side))
    for first in range(0, len(points), step):
        for row_energies in _tile_energies(points, unit, first, min(first + step, len(points)), T).tolist():
            for block_energy in row_energies:
                total += block_energy
    return total


def _tile_energies(points: WeightedPoints, unit: float, first: int, last: int, T: F64) -> F64:
    """Return the energy of each block (column block, row block) of a tile of columns; ``T`` is a buffer."""
    columns, side = _scaled_block(points, first, last, unit), len(T)
    energies = np.zeros((-(-(last - first) // side), -(-last // side)))
    for start in range(0, last, side):
        stop, is_diagonal = min(start + side, last), start >= first
        rows = (
            _slice_block(columns, start - first, stop - first)
            if is_diagonal
            else _scaled_block(points, start, stop, unit)
        )
        for begin in range(max(start, first), last, side):
            y, column_norms, w = _slice_block(columns, begin - first, min(begin + side, last) - first)
            t = np.matmul(rows[0], y.T, out=T[: len(rows[0]), : len(y)])
            block_energy = _block_energy(t, rows[1], column_norms, rows[2], w)
            energies[(begin - first) // side, start // side] = (
                block_energy if start == begin else 2 * block_energy
            )
        del rows  # frees memory before the next block
    return energies


def _scaled_block(points: WeightedPoints, first: int, last: int, unit: float) -> tuple[F64, F64, F64]:
    """Return scaled points, their squared norms and their weights."""
    x = points.scaled_x(unit, first, last)
    norms = np.concatenate(
        [(x[a : a + NORM_BATCH_ROWS] ** 2).sum(axis=1) for a in range(0, len(x), NORM_BATCH_ROWS)]
    )
    return x, norms, points.z(first, last)


def _slice_block(block: tuple[F64, F64, F64], first: int, last: int) -> tuple[F64, F64, F64]:
    x, norms, z = block
    return x[first:last], norms[first:last], z[first:last]


def rounding(x: F64, kernel: Profile) -> float:
    """Bound the rounding error of an energy, relative to W^2."""
    if kernel.form == DISTANCE:
        return DIRECT_ROUNDING * 2 * float(np.sqrt((x**2).sum(axis=1).max()))
    error = _exponent_rounding(x) if kernel == GAUSSIAN and x.shape[1] >= MIN_PRODUCT_DIMS else 0.0
    return DIRECT_ROUNDING + (error if error < MAX_PRODUCT_ROUNDING else 0.0)


def sums(y: F64, x: F64, z: F64, kernel: Profile = GAUSSIAN) -> F64:
    """Return sum_i k(y_l, x_i) z_i at scaled points y (m, d): (m, C)."""
    out = np.zeros((len(y), z.shape[1]))
    _add_sums(pad_dims(y), pad_dims(x), z, kernel, out)
    return out


def sums_and_gradients(y: F64, x: F64, z: F64, kernel: Profile) -> tuple[F64, F64]:
    """Return (f (m,), gradients (m, d)) at scaled points y (m, d), for scaled points x (n, d) with weights z (n,)."""
    d = y.shape[1]
    out = np.zeros((len(y), d + d % 2 + 1))
    _gradients(pad_dims(y), pad_dims(x), z, kernel, out)
    return out[:, -1].copy(), out[:, :d].copy()


def pad_dims(x: F64) -> F64:
    """Pad points with zeros to an even number of dimensions; functions process two dimensions at a time."""
    if x.shape[1] % 2 == 0:
        return np.ascontiguousarray(x)
    wider = np.zeros((len(x), x.shape[1] + 1))
    wider[:, :-1] = x
    return wider


def _tile_rounding(points: WeightedPoints, unit: float) -> Iterator[float]:
    """Yield `_exponent_rounding` of each tile of points multiplied by ``unit``."""
    rows = tile_rows(points.d, len(points))
    return (
        _exponent_rounding(points.scaled_x(unit, a, min(a + rows, len(points))))
        for a in range(0, len(points), rows)
    )


def _exponent_rounding(x: F64) -> float:
    """Bound the error of exponents computed from products of scaled points."""
    return float((x.shape[1] + 4) * np.finfo(np.float64).eps * 4 * np.einsum("ij,ij->i", x, x).max())


@inline_jit(FINITE_FMA)
def _add(x, z, first, last, kernel, y, square, k, acc):  # type: ignore[no-untyped-def]
    """Add sum_i z_ic k(x_i, y_l), i = first .. last - 1, to acc[c, l]; y is (d, LANES_PER_GROUP)."""
    d = x.shape[1]
    for i in range(first, last):
        w, first_acc = z[i, 0], acc[0]
        if kernel.form == EXP2 and not kernel.city_block:
            for j in range(0, d - 2, 2):
                a, b, ya, yb = x[i, j], x[i, j + 1], y[j], y[j + 1]
                for n in range(LANES_PER_GROUP):
                    partial = square[n] if j else f64(0.0)
                    square[n] = partial + (a - ya[n]) * (a - ya[n]) + (b - yb[n]) * (b - yb[n])
            a, b, ya, yb = x[i, d - 2], x[i, d - 1], y[d - 2], y[d - 1]
            for n in range(LANES_PER_GROUP):  # distance, kernel and sum in one loop
                s = square[n] + (a - ya[n]) * (a - ya[n]) + (b - yb[n]) * (b - yb[n])
                k[n] = exp2(-s)
                first_acc[n] += w * k[n]
        else:
            sqdist(x, i, y, kernel, square)
            profile(square, kernel, k)
            for n in range(LANES_PER_GROUP):
                first_acc[n] += w * k[n]
        for c in range(1, z.shape[1]):
            row, w = acc[c], z[i, c]
            for n in range(LANES_PER_GROUP):
                row[n] += w * k[n]


@inline_jit(FINITE_FMA)
def load_columns(y, first, last, tile):  # type: ignore[no-untyped-def]
    """Copy points to the columns of a tile, padded with the last point."""
    for n in range(LANES_PER_GROUP):
        for j in range(y.shape[1]):
            tile[j, n] = y[min(first + n, last - 1), j]


@jit(FINITE_FMA)
def self_energy(x, z, kernel, before, total):  # type: ignore[no-untyped-def]
    """Return ``total`` plus the energy of points from `pad_dims`, computed from differences.

    ``before`` (n, C) are kernel sums at these points over earlier points, to include pairs with them; (0, C): none.
    """
    C, square, k = z.shape[1], np.zeros(LANES_PER_GROUP), np.empty(LANES_PER_GROUP)
    tile, acc = np.empty((x.shape[1], LANES_PER_GROUP)), np.empty((C, LANES_PER_GROUP))
    for first in range(0, len(x), LANES_PER_GROUP):
        last = min(first + LANES_PER_GROUP, len(x))
        load_columns(x, first, last, tile)
        acc[:] = 0.0
        if len(before) > 0:
            load_columns(before, first, last, acc)
        for start, stop, factor in (
            (0, first, 1.0),
            (first, last, 2.0),
        ):  # pairs with earlier points count twice
            acc *= factor
            _add(x, z, start, stop, kernel, tile, square, k, acc)
        for n in range(last - first):
            for c in range(C):
                total += z[first + n, c] * acc[c, n]
    return total


@jit(FINITE_FMA)
def _add_sums(y, x, z, kernel, out):  # type: ignore[no-untyped-def]
    """Add `sums` at points y to ``out`` (m, C), for points from `pad_dims`."""
    C, square, k = z.shape[1], np.zeros(LANES_PER_GROUP), np.empty(LANES_PER_GROUP)
    tile, acc = np.empty((x.shape[1], LANES_PER_GROUP)), np.empty((C, LANES_PER_GROUP))
    for first in range(0, len(y), LANES_PER_GROUP):
        last = min(first + LANES_PER_GROUP, len(y))
        load_columns(y, first, last, tile)
        load_columns(out, first, last, acc)
        _add(x, z, 0, len(x), kernel, tile, square, k, acc)
        for n in range(last - first):
            for c in range(C):
                out[first + n, c] = acc[c, n]


@jit(FINITE_FMA)
def _block_energy(t, row_norms, column_norms, row_z, column_z):  # type: ignore[no-untyped-def]
    """Return sum_ij 2^(2 t_ij - |x_i|^2 - |y_j|^2) <z_i, z_j>."""
    C = row_z.shape[1]
    acc, k = np.zeros((C, t.shape[1])), np.empty(t.shape[1])
    for i in range(len(t)):
        norm, w, products, first_acc = row_norms[i], row_z[i, 0], t[i], acc[0]
        for j in range(len(products)):
            k[j] = exp2(min(f64(2.0) * products[j] - norm - column_norms[j], f64(0.0)))
            first_acc[j] += w * k[j]
        for c in range(1, C):
            row, w = acc[c], row_z[i, c]
            for j in range(len(row)):
                row[j] += w * k[j]
    total = 0.0
    for j in range(t.shape[1]):
        for c in range(C):
            total += column_z[j, c] * acc[c, j]
    return total


@jit(FINITE_FMA)
def _gradients(y, x, z, kernel, out):  # type: ignore[no-untyped-def]
    d, s, k, g = x.shape[1], np.zeros(LANES_PER_GROUP), np.empty(LANES_PER_GROUP), np.empty(LANES_PER_GROUP)
    tile, acc = np.empty((d, LANES_PER_GROUP)), np.empty((d + 1, LANES_PER_GROUP))
    for first in range(0, len(y), LANES_PER_GROUP):
        last = min(first + LANES_PER_GROUP, len(y))
        load_columns(y, first, last, tile)
        acc[:] = 0.0
        for i in range(len(x)):
            w, values = z[i], acc[d]
            sqdist(x, i, tile, kernel, s)
            profile(s, kernel, k)
            for n in range(LANES_PER_GROUP):
                values[n] += w * k[n]
            if not kernel.city_block:
                slope(s, kernel, k, g)
            for j in range(d):
                a, ya, row = x[i, j], tile[j], acc[j]
                if kernel.city_block:  # k = 2^(-sum of |differences|)
                    for n in range(LANES_PER_GROUP):
                        row[n] += w * np.log(2.0) * k[n] * np.sign(a - ya[n])
                else:
                    for n in range(LANES_PER_GROUP):
                        row[n] += w * g[n] * (ya[n] - a)
        for n in range(last - first):
            for j in range(d + 1):
                out[first + n, j] = acc[j, n]


# bins of all axes together: 4 MiB of minima and maxima (tests/kernel/test_kernel_parts.py)
MAX_GAP_INTERVALS = 2**18


def cutoff_radius(sigma: float, eps: float) -> float:
    """Return the distance at which the Gaussian kernel is ``eps``."""
    return float(sigma * np.sqrt(-2 * np.log(min(max(eps, 1e-300), 0.5))))


def is_connected_by_bins(points: WeightedPoints, reach: float) -> bool:
    """Return True if no axis has a gap longer than ``reach``; False is inconclusive, because points are only binned.

    Bins are not longer than ``reach``, so gaps can only lie between consecutive occupied bins.
    """
    low, widths = points.bounds[0], points.widths
    with np.errstate(over="ignore"):
        n_bins = float((widths / reach).max()) + 1
    if not n_bins * points.d <= MAX_GAP_INTERVALS:
        return False
    lows, highs = np.full((points.d, int(n_bins) + 1), np.inf), np.full((points.d, int(n_bins) + 1), -np.inf)
    for x, _ in points.tiles():
        _update_bins(x, low, 1 / reach, lows, highs)
    for a, b in zip(lows, highs, strict=True):
        is_occupied = np.isfinite(a)
        if (a[is_occupied][1:] - b[is_occupied][:-1] > reach).any():
            return False
    return True


@jit()
def _update_bins(x, low, bins_per_length, lows, highs):  # type: ignore[no-untyped-def]
    """Update the minimum and maximum coordinate in each bin of each axis."""
    for i in range(len(x)):
        for j in range(x.shape[1]):
            k = min(int((x[i, j] - low[j]) * bins_per_length), lows.shape[1] - 1)
            lows[j, k] = min(lows[j, k], x[i, j])
            highs[j, k] = max(highs[j, k], x[i, j])


def connected_components(points: WeightedPoints, reach: float) -> tuple[I64, I64]:
    """Return (order of the points by components, first position of each component and the end).

    Components are split at gaps longer than ``reach`` along each axis in turn, until no axis has such a gap. Cost:
    n log n per axis and round, usually two rounds.
    """
    component, count, n_idle_axes, axis = np.zeros(len(points), np.int64), 1, 0, 0
    while n_idle_axes < points.d:
        column = points.column(axis)
        order = np.argsort(column)
        if count > 1:
            order = order[np.argsort(component[order], kind="stable")]
        cut = (np.diff(component[order]) > 0) | (np.diff(column[order]) > reach)
        component[order] = np.concatenate([[0], np.cumsum(cut)])
        n_components = int(cut.sum()) + 1
        n_idle_axes, count = (1 if n_components > count else n_idle_axes + 1), n_components
        axis = (axis + 1) % points.d
    order = np.argsort(component, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(component))])


def blockwise_energy(x: F64, z: F64, spans: I64) -> float:
    """Return the sum of the energies of spans (first, end) of scaled points (n, d) with weights (n, C)."""
    return float(_span_energies(pad_dims(x), z, spans))


@jit()
def _span_energies(x, z, spans):  # type: ignore[no-untyped-def]
    total, no_sums = 0.0, np.empty((0, z.shape[1]))
    for s in range(len(spans)):
        a, b = spans[s, 0], spans[s, 1]
        if b - a == 1:  # k(x, x) = 1
            for c in range(z.shape[1]):
                total += z[a, c] * z[a, c]
        else:
            total += self_energy(x[a:b] - x[a], z[a:b], GAUSSIAN, no_sums, 0.0)
    return total
