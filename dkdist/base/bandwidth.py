"""Bandwidths for collections: one Gaussian width for every set, one kernel width for every pair; and of which rows.

    Scott's rule, set by set:   h_j = median_i(std of set i along j) * median_i(n_i)^(-1 / (d + 4))
    median heuristic:           sigma = median |x - y| over pairs of rows

An effective sample size (sum w)^2 / sum w^2 stands in for n_i where points are weighted. (Scott 1992;
Garreau et al. 2017.) Medians are taken of rows drawn at random from a seed: evenly spaced rows beat with whatever has a
period, pixels of a grid, repeated columns, sets in turns.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.base.parameter_checks import draw_seed
from dkdist.base.roles import Role
from dkdist.loops.array_types import F32, F64, I64


def median_seed(random_state: Any) -> int:
    """The seed that ``random_state`` is, or will give next; 0 for None, so that medians are the same every time."""
    moves = isinstance(random_state, (np.random.Generator, np.random.RandomState))
    return 0 if random_state is None else draw_seed(copy.deepcopy(random_state) if moves else random_state)


def some(n: int, count: int, *key: int) -> I64:
    """``count`` of n positions at random, or all; sorted."""
    if n <= count:
        return np.arange(n)
    return np.sort(np.random.default_rng([*key, Role.MEDIANS]).choice(n, count, replace=False, shuffle=False))


def some_runs(n: int, n_runs: int, length: int, seed: int) -> I64:
    """Positions below n in runs of neighbours, so that few blocks are read: one at random in each of equal parts."""
    if n <= n_runs * length:
        return np.arange(n)
    edges = n * np.arange(n_runs + 1) // n_runs
    starts = np.random.default_rng([seed, Role.MEDIANS]).integers(
        edges[:-1], edges[1:] - length, endpoint=True
    )
    return np.asarray((starts[:, None] + np.arange(length)).ravel())


def row_keys(first: int, count: int, seed: int) -> F64:
    """Random numbers in [0, 1) of rows ``first`` and after, the same in whatever pieces rows are looked at."""
    bits = np.random.PCG64([seed, Role.MEDIANS])
    bits.advance(first)
    return np.random.Generator(bits).random(count)


def least_keys(keys: F64, count: int) -> I64:
    """Positions of the least keys, ``count`` or all; sorted."""
    return np.arange(len(keys)) if len(keys) <= count else np.sort(np.argpartition(keys, count)[:count])


ROUNDING = 1e-14  # of squared distances in float64; rows that differ in float32 are further apart


def moments(points: F32, offsets: I64, weights: F32 | None) -> tuple[F64, F64, F64]:
    """Mean and variance of each set along each dimension, (n_sets, d) both, and effective sizes (n_sets,)."""
    w = np.ones(len(points)) if weights is None else weights.astype(np.float64).reshape(-1)
    starts = offsets[:-1]
    total = np.add.reduceat(w, starts)
    x = points.astype(np.float64)
    mean = np.add.reduceat(w[:, None] * x, starts) / total[:, None]
    centred = x - np.repeat(mean, np.diff(offsets), axis=0)
    variance = np.add.reduceat(w[:, None] * centred**2, starts) / total[:, None]
    return mean, variance, total**2 / np.add.reduceat(w**2, starts)


def scott_bandwidth(std: F64, size: F64, dims: int, least: float) -> F64:
    """Scott's rule from the typical set, never below ``least``: (d,). ``dims`` is that of the estimated density."""
    h = np.median(std, axis=0) * float(np.median(size)) ** (-1 / (dims + 4))
    return np.asarray(np.maximum(h, least))


def median_distance(X: NDArray[np.floating]) -> float:
    """Median Euclidean distance between different rows of X; the mean of the non-zero ones if the median is 0."""
    x = X.astype(np.float64)
    unit = 2.0 ** min(1000, max(-1000, int(np.frexp(np.abs(x).max(initial=0.0))[1])))  # changes no digit
    x = x / unit
    x = x - np.median(x, axis=0)  # which outliers do not move
    square = (x**2).sum(axis=1)
    total = square[:, None] + square[None, :]
    d2 = total - 2 * x @ x.T
    d2[d2 < ROUNDING * total] = 0  # equal rows: what is left is rounding
    distances = np.sqrt(d2[np.triu_indices(len(x), 1)])
    median = float(np.median(distances)) if len(distances) else 0.0
    if median > 0:
        return median * unit
    positive = distances[distances > 0]
    return float(positive.mean()) * unit if len(positive) else 0.0
