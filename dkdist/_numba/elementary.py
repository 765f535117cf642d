"""Omegas side by side, one in each lane of a vector register: what loops over all pairs of points are made of.

    Y[t, k, lane] = coordinate k of the t-th point of the lane's omega

Omegas are sorted by length and taken 64 at a time, so that one loop over lanes meets 64 omegas; shorter ones repeat
their last point, with weight zero. Squared distances are sums of squared differences, not |x|^2 + |y|^2 - 2 x.y: no
digit is lost where points nearly coincide or lie far from the origin, and equal points are at distance zero. A product
would save a third of the time at d = 128 and nothing below four dimensions.

Branch-free float32 elementary functions that compilers can vectorise inside our loops.

Cody-Waite range reduction followed by minimax polynomials (the classic Cephes single-precision ones).
Errors stay below 2 units in the last place of float32 (absolute 1.2e-7 for sine and cosine of phases up to
1e5, 1.8e-7 for cospi and sincospi). That is where the processor fuses multiply-add, as all have done for ten
years. Where it rounds products first, a phase x loses up to 2e-11 |x| more (1e-6 at 1e5), and sincospi stays below
2.3e-7.

They are compiled with ``ELEMENTWISE`` freedoms: another order of operations would undo the constants in parts of the
range reduction.

`smaller` and `larger` of two integers or two floats (no NaN), and `bits` and `number`, views of a float32 as int32 and
back, are inlined, which compiles faster than `min`, `max` and `view` in each caller.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import ELEMENTWISE, FUSED, inlined

f32 = np.float32
i32 = np.int32

_LN2_HI, _LN2_LO = f32(0.693359375), f32(-2.12194440e-4)
_PIO2_HI, _PIO2_MID, _PIO2_LO = f32(1.5703125), f32(4.837512969970703125e-4), f32(7.54978995489188e-8)
_TWO_OVER_PI = f32(2 / np.pi)
_HALF, _ONE, _TWO = f32(0.5), f32(1.0), f32(2.0)


@inlined(early=False)
def smaller(a, b):  # type: ignore[no-untyped-def]
    """The smaller of two numbers."""
    return a if a < b else b


@inlined(early=False)
def larger(a, b):  # type: ignore[no-untyped-def]
    """The larger of two numbers."""
    return a if a > b else b


@inlined(early=False)
def bits(x):  # type: ignore[no-untyped-def]
    """The int32 with the bits of a float32."""
    return f32(x).view(i32)


@inlined(early=False)
def number(i):  # type: ignore[no-untyped-def]
    """The float32 with the bits of an int32."""
    return i32(i).view(f32)


@inlined(ELEMENTWISE)
def log(x):  # type: ignore[no-untyped-def]
    """Natural logarithm of a positive, normal float32."""
    given = i32(bits(f32(x)) - i32(0x3F3504F3))  # sqrt(1/2): the mantissa will lie in [sqrt(1/2), sqrt(2))
    e = f32(given >> i32(23))
    m = number(i32((given & i32(0x007FFFFF)) + i32(0x3F3504F3))) - _ONE
    z = m * m
    y = f32(7.0376836292e-2) * m + f32(-1.1514610310e-1)
    y = y * m + f32(1.1676998740e-1)
    y = y * m + f32(-1.2420140846e-1)
    y = y * m + f32(1.4249322787e-1)
    y = y * m + f32(-1.6668057665e-1)
    y = y * m + f32(2.0000714765e-1)
    y = y * m + f32(-2.4999993993e-1)
    y = y * m + f32(3.3333331174e-1)
    y = y * m * z + e * _LN2_LO - _HALF * z
    return m + y + e * _LN2_HI


@inlined(ELEMENTWISE)
def exp(x):  # type: ignore[no-untyped-def]
    """Exponential of a float32 in [-87, 88]."""
    k = np.floor(f32(x) * f32(1.44269504088896341) + _HALF)
    r = f32(x) - k * _LN2_HI - k * _LN2_LO
    y = f32(1.9875691500e-4) * r + f32(1.3981999507e-3)
    y = y * r + f32(8.3334519073e-3)
    y = y * r + f32(4.1665795894e-2)
    y = y * r + f32(1.6666665459e-1)
    y = y * r + f32(5.0000001201e-1)
    y = y * r * r + r + _ONE
    return y * number(i32((i32(k) + i32(127)) << i32(23)))


@inlined(ELEMENTWISE)
def sincos(x):  # type: ignore[no-untyped-def]
    """(sin x, cos x) of a float32 phase. Past |x| = 1e6 digits are lost, but the results stay in [-1, 1]."""
    k = np.floor(f32(x) * _TWO_OVER_PI + _HALF)
    r = ((f32(x) - k * _PIO2_HI) - k * _PIO2_MID) - k * _PIO2_LO
    r = smaller(larger(r, -_ONE), _ONE)  # |r| <= pi/4 up to rounding, unless x has lost all its digits
    z = r * r
    s = ((f32(-1.9515295891e-4) * z + f32(8.3321608736e-3)) * z + f32(-1.6666654611e-1)) * z * r + r
    c = ((f32(2.443315711809948e-5) * z + f32(-1.388731625493765e-3)) * z + f32(4.166664568298827e-2)) * z * z
    c = c - _HALF * z + _ONE
    q = i32(k)
    odd = (q & i32(1)) != i32(0)
    sine, cosine = (c, s) if odd else (s, c)
    sine = -sine if (q & i32(2)) != i32(0) else sine
    cosine = -cosine if ((q + i32(1)) & i32(2)) != i32(0) else cosine
    return sine, cosine


@inlined(ELEMENTWISE)
def cospi(u):  # type: ignore[no-untyped-def]
    """cos(pi u) of a float32 in [0, 1], from the odd series of sin(pi (1/2 - u))."""
    z = _HALF - f32(u)
    t = z * z
    y = f32(-0.00737043094571435) * t + f32(0.0821458866111282)
    y = y * t + f32(-0.599264529320792)
    y = y * t + f32(2.55016403987734)
    y = y * t + f32(-5.16771278004997)
    y = y * t + f32(3.14159265358979)
    return y * z


@inlined(ELEMENTWISE)
def sincospi(v):  # type: ignore[no-untyped-def]
    """(sin pi v, cos pi v) of a float32: phases in half turns are reduced without rounding, so for any |v| < 2^31."""
    k = np.rint(f32(v))
    r = f32(v) - k
    sign = number(i32((i32(k) << i32(31)) ^ i32(0x3F800000)))
    z = r * r
    s = (f32(0.077220124) * z + f32(-0.59804517)) * z + f32(2.5500314)
    s = (s * z + f32(-5.1677069)) * z + f32(3.1415926)
    c = (f32(-0.024420699) * z + f32(0.23495392)) * z + f32(-1.3352161)
    c = (c * z + f32(4.0587096)) * z + f32(-4.9348022)
    return sign * r * s, sign * (c * z + _ONE)


LANES = 64  # omegas at a time: distances of four points to them stay in registers or the first-level cache
TILE = 32  # points of an object at a time, met by one point of each omega after the other
ZERO = f32(0.0)


@dataclass(frozen=True)
class Frozen:
    """A record whose arrays are read-only, also after it was pickled."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


