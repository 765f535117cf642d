"""Statistics of a two-sample test, whose parameters depend only on the pooled points.

With g the coordinates in robust units and u the same in one common unit:

    gaussian    D^2 of exp(-|u - u'|^2 / (2 s^2)), one statistic for each of ten bandwidths s
    laplace     D^2 of exp(-sum_j |u_j - u'_j| / s), likewise
    energy      D^2 of -|u - u'|, the energy distance (Székely, Rizzo 2013), as a mixture of the Gaussian kernels
    means       sum of squared differences of the means of g_j
    spread      likewise for g_j^2;   products    likewise for g_j g_k, j < k
    radius      squared difference of the means of |g|^2

Random frequencies of both kernels are shared by all bandwidths, in one pass over the points (Rahimi, Recht 2007). M
frequencies are drawn per bandwidth, and all bandwidths use all of them (balance heuristic, Veach 1997), with spectral
densities p_s:

    D_s^2 ~ sum_j a_sj |mean over P of exp(i w_j . u) - mean over Q of exp(i w_j . u)|^2
    a_sj = p_s(w_j) / (M sum_t p_t(w_j))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.special import softmax

from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64, U16
from dkdist.kernels._random_numba import mean_features, waves_of
from dkdist.kernels.registry import NORMAL_SAMPLERS, get_kernel, most_accurate_sampler
from dkdist.two_sample._tuning import (
    BATCH_COORDINATES,
    MAX_DEVIATION,
    MAX_PAIRS,
    MIN_BANDWIDTH_RATIO,
    N_BANDWIDTHS,
    SCALE_QUANTILE,
)

# quantiles of distances between pooled points, as in MMDAgg (Schrab et al. 2023)
BANDWIDTH_QUANTILES = 0.05, 0.95
# maximum scale of coordinates; keeps bandwidths finite (tests/two_sample/test_aggregated_test.py)
MAX_SCALE = 1e300
# maximum frequency times d; keeps phases below the limit of dkdist/kernels/_random_numba.py
MAX_FREQUENCY = 2.0**29


class PooledStatistics(NamedTuple):
    """Parameters of all statistics for points (n, d).

    ``centre`` and ``scale`` (d,), ``pairs`` (2, r) of coordinates, bandwidths ``gaussian`` and ``laplace`` (10,),
    ``frequencies`` (F, d) for u, and their ``weights`` (20, F) for each kernel and bandwidth.
    """

    centre: F64
    scale: F64
    pairs: I64
    gaussian: F64 = np.empty(0)
    laplace: F64 = np.empty(0)
    frequencies: F64 = np.empty((0, 0))
    weights: F64 = np.empty((0, 0))

    def with_frequencies(self, n_frequencies: int, seed: int) -> PooledStatistics:
        """Return a copy with ``n_frequencies`` random frequencies for each kernel and bandwidth."""
        rng, d = np.random.default_rng([seed, RngStream.TEST_FREQUENCIES]), len(self.scale)
        draw = NORMAL_SAMPLERS[most_accurate_sampler(d)]
        kernels = [*(("gaussian", s) for s in self.gaussian), *(("laplace", s) for s in self.laplace)]
        W = np.concatenate(
            [get_kernel(name).frequencies(rng, draw(rng, n_frequencies, d)) / s for name, s in kernels]
        )
        W = np.clip(W, -MAX_FREQUENCY / d, MAX_FREQUENCY / d)
        s = self.gaussian[:, None]
        normal = d * np.log(s / np.sqrt(2 * np.pi)) - s**2 * (W**2).sum(axis=1) / 2
        cauchy = [(np.log(s / np.pi) - np.log1p((s * W) ** 2)).sum(axis=1) for s in self.laplace]
        weights = softmax(np.concatenate([normal, cauchy]), axis=0) / n_frequencies
        return self._replace(frequencies=W, weights=weights)

    def coordinates(self, x: F64) -> tuple[F64, F64]:
        """Return g and u (n, d) of points (n, d)."""
        with np.errstate(over="ignore"):
            g = np.clip((x - self.centre) / self.scale, -MAX_DEVIATION, MAX_DEVIATION)
        return g, g * (self.scale / self.scale.max())

    def kernels(self, x: F64) -> Iterator[F64]:
        """Yield k - 1 (n, n) of all pairs of points for each kernel; values k of wide kernels would round to 1."""
        u = self.coordinates(x)[1]
        squares, sums = cdist(u, u, "sqeuclidean"), cdist(u, u, "cityblock")
        yield from (np.expm1(squares / (-2 * s**2)) for s in self.gaussian)
        yield from (np.expm1(sums / -s) for s in self.laplace)

    def moments(self, x: F64) -> F64:
        """Return coordinates g, their squares, and their products: (n, 2d + r)."""
        g = self.coordinates(x)[0]
        return np.concatenate([g, g**2, g[:, self.pairs[0]] * g[:, self.pairs[1]]], axis=1)

    def bin_sums(self, x: F64, bins: U16, n_bins: int) -> F32:
        """Return the sums of features over the points (n, d) of each bin: (n_bins, n_features)."""
        F, (n, d) = len(self.frequencies), x.shape
        waves = waves_of(self.frequencies, np.zeros(d))
        sums = np.zeros((n_bins, 2 * F + 2 * d + self.pairs.shape[1]), np.float32)
        order, n_points = np.argsort(bins, kind="stable"), max(1, BATCH_COORDINATES // d)
        for start in range(0, n, n_points):
            batch = order[start : start + n_points]
            present, offsets = np.unique(bins[batch], return_index=True)
            offsets = np.append(offsets, len(batch))
            means = np.empty((len(present), 2 * F), np.float32)
            mean_features(self.coordinates(x[batch])[1].astype(np.float32), offsets, None, waves, means)
            sums[present, : 2 * F] += means * (np.sqrt(F) * np.diff(offsets)[:, None])
            sums[present, 2 * F :] += np.add.reduceat(self.moments(x[batch]), offsets[:-1])
        return sums

    def from_features(self, differences: F64) -> F64:
        """Return statistics (n_statistics, b) from differences of mean features (b, n_features)."""
        sines, cosines, moments = np.split(differences, np.array([1, 2]) * len(self.frequencies), axis=1)
        return self.from_kernels(self.weights @ (sines**2 + cosines**2).T, moments)

    def from_kernels(self, kernels: F64, moments: F64) -> F64:
        """Return statistics (n_statistics, b) from D^2 of kernels (20, b) and differences of moments (b, 2d + r)."""
        s, d = self.gaussian, len(self.scale)
        # r ~ integral of 1 - exp(-r^2 / (2 s^2)) ds: by the trapezoidal rule in log s; for larger s, D^2 ~ 1 / s^2
        energy = s * np.log(s[1] / s[0])
        energy[[0, -1]] = energy[[0, -1]] / 2 + s[[0, -1]]
        means, squares, products = np.split(moments, [d, 2 * d], axis=1)
        parts = [means, squares, squares.sum(axis=1, keepdims=True), *([products] if products.size else [])]
        sums = [(part**2).sum(axis=1) for part in parts]
        return np.concatenate([kernels, [energy @ kernels[:N_BANDWIDTHS]], sums])


def pooled_statistics(sample: F64) -> PooledStatistics | None:
    """Choose the parameters, without frequencies, from a pooled sample (m, d); None if all points are equal."""
    with np.errstate(over="ignore"):
        # division by 4 avoids overflow of the sum of the two middle values
        centre = 4 * np.median(sample / 4, axis=0)
        columns = np.abs(sample - centre).T
    quantiles = [np.quantile(x[x > 0], SCALE_QUANTILE, method="lower") if x.any() else 0.0 for x in columns]
    scale = np.minimum(quantiles, MAX_SCALE)
    scale[scale == 0] = scale.max() or 1.0
    pooled = PooledStatistics(centre, scale, _pairs(len(scale)))
    u = pooled.coordinates(sample)[1]
    if (u == u[0]).all():
        return None
    gaussian, laplace = (_bandwidths(pdist(u, metric)) for metric in ("euclidean", "cityblock"))
    return pooled._replace(gaussian=gaussian / np.sqrt(2), laplace=laplace)


def _bandwidths(distances: F64) -> F64:
    low, high = np.quantile(distances[distances > 0], BANDWIDTH_QUANTILES)
    low = max(low, MIN_BANDWIDTH_RATIO * high)
    return np.geomspace(low / 2, 2 * high, N_BANDWIDTHS)


def _pairs(d: int) -> I64:
    """Return pairs j < k of d coordinates, (2, r): all, or `MAX_PAIRS` pseudorandom ones that depend only on d."""
    rng, n_pairs = np.random.default_rng([d, RngStream.TEST_FREQUENCIES]), d * (d - 1) // 2
    positions = np.sort(rng.choice(n_pairs, min(n_pairs, MAX_PAIRS), replace=False))
    k = ((1 + np.sqrt(1 + 8 * positions)) / 2).astype(np.int64)  # (j, k) has position k (k - 1) / 2 + j
    return np.stack([positions - k * (k - 1) // 2, k])
