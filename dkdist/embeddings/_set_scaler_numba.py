"""Loops of scaling: centres and scales of sets, and points moved by them.

A set's middle and spread are weighted medians and quartiles, or its mean and standard deviation. Points whose weight is
not above zero are no part of a set; a set of none has centre 0 and scale 0.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.ranks import sorted_column

WEIGHT_SUM_RTOL = 1e-13  # of sums of weights
FLOAT32_MAX = float(np.finfo(np.float32).max)
GAUSSIAN_IQR = 1.3489795003921634  # between those of a Gaussian, in standard deviations
MAX_STD_PER_IQR = 4.0  # times the quartile distance / 1.349: a Cauchy distribution has 2.8
WINSORIZED_FRACTION = 0.02  # of each end: moved inwards where the deviation is taken


@inline_jit()
def _quantile(x, mass, level):  # type: ignore[no-untyped-def]
    """The averaged inverted distribution function."""
    target, top = level * mass[-1], len(x) - 1
    first = np.searchsorted(mass, target * (1 - WEIGHT_SUM_RTOL), side="left")
    last = np.searchsorted(mass, target * (1 + WEIGHT_SUM_RTOL), side="right")
    return (x[min(first, top)] + x[min(last, top)]) / 2


@inline_jit()
def _winsorized_std(x, mass, tail):  # type: ignore[no-untyped-def]
    """Standard deviation of values in rising order, those of both tails moved to where the tails begin."""
    low, high = _quantile(x, mass, tail), _quantile(x, mass, 1 - tail)
    first = total = square = before = 0.0
    for i in range(len(x)):
        z, w = min(max(x[i], low), high) - low, mass[i] - before
        before = mass[i]
        first += w * z
        square += w * z * z
        total += w
    return np.sqrt(max(square / total - (first / total) ** 2, 0.0))


@inline_jit()
def _spread(x, mass, middle):  # type: ignore[no-untyped-def]
    """The quartile distance / 1.349; of values that are mostly alike, their deviation without tails.

    Where that is 0 too, the median distance from the middle of others than it / .6745.
    """
    between = (_quantile(x, mass, 0.75) - _quantile(x, mass, 0.25)) / GAUSSIAN_IQR
    within = _winsorized_std(x, mass, WINSORIZED_FRACTION)
    if within > MAX_STD_PER_IQR * between:
        return within
    if between > 0:
        return between
    apart, w = np.empty(len(x)), np.empty(len(x))
    n = 0
    for i in range(len(x)):
        apart[n] = abs(x[i] - middle)
        w[n] = mass[i] - (mass[i - 1] if i > 0 else 0.0)
        n += apart[n] > 0
    if n == 0:
        return 0.0
    order = np.argsort(apart[:n], kind="mergesort")
    return 2 * _quantile(apart[:n][order], np.cumsum(w[:n][order]), 0.5) / GAUSSIAN_IQR


@jit()
def medians_and_spreads(points, offsets, weights, weighted):  # type: ignore[no-untyped-def]
    """Median and spread of each column of each set, (n_sets, d) both: 1 of a Gaussian, 0 of equal values."""
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
    """Mean and standard deviation of each column of each set: (n_sets, d) both."""
    n, d = len(offsets) - 1, points.shape[1]
    centre, scale = np.zeros((n, d)), np.zeros((n, d))
    for s in range(n):
        total = 0.0
        for i in range(offsets[s], offsets[s + 1]):
            total += _weight(weights, weighted, i)
        for j in range(d if total > 0 else 0):
            start = float(points[offsets[s], j])  # so that equal values have the mean that they are
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
    """out = (points - centre) / scale of each set, within -clip and clip."""
    for s in range(len(offsets) - 1):
        for i in range(offsets[s], offsets[s + 1]):
            for j in range(points.shape[1]):
                z = (points[i, j] - centre[s, j]) / scale[s, j]
                out[i, j] = min(max(z, -clip), clip)
