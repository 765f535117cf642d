"""Random features of distances: exp(-gamma d), and the moments that standardise columns (P2, Eq. 3).

All functions work elementwise, so each row is bitwise independent of other rows.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist._numba.compilation import FINITE_FMA, jit
from dkdist._numba.elementary import exp, f32

MIN_EXPONENT = f32(-87.0)  # exp(-87.3) is 1.2e-38, the smallest normal float32 (IEEE 754-2019)


@jit(FINITE_FMA)
def fill_features(D, gamma, factor, out):  # type: ignore[no-untyped-def]
    """Set out = factor exp(-gamma D) for distances (n, R) float32; values below 1e-38 become 0."""
    for i in range(len(D)):
        row, output = D[i], out[i]
        for j in range(len(row)):
            x = -gamma * row[j]
            output[j] = factor * exp(max(x, MIN_EXPONENT)) if x > MIN_EXPONENT else f32(0)


@jit(FINITE_FMA)
def standardise(out, centre, inverse):  # type: ignore[no-untyped-def]
    """Set out = (out - centre) * inverse in place; inverse is 1 / scale, or 0 for columns of scale 0."""
    for i in range(len(out)):
        row = out[i]
        for j in range(len(row)):
            row[j] = (row[j] - centre[j]) * inverse[j]


def column_moments(rows: F32) -> tuple[int, F64, F64]:
    """Return (n, mean, sum of squared deviations) of the columns of ``rows``."""
    mean = rows.mean(axis=0, dtype=np.float64)
    spread = np.zeros(rows.shape[1])
    for start in range(0, len(rows), 256):  # in batches, to keep float64 copies small
        spread += ((rows[start : start + 256] - mean) ** 2).sum(axis=0)
    return len(rows), mean, spread


def merge_moments(first: tuple[int, F64, F64], second: tuple[int, F64, F64]) -> tuple[int, F64, F64]:
    """Combine the column moments of two sets of rows (Chan, Golub, LeVeque 1979)."""
    (n, a, s), (m, b, t) = first, second
    total = n + m
    return total, a + (b - a) * (m / total), s + t + (b - a) ** 2 * (n * m / total)
