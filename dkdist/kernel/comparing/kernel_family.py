"""Kernels that samples are compared by: Gaussian ones of ten bandwidths, and four of first and second moments.

From all pairs of points where these are few; else the Gaussian ones share one set of random frequencies:

    k_s(x, y) = E_w cos(w . (x - y)),   w ~ p_s normal with standard deviation 1 / s
    D_s^2 ~ sum_j a_sj |mean over P of exp(i w_j . x) - mean over Q of exp(i w_j . y)|^2
    a_sj = p_s(w_j) / (M sum_t p_t(w_j))

Each of the bandwidths draws M frequencies, and a frequency counts for every bandwidth that has it
(multiple importance sampling with the balance heuristic, Veach 1997): one pass over the points serves all of them.

Beside them four kernels of coordinates u from their medians in units of their spread, cut at 4, and c from their means:

    means     sum_j (difference of the means of u_j)^2
    spread    sum_j (difference of the means of u_j^2)^2
    radius    (sum_j difference of the means of u_j^2)^2
    products  sum_(j < k) (difference of the means of c_j c_k)^2

In Gaussian kernels wide enough for all of two samples, the noise of their means hides how far they spread, and how
coordinates depend on each other. Products are of all pairs of coordinates up to 23 dimensions, of more of 253 pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from dkdist.base.roles import Role
from dkdist.kernel.features.random_fourier_features_spec import DRAWS, least_error
from dkdist.loops.array_types import F64, I64

N_BANDWIDTHS = 10
QUANTILES = (0.05, 0.95)  # of the distances between points: from half the one to twice the other
TO_STANDARD = 1.4826  # of a median absolute deviation: the standard deviation of a Gaussian
CUT = 4.0  # spreads: coordinates beyond count as if they lay there
MOMENTS = ("means", "spread", "radius", "products")
# standard deviations
HEAD_STARTS = {"gaussian": 0.0, "means": 0.2, "spread": -0.4, "radius": -0.4, "products": -0.4}
MOST_PAIRS = 253  # of coordinates, whose products are compared: all pairs of 23


class Family(NamedTuple):
    """Bandwidths (K,) of the Gaussian kernels; spread (d,) of coordinates, their means (d,) in it, and pairs (2, r)."""

    sigmas: F64
    spread: F64
    middle: F64
    pairs: I64

    @property
    def names(self) -> list[str]:
        """The kernels in the order of their statistics: K + 4, or K + 3 on a line, where there are no products."""
        return ["gaussian"] * len(self.sigmas) + list(MOMENTS if self.pairs.size else MOMENTS[:-1])

    @property
    def head_starts(self) -> F64:
        """What is added to the standardised distance by each kernel, (kernels, 1), as shifts are the most frequent."""
        return np.array([[HEAD_STARTS[name]] for name in self.names])

    @property
    def n_moments(self) -> int:
        """How many moments a point has."""
        return 2 * len(self.spread) + int(self.pairs.shape[1])

    def moments(self, u: F64) -> Iterator[F64]:
        """Coordinates of points (n, d) in spreads, cut; their squares; products of pairs, at most d at a time."""
        with np.errstate(over="ignore"):
            v = np.clip(u / self.spread, -CUT, CUT)
        yield v
        yield v**2
        c = v - self.middle
        for first in range(0, self.pairs.shape[1], v.shape[1]):
            j, k = self.pairs[:, first : first + v.shape[1]]
            yield c[:, j] * c[:, k]

    def of_moments(self, apart: F64) -> F64:
        """Squared distances by means, spread, radius and products (4, B) from differences of mean moments (B, r)."""
        d = len(self.spread)
        means, squares, products = apart[:, :d], apart[:, d : 2 * d], apart[:, 2 * d :]
        found = [(means**2).sum(axis=1), (squares**2).sum(axis=1), squares.sum(axis=1) ** 2]
        return np.stack([*found, (products**2).sum(axis=1)] if self.pairs.size else found)


class Frequencies(NamedTuple):
    """Frequencies (F, d), and the weight (K, F) that each has for each bandwidth."""

    W: F64
    weights: F64

    def of_waves(self, apart: F64) -> F64:
        """Squared distances (K, B) from differences of mean sines and cosines (B, 2F)."""
        sines, cosines = np.split(apart, 2, axis=1)
        return np.asarray(self.weights @ (sines**2 + cosines**2).T)


def kernel_family(sample: F64) -> Family | None:
    """Kernels for points like those of a sample (m, d), about the origin; None if these are all equal."""
    distances = pdist(sample)
    distances = distances[distances > 0]
    if len(distances) == 0:
        return None
    low, high = np.quantile(distances, QUANTILES)
    spread = TO_STANDARD * np.median(np.abs(sample), axis=0)
    spread = np.where(spread > 0, spread, sample.std(axis=0))
    spread = np.where(spread > 0, spread, 1.0)
    with np.errstate(over="ignore"):
        middle = np.clip(sample / spread, -CUT, CUT).mean(axis=0)
    return Family(np.geomspace(low / 2, 2 * high, N_BANDWIDTHS), spread, middle, _pairs(sample.shape[1]))


def _pairs(d: int) -> I64:
    """Pairs j < k of d coordinates, (2, r): all, or as many as allowed, always the same ones."""
    count = d * (d - 1) // 2
    if count <= MOST_PAIRS:
        places = np.arange(count)
    else:
        rng = np.random.default_rng([d, Role.TEST_FREQUENCIES])
        places = np.sort(rng.choice(count, MOST_PAIRS, replace=False))
    k = ((1 + np.sqrt(1 + 8 * places)) / 2).astype(np.int64)  # before (j, k) lie k (k - 1) / 2 + j others
    return np.stack([places - k * (k - 1) // 2, k])


def shared_frequencies(sigmas: F64, d: int, n_frequencies: int, seed: int) -> Frequencies:
    """``n_frequencies`` drawn for each bandwidth, in d dimensions, and what they are to the others."""
    rng, draw = np.random.default_rng([seed, Role.TEST_FREQUENCIES]), DRAWS[least_error(d)]
    W = np.concatenate([draw(rng, n_frequencies, d) / sigma for sigma in sigmas])
    logs = d * np.log(sigmas)[:, None] - sigmas[:, None] ** 2 * (W**2).sum(axis=1) / 2
    density = np.exp(logs - logs.max(axis=0))
    return Frequencies(W, density / density.sum(axis=0) / n_frequencies)
