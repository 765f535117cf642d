"""Sums of the product features of a Fourier grid over weighted points.

    S_abc = f sum_i w_i g_a(t_i1) g_b(t_i2) g_c(t_i3),   t = 2 pi (x - c) / L,   g = 1, cos t, sin t, cos 2t, ..

Phases are fixed-point fractions of a turn, whose multiples are exact. Every eighth harmonic is computed directly, the
others by one rotation. Each product then takes one multiply-add per point. Sums are float32 within tiles of 256 points
and float64 across tiles. The sums of a span do not depend on other spans.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FINITE_FMA, inline_jit, jit
from dkdist._numba.elementary import f32, i32, sincospi
from dkdist._numba.points import TILE_POINTS, add_products, read_only, weight_array, weight_totals

# every 8th harmonic is computed directly, because rotations add rounding errors (tests/kernel/test_grid_sums.py)
ANCHOR_HARMONICS = 8


class Products(NamedTuple):
    """Box, periods and ``lengths`` of a `fourier_grid.Layout`; points outside the box are clipped."""

    low: F32
    high: F32
    periods: F64
    lengths: I64


def grid_sums(points: F32, spans: I64, weights: F32, factors: F64, products: Products) -> F64:
    """Return sums of products, (n_spans, n_channels, n_features).

    ``spans`` (n_spans, 2) are the first row and the end of each set. ``weights`` are (n_points, n_channels), possibly
    negative, or (0, 1) for ones; ``factors`` (n_spans,) multiply the sums.
    """
    out = np.zeros((len(spans), weights.shape[1], int(products.lengths.sum())))
    sizes = spans[:, 1] - spans[:, 0]
    units = factors * sizes  # weights of means become about 1, which minimises rounding errors
    _sums(read_only(points), spans, read_only(weights), units, products, out)
    return np.asarray(out / sizes[:, None, None])


def add_grid_sums(points: F32, weights: F32 | None, unit: float, products: Products, out: F64) -> None:
    """Add the sums with weights (n, C), or ones for None, times ``unit`` to ``out`` (C, n_features).

    Consecutive calls with whole tiles of 256 points are bitwise identical to one call with all points.
    """
    spans, w = np.array([[0, len(points)]]), weight_array(weights)[0].reshape(-1, len(out))
    _sums(read_only(points), spans, w, np.array([unit]), products, out[None])


def grid_values(points: F32, products: Products, scales: F64) -> F32:
    """Return the products of each point times ``scales``, the terms of `grid_sums`: (n_points, n_features)."""
    out = np.empty((len(points), len(scales)), np.float32)
    _values(points, products, scales.astype(np.float32), out)
    return out


def weight_fractions(weights: F32 | None, offsets: I64) -> tuple[F32, F64]:
    """Return (weights, factors) of `grid_sums` for means of sets; factors are 1 / total weight of each set."""
    w, weighted = weight_array(weights)
    return w.reshape(-1, 1), 1 / (weight_totals(w, offsets) if weighted else np.diff(offsets))


@inline_jit(FINITE_FMA)
def _harmonic(phase, k, cosine, sine):  # type: ignore[no-untyped-def]
    """Fill the cosine and sine of k times the phases, which are in units of 2^-32 turns, modulo one turn."""
    for i in range(TILE_POINTS):
        s, c = sincospi(f32(i32(phase[i] * i32(k))) * f32(2.0**-31))
        cosine[i] = c
        sine[i] = s


@inline_jit(FINITE_FMA)
def _rotate(c1, s1, c2, s2, cosine, sine):  # type: ignore[no-untyped-def]
    for i in range(TILE_POINTS):
        cosine[i] = c1[i] * c2[i] - s1[i] * s2[i]
        sine[i] = s1[i] * c2[i] + c1[i] * s2[i]


@inline_jit(FINITE_FMA)
def _columns(points, first, m, j, low, high, period, phase, T):  # type: ignore[no-untyped-def]
    """Set T[2k - 1], T[2k] to cosine and sine of harmonic k of dimension j, for the m points from ``first`` on."""
    centre = (np.float64(low[j]) + np.float64(high[j])) / 2
    turn = 2.0**32 / period[j] if period[j] > 0 else 0.0
    for i in range(m):
        x = min(max(f32(points[first + i, j]), low[j]), high[j])
        phase[i] = i32(np.int64(np.floor((np.float64(x) - centre) * turn + 0.5)))
    for k in range(1, T.shape[0] // 2 + 1):
        remainder = k % ANCHOR_HARMONICS
        anchor = k - remainder
        if remainder == 0 or anchor == 0:
            _harmonic(phase, k, T[2 * k - 1], T[2 * k])
        else:
            _rotate(
                T[2 * anchor - 1],
                T[2 * anchor],
                T[2 * remainder - 1],
                T[2 * remainder],
                T[2 * k - 1],
                T[2 * k],
            )


@inline_jit(FINITE_FMA)
def _tables(lengths):  # type: ignore[no-untyped-def]
    """Allocate columns of ones for the functions of three dimensions, and phases."""
    A, B, C = 2 * (lengths.shape[0] // 2) + 1, 2 * (lengths.shape[1] // 2) + 1, 2 * (lengths.max() // 2) + 1
    return (
        np.ones((A, TILE_POINTS), f32),
        np.ones((B, TILE_POINTS), f32),
        np.ones((C, TILE_POINTS), f32),
        np.zeros(TILE_POINTS, i32),
    )


@inline_jit(FINITE_FMA)
def _fill(points, first, m, products, T, U, V, phase):  # type: ignore[no-untyped-def]
    """Fill the columns of the m points from ``first`` on; for d < 3 dimensions the first 3 - d are constant."""
    low, high, periods, _ = products
    d = points.shape[1]
    if d == 3:
        _columns(points, first, m, 0, low, high, periods, phase, T)
    if d >= 2:
        _columns(points, first, m, d - 2, low, high, periods, phase, U)
    _columns(points, first, m, d - 1, low, high, periods, phase, V)


@jit(FINITE_FMA)
def _sums(points, spans, weights, units, products, out):  # type: ignore[no-untyped-def]
    T, U, V, phase = _tables(products.lengths)
    lengths, fractions, TU = products.lengths, np.zeros(TILE_POINTS, f32), np.empty(TILE_POINTS, f32)
    for s in range(len(spans)):
        start, stop = spans[s, 0], spans[s, 1]
        unit = units[s]
        for first in range(start, stop, TILE_POINTS):
            m = min(TILE_POINTS, stop - first)
            _fill(points, first, m, products, T, U, V, phase)
            for channel in range(out.shape[1]):
                fractions[m:] = f32(0.0)
                for i in range(m):
                    w = weights[first + i, channel] if len(weights) else f32(1.0)
                    fractions[i] = f32(w * unit)
                end = 0
                for a in range(len(T)):
                    for b in range(len(U)):
                        for i in range(TILE_POINTS):
                            TU[i] = fractions[i] * T[a, i] * U[b, i]
                        begin, end = end, end + lengths[a, b]
                        add_products(TU, V[: lengths[a, b]], out[s, channel, begin:end])


@jit(FINITE_FMA)
def _values(points, products, scales, out):  # type: ignore[no-untyped-def]
    T, U, V, phase = _tables(products.lengths)
    lengths, point_values = products.lengths, np.empty(len(V), f32)
    for first in range(0, len(points), TILE_POINTS):
        m = min(TILE_POINTS, len(points) - first)
        _fill(points, first, m, products, T, U, V, phase)
        for i in range(m):
            for c in range(len(point_values)):
                point_values[c] = V[c, i]
            row, end = out[first + i], 0
            for a in range(len(T)):
                for b in range(len(U)):
                    tu = T[a, i] * U[b, i]
                    for c in range(lengths[a, b]):
                        row[end + c] = tu * point_values[c] * scales[end + c]
                    end += lengths[a, b]
