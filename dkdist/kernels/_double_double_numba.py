"""Kernel energies in double-double arithmetic, for nearly equal sets whose energies cancel in float64.

    E(x, z) = sum_ij <z_i, z_j> k(x_i, x_j)

is a squared norm, but rounding of k changes the sum by about 1e-16 W^2, so distances below 1e-8 W are lost. Here
distances, kernel, products and sums are pairs high + low (Dekker 1971; Knuth) with relative errors of about 1e-30. The
error of E is about 1e-29 W^2, and the distance has only the rounding error of the points, about 1e-16 W. Points are
scaled as for `_profiles_numba`. Cost: about 40 times `_exact_numba.energy_in_tiles`.

    2^t = 2^n (1 + e)^256,   t = n + r, |r| <= 1/2,   1 + e = exp(r ln 2 / 256) by 9 terms of Taylor's series

with a remainder below 1e-36 / 2. Eight squarings (1 + e)^2 are computed as e -> 2 e + e^2, without adding the 1.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._numba.compilation import inline_jit, jit
from dkdist.kernels._profiles_numba import (
    BALL,
    BALL_SQUARE,
    COMPACT,
    DISTANCE,
    MATERN,
    RATIONAL,
    TRIANGLE,
    Profile,
)

f64, i64 = np.float64, np.int64

LANES_PER_GROUP = 64  # pairs per loop; intermediates stay in the L1 cache (test_kernel_twofold.py)
MIN_ROOT = 1e-300  # avoids division by zero at equal points (tests/kernel/test_kernel_twofold.py)
MIN_EXPONENT = -1000.0  # smaller powers of two count as 2^-1000 (tests/kernel/test_kernel_twofold.py)
_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
# exp(r ln 2 / 256) by 9 terms, squared 8 times: the remainder is below 1e-36 (tests/kernel/test_kernel_twofold.py).
REDUCTION = 1 / 256
N_SQUARINGS = 8  # 2^8 = 256, see tests/kernel/test_kernel_twofold.py
N_TERMS = 9  # see tests/kernel/test_kernel_twofold.py
_INVERSES = np.array([(1 / t, float(1 - t * Fraction(1 / t)) / t) for t in range(1, N_TERMS + 1)])
_SHIFT = f64(1.5 * 2.0**52)  # t + _SHIFT holds round(t) in its low bits (Dekker 1971)


def double_double_energy(x: F64, z: F64, kernel: Profile) -> float:
    """Return E of scaled points (n, d) with weights (n, C), with an error of about 1e-29 W^2."""
    return float(_energy(np.ascontiguousarray(x), np.ascontiguousarray(z), kernel))


@inline_jit()
def _sum(a, b):  # type: ignore[no-untyped-def]
    """Return (s, error) with a + b = s + error exactly."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


