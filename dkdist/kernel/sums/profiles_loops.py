"""Kernels as functions of the distance, 64 lanes at a time: what pairs are apart, the kernel, and its slope.

    number  kernel              of points scaled by UNITS / sigma, u = |x - y|, s = u^2, c = ln 2
    0       gaussian            2^-s
    1       matern12            2^-u                            (also "laplacian", its name of old)
    2       epanechnikov        max(0, 1 - s)
    3       matern32            (1 + c u) 2^-u
    4       matern52            (1 + c u + c^2 u^2 / 3) 2^-u
    5       rational-quadratic  1 / (1 + s)
    6       energy              -u
    7       laplace             2^-(sum_j |x_j - y_j|)

A kernel more is a branch of `profile` and of `slope`, a name and a unit here, and a line of
`dkdist.kernel.kinds.kernel_kinds`.
"""

from __future__ import annotations

import math

import numpy as np

from dkdist.loops.compile import ELEMENTWISE, inlined

LANES = 64

f64, i64 = np.float64, np.int64
_SHIFT = f64(1.5 * 2.0**52)  # added to a number, it leaves the nearest whole number in the last bits
_LOWEST = f64(-1000.0)  # powers of two below are counted as this one
_LOG2E = float(np.log2(math.e))
_C = f64(np.log(2.0))
_TINY = f64(1e-100)

MATERN12, EPANECHNIKOV, MATERN32, MATERN52, RATIONAL, ENERGY, LAPLACE = 1, 2, 3, 4, 5, 6, 7
KERNELS = {
    "gaussian": 0, "laplace": LAPLACE, "matern12": MATERN12, "matern32": MATERN32, "matern52": MATERN52,
    "rational-quadratic": RATIONAL, "energy": ENERGY, "epanechnikov": EPANECHNIKOV, "laplacian": MATERN12,
}  # fmt: skip
UNITS = (
    float(np.sqrt(_LOG2E / 2)), _LOG2E, 1.0, _LOG2E * 3**0.5, _LOG2E * 5**0.5, 0.5**0.5, 1.0, _LOG2E,
)  # fmt: skip


@inlined(ELEMENTWISE)
def exp2(t):  # type: ignore[no-untyped-def]
    """2^t for t <= 0: a polynomial on [-1/2, 1/2], 1 at 0, and the whole part added to the exponent."""
    t = max(t, _LOWEST)
    shifted = t + _SHIFT
    r = t - (shifted - _SHIFT)
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


@inlined(ELEMENTWISE)
def apart(x, i, y, kernel, s):  # type: ignore[no-untyped-def]
    """s[n] = |x_i - y_n|^2, or sum_j |x_ij - y_nj| for "laplace"; y is (d, LANES), d even."""
    for j in range(0, x.shape[1], 2):
        a, b, ya, yb = x[i, j], x[i, j + 1], y[j], y[j + 1]
        if kernel == LAPLACE:
            for n in range(LANES):
                before = s[n] if j else f64(0.0)
                s[n] = before + abs(a - ya[n]) + abs(b - yb[n])
        else:
            for n in range(LANES):
                before = s[n] if j else f64(0.0)
                s[n] = before + (a - ya[n]) * (a - ya[n]) + (b - yb[n]) * (b - yb[n])


@inlined(ELEMENTWISE)
def profile(s, kernel, k):  # type: ignore[no-untyped-def]
    """k[n] = the kernel at what is `apart`."""
    if kernel == 0 or kernel == LAPLACE:
        for n in range(LANES):
            k[n] = exp2(-s[n])
    elif kernel == EPANECHNIKOV:
        for n in range(LANES):
            k[n] = max(f64(0.0), f64(1.0) - s[n])
    elif kernel == RATIONAL:
        for n in range(LANES):
            k[n] = f64(1.0) / (f64(1.0) + s[n])
    elif kernel == ENERGY:
        for n in range(LANES):
            k[n] = -np.sqrt(s[n])
    else:
        first = f64(0.0) if kernel == MATERN12 else _C
        second = _C * _C / f64(3.0) if kernel == MATERN52 else f64(0.0)
        for n in range(LANES):
            u = np.sqrt(s[n])
            k[n] = (f64(1.0) + first * u + second * s[n]) * exp2(-u)


@inlined(ELEMENTWISE)
def slope(s, kernel, k, g):  # type: ignore[no-untyped-def]
    """g[n], so that g (y - x) is the gradient of the kernel by y; k is its `profile`. Not for "laplace"."""
    if kernel == 0:
        for n in range(LANES):
            g[n] = f64(-2.0) * _C * k[n]
    elif kernel == EPANECHNIKOV:
        for n in range(LANES):
            g[n] = f64(-2.0) if k[n] > f64(0.0) else f64(0.0)
    elif kernel == RATIONAL:
        for n in range(LANES):
            g[n] = f64(-2.0) * k[n] * k[n]
    elif kernel == ENERGY:
        for n in range(LANES):
            g[n] = f64(1.0) / min(k[n], -_TINY)
    elif kernel == MATERN12:
        for n in range(LANES):
            g[n] = -_C * k[n] / np.sqrt(max(s[n], _TINY * _TINY))
    else:
        first, second = (_C * _C, f64(0.0)) if kernel == MATERN32 else (_C**2 / f64(3.0), _C**3 / f64(3.0))
        for n in range(LANES):
            u = np.sqrt(s[n])
            g[n] = -(first + second * u) * exp2(-u)
