"""Elementary functions in float32 that LLVM can vectorize, and packed landmarks for loops over pairs of points.

Functions use Cody-Waite range reduction and minimax polynomials (Cephes, single precision). Errors are below 2 units in
the last place of float32: absolute 1.2e-7 for sine and cosine of phases up to 1e5, 1.8e-7 for `cospi` and `sincospi`.
Without fused multiply-add, the error for a phase x is up to 2e-11 |x| larger, and that of `sincospi` is below 2.3e-7.
Functions are compiled with `FINITE_FMA`: reordering would merge the parts of the constants.

Packed landmarks (omegas) have one landmark per SIMD lane: Y[t, k, lane] = coordinate k of its point t.
Landmarks are sorted by size, 64 per batch; shorter ones repeat their last point with weight 0. Squared distances are
sums of squared differences, which are accurate for nearly equal points and far from the origin.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FINITE_FMA, inline_jit
from dkdist._numba.simd import SIMD_WIDTH, fused, load, minus, spread, zeros

f32 = np.float32
i32 = np.int32

# ln 2 and pi / 2 as sums of short parts, with exact integer multiples (Cody, Waite 1980; Cephes logf.c, sinf.c)
_LN2_HI, _LN2_LO = f32(0.693359375), f32(-2.12194440e-4)
# parts of pi / 2 (https://www.netlib.org/cephes/)
_PIO2_HI, _PIO2_MID, _PIO2_LO = f32(1.5703125), f32(4.837512969970703125e-4), f32(7.54978995489188e-8)
_TWO_OVER_PI = f32(2 / np.pi)  # period of the range reduction (tests/loops/test_elementary.py)
# float32 literals; Python floats would widen products to float64 (tests/loops/test_elementary.py)
_HALF, _ONE, _TWO = f32(0.5), f32(1.0), f32(2.0)


@inline_jit(early=False)
def minimum(a, b):  # type: ignore[no-untyped-def]
    """Return the smaller of two numbers."""
    return a if a < b else b


@inline_jit(early=False)
def maximum(a, b):  # type: ignore[no-untyped-def]
    """Return the larger of two numbers."""
    return a if a > b else b


@inline_jit(early=False)
def float_bits(x):  # type: ignore[no-untyped-def]
    """Return the int32 with the bits of a float32."""
    return f32(x).view(i32)


@inline_jit(early=False)
def bits_to_float(i):  # type: ignore[no-untyped-def]
    """Return the float32 with the bits of an int32."""
    return i32(i).view(f32)


@inline_jit(FINITE_FMA)
def log(x):  # type: ignore[no-untyped-def]
    """Return the natural logarithm of a positive, normal float32."""
    # bits of sqrt(1/2), to shift the mantissa to [sqrt(1/2), sqrt(2))
    shifted = i32(float_bits(f32(x)) - i32(0x3F3504F3))
    e = f32(shifted >> i32(23))
    m = bits_to_float(i32((shifted & i32(0x007FFFFF)) + i32(0x3F3504F3))) - _ONE
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


@inline_jit(FINITE_FMA)
def exp(x):  # type: ignore[no-untyped-def]
    """Return the exponential of a float32 in [-87, 88]."""
    k = np.floor(f32(x) * f32(1.44269504088896341) + _HALF)
    r = f32(x) - k * _LN2_HI - k * _LN2_LO
    y = f32(1.9875691500e-4) * r + f32(1.3981999507e-3)
    y = y * r + f32(8.3334519073e-3)
    y = y * r + f32(4.1665795894e-2)
    y = y * r + f32(1.6666665459e-1)
    y = y * r + f32(5.0000001201e-1)
    y = y * r * r + r + _ONE
    return y * bits_to_float(i32((i32(k) + i32(127)) << i32(23)))


@inline_jit(FINITE_FMA)
def sincos(x):  # type: ignore[no-untyped-def]
    """Return (sin x, cos x) of a float32 phase. Above |x| = 1e6 results lose digits but stay in [-1, 1]."""
    k = np.floor(f32(x) * _TWO_OVER_PI + _HALF)
    r = ((f32(x) - k * _PIO2_HI) - k * _PIO2_MID) - k * _PIO2_LO
    r = minimum(maximum(r, -_ONE), _ONE)  # |r| <= pi/4 up to rounding, except for huge x
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


@inline_jit(FINITE_FMA)
def cospi(u):  # type: ignore[no-untyped-def]
    """Return cos(pi u) of a float32 in [0, 1], from the odd series of sin(pi (1/2 - u))."""
    z = _HALF - f32(u)
    t = z * z
    y = f32(-0.00737043094571435) * t + f32(0.0821458866111282)
    y = y * t + f32(-0.599264529320792)
    y = y * t + f32(2.55016403987734)
    y = y * t + f32(-5.16771278004997)
    y = y * t + f32(3.14159265358979)
    return y * z


@inline_jit(FINITE_FMA)
def sincospi(v):  # type: ignore[no-untyped-def]
    """Return (sin pi v, cos pi v) of a float32, |v| < 2^31; the range reduction has no rounding error."""
    k = np.rint(f32(v))
    r = f32(v) - k
    sign = bits_to_float(i32((i32(k) << i32(31)) ^ i32(0x3F800000)))
    z = r * r
    s = (f32(0.077220124) * z + f32(-0.59804517)) * z + f32(2.5500314)
    s = (s * z + f32(-5.1677069)) * z + f32(3.1415926)
    c = (f32(-0.024420699) * z + f32(0.23495392)) * z + f32(-1.3352161)
    c = (c * z + f32(4.0587096)) * z + f32(-4.9348022)
    return sign * r * s, sign * (c * z + _ONE)


# landmarks per batch, a multiple of `SIMD_WIDTH`; nearest points fit in the L1 cache (python benchmarks/distances.py)
LANDMARK_BATCH_SIZE = 64
TILE_POINTS = 32  # points of a set per comparison with a batch of landmarks (python benchmarks/distances.py)


@dataclass(frozen=True)
class Frozen:
    """Dataclass whose arrays are read-only, also after unpickling."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


