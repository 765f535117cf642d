"""Compiled functions of `SetScaler`: centres and scales of sets, and scaled points.

Centre and scale are weighted medians and interquartile ranges, or means and standard deviations. Points of weight <= 0
are ignored; a set without points of positive weight has centre 0 and scale 0.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.ranks import sorted_column

WEIGHT_SUM_RTOL = 1e-13  # allows for rounding of float64 sums of weights (tests/scaling/test_set_scaler.py)
FLOAT32_MAX = float(np.finfo(np.float32).max)
# Interquartile range of a Gaussian in standard deviations.
GAUSSIAN_IQR = 1.3489795003921634  # 2 ndtri(0.75) (tests/scaling/test_set_scaler.py)
# Ratio of the winsorized standard deviation to the interquartile range / 1.349, above which most values are treated as
# equal. For a Cauchy distribution the ratio is 2.8.
MAX_STD_PER_IQR = 4.0  # tests/scaling/test_set_scaler.py
WINSORIZED_FRACTION = 0.02  # fraction winsorized in each tail (tests/scaling/test_set_scaler.py)


@inline_jit()
def _quantile(x, mass, level):  # type: ignore[no-untyped-def]
    """Return a quantile (method "averaged_inverted_cdf" of numpy)."""
    target, end = level * mass[-1], len(x) - 1
    first = np.searchsorted(mass, target * (1 - WEIGHT_SUM_RTOL), side="left")
    last = np.searchsorted(mass, target * (1 + WEIGHT_SUM_RTOL), side="right")
    return (x[min(first, end)] + x[min(last, end)]) / 2


@inline_jit()
def _winsorized_std(x, mass, tail):  # type: ignore[no-untyped-def]
    """Return the winsorized standard deviation of values in ascending order."""
    low, high = _quantile(x, mass, tail), _quantile(x, mass, 1 - tail)
    first = total = square = previous_mass = 0.0
    for i in range(len(x)):
        z, w = min(max(x[i], low), high) - low, mass[i] - previous_mass
        previous_mass = mass[i]
        first += w * z
        square += w * z * z
        total += w
    return np.sqrt(max(square / total - (first / total) ** 2, 0.0))


@inline_jit()
def _spread(x, mass, median):  # type: ignore[no-untyped-def]
    """Return the interquartile range / 1.349; the winsorized standard deviation if most values are equal.

    If both are 0, return the median distance of the other values from the median, divided by 0.6745.
    """
    iqr_scale = (_quantile(x, mass, 0.75) - _quantile(x, mass, 0.25)) / GAUSSIAN_IQR
    std = _winsorized_std(x, mass, WINSORIZED_FRACTION)
    if std > MAX_STD_PER_IQR * iqr_scale:
        return std
    if iqr_scale > 0:
        return iqr_scale
    distance, w = np.empty(len(x)), np.empty(len(x))
    n = 0
    for i in range(len(x)):
        distance[n] = abs(x[i] - median)
        w[n] = mass[i] - (mass[i - 1] if i > 0 else 0.0)
        n += distance[n] > 0
    if n == 0:
        return 0.0
    order = np.argsort(distance[:n], kind="mergesort")
    return 2 * _quantile(distance[:n][order], np.cumsum(w[:n][order]), 0.5) / GAUSSIAN_IQR


@jit()
def medians_and_spreads(points, offsets, weights, weighted):  # type: ignore[no-untyped-def]
    """Return medians and spreads (n_sets, d) of the columns of each set; a standard Gaussian has spread 1."""
    n, d = len(offsets) - 1, points.shape[1]
    centre, scale = np.zeros((n, d)), np.zeros((n, d))
    for s in range(n):
        for j in range(d):
            x, mass = sorted_column(points, j, offsets[s], offsets[s + 1], weights, weighted)
            if len(x) > 0:
                centre[s, j] = _quantile(x, mass, 0.5)
                scale[s, j] = _spread(x, mass, centre[s, j])
    return centre, scale


@inline_jit()
def _weight(weights, weighted, i):  # type: ignore[no-untyped-def]
    return max(float(weights[i]), 0.0) if weighted else 1.0


@jit()
def means_and_stds(points, offsets, weights, weighted):  # type: ignore[no-untyped-def]
    """Return means and standard deviations (n_sets, d) of the columns of each set."""
    n, d = len(offsets) - 1, points.shape[1]
    centre, scale = np.zeros((n, d)), np.zeros((n, d))
    for s in range(n):
        total = 0.0
        for i in range(offsets[s], offsets[s + 1]):
            total += _weight(weights, weighted, i)
        for j in range(d if total > 0 else 0):
            start = float(points[offsets[s], j])  # makes the mean of equal values exact
            shift = square = 0.0
            for i in range(offsets[s], offsets[s + 1]):
                shift += _weight(weights, weighted, i) * (points[i, j] - start)
            centre[s, j] = start + shift / total
            for i in range(offsets[s], offsets[s + 1]):
                square += _weight(weights, weighted, i) * (points[i, j] - centre[s, j]) ** 2
            scale[s, j] = np.sqrt(square / total)
    return centre, scale


@jit()
def standardize(points, offsets, centre, scale, clip, out):  # type: ignore[no-untyped-def]
    """Fill out = (points - centre) / scale of each set, clipped to [-clip, clip]."""
    for s in range(len(offsets) - 1):
        for i in range(offsets[s], offsets[s + 1]):
            for j in range(points.shape[1]):
                z = (points[i, j] - centre[s, j]) / scale[s, j]
                out[i, j] = min(max(z, -clip), clip)
