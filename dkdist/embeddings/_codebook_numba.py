"""Fractions of the weight of each set at its nearest words (centres): a histogram over Voronoi cells.

Squared distances are sums of squared differences in float32, of coordinates in units of the largest word. Expanding the
square would need fewer operations, but loses the differences of words that are close to each other. Cost: about 0.3 ns
per point and word in two dimensions, and 0.06 ns per point, word and dimension in many dimensions.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist._numba.compilation import FMA, inline_jit, jit
from dkdist._numba.elementary import f32, i32
from dkdist._numba.points import read_only, set_arrays, total_weight

TILE_POINTS = 64  # points compared with one word at a time (python benchmarks/papers/embeddings_seconds.py)
MAX_COORDINATE = 2.0**50  # in units of the largest word; larger squares overflow float32 (IEEE 754-2019)
MAX_EXPONENT = 126  # 2^126 and its inverse are normal float32 numbers (IEEE 754-2019)


def power_of_two_scale(values: F32) -> float:
    """Return the power of 2 that brings the largest absolute value to [0.5, 1); 1 if all are 0."""
    exponent = int(np.frexp(np.abs(values).max(initial=0))[1])
    return float(2.0 ** np.clip(-exponent, -MAX_EXPONENT, MAX_EXPONENT))


def word_fractions(points: F32, spans: I64, weights: F32 | None, words: F32) -> F32:
    """Return the fractions (n_sets, n_words) float32 of the weight of each set at each word.

    The word of a point is the nearest of ``words`` (n_words, d), the first of them if several are equally near.
    ``spans`` (n_sets, 2) are the first row of each set and the row after its last.
    """
    if points.shape[1] != words.shape[1]:
        raise ValueError(f"words must have {points.shape[1]} columns; got {words.shape[1]}")
    out = np.empty((len(spans), len(words)), np.float32)
    scale = np.float32(power_of_two_scale(words))
    _word_fractions(*set_arrays(points, spans, weights), read_only(words * scale), scale, out)
    return out


@inline_jit(FMA)
def _find_nearest(x, words, distance, smallest, nearest):  # type: ignore[no-untyped-def]
    """Fill ``nearest`` with the nearest words of a tile of points, (d, TILE_POINTS)."""
    smallest[:] = f32(np.inf)
    for k in range(len(words)):
        for i in range(TILE_POINTS):
            difference = x[0, i] - words[k, 0]
            distance[i] = difference * difference
        for j in range(1, len(x)):
            for i in range(TILE_POINTS):
                difference = x[j, i] - words[k, j]
                distance[i] += difference * difference
        for i in range(TILE_POINTS):
            if distance[i] < smallest[i]:
                smallest[i], nearest[i] = distance[i], i32(k)


@jit(FMA)
def _word_fractions(points, spans, weights, weighted, words, scale, out):  # type: ignore[no-untyped-def]
    n_words, d = words.shape
    limit, mass = f32(MAX_COORDINATE), np.zeros(out.shape)  # float64 counts are exact
    x = np.zeros((d, TILE_POINTS), f32)
    distance, smallest = np.empty(TILE_POINTS, f32), np.empty(TILE_POINTS, f32)
    nearest, rows = np.zeros(TILE_POINTS, i32), np.empty(TILE_POINTS, np.int64)
    sets, m = np.empty(TILE_POINTS, i32), 0
    for s in range(len(spans)):  # a tile may hold points of several sets
        for r in range(spans[s, 0], spans[s, 1]):
            rows[m], sets[m] = r, i32(s)
            for j in range(d):
                x[j, m] = min(max(points[r, j] * scale, -limit), limit)
            m += 1
            if m == TILE_POINTS or (s == len(spans) - 1 and r == spans[s, 1] - 1):
                _find_nearest(x, words, distance, smallest, nearest)
                for i in range(m):
                    mass[sets[i], nearest[i]] += weights[rows[i]] if weighted else 1.0
                m = 0
    for s in range(len(spans)):
        total = total_weight(weights, weighted, spans[s, 0], spans[s, 1])
        for k in range(n_words):
            out[s, k] = f32(mass[s, k] / total)
