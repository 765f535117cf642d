"""Compiled helpers for points: checks for finite values, samples, bounds, weights, columns, means of regions.

A row with a finite sum contains neither NaN nor infinity. A point is sampled if a hash of (seed, set, index in the set)
is below a threshold (finalizer of SplitMix64; Steele, Lea, Flood 2014), so samples do not depend on blocks or their
order. `cell_means` replaces points by the means of regions, which are halved along their longest side: the change of
the sum of a smooth function is quadratic in the width of a region.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._numba.compilation import FINITE_FMA, FINITE_REASSOC, FMA_REASSOC, inline_jit, jit
from dkdist._numba.elementary import f32, i32, minimum

A = TypeVar("A", bound=Array)


def nonfinite_rows(X: Array) -> I64:
    """Return the sorted indices of rows of X (n, D) with NaN or infinity; float32 or float64, C order."""
    largest = X.dtype.type(np.finfo(X.dtype).max)
    suspects: I64 = np.flatnonzero(_rows_with_large_sums(read_only(X), largest))
    rows: I64 = suspects[~np.isfinite(X[suspects]).all(axis=1)]
    return rows


def all_finite(X: Array) -> bool:
    """Return whether X (float32 or float64, C order) has neither NaN nor infinity; runs at memory speed."""
    flat = read_only(X.reshape(-1))
    return math.isfinite(_total(flat)) or bool(np.isfinite(flat).all())


def max_abs_value(X: F32) -> float:
    """Return the largest |x| of X, float32 in C order: NaN if X has NaN, else infinity if X has infinity; 0 if empty.

    Bits of absolute values, as integers, are in the order of the values, followed by infinity and NaN.
    """
    bits = _max_abs_bits(read_only(X.reshape(-1)).view(np.int32))
    return float(np.int32(bits).view(np.float32))


@jit()
def _max_abs_bits(x):  # type: ignore[no-untyped-def]
    largest = i32(0)
    for i in range(len(x)):
        largest = max(largest, i32(x[i] & i32(0x7FFFFFFF)))
    return largest


@jit(FMA_REASSOC)
def _total(x):  # type: ignore[no-untyped-def]
    """Return the sum of x (n,) from sums of its quarters, because four memory streams are faster than one."""
    n = len(x) // 4
    a = b = c = d = x.dtype.type(0.0)
    for i in range(n):
        a += x[i]
        b += x[n + i]
        c += x[2 * n + i]
        d += x[3 * n + i]
    for i in range(4 * n, len(x)):
        a += x[i]
    return a + b + c + d


@jit(FMA_REASSOC)
def _rows_with_large_sums(X, largest):  # type: ignore[no-untyped-def]
    """Return a mask of rows whose sum is not finite: rows with NaN, infinity or overflow."""
    result = np.zeros(len(X), np.bool_)
    for i in range(len(X)):
        total = X.dtype.type(0.0)
        for j in range(X.shape[1]):
            total += X[i, j]
        # np.isfinite tests x - x == 0, which reassociation would simplify to True
        result[i] = not (abs(total) <= largest)
    return result


def count_outside(points: F32, offsets: I64, low: F32, high: F32) -> I64:
    """Count the points of each set with a coordinate below ``low`` or above ``high``: (n_sets,) int64."""
    counts = np.zeros(len(offsets) - 1, np.int64)
    # bounds, repeated for each point of a batch
    bounds = np.empty((2, POINTS_PER_BATCH, len(low)), np.float32)
    bounds[0], bounds[1] = low, high
    batch_low, batch_high = read_only(bounds.reshape(2, -1))
    _count_outside(read_only(points.reshape(-1)), read_only(offsets), len(low), batch_low, batch_high, counts)
    return counts


# points per batch; the inner loop is long enough to vectorize (python benchmarks/speed.py)
POINTS_PER_BATCH = 64


@jit()
def _count_outside(x, offsets, d, low, high, counts):  # type: ignore[no-untyped-def]
    # check batches in whole vectors, and point by point only if any coordinate is outside
    for s in range(len(counts)):
        stop = offsets[s + 1] * d
        for first in range(offsets[s] * d, stop, len(low)):
            part, n = x[first : minimum(first + len(low), stop)], i32(0)
            for k in range(len(part)):
                n += i32((part[k] < low[k]) | (part[k] > high[k]))
            if n:
                for i in range(0, len(part), d):
                    outside = False
                    for j in range(d):
                        outside |= (part[i + j] < low[j]) | (part[i + j] > high[j])
                    counts[s] += outside


TILE_POINTS = 256  # points per tile; its columns stay in the L1 cache (python benchmarks/roofline.py embed)

# bytes of points per partial sum; fixes the order of summation (tests/base/test_huge_sets.py)
CHUNK_BYTES = 2**22


def chunk_length(d: int) -> int:
    """Return the number of points per chunk in d dimensions, a power of two."""
    return max(TILE_POINTS, 1 << (CHUNK_BYTES // (4 * d)).bit_length() - 1)


def are_long(spans: I64, d: int) -> Any:
    """Return a mask (n,) of sets with more than one chunk; ``spans`` (n, 2) are the first row and the end."""
    return spans[:, 1] - spans[:, 0] > chunk_length(d)


_NO_WEIGHTS = np.empty(0, np.float32)


def read_only(array: A) -> A:
    """Return a read-only view; functions are then not compiled again for writable arrays."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


