"""`two_sample_test`: an exact permutation test of the equality of two distributions, in linear time.

The weighted harmonic mean of p-values combines the statistics of `PooledStatistics` (Good 1958, Wilson 2019),
S = log10 sum_k w_k / p_k with sum_k w_k = 1. The p-value p_k of a labelling is a tail of a distribution with the
moments of statistic k over all other labellings (`dkdist.two_sample.combined_p_values`).

Exact level. Let the pooled points x be exchangeable, which holds if both samples are independent draws from one
distribution. Let g_0 be the identity, g_1, .., g_B independent uniform draws from a group G of permutations of points,
and T_b in R^K the statistics of g_b x, whose parameters depend on the set of all points at most. For h
uniform on G and independent, x and h x have one distribution, and (g_0 h, .., g_B h) are independent uniform draws in
any order: (T_0, .., T_B) is exchangeable. Each S_b is the same function of T_b and of the set of all others. So
(S_0, .., S_B) is exchangeable too, and p = #{b : S_b >= S_0} / (1 + B) <= a with probability at most a, for any a, B,
sizes, weights and statistics (Hemerik, Goeman 2018). The combination needs no correction for the number of statistics.

Linear time. Up to `MAX_DENSE_POINTS` points, all pairs are compared. Above, features are summed over bins: random
groups of equally many points of one sample. Permutations of bins form a group too, and their cost does not depend on
the number of points (Domingo-Enrich, Dwivedi, Mackey 2025). Points of incomplete bins keep their label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dkdist._base.parameter_checks import RandomStateLike, check_int, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, U16
from dkdist._numba.weighted_points import WeightedPoints
from dkdist._utils.validation import require_same_names
from dkdist.kernels._tuning import MEDIAN_SAMPLE_SIZE
from dkdist.kernels.inputs import Pair, PointsLike, read_points, resolve_bandwidth
from dkdist.kernels.kernel_sums import scaled, sums
from dkdist.kernels.registry import check_kernel
from dkdist.two_sample._tuning import (
    COMBINED_TIE_TOL,
    CONSTANT_TOL,
    MAX_BINS,
    MAX_DENSE_POINTS,
    MAX_PERMUTATIONS,
    N_BANDWIDTHS,
    N_FREQUENCIES,
    PERMUTATION_BATCH_SIZE,
    RELATIVE_TIE_TOL,
)
from dkdist.two_sample.combined_p_values import combine_p_values, log_p_values
from dkdist.two_sample.pooled_statistics import PooledStatistics, pooled_statistics
from dkdist.two_sample.samples import Sample, sample_of

# Five families of statistics have equal weights, divided equally among their members. No weight is tuned.
WEIGHTS = {f"{kernel} {i}": 0.02 for kernel in ("gaussian", "laplace") for i in range(N_BANDWIDTHS)}
WEIGHTS |= {"energy": 0.2, "means": 0.2, "spread": 0.2 / 3, "radius": 0.2 / 3, "products": 0.2 / 3}

Statistics = Callable[[NDArray[np.bool_]], F64]  # labels (b, n), True for P, to statistics (n_statistics, b)


@dataclass(frozen=True)
class TwoSampleTest:
    """Result of `two_sample_test`.

    With a bandwidth, ``statistic`` is D^2 (biased), and ``sigma`` and ``kernel`` are the parameters. Without one,
    ``statistic`` is -log10 of a weighted harmonic mean of p-values, ``kernel`` is the statistic
    with the smallest weighted p-value ("gaussian", "laplace", "energy", "means", "spread" for squares of coordinates,
    "radius" for their sum, or "products"), and ``sigma`` is the bandwidth of the best Gaussian kernel, for `witness`.
    """

    statistic: float
    p_value: float
    sigma: float
    kernel: str = "gaussian"


def two_sample_test(
    P: PointsLike,
    Q: PointsLike,
    *,
    sigma: float | str | None = None,
    h: float | None = None,
    gamma: float | None = None,
    n_permutations: int = 999,
    kernel: str = "gaussian",
    random_state: RandomStateLike = None,
) -> TwoSampleTest:
    """Test whether two samples come from one distribution, by permutations.

    Without a bandwidth, the test combines Gaussian and Laplace kernels of ten bandwidths each, the energy distance,
    and the means, squares and products of coordinates. It detects a difference in any of them.

    Parameters
    ----------
    P, Q : (n, d) and (m, d) arrays
        Independent samples, n, m >= 2. Without a bandwidth also Dask and Zarr arrays, `SampleSets` and a `SetStore`,
        whose points are pooled, read block by block in two passes. (To compare groups of sets use `group_test`.)
    sigma, h, gamma : float, optional
        One bandwidth, as in `kernel_distance`, for a test with only that kernel. sigma="median" is the median distance
        in the pooled samples (in a random subset beyond 1,024 points), so that permutations do not change it.
    n_permutations : int, default=999
        Number of random partitions of all points into n and m. The smallest p-value is 1 / (1 + n_permutations), so
        multiple tests with `adjusted_p_values` need more permutations.
    kernel : str, default="gaussian"
        The kernel of the bandwidth, as in `kernel_distance`.
    random_state : int, Generator or None, default=None
        Seed of the permutations and frequencies.

    Returns
    -------
    TwoSampleTest
        With p_value = (1 + number of permutations with a statistic as large) / (1 + n_permutations).

    Raises
    ------
    ValueError
        As in `kernel_distance`; for shapes, weights and samples of one point; with a bandwidth, for points that are
        not in memory.

    Notes
    -----
    The level is exact: if both samples come from one distribution, p_value <= a with probability at most a, for any n,
    m and d (derived in `dkdist.two_sample.two_sample_test`).

    Without a bandwidth, the statistic is the weighted harmonic mean of p-values. Five families have a weight of 0.2
    each, divided equally among their members: Gaussian kernels; Laplace kernels; the energy distance; means; and
    squares of coordinates, their sum and products (of 253 pairs at most). Coordinates are clipped at twice the 90 %
    quantile of distances from the median. Up to 512 points all pairs are compared. For more points, 500 to 4,000 random
    frequencies represent the kernels, and beyond 4,096 points random bins of points are permuted. Cost: 500 sines and
    cosines a point, and about 5e6 multiply-adds a permutation for any n and m. Memory: about 100 MiB and 5 bytes a
    point in addition to the points; for streamed points, a block and 16 MiB per thread.

    With a bandwidth: (n + m)^2 pairs for every 64 permutations, a multiply-add for each pair and permutation.

    References
    ----------
    Gretton et al.: A kernel two-sample test (2012). Schrab et al.: MMD aggregated two-sample test (2023). Biggs,
    Schrab, Gretton: MMD-FUSE (2023). Wilson: The harmonic mean p-value (2019). Székely, Rizzo: Energy statistics
    (2013). Domingo-Enrich, Dwivedi, Mackey: Cheap permutation testing (2025).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> P, Q = rng.normal(0, 1, (100, 2)), rng.normal(0, 1.7, (120, 2))
    >>> dk.two_sample_test(P, Q, random_state=0).p_value
    0.001
    """
    check_kernel(kernel)
    n_permutations = check_int("n_permutations", n_permutations, maximum=MAX_PERMUTATIONS)
    require_same_names(P=P, Q=Q)
    if sigma is None and h is None and gamma is None:
        if kernel != "gaussian":
            raise ValueError(
                f"kernel={kernel!r} needs a bandwidth. Pass sigma, or omit kernel to combine many kernels."
            )
        p, q = sample_of("P", P), sample_of("Q", Q)
        if p.d != q.d:
            raise ValueError(f"P and Q must have the same number of dimensions; got {p.d} and {q.d}.")
        _require_two(p.n, q.n)
        return _aggregated_test(p, q, n_permutations, draw_seed(random_state))
    pair = read_points(P, Q, None)
    n, (x, z) = pair.n, pair.points.arrays()
    N = len(x)
    _require_two(n, N - n)
    rng = np.random.default_rng([draw_seed(random_state), RngStream.PERMUTATIONS])
    is_sampled = isinstance(sigma, str) and max(n, N - n) > MEDIAN_SAMPLE_SIZE
    width = resolve_bandwidth(_shuffled(pair, x, rng) if is_sampled else pair, sigma, h, gamma, kernel)
    x = scaled(x, width, kernel)

    def squared_distance(labels: NDArray[np.bool_]) -> F64:
        Z = np.ascontiguousarray(np.where(labels, z[0], z[-1]).T)
        return np.asarray((Z * sums(x, x, Z, kernel)).sum(axis=0, keepdims=True))

    D2 = permuted_statistics(squared_distance, n, N, n_permutations, rng)[0]
    p_value = float((D2[0] - RELATIVE_TIE_TOL * (1 / n + 1 / (N - n)) <= D2).mean())
    return TwoSampleTest(float(D2[0]), p_value, width, kernel)


def _require_two(n: int, m: int) -> None:
    if min(n, m) < 2:
        raise ValueError(f"P and Q must have at least 2 points each; got {n} and {m}.")


def _shuffled(pair: Pair, x: F64, rng: np.random.Generator) -> Pair:
    """Shuffle the points, so that a subset of them does not depend on the labels."""
    x = x[rng.permutation(len(x))]
    halves = x[: len(x) // 2], x[len(x) // 2 :]
    return replace(pair, points=WeightedPoints(halves, (None, None), (1.0, -1.0)))


def _aggregated_test(P: Sample, Q: Sample, n_permutations: int, seed: int) -> TwoSampleTest:
    rng, N = np.random.default_rng([seed, RngStream.PERMUTATIONS]), P.n + Q.n
    positions = np.sort(rng.choice(N, min(MAX_DENSE_POINTS, N), replace=False))
    P_rows, Q_rows = positions[positions < P.n], positions[positions >= P.n] - P.n
    sample = np.concatenate([P.rows(P_rows), Q.rows(Q_rows)])
    if (pooled := pooled_statistics(sample)) is None:
        return TwoSampleTest(0.0, 1.0, 1.0)
    if len(sample) == N:
        T = permuted_statistics(_dense_statistics(pooled, sample, P.n), P.n, N, n_permutations, rng)
    else:
        size, bins_P, bins_Q = bin_counts(P.n, Q.n)
        pooled = pooled.with_frequencies(N_FREQUENCIES * MAX_BINS // (bins_P + bins_Q), seed)
        statistics = _binned_statistics(pooled, P, Q, (size, bins_P, bins_Q), rng)
        T = permuted_statistics(statistics, bins_P, bins_P + bins_Q, n_permutations, rng)
    # in one dimension there are no products, the last family
    log_p = dict(zip(WEIGHTS, map(log_p_values, T), strict=False))
    S = combine_p_values(log_p, WEIGHTS)
    best = max(log_p, key=lambda name: np.log(WEIGHTS[name]) - log_p[name][0]).split()[0]
    best_gaussian = min(range(N_BANDWIDTHS), key=lambda i: log_p[f"gaussian {i}"][0])
    sigma = max(float(pooled.gaussian[best_gaussian] * pooled.scale.max()), np.nextafter(0, 1))
    return TwoSampleTest(float(S[0]), float((S[0] - COMBINED_TIE_TOL <= S).mean()), sigma, best)


def permuted_statistics(
    statistics: Statistics, n: int, N: int, n_permutations: int, rng: np.random.Generator
) -> F64:
    """Compute statistics (n_statistics, 1 + n_permutations) for the labels (True for the first n) and permutations."""
    T = []
    for start in range(0, n_permutations + 1, PERMUTATION_BATCH_SIZE):
        labels = np.tile(np.arange(N) < n, (min(PERMUTATION_BATCH_SIZE, n_permutations + 1 - start), 1))
        permuted = labels[1:] if start == 0 else labels
        rng.permuted(permuted, axis=1, out=permuted)
        T.append(statistics(labels))
    return np.concatenate(T, axis=1)


def bin_counts(n: int, m: int) -> tuple[int, int, int]:
    """Return (points per bin, bins of n points, bins of m points)."""
    size = -(-min(n, m) // (MAX_BINS // 2))
    smaller = min(n, m) // size
    larger = min(max(n, m) // size, MAX_BINS - smaller)
    return (size, smaller, larger) if n <= m else (size, larger, smaller)


def _random_bins(n: int, size: int, n_bins: int, rng: np.random.Generator) -> U16:
    """Return the bin of each of n points; an incomplete last bin has the index ``n_bins``."""
    bins = np.full(n, n_bins, np.uint16)
    bins[: size * n_bins] = np.repeat(np.arange(n_bins, dtype=np.uint16), size)
    rng.shuffle(bins)
    return bins


def _dense_statistics(pooled: PooledStatistics, sample: F64, n: int) -> Statistics:
    kernels, moments = list(pooled.kernels(sample)), pooled.moments(sample)
    moments -= moments.mean(axis=0)

    def statistics(labels: NDArray[np.bool_]) -> F64:
        z = np.where(labels, 1 / n, -1 / (len(sample) - n))
        return pooled.from_kernels(np.stack([((z @ K) * z).sum(axis=1) for K in kernels]), z @ moments)

    return statistics


def _binned_statistics(
    pooled: PooledStatistics, P: Sample, Q: Sample, counts: tuple[int, int, int], rng: np.random.Generator
) -> Statistics:
    (size, bins_P, bins_Q), n, m = counts, P.n, Q.n
    p = P.bin_sums(pooled, _random_bins(n, size, bins_P, rng), bins_P + 1)
    q = Q.bin_sums(pooled, _random_bins(m, size, bins_Q, rng), bins_Q + 1)
    mean = (p.sum(axis=0, dtype=np.float64) + q.sum(axis=0, dtype=np.float64)) / (n + m)
    sums = (np.concatenate([p[:-1], q[:-1]]) - size * mean).astype(np.float32)
    # P without its full bins; Q needs no such term, because sums over all points are 0
    rest = p[-1] - (n - size * bins_P) * mean
    is_constant = np.ptp(sums, axis=0) <= CONSTANT_TOL * size
    sums[:, is_constant] = rest[is_constant] = 0
    return lambda labels: pooled.from_features((1 / n + 1 / m) * (rest + labels.astype(np.float32) @ sums))
