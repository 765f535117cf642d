"""A two-sample test by many statistics at once, at an exact level, in time linear in the points.

The weighted harmonic mean of p-values combines the statistics of `PooledStatistics` (Good 1958, Wilson 2019):

    S = log10 sum_k w_k / p_k,   sum_k w_k = 1

The p-value p_k of a labelling is a tail of a distribution with the moments of statistic k over all other labellings
(`dkdist.two_sample.combined_p_values`). Tails resolve less than 1 / (1 + B), so that small weights count.

Exact level. Let the pooled points x be exchangeable, as they are if both samples are independent draws from one
distribution. Let g_0 be the identity, g_1, .., g_B independent uniform draws from a group G of permutations of points,
and T_b in R^K the statistics of g_b x, whose parameters depend on the set of all points alone, or not on x. For h
uniform on G and independent, x and h x have one distribution, and (g_0 h, .., g_B h) are independent uniform draws in
any order: (T_0, .., T_B) is exchangeable. Each S_b is the same function of T_b and of the set of all others. So
(S_0, .., S_B) is exchangeable too, and p = #{b : S_b >= S_0} / (1 + B) <= a with probability at most a, for any a, B,
sizes, weights and statistics (Hemerik, Goeman 2018). The combination needs no correction for its parts.

Linear time. Up to `MAX_DENSE_POINTS` points, all pairs are compared; beyond, features are summed over bins, random
groups of equally many points of one sample. Permutations of bins are a group too, and their cost does not depend on the
number of points (Domingo-Enrich, Dwivedi, Mackey 2025). Points that fill no bin keep their label.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dkdist.base.roles import Role
from dkdist.loops.array_types import F64, U16
from dkdist.two_sample.combined_p_values import combined, log_p_values
from dkdist.two_sample.pooled_statistics import N_BANDWIDTHS, PooledStatistics, pooled_statistics
from dkdist.two_sample.samples import Sample

# Five families of statistics in equal parts, and in each equal parts for its members. No weight is tuned.
WEIGHTS = {
    f"{kernel} {i}": 0.2 / N_BANDWIDTHS for kernel in ("gaussian", "laplace") for i in range(N_BANDWIDTHS)
}
WEIGHTS |= {"energy": 0.2, "means": 0.2, "spread": 0.2 / 3, "radius": 0.2 / 3, "products": 0.2 / 3}
MAX_DENSE_POINTS = 512  # all pairs: 40 MiB of kernels; parameters are chosen from as many pooled points
MAX_BINS = 4096  # of both samples: a permutation costs 4,096 additions for each feature
N_FREQUENCIES = 25  # of each bandwidth, for MAX_BINS bins; more at the same cost for fewer bins
BATCH_SIZE = 64  # permutations
TIE_TOL = 1e-4  # combined statistics that differ by less are equal: sums over bins are float32
CONSTANT_TOL = 1e-5  # of a bin's size: features whose sums over bins differ by less are constant

Statistics = Callable[[NDArray[np.bool_]], F64]
"""Labels (b, n_labels), True for P, to statistics (n_statistics, b)."""


def aggregated_test(P: Sample, Q: Sample, n_permutations: int, seed: int) -> tuple[float, float, float, str]:
    """Combined statistic, p-value, and the Gaussian bandwidth and the statistic with most evidence."""
    rng, N = np.random.default_rng([seed, Role.PERMUTATIONS]), P.n + Q.n
    positions = np.sort(rng.choice(N, min(MAX_DENSE_POINTS, N), replace=False))
    of_P, of_Q = np.split(positions, [np.searchsorted(positions, P.n)])
    sample = np.concatenate([P.rows(of_P), Q.rows(of_Q - P.n)])
    pooled = pooled_statistics(sample)
    if pooled is None:
        return 0.0, 1.0, 1.0, "gaussian"
    if len(sample) == N:
        T = permuted_statistics(_of_all_pairs(pooled, sample, P.n), P.n, N, n_permutations, rng)
    else:
        size, bins_P, bins_Q = bin_counts(P.n, Q.n)
        pooled = pooled.with_frequencies(N_FREQUENCIES * MAX_BINS // (bins_P + bins_Q), seed)
        statistics = _of_bins(pooled, P, Q, (size, bins_P, bins_Q), rng)
        T = permuted_statistics(statistics, bins_P, bins_P + bins_Q, n_permutations, rng)
    log_p = {
        name: log_p_values(values) for name, values in zip(WEIGHTS, T, strict=False)
    }  # products: if d > 1
    S = combined(log_p, WEIGHTS)
    best = max(log_p, key=lambda name: np.log(WEIGHTS[name]) - log_p[name][0]).split()[0]
    best_gaussian = min(range(N_BANDWIDTHS), key=lambda i: log_p[f"gaussian {i}"][0])
    with np.errstate(over="ignore"):
        sigma = pooled.gaussian[best_gaussian] * pooled.scale.max()
    sigma = np.clip(sigma, np.nextafter(0, 1), np.finfo(float).max)
    return float(S[0]), float((S[0] - TIE_TOL <= S).mean()), float(sigma), best


def permuted_statistics(
    statistics: Statistics, n: int, N: int, n_permutations: int, rng: np.random.Generator
) -> F64:
    """Statistics (n_statistics, 1 + n_permutations) of the labels, the first n of N for P, and of permuted ones."""
    T = []
    for start in range(0, n_permutations + 1, BATCH_SIZE):
        labels = np.tile(np.arange(N) < n, (min(BATCH_SIZE, n_permutations + 1 - start), 1))
        permuted = labels[1:] if start == 0 else labels
        rng.permuted(permuted, axis=1, out=permuted)
        T.append(statistics(labels))
    return np.concatenate(T, axis=1)


def bin_counts(n: int, m: int) -> tuple[int, int, int]:
    """(points of a bin, bins of n points, bins of m points)."""
    size = -(-min(n, m) // (MAX_BINS // 2))
    smaller = min(n, m) // size
    larger = min(max(n, m) // size, MAX_BINS - smaller)
    return (size, smaller, larger) if n <= m else (size, larger, smaller)


def _random_bins(n: int, size: int, count: int, rng: np.random.Generator) -> U16:
    """The bin of each of n points; ``count`` for those that fill no bin."""
    bins = np.full(n, count, np.uint16)
    bins[: size * count] = np.repeat(np.arange(count, dtype=np.uint16), size)
    rng.shuffle(bins)
    return bins


def _of_all_pairs(pooled: PooledStatistics, sample: F64, n: int) -> Statistics:
    kernels, moments = list(pooled.kernels(sample)), pooled.moments(sample)
    moments -= moments.mean(axis=0)

    def statistics(labels: NDArray[np.bool_]) -> F64:
        z = np.where(labels, 1 / n, -1 / (len(sample) - n))
        return pooled.from_kernels(np.stack([((z @ K) * z).sum(axis=1) for K in kernels]), z @ moments)

    return statistics


def _of_bins(
    pooled: PooledStatistics, P: Sample, Q: Sample, counts: tuple[int, int, int], rng: np.random.Generator
) -> Statistics:
    (size, bins_P, bins_Q), n, m = counts, P.n, Q.n
    p = P.bin_sums(pooled, _random_bins(n, size, bins_P, rng), bins_P + 1)
    q = Q.bin_sums(pooled, _random_bins(m, size, bins_Q, rng), bins_Q + 1)
    mean = (p.sum(axis=0, dtype=np.float64) + q.sum(axis=0, dtype=np.float64)) / (n + m)
    sums = (np.concatenate([p[:-1], q[:-1]]) - size * mean).astype(np.float32)
    rest_P, rest_Q = p[-1] - (n - size * bins_P) * mean, q[-1] - (m - size * bins_Q) * mean
    fixed = rest_P / n - (rest_Q + sums.sum(axis=0, dtype=np.float64)) / m
    is_constant = np.ptp(sums, axis=0) <= CONSTANT_TOL * size
    sums[:, is_constant] = fixed[is_constant] = 0
    return lambda labels: pooled.from_features(fixed + (1 / n + 1 / m) * (labels.astype(np.float32) @ sums))
