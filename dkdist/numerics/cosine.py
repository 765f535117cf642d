"""Cosine coefficients of sample sets: everything a reflected kernel density estimate needs of the points.

    C_a = sum_i w_i prod_j cos(pi a_j x_ij),   x in [0,1]^d,  sum_i w_i = 1,   a_j = 0 .. K_j - 1

The Gaussian estimate reflected at the walls of the unit cube has the coefficients C_a exp(-(pi a h)^2 / 2):
the bandwidth h only damps them, so one pass over the points serves every bandwidth. Columns of cosines come
from the Chebyshev recurrence T_{a+1} = 2 cos(pi x) T_a - T_{a-1}; the weights enter through its two
starting values.

Points are taken 256 at a time in float32. The recurrence amplifies the rounding of a cosine close to +-1: a
lone point near a wall is off by up to 4e-5 at 16 degrees and 1e-2 at 256, the mean of 200 points by some 100
times less. Cost per point: the recurrences (sum of K_j steps), then one multiply-add for each coefficient. A
set's coefficients depend on that set alone, so on no block, thread or neighbour.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dkdist.numerics.elementary import LOOP, SUM, cospi, f32

TILE = 256  # points at a time: the columns of one tile stay in the first-level cache

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]


def tensor_coefficients(
    points: F32,
    spans: I64,
    weights: F32 | None,
    low: F32,
    scale: F32,
    degrees: tuple[int, ...],
    column: int = 0,
) -> F32:
    """Coefficients of all degrees a_j < degrees[j], for d = 1, 2 or 3: (n_sets, K_1 * .. * K_d) float32.

    ``spans`` (n_sets, 2) are the first row of each set and the row after its last; ``scale`` is 1 / (high -
    low) for each dimension. Points outside the box count at its wall. The dimensions are the columns from
    ``column`` on.
    """
    out = np.zeros((len(spans), int(np.prod(degrees))), np.float32)
    d = len(degrees)
    _tensor(points, spans, *_weights(weights), low, scale, column, d, (1,) * (3 - d) + degrees, out)
    return out


def term_coefficients(points: F32, spans: I64, weights: F32 | None, low: F32, scale: F32, terms: I64) -> F32:
    """Coefficients of the listed terms, for any d: (n_sets, n_terms) float32.

    ``terms`` is what `ball_terms` gives: each row (parent, dimension, degree) multiplies an earlier term.
    """
    out = np.zeros((len(spans), len(terms)), np.float32)
    _terms(points, spans, *_weights(weights), low, scale, terms, max(2, int(terms[:, 2].max()) + 1), out)
    return out


def ball_terms(axes: tuple[float, ...], order: float = 2) -> tuple[I64, I64]:
    """All exponents with (a_1 / axes_1)^order + .. + (a_d / axes_d)^order <= 1: (n, d), and terms (n, 3).

    An order of 1 makes a simplex, infinity a box. Each term is an earlier one times one cosine: its parent lacks
    the last non-zero exponent.
    """
    exponents: list[tuple[int, ...]] = [(0,) * len(axes)]
    rest = [1.0]  # what a term leaves of the 1
    terms = [(0, 0, 0)]
    for j, axis in enumerate(axes):
        for parent in range(len(exponents)):
            for a in range(1, int(axis * rest[parent] ** (1 / order)) + 1):
                child = (*exponents[parent][:j], a, *exponents[parent][j + 1 :])
                exponents.append(child)
                rest.append(max(0.0, rest[parent] - (a / axis) ** order))
                terms.append((parent, j, a))
    return np.array(exponents, np.int64), np.array(terms, np.int64)


_NO_WEIGHTS = np.empty(0, np.float32)
_NO_WEIGHTS.flags.writeable = False  # as the weights of a collection are: one compiled variant serves both


def _weights(weights: F32 | None) -> tuple[F32, bool]:
    return (_NO_WEIGHTS, False) if weights is None else (weights.reshape(-1), True)


@njit(nogil=True, fastmath=LOOP, forceinline=True)
def _columns(points, first, m, j, low, scale, start, cosine, T):  # type: ignore[no-untyped-def]
    """T[a, i] = start[i] cos(pi a x_ij) for the m points from ``first`` on."""
    for i in range(m):
        u = (points[first + i, j] - low[j]) * scale[j]
        cosine[i] = min(max(u, f32(0.0)), f32(1.0))
    for i in range(m, TILE):
        cosine[i] = f32(0.5)
    for i in range(TILE):
        cosine[i] = cospi(cosine[i])
    for i in range(TILE):
        T[0, i] = start[i]
        T[1, i] = start[i] * cosine[i]
    for a in range(2, T.shape[0]):
        for i in range(TILE):
            T[a, i] = f32(2.0) * cosine[i] * T[a - 1, i] - T[a - 2, i]


@njit(nogil=True, fastmath=LOOP, forceinline=True)
def _shares(weights, weighted, first, m, total, share):  # type: ignore[no-untyped-def]
    """share[i] = w_i / sum w for the m points from ``first`` on, 0 in the rest of the tile."""
    for i in range(TILE):
        share[i] = f32(0.0)
    for i in range(m):
        share[i] = f32(weights[first + i] / total) if weighted else f32(1.0 / total)


@njit(nogil=True, forceinline=True)
def _total(weights, weighted, start, stop):  # type: ignore[no-untyped-def]
    total = 0.0
    if weighted:
        for i in range(start, stop):
            total += weights[i]
    else:
        total = float(stop - start)
    return total  # float64: any scale of float32 weights is fine


@njit(nogil=True, fastmath=SUM, forceinline=True)
def _add_products(t, T, c):  # type: ignore[no-untyped-def]
    """c[b] += <t, T[b]> over one tile, four rows at a time."""
    K = T.shape[0]
    full = K - K % 4
    for b in range(0, full, 4):
        s0 = s1 = s2 = s3 = f32(0.0)
        for i in range(TILE):
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
        for i in range(TILE):
            s0 += t[i] * T[b, i]
        c[b] += s0


@njit(nogil=True, cache=True)
def _tensor(points, spans, weights, weighted, low, scale, j, d, degrees, out):  # type: ignore[no-untyped-def]
    """Three columns of cosines; of d < 3 dimensions the first 3 - d are constant, one degree long."""
    share, cosine, one = np.empty(TILE, f32), np.zeros(TILE, f32), np.ones(TILE, f32)
    K1, K2, K3 = degrees
    T, U, V = np.ones((K1, TILE), f32), np.ones((K2, TILE), f32), np.empty((K3, TILE), f32)
    TU = np.empty(TILE, f32)
    for s in range(len(spans)):
        start, stop = spans[s, 0], spans[s, 1]
        total = _total(weights, weighted, start, stop)
        for first in range(start, stop, TILE):
            m = min(TILE, stop - first)
            _shares(weights, weighted, first, m, total, share)
            T[0] = share
            if d == 3:
                _columns(points, first, m, j, low, scale, share, cosine, T)
            if d >= 2:
                _columns(points, first, m, j + d - 2, low, scale, one, cosine, U)
            _columns(points, first, m, j + d - 1, low, scale, one, cosine, V)
            for a in range(K1):
                for b in range(K2):
                    for i in range(TILE):
                        TU[i] = T[a, i] * U[b, i]
                    c = (a * K2 + b) * K3
                    _add_products(TU, V, out[s, c : c + K3])


@njit(nogil=True, cache=True, fastmath=SUM)
def _terms(points, spans, weights, weighted, low, scale, terms, K, out):  # type: ignore[no-untyped-def]
    d = points.shape[1]
    share, cosine, one = np.empty(TILE, f32), np.zeros(TILE, f32), np.ones(TILE, f32)
    T = np.empty((d, K, TILE), f32)
    products = np.empty((len(terms), TILE), f32)
    for s in range(len(spans)):
        start, stop = spans[s, 0], spans[s, 1]
        total = _total(weights, weighted, start, stop)
        for first in range(start, stop, TILE):
            m = min(TILE, stop - first)
            _shares(weights, weighted, first, m, total, share)
            for j in range(d):
                _columns(points, first, m, j, low, scale, one, cosine, T[j])
            out[s, 0] += np.sum(share)
            products[0] = share
            for t in range(1, len(terms)):
                parent, column, row = products[terms[t, 0]], T[terms[t, 1], terms[t, 2]], products[t]
                c = f32(0.0)
                for i in range(TILE):
                    row[i] = parent[i] * column[i]
                    c += row[i]
                out[s, t] += c