class Runs:
    """Of omegas one after the other, between ``offsets`` (R + 1,)."""

    offsets: I64

    @property
    def n_omegas(self) -> int:
        """Number of omegas."""
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Lanes(Frozen):
    """Packed omegas: block b has the steps ``starts[b]`` to ``starts[b + 1]``, as many as its longest omega has points.

    ``Y`` (steps, d padded to fours, 64) and ``weights`` (steps, 64), zero for repeated points; for each block and lane
    ``columns`` (blocks, 64), the omega's place or -1 for none, and ``totals``, its sum of weights.
    """

    Y: F32
    weights: F64
    starts: I64
    columns: I64
    totals: F64
    n_omegas: int


def pack(points: F32, offsets: I64, weights: F32 | None) -> Lanes:
    """Omegas given as points (T, d), offsets (R + 1,) and weights (T,) or None, each with at least one point."""
    points, offsets, weights = without_zero_weights(points, offsets, weights)
    sizes, R, d = np.diff(offsets), len(offsets) - 1, points.shape[1]
    order = np.argsort(sizes, kind="stable")
    columns = np.full((-(-R // LANES), LANES), -1, np.int64)
    columns.flat[:R] = order
    omega = np.where(columns >= 0, columns, order[-1])
    starts = np.concatenate([[0], np.cumsum(sizes[omega].max(axis=1))]).astype(np.int64)
    Y = np.zeros((starts[-1], d + -d % 4, LANES), np.float32)
    w = np.zeros((starts[-1], LANES))
    for b, lanes in enumerate(omega):
        t = np.arange(starts[b + 1] - starts[b])[:, None]
        row = offsets[lanes] + np.minimum(t, sizes[lanes] - 1)  # (steps, 64)
        Y[starts[b] : starts[b + 1], :d] = points[row].transpose(0, 2, 1)
        w[starts[b] : starts[b + 1]] = (t < sizes[lanes]) * (1.0 if weights is None else weights[row])
    totals = np.add.reduceat(w, starts[:-1], axis=0)
    return Lanes(Y, w, starts, columns, totals, R)


def without_zero_weights(points: F32, offsets: I64, weights: F32 | None) -> tuple[F32, I64, F32 | None]:
    """Points of weight zero are none: they are nobody's nearest point."""
    if weights is None or weights.all():
        return points, offsets, weights
    kept = weights > 0
    before = np.concatenate([[0], np.cumsum(kept)])
    return points[kept], before[offsets], weights[kept]


@inlined()
def longest(offsets):  # type: ignore[no-untyped-def]
    """The most points from one offset to the next."""
    most = 0
    for s in range(len(offsets) - 1):
        most = max(most, offsets[s + 1] - offsets[s])
    return most


@inlined()
def load_tile(points, first, m, X):  # type: ignore[no-untyped-def]
    """Copy m points to X, and its last one until their number is a multiple of four, which is returned."""
    n = m + (-m) % 4
    for i in range(n):
        row = first + min(i, m - 1)
        for k in range(points.shape[1]):
            X[i, k] = points[row, k]
    return n


@inlined(FUSED)
def _square(x):  # type: ignore[no-untyped-def]
    return x * x


@inlined(FUSED)
def squared_distances(X, i, Y, d0, d1, d2, d3):  # type: ignore[no-untyped-def]
    """d_r[lane] = |x_{i + r} - y_lane|^2 of four points, summed over four dimensions at a time."""
    for k in range(0, Y.shape[0], 4):
        Ya, Yb, Yc, Yd = Y[k], Y[k + 1], Y[k + 2], Y[k + 3]
        a0, b0, c0, e0 = X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3]
        a1, b1, c1, e1 = X[i + 1, k], X[i + 1, k + 1], X[i + 1, k + 2], X[i + 1, k + 3]
        a2, b2, c2, e2 = X[i + 2, k], X[i + 2, k + 1], X[i + 2, k + 2], X[i + 2, k + 3]
        a3, b3, c3, e3 = X[i + 3, k], X[i + 3, k + 1], X[i + 3, k + 2], X[i + 3, k + 3]
        for j in range(LANES):
            ya, yb, yc, ye = Ya[j], Yb[j], Yc[j], Yd[j]
            s0, s1 = d0[j] if k else ZERO, d1[j] if k else ZERO
            s2, s3 = d2[j] if k else ZERO, d3[j] if k else ZERO
            d0[j] = s0 + _square(a0 - ya) + _square(b0 - yb) + _square(c0 - yc) + _square(e0 - ye)
            d1[j] = s1 + _square(a1 - ya) + _square(b1 - yb) + _square(c1 - yc) + _square(e1 - ye)
            d2[j] = s2 + _square(a2 - ya) + _square(b2 - yb) + _square(c2 - yc) + _square(e2 - ye)
            d3[j] = s3 + _square(a3 - ya) + _square(b3 - yb) + _square(c3 - yc) + _square(e3 - ye)