CACHE_LINE_FLOATS = 16  # float32 numbers in 64 bytes (tests/loops/test_lines.py)


def cache_lines(*sizes: int) -> list[F32]:
    """Return float32 arrays of these sizes, adjacent in memory, each aligned to a cache line."""
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size // CACHE_LINE_FLOATS) * CACHE_LINE_FLOATS)
    buffer = np.empty(starts[-1] + CACHE_LINE_FLOATS, np.float32)
    buffer = buffer[-buffer.__array_interface__["data"][0] // 4 % CACHE_LINE_FLOATS :]
    return [buffer[start : start + size] for start, size in zip(starts, sizes, strict=False)]


def weight_array(weights: Any) -> tuple[Array, bool]:
    """Return (weights (n,), is weighted), the arguments of compiled functions."""
    return read_only(_NO_WEIGHTS if weights is None else weights.reshape(-1)), weights is not None


def set_arrays(points: Array, edges: I64, weights: Any) -> tuple[Array, I64, Array, bool]:
    """Return (points, edges, weights (n,), is weighted), the arguments of compiled functions.

    ``edges`` are offsets (n_sets + 1,), or spans (n_sets, 2): the first row and the end of each set.
    """
    return read_only(points), read_only(np.ascontiguousarray(edges)), *weight_array(weights)


@inline_jit(FINITE_FMA)
def fill_fractions(weights, weighted, first, m, total, fractions):  # type: ignore[no-untyped-def]
    """Set fractions[i] = w_i / sum w for the m points from ``first`` on, and 0 for the rest of the tile."""
    for i in range(TILE_POINTS):
        fractions[i] = f32(0.0)
    for i in range(m):
        fractions[i] = f32(weights[first + i] / total) if weighted else f32(1.0 / total)


@inline_jit()
def total_weight(weights, weighted, start, stop):  # type: ignore[no-untyped-def]
    """Return the total weight of points start .. stop - 1; without weights, their number."""
    total = 0.0
    if weighted:
        for i in range(start, stop):
            total += weights[i]
    else:
        total = float(stop - start)
    return total  # float64: sums of float32 weights do not overflow


@jit()
def weight_totals(weights, offsets):  # type: ignore[no-untyped-def]
    """Return the total weight of each set, (n_sets,) float64; sums over pieces of a set have the same order."""
    totals = np.empty(len(offsets) - 1)
    for s in range(len(totals)):
        totals[s] = total_weight(weights, True, offsets[s], offsets[s + 1])
    return totals


@inline_jit(FINITE_REASSOC)
def add_products(t, T, c):  # type: ignore[no-untyped-def]
    """Add <t, T[b]> over one tile to c[b], four rows at a time."""
    K = T.shape[0]
    full = K - K % 4
    for b in range(0, full, 4):
        s0 = s1 = s2 = s3 = f32(0.0)
        for i in range(TILE_POINTS):
            s0 += t[i] * T[b, i]
            s1 += t[i] * T[b + 1, i]
            s2 += t[i] * T[b + 2, i]
            s3 += t[i] * T[b + 3, i]
        c[b] += s0
        c[b + 1] += s1
        c[b + 2] += s2
        c[b + 3] += s3
    for b in range(full, K):
        s0 = f32(0.0)
        for i in range(TILE_POINTS):
            s0 += t[i] * T[b, i]
        c[b] += s0


def column_bounds(points: Array) -> tuple[Array, Array]:
    """Return (low, high) of the columns of (T, d), T > 0; rows are joined to wide rows, to run at memory speed."""
    total, d = points.shape
    n_folded = max(1, min(1024 // d, total))
    wide_rows = points[: total - total % n_folded].reshape(-1, n_folded * d)
    last_rows = points[total - total % n_folded :]
    low = np.concatenate([wide_rows.min(axis=0).reshape(n_folded, d), last_rows]).min(axis=0)
    high = np.concatenate([wide_rows.max(axis=0).reshape(n_folded, d), last_rows]).max(axis=0)
    return low, high


# SplitMix64: Steele, Lea, Flood (2014), Fast splittable pseudorandom number generators
SPLITMIX64_GAMMA = np.uint64(0x9E3779B97F4A7C15)
# multipliers of variant 13 of Stafford, as in the reference code: https://prng.di.unimi.it/splitmix64.c
SPLITMIX64_MULTIPLIER_1, SPLITMIX64_MULTIPLIER_2 = (
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


def sample_points(offsets: I64, first_set: int, first_point: int, fraction: float, seed: int) -> I64:
    """Return the rows of a random sample with this ``fraction`` of the points; all points for 1 or more.

    Set 0 has position ``first_set`` in its collection, and row ``offsets[0]`` is its point ``first_point``.
    """
    if fraction >= 1:
        return np.arange(offsets[0], offsets[-1])
    rows = np.empty(offsets[-1] - offsets[0], np.int64)
    n = _sample_points(
        read_only(offsets), first_set, first_point, np.uint64(fraction * 2.0**64), np.uint64(seed), rows
    )
    return rows[:n].copy()


@inline_jit()
def _splitmix64(z):  # type: ignore[no-untyped-def]
    z = (z ^ (z >> np.uint64(30))) * SPLITMIX64_MULTIPLIER_1
    z = (z ^ (z >> np.uint64(27))) * SPLITMIX64_MULTIPLIER_2
    return z ^ (z >> np.uint64(31))


@jit()
def _sample_points(offsets, first_set, first_point, threshold, seed, rows):  # type: ignore[no-untyped-def]
    n = 0
    for s in range(len(offsets) - 1):
        key = _splitmix64(seed + SPLITMIX64_GAMMA * np.uint64(first_set + s + 1))
        skipped = first_point if s == 0 else 0
        for i in range(offsets[s], offsets[s + 1]):
            index = np.uint64(skipped + i - offsets[s] + 1)
            rows[n] = i
            n += _splitmix64(key + SPLITMIX64_GAMMA * index) < threshold
    return n


# rows per tile, which stays in the cache until all columns are written (tests/loops/test_column_rows.py)
TILE_ROWS = 2**13
EXACT_DTYPES = frozenset(np.dtype(name) for name in ("f8", "f4", "i4", "i2", "i1", "u4", "u2", "u1"))
"""Dtypes that convert to float64 without rounding."""


def fill_rows(columns: Sequence[Array], origin: F64, out: F32) -> bool:
    """Set ``out[i, j] = columns[j][i] - origin[j]``, rounded once from float64; return whether all values are finite.

    The d columns (n,) have dtypes of `EXACT_DTYPES`; out is (n, d), C-contiguous.
    """
    d, nan_flag = len(columns), f32(0.0)
    step = TILE_ROWS if d > 2 else max(1, len(out))
    for a in range(0, len(out), step):
        rows = out[a : a + step]
        parts = [read_only(column[a : a + step]) for column in columns]
        for j in range(0, d - 1, 2):
            if parts[j].dtype == parts[j + 1].dtype:
                nan_flag += _fill_two(parts[j], parts[j + 1], origin[j], origin[j + 1], rows, j)
            else:
                nan_flag += _fill(parts[j], origin[j], rows, j) + _fill(
                    parts[j + 1], origin[j + 1], rows, j + 1
                )
        if d % 2:
            nan_flag += _fill(parts[-1], origin[-1], rows, d - 1)
    return bool(nan_flag == 0)


@jit(FMA_REASSOC)
def _fill(x, shift, out, j):  # type: ignore[no-untyped-def]
    """Fill column j; return 0 if all values are finite, else NaN."""
    nan_flag = f32(0.0)
    for i in range(len(x)):
        value = f32(x[i] - shift)
        out[i, j] = value
        nan_flag += value * f32(0.0)
    return nan_flag


@jit(FMA_REASSOC)
def _fill_two(x, y, first, second, out, j):  # type: ignore[no-untyped-def]
    """Fill the adjacent columns j and j + 1; return 0 if all values are finite, else NaN."""
    first_flag = second_flag = f32(0.0)
    for i in range(len(x)):
        a, b = f32(x[i] - first), f32(y[i] - second)
        out[i, j], out[i, j + 1] = a, b
        first_flag += a * f32(0.0)
        second_flag += b * f32(0.0)
    return first_flag + second_flag


def run_starts(values: Array) -> I64:
    """Return the indices of values (n,) that differ from the previous one, and index 0; NaN differs from NaN."""
    starts = np.empty(len(values), np.int64)
    result: I64 = starts[: _run_starts(read_only(values), starts)].copy()
    return result


@jit()
def _run_starts(values, starts):  # type: ignore[no-untyped-def]
    n = 0
    for i in range(len(values)):
        if i == 0 or values[i] != values[i - 1]:
            starts[n] = i
            n += 1
    return n


def cell_means(x: F64, size: int, weights: F64) -> tuple[F64, F64]:
    """Return (means, weights) of at most ``size`` regions of points (n, d) with ``weights`` (n,) > 0.

    The numbers of points in any two regions differ by at most one.
    """
    if len(x) <= size:
        return x, weights
    orders = np.argsort(np.ascontiguousarray(x.T), axis=1, kind="stable")
    result: tuple[F64, F64] = _halve_regions(
        np.ascontiguousarray(x, np.float64), weights, orders, int(np.log2(size))
    )
    return result


@jit()
def _halve_regions(x, weights, orders, levels):  # type: ignore[no-untyped-def]
    """Return means (2^levels, d) and sums of weights; ``orders`` (d, n) sort the points along each axis.

    ``orders`` are updated in place: points of a region are contiguous and sorted along each axis.
    """
    n, d = x.shape
    is_right, buffer = np.empty(n, np.int64), np.empty(n, np.int64)
    ends = np.array([0, n])
    for _ in range(levels):
        new_ends = np.empty(2 * len(ends) - 1, np.int64)
        new_ends[::2] = ends
        for c in range(len(ends) - 1):
            new_ends[2 * c + 1] = (ends[c] + ends[c + 1]) // 2
            _split_region(x, orders, ends[c], new_ends[2 * c + 1], ends[c + 1], is_right, buffer)
        ends = new_ends
    means, sums = np.zeros((len(ends) - 1, d)), np.zeros(len(ends) - 1)
    for c in range(len(means)):
        for i in orders[0, ends[c] : ends[c + 1]]:
            sums[c] += weights[i]
            for a in range(d):
                means[c, a] += weights[i] * x[i, a]
        for a in range(d):
            means[c, a] /= sums[c]
    return means, sums


@jit()
def _split_region(x, orders, start, middle, stop, is_right, buffer):  # type: ignore[no-untyped-def]
    """Split positions ``start`` to ``stop`` at ``middle`` along the widest side of the region."""
    widest, max_width = 0, -1.0
    for a in range(len(orders)):
        width = x[orders[a, stop - 1], a] - x[orders[a, start], a]
        if width > max_width:
            widest, max_width = a, width
    for i in range(start, stop):
        is_right[orders[widest, i]] = i >= middle
    for a in range(len(orders)):
        if a == widest:
            continue
        left, n_right = start, 0
        for i in range(start, stop):
            point = orders[a, i]
            orders[a, left] = buffer[n_right] = point
            left, n_right = left + 1 - is_right[point], n_right + is_right[point]
        for i in range(n_right):
            orders[a, middle + i] = buffer[i]