class RaggedLandmarks:
    """Base class of R landmarks (omegas) of different sizes, delimited by ``offsets`` (R + 1,)."""

    offsets: I64

    @property
    def n_omegas(self) -> int:
        """Number of landmarks."""
        return len(self.offsets) - 1


@dataclass(frozen=True)
class PackedLandmarks(Frozen):
    """Landmarks (omegas), 64 per batch; steps ``starts[b]`` to ``starts[b + 1]`` - 1 are the points of batch b.

    A batch has as many steps as its longest landmark has points. ``Y`` (steps, d, 64);
    ``weights`` (steps, 64), zero for repeated points; ``columns`` (batches, 64), the index of each lane's landmark or
    -1; ``totals`` (batches, 64), the sums of weights.
    """

    Y: F32
    weights: F64
    starts: I64
    columns: I64
    totals: F64
    n_omegas: int


def pack_landmarks(points: F32, offsets: I64, weights: F32 | None) -> PackedLandmarks:
    """Pack landmarks with points (T, d), offsets (R + 1,) and weights (T,) or None; each has at least one point."""
    points, offsets, weights = drop_zero_weights(points, offsets, weights)
    sizes, R, d = np.diff(offsets), len(offsets) - 1, points.shape[1]
    order = np.argsort(sizes, kind="stable")
    columns = np.full((-(-R // LANDMARK_BATCH_SIZE), LANDMARK_BATCH_SIZE), -1, np.int64)
    columns.flat[:R] = order
    lane_omegas = np.where(columns >= 0, columns, order[-1])
    starts = np.concatenate([[0], np.cumsum(sizes[lane_omegas].max(axis=1))]).astype(np.int64)
    Y = np.empty((starts[-1], d, LANDMARK_BATCH_SIZE), np.float32)
    w = np.zeros((starts[-1], LANDMARK_BATCH_SIZE))
    for b, omegas in enumerate(lane_omegas):
        t = np.arange(starts[b + 1] - starts[b])[:, None]
        point_rows = offsets[omegas] + np.minimum(t, sizes[omegas] - 1)  # indices of points, (steps, 64)
        Y[starts[b] : starts[b + 1]] = points[point_rows].transpose(0, 2, 1)
        w[starts[b] : starts[b + 1]] = (t < sizes[omegas]) * (1.0 if weights is None else weights[point_rows])
    totals = np.add.reduceat(w, starts[:-1], axis=0)
    return PackedLandmarks(Y, w, starts, columns, totals, R)


def drop_zero_weights(points: F32, offsets: I64, weights: F32 | None) -> tuple[F32, I64, F32 | None]:
    """Remove points of weight zero, so that they are never nearest points."""
    if weights is None or weights.all():
        return points, offsets, weights
    is_kept = weights > 0
    n_kept_before = np.concatenate([[0], np.cumsum(is_kept)])
    return points[is_kept], n_kept_before[offsets], weights[is_kept]


@inline_jit()
def max_set_size(offsets):  # type: ignore[no-untyped-def]
    """Return the largest number of points of a set."""
    largest = 0
    for s in range(len(offsets) - 1):
        largest = max(largest, offsets[s + 1] - offsets[s])
    return largest


@inline_jit()
def load_tile(points, first, m, X):  # type: ignore[no-untyped-def]
    """Copy m points to X, repeat the last one up to a multiple of four, and return that multiple."""
    n = m + (-m) % 4
    for i in range(n):
        row = first + min(i, m - 1)
        for k in range(points.shape[1]):
            X[i, k] = points[row, k]
    return n


@inline_jit()
def squared_distances(X, i, step, stride, Y, j, width, d):  # type: ignore[no-untyped-def]
    """Return tiles of the squared distances of four points to one point per SIMD lane, summed over d dimensions.

    Coordinate k of point r is X[i + r * step + k * stride]; those of the lanes begin at Y[j + k * width].
    """
    c0 = c1 = c2 = c3 = zeros(1, SIMD_WIDTH)
    for k in range(d):
        x, y = i + k * stride, load(Y, j + k * width, 0, 1, SIMD_WIDTH)
        e0, e1 = minus(spread(X, x, 0, 1, SIMD_WIDTH), y), minus(spread(X, x + step, 0, 1, SIMD_WIDTH), y)
        e2 = minus(spread(X, x + 2 * step, 0, 1, SIMD_WIDTH), y)
        e3 = minus(spread(X, x + 3 * step, 0, 1, SIMD_WIDTH), y)
        c0, c1, c2, c3 = fused(e0, e0, c0), fused(e1, e1, c1), fused(e2, e2, c2), fused(e3, e3, c3)
    return c0, c1, c2, c3
