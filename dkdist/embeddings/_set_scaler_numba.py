"""Compiled functions of `SetScaler`: centres and scales of sets, and scaled points.

Centre and scale are weighted medians and interquartile ranges, or means and standard deviations. Points of weight <= 0
are ignored; a set without points of positive weight has centre 0 and scale 0.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import inline_jit, jit
from dkdist._numba.elementary import maximum, minimum
from dkdist._numba.points import read_only
from dkdist._numba.ranks import count_below, sort_with_weights, sort_workspace, sorted_column

WEIGHT_SUM_RTOL = 1e-13  # allows for rounding of float64 sums of weights (tests/scaling/test_set_scaler.py)
FLOAT32_MAX = float(np.finfo(np.float32).max)
# Interquartile range of a Gaussian in standard deviations.
GAUSSIAN_IQR = 1.3489795003921634  # 2 ndtri(0.75) (tests/scaling/test_set_scaler.py)
# Ratio of the winsorized standard deviation to the interquartile range / 1.349, above which most values are treated as
# equal. For a Cauchy distribution the ratio is 2.8.
MAX_STD_PER_IQR = 4.0  # tests/scaling/test_set_scaler.py
WINSORIZED_FRACTION = 0.02  # fraction winsorized in each tail (tests/scaling/test_set_scaler.py)


# Levels of the quantiles of a column: median, quartiles and limits of the winsorized values.
LEVELS = read_only(np.array([0.5, 0.25, 0.75, WINSORIZED_FRACTION, 1 - WINSORIZED_FRACTION]))


@inline_jit(early=False)
def _fill_quantiles(x, mass, n, levels, quantiles):  # type: ignore[no-untyped-def]
    """Fill quantiles of n sorted values with cumulative weights (method "averaged_inverted_cdf" of numpy)."""
    for q in range(len(levels)):
        target = levels[q] * mass[n - 1]
        first = minimum(count_below(mass, n, target * (1 - WEIGHT_SUM_RTOL)), n - 1)
        last = minimum(count_below(mass, n, target * (1 + WEIGHT_SUM_RTOL)), n - 1)
        quantiles[q] = (x[first] + x[last]) / 2


@inline_jit(early=False)
def _winsorized_std(x, mass, n, low, high):  # type: ignore[no-untyped-def]
    """Return the winsorized standard deviation of values in ascending order."""
    first = total = square = previous_mass = 0.0
    for i in range(n):
        z, w = minimum(maximum(x[i], low), high) - low, mass[i] - previous_mass
        previous_mass = mass[i]
        first += w * z
        square += w * z * z
        total += w
    return np.sqrt(maximum(square / total - (first / total) ** 2, 0.0))


@inline_jit(early=False)
def _median_distance(x, mass, n, median, workspace):  # type: ignore[no-untyped-def]
    """Return the median distance from the median of the values that differ from it; 0 if there are none."""
    distance, w = workspace[4], workspace[5]
    k = 0
    for i in range(n):
        distance[k] = abs(x[i] - median)
        w[k] = mass[i] - (mass[i - 1] if i > 0 else 0.0)
        k += distance[k] > 0
    if k == 0:
        return 0.0
    sort_with_weights(distance, w, k, workspace[2], workspace[3])
    for i in range(1, k):
        w[i] += w[i - 1]
    _fill_quantiles(distance, w, k, LEVELS[:1], workspace[6])
    return workspace[6, 0]


def medians_and_spreads(points: F32, offsets: I64, weights: F32, weighted: bool) -> tuple[F64, F64]:
    """Return medians and spreads (n_sets, d) of the columns of each set; a standard Gaussian has spread 1."""
    centre, scale = np.zeros((2, len(offsets) - 1, points.shape[1]))
    _fill_medians(
        points, offsets, weights, weighted, sort_workspace(offsets), np.empty(len(LEVELS)), centre, scale
    )
    return centre, scale


@jit()
def _fill_medians(points, offsets, weights, weighted, workspace, quantiles, centre, scale):  # type: ignore[no-untyped-def]
    """Fill medians and interquartile ranges / 1.349; winsorized standard deviations if most values are equal.

    If both are 0, the spread is the median distance of the other values from the median, divided by 0.6745.
    """
    x, mass = workspace[0], workspace[1]
    for s in range(len(offsets) - 1):
        for j in range(points.shape[1]):
            n = sorted_column(points, j, offsets[s], offsets[s + 1], weights, weighted, workspace)
            if n > 0:
                _fill_quantiles(x, mass, n, LEVELS, quantiles)
                centre[s, j] = quantiles[0]
                spread = (quantiles[2] - quantiles[1]) / GAUSSIAN_IQR
                std = _winsorized_std(x, mass, n, quantiles[3], quantiles[4])
                if std > MAX_STD_PER_IQR * spread:
                    spread = std
                if spread == 0:
                    spread = 2 * _median_distance(x, mass, n, centre[s, j], workspace) / GAUSSIAN_IQR
                scale[s, j] = spread


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
                out[i, j] = minimum(maximum(z, -clip), clip)