@inline_jit()
def _product(a, b):  # type: ignore[no-untyped-def]
    """Return (p, error) with a b = p + error exactly, by splitting a and b into 26-bit halves."""
    p = a * b
    c, d = 134217729.0 * a, 134217729.0 * b
    a1, b1 = c - (c - a), d - (d - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@inline_jit()
def _add(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    s, e = _sum(ah, bh)
    t, f = _sum(al, bl)
    e += t
    high = s + e
    e = (e - (high - s)) + f
    s = high + e
    return s, e - (s - high)


@inline_jit()
def _times(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    p, e = _product(ah, bh)
    e += ah * bl + al * bh
    high = p + e
    return high, e - (high - p)


@inline_jit()
def _root(ah, al):  # type: ignore[no-untyped-def]
    """Return the square root by one Newton step from the float64 root."""
    r = np.sqrt(ah)
    p, e = _product(r, r)
    correction = ((ah - p) - e + al) / (2.0 * max(r, MIN_ROOT))
    high = r + correction
    return high, correction - (high - r)


@inline_jit()
def _inverse(h, g):  # type: ignore[no-untyped-def]
    """Return 1 / (1 + h + g) by one Newton step from the float64 quotient."""
    u, v = _add(1.0, 0.0, h, g)
    q = 1.0 / u
    p, r = _times(-q, 0.0, u, v)
    p, r = _add(2.0, 0.0, p, r)
    return _times(q, 0.0, p, r)


@inline_jit()
def _polynomial(h, g, kernel):  # type: ignore[no-untyped-def]
    """Return 1 + first t + second t^2 for t = u ln 2, u = h + g."""
    t, r = _times(h, g, _LN2[0], _LN2[1])
    u, v = _times(t, r, kernel.second, kernel.second_rest)
    u, v = _add(kernel.first, 0.0, u, v)
    u, v = _times(t, r, u, v)
    return _add(1.0, 0.0, u, v)


@inline_jit()
def _powers(h, g, n, e, f):  # type: ignore[no-untyped-def]
    """Set h, g = 2^(h + g), h <= 0, for each lane; n, e, f are buffers."""
    for i in range(LANES_PER_GROUP):
        t = max(h[i], MIN_EXPONENT)
        low = g[i] if t == h[i] else 0.0
        shifted = t + _SHIFT
        n[i] = i64(f64(shifted).view(i64) << i64(52))
        a, b = _add(t - (shifted - _SHIFT), 0.0, low, 0.0)
        a, b = _times(a, b, _LN2[0], _LN2[1])
        h[i], g[i] = a * REDUCTION, b * REDUCTION
        e[i] = f[i] = 0.0
    for term in range(N_TERMS - 1, -1, -1):  # Horner's scheme: e = r (1 + e) / t
        u, v = _INVERSES[term, 0], _INVERSES[term, 1]  # 1 / t, high and low
        for i in range(LANES_PER_GROUP):
            a, b = _add(e[i], f[i], 1.0, 0.0)
            a, b = _times(a, b, h[i], g[i])
            e[i], f[i] = _times(a, b, u, v)
    for _ in range(N_SQUARINGS):
        for i in range(LANES_PER_GROUP):
            a, b = _times(e[i], f[i], e[i], f[i])
            e[i], f[i] = _add(2.0 * e[i], 2.0 * f[i], a, b)
    for i in range(LANES_PER_GROUP):
        a, b = _add(e[i], f[i], 1.0, 0.0)
        factor = i64(f64(1.0).view(i64) + n[i]).view(f64)
        h[i], g[i] = a * factor, b * factor


@jit()
def _energy(x, z, kernel):  # type: ignore[no-untyped-def]
    """Return E. Lanes are points j, paired with all points i < j, and with i = j at half weight."""
    d, C = x.shape[1], z.shape[1]
    h, g, e, f, sums, sum_errors = np.empty((6, LANES_PER_GROUP))
    n, y, w = (
        np.empty(LANES_PER_GROUP, i64),
        np.empty((d, LANES_PER_GROUP)),
        np.empty((C, LANES_PER_GROUP)),
    )
    factors = np.empty((2, LANES_PER_GROUP))
    total, total_error = 0.0, 0.0
    for first in range(0, len(x), LANES_PER_GROUP):
        for j in range(LANES_PER_GROUP):
            row = min(first + j, len(x) - 1)
            for a in range(d):
                y[a, j] = x[row, a]
            for c in range(C):
                w[c, j] = z[row, c] if first + j < len(x) else 0.0
            sums[j] = sum_errors[j] = 0.0
        for i in range(min(first + LANES_PER_GROUP, len(x))):
            h[:] = 0.0
            g[:] = 0.0
            for a in range(d):
                value, values = x[i, a], y[a]
                for j in range(LANES_PER_GROUP):
                    u, v = _sum(value, -values[j])
                    if kernel.city_block:
                        u, v = (u, v) if u > 0.0 else (-u, -v)
                    else:
                        u, v = _times(u, v, u, v)
                    h[j], g[j] = _add(h[j], g[j], u, v)
            if kernel.form == MATERN or kernel.form == DISTANCE or kernel.form == TRIANGLE:
                for j in range(LANES_PER_GROUP):
                    h[j], g[j] = _root(h[j], g[j])
            if kernel.first != 0.0:
                for j in range(LANES_PER_GROUP):
                    factors[0, j], factors[1, j] = _polynomial(h[j], g[j], kernel)
            if kernel.form == COMPACT or kernel.form == TRIANGLE:
                for j in range(LANES_PER_GROUP):
                    u, v = _add(1.0, 0.0, -h[j], -g[j])
                    h[j], g[j] = (u, v) if u > 0.0 else (0.0, 0.0)
            elif kernel.form == BALL:
                for j in range(LANES_PER_GROUP):
                    h[j], g[j] = (1.0 if h[j] <= BALL_SQUARE else 0.0), 0.0
            elif kernel.form == RATIONAL:
                for j in range(LANES_PER_GROUP):
                    h[j], g[j] = _inverse(h[j], g[j])
            else:
                for j in range(LANES_PER_GROUP):
                    h[j], g[j] = -h[j], -g[j]
                if kernel.form != DISTANCE:
                    _powers(h, g, n, e, f)
            if kernel.first != 0.0:
                for j in range(LANES_PER_GROUP):
                    h[j], g[j] = _times(h[j], g[j], factors[0, j], factors[1, j])
            for c in range(C):
                value, values = z[i, c], w[c]
                for j in range(LANES_PER_GROUP):
                    weight = value * (1.0 if i < first + j else 0.5 if i == first + j else 0.0)
                    u, v = _product(weight, values[j])
                    u, v = _times(u, v, h[j], g[j])
                    sums[j], sum_errors[j] = _add(sums[j], sum_errors[j], u, v)
        for j in range(LANES_PER_GROUP):
            total, total_error = _add(total, total_error, sums[j], sum_errors[j])
    return 2.0 * (total + total_error)
