"""Loops of scaling: centres and scales of sets, ranks among knots, and points moved by them.

A set's middle and spread are weighted medians and quartiles, or its mean and standard deviation. Ranks are those of the
mid-distribution function F(x) = P(X < x) + P(X = x) / 2 (Parzen 2004), by which equal values share a rank. Knots are
values with the weight below and up to each: between two of them F is linear.

Points whose weight is not above zero are no part of a set; a set of none has centre 0, scale 0 and ranks of 1.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.compile import inlined, loop

ROUNDING = 1e-13  # of sums of weights
LARGEST = float(np.finfo(np.float32).max)
QUARTILES = 1.3489795003921634  # between those of a Gaussian, in standard deviations
ALIKE = 4.0  # times the quartile distance / 1.349: a Cauchy distribution has 2.8
TAIL = 0.02  # of each end: moved inwards where the deviation is taken


@inlined()
def _sorted_column(points, j, start, stop, weights, weighted):  # type: ignore[no-untyped-def]
    """Values of one column in rising order, and the running total of their weights; none of weight 0."""
    x, w = np.empty(stop - start), np.empty(stop - start)
    n = 0
    for i in range(start, stop):
        x[n] = points[i, j]
        w[n] = weights[i] if weighted else 1.0
        n += w[n] > 0
    order = np.argsort(x[:n], kind="mergesort")
    return x[:n][order], np.cumsum(w[:n][order])


@inlined()
def _quantile(x, mass, level):  # type: ignore[no-untyped-def]
    """The averaged inverted distribution function."""
    target, top = level * mass[-1], len(x) - 1
    first = np.searchsorted(mass, target * (1 - ROUNDING), side="left")
    last = np.searchsorted(mass, target * (1 + ROUNDING), side="right")
    return (x[min(first, top)] + x[min(last, top)]) / 2


@inlined()
def _within(x, mass, tail):  # type: ignore[no-untyped-def]
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


@inlined()
def _spread(x, mass, middle):  # type: ignore[no-untyped-def]
    """The quartile distance / 1.349; of values that are mostly alike, their deviation without tails.

    Where that is 0 too, the median distance from the middle of others than it / .6745.
    """
    between = (_quantile(x, mass, 0.75) - _quantile(x, mass, 0.25)) / QUARTILES
    within = _within(x, mass, TAIL)
    if within > ALIKE * between:
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
    return 2 * _quantile(apart[:n][order], np.cumsum(w[:n][order]), 0.5) / QUARTILES


@loop()
def middles(points, offsets, weights, weighted):  # type: ignore[no-untyped-def]
    """Median and spread of each column of each set, (n_sets, d) both: 1 of a Gaussian, 0 of equal values."""
    n, d = len(offsets) - 1, points.shape[1]
    centre, scale = np.zeros((n, d)), np.zeros((n, d))
    for s in range(n):
        for j in range(d):
            x, mass = _sorted_column(points, j, offsets[s], offsets[s + 1], weights, weighted)
            if len(x) > 0:
                centre[s, j] = _quantile(x, mass, 0.5)
                scale[s, j] = _spread(x, mass, centre[s, j])
    return centre, scale


@inlined()
def _weight(weights, weighted, i):  # type: ignore[no-untyped-def]
    return max(float(weights[i]), 0.0) if weighted else 1.0


@loop()
def means(points, offsets, weights, weighted):  # type: ignore[no-untyped-def]
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


@loop()
def moved(points, offsets, centre, scale, clip, out):  # type: ignore[no-untyped-def]
    """out = (points - centre) / scale of each set, within -clip and clip."""
    for s in range(len(offsets) - 1):
        for i in range(offsets[s], offsets[s + 1]):
            for j in range(points.shape[1]):
                z = (points[i, j] - centre[s, j]) / scale[s, j]
                out[i, j] = min(max(z, -clip), clip)


@inlined()
def _knots(x, mass):  # type: ignore[no-untyped-def]
    """Different values, and the share of weight below and up to each, of values in rising order."""
    values, below, upto = np.empty(len(x)), np.empty(len(x)), np.empty(len(x))
    k, before = -1, 0.0
    for i in range(len(x)):
        if i == 0 or x[i] > x[i - 1]:
            k += 1
            values[k], below[k] = x[i], before / mass[-1]
        before = mass[i]
        upto[k] = before / mass[-1]
    return values[: k + 1], below[: k + 1], upto[: k + 1]


@inlined()
def _rank(v, values, below, upto):  # type: ignore[no-untyped-def]
    """The mid-distribution function at v: linear between knots, 0 before the first and 1 after the last."""
    k = np.searchsorted(values, v)
    if k == len(values):
        return 1.0
    if values[k] == v:
        return (below[k] + upto[k]) / 2
    if k == 0:
        return 0.0
    part = (v - values[k - 1]) / (values[k] - values[k - 1])
    return upto[k - 1] + part * (below[k] - upto[k - 1])


@loop()
def column_knots(points, j, weights, weighted):  # type: ignore[no-untyped-def]
    """The knots of one column of all points."""
    x, mass = _sorted_column(points, j, 0, len(points), weights, weighted)
    return _knots(x, mass)


@loop()
def ranked_column(points, j, values, below, upto, out):  # type: ignore[no-untyped-def]
    """out[:, j] = ranks of one column among knots."""
    for i in range(len(points)):
        out[i, j] = _rank(float(points[i, j]), values, below, upto)


@loop()
def ranked_sets(points, offsets, drawn, drawn_offsets, weights, weighted, out):  # type: ignore[no-untyped-def]
    """out = ranks of each point among those of its set that were drawn."""
    for s in range(len(offsets) - 1):
        for j in range(points.shape[1]):
            x, mass = _sorted_column(drawn, j, drawn_offsets[s], drawn_offsets[s + 1], weights, weighted)
            values, below, upto = _knots(x, mass)
            for i in range(offsets[s], offsets[s + 1]):
                out[i, j] = _rank(float(points[i, j]), values, below, upto)
