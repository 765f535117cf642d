"""Compiled kernel profiles: distances, values and derivatives of 64 pairs at a time.

    form      value for points scaled by `Kernel.unit` / sigma, u = |x - y|, s = u^2, c = ln 2
    EXP2      2^-s
    MATERN    (1 + first c u + second c^2 u^2) 2^-u
    COMPACT   max(0, 1 - s)
    TRIANGLE  max(0, 1 - u)
    BALL      1 if u <= 1, else 0
    RATIONAL  1 / (1 + s)
    DISTANCE  -u

With ``city_block`` s is sum_j |x_j - y_j|, and the form is EXP2. Kernel records are in `dkdist.kernels.registry`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist._numba.compilation import FINITE_FMA, inline_jit

# pairs per loop; intermediates stay in the L1 cache (python benchmarks/kernel.py exact)
LANES_PER_GROUP = 64

f64, i64 = np.float64, np.int64
ROUNDING_SHIFT = f64(1.5 * 2.0**52)  # t + shift holds round(t) in its low bits (test_kernel_twofold.py)
MIN_EXPONENT = f64(-1000.0)  # 2^-1000 replaces smaller powers (tests/kernel/test_exact_sums.py)
LN2 = f64(np.log(2.0))  # derivative of 2^t divided by 2^t (tests/kernel/test_exact_sums.py)
MIN_DISTANCE = f64(1e-100)  # avoids division by zero at equal points (tests/kernel/test_exact_sums.py)

EXP2, MATERN, COMPACT, RATIONAL, DISTANCE, TRIANGLE, BALL = range(7)
# Largest s in the ball: pairs at the distance sigma count, in spite of rounding (tests/kernel/test_plain_kernels.py)
BALL_SQUARE = f64(1 + 1e-12)


class Profile(NamedTuple):
    """Form of a kernel with its parameters; ``second_rest`` is the rounding error of ``second``."""

    form: int
    city_block: bool = False
    first: float = 0.0
    second: float = 0.0
    second_rest: float = 0.0


GAUSSIAN = Profile(EXP2)
# exp(-r^2 / 2) = 2^-(unit r)^2 (tests/kernel/test_exact_sums.py)
GAUSSIAN_UNIT = float(np.sqrt(0.5 / np.log(2)))


@inline_jit(FINITE_FMA)
def exp2(t):  # type: ignore[no-untyped-def]
    """Return 2^t for t <= 0: a polynomial on [-1/2, 1/2], with the integer part added to the exponent."""
    t = max(t, MIN_EXPONENT)
    shifted = t + ROUNDING_SHIFT
    r = t - (shifted - ROUNDING_SHIFT)
    y = f64(7.070979066063798e-09) * r + f64(1.0205905466882686e-07)
    y = y * r + f64(1.3215451627330855e-06)
    y = y * r + f64(1.525267292460898e-05)
    y = y * r + f64(0.00015403530424786164)
    y = y * r + f64(0.0013333558200794916)
    y = y * r + f64(0.00961812910761866)
    y = y * r + f64(0.05550410866465167)
    y = y * r + f64(0.24022650695910075)
    y = y * r + f64(0.6931471805599462)
    y = y * r + f64(1.0)
    return i64(f64(y).view(i64) + (f64(shifted).view(i64) << i64(52))).view(f64)


@inline_jit(FINITE_FMA)
def sqdist(x, i, y, kernel, s):  # type: ignore[no-untyped-def]
    """Set s[n] = |x_i - y_n|^2, or sum_j |x_ij - y_nj| (city block); y is (d, LANES_PER_GROUP), d even."""
    for j in range(0, x.shape[1], 2):
        a, b, ya, yb = x[i, j], x[i, j + 1], y[j], y[j + 1]
        if kernel.city_block:
            for n in range(LANES_PER_GROUP):
                partial = s[n] if j else f64(0.0)
                s[n] = partial + abs(a - ya[n]) + abs(b - yb[n])
        else:
            for n in range(LANES_PER_GROUP):
                partial = s[n] if j else f64(0.0)
                s[n] = partial + (a - ya[n]) * (a - ya[n]) + (b - yb[n]) * (b - yb[n])


@inline_jit(FINITE_FMA)
def profile(s, kernel, k):  # type: ignore[no-untyped-def]
    """Set k[n] to the kernel at s[n] from `sqdist`."""
    if kernel.form == EXP2:
        for n in range(LANES_PER_GROUP):
            k[n] = exp2(-s[n])
    elif kernel.form == COMPACT:
        for n in range(LANES_PER_GROUP):
            k[n] = max(f64(0.0), f64(1.0) - s[n])
    elif kernel.form == RATIONAL:
        for n in range(LANES_PER_GROUP):
            k[n] = f64(1.0) / (f64(1.0) + s[n])
    elif kernel.form == DISTANCE:
        for n in range(LANES_PER_GROUP):
            k[n] = -np.sqrt(s[n])
    elif kernel.form == TRIANGLE:
        for n in range(LANES_PER_GROUP):
            k[n] = max(f64(0.0), f64(1.0) - np.sqrt(s[n]))
    elif kernel.form == BALL:
        for n in range(LANES_PER_GROUP):
            k[n] = f64(1.0) if s[n] <= BALL_SQUARE else f64(0.0)
    else:
        first, second = LN2 * kernel.first, LN2 * LN2 * kernel.second
        for n in range(LANES_PER_GROUP):
            u = np.sqrt(s[n])
            k[n] = (f64(1.0) + first * u + second * s[n]) * exp2(-u)


@inline_jit(FINITE_FMA)
def slope(s, kernel, k, g):  # type: ignore[no-untyped-def]
    """Set g[n] so that g (y - x) is the gradient by y, for k from `profile`; not for city block and BALL."""
    if kernel.form == EXP2:
        for n in range(LANES_PER_GROUP):
            g[n] = f64(-2.0) * LN2 * k[n]
    elif kernel.form == COMPACT:
        for n in range(LANES_PER_GROUP):
            g[n] = f64(-2.0) if k[n] > f64(0.0) else f64(0.0)
    elif kernel.form == RATIONAL:
        for n in range(LANES_PER_GROUP):
            g[n] = f64(-2.0) * k[n] * k[n]
    elif kernel.form == DISTANCE:
        for n in range(LANES_PER_GROUP):
            g[n] = f64(1.0) / min(k[n], -MIN_DISTANCE)
    elif kernel.form == TRIANGLE:
        for n in range(LANES_PER_GROUP):
            g[n] = f64(-1.0) / max(np.sqrt(s[n]), MIN_DISTANCE) if k[n] > f64(0.0) else f64(0.0)
    else:  # derivative of the value with respect to u, divided by u
        over_u, constant = (
            LN2 * (kernel.first - f64(1.0)),
            LN2 * LN2 * (f64(2.0) * kernel.second - kernel.first),
        )
        linear = -LN2 * LN2 * LN2 * kernel.second
        for n in range(LANES_PER_GROUP):
            u = np.sqrt(s[n])
            g[n] = (over_u / max(u, MIN_DISTANCE) + constant + linear * u) * exp2(-u)
