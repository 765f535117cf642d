"""Kernels that samples are compared by: Gaussian ones of ten bandwidths, and three of first and second moments.

From all pairs of points where these are few; else the Gaussian ones share one set of random frequencies:

    k_s(x, y) = E_w cos(w . (x - y)),   w ~ p_s normal with standard deviation 1 / s
    D_s^2 ~ sum_j a_sj |mean over P of exp(i w_j . x) - mean over Q of exp(i w_j . y)|^2
    a_sj = p_s(w_j) / (M sum_t p_t(w_j))

Each of the bandwidths draws M frequencies, and a frequency counts for every bandwidth that has it
(multiple importance sampling with the balance heuristic, Veach 1997): one pass over the points serves all of them.

Beside them three kernels of coordinates u from their medians in units of their spread, cut at 4:

    means    sum_j (difference of the means of u_j)^2
    spread   sum_j (difference of the means of u_j^2)^2
    radius   (sum_j difference of the means of u_j^2)^2

In Gaussian kernels wide enough for all of two samples, the noise of their means hides how far they spread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from dkdist.base.roles import Role
from dkdist.kernel.features.random_fourier_features_spec import DRAWS, least_error
from dkdist.loops.array_types import F64

N_BANDWIDTHS = 10
QUANTILES = (0.05, 0.95)  # of the distances between points: from half the one to twice the other
TO_STANDARD = 1.4826  # of a median absolute deviation: the standard deviation of a Gaussian
CUT = 4.0  # spreads: coordinates beyond count as if they lay there
MOMENTS = ("means", "spread", "radius")
HEAD_STARTS = {"gaussian": 0.0, "means": 0.2, "spread": -0.5, "radius": -0.5}  # standard deviations


class Family(NamedTuple):
    """Bandwidths (K,) of the Gaussian kernels, and the spread (d,) of coordinates."""

    sigmas: F64
    spread: F64

    @property
    def names(self) -> list[str]:
        """The K + 3 kernels in the order of their statistics."""
        return ["gaussian"] * len(self.sigmas) + list(MOMENTS)

    @property
    def head_starts(self) -> F64:
        """What is added to the standardised distance by each kernel (K + 3, 1), as shifts are the most frequent."""
        return np.array([[HEAD_STARTS[name]] for name in self.names])

    def moments(self, u: F64) -> F64:
        """Coordinates of points (n, d) in spreads, cut, and their squares: (n, 2 d)."""
        with np.errstate(over="ignore"):
            v = np.clip(u / self.spread, -CUT, CUT)
        return np.concatenate([v, v**2], axis=1)

    def of_moments(self, apart: F64) -> F64:
        """Squared distances by means, spread and radius (3, B) from differences of mean moments (B, 2 d)."""
        means, squares = np.split(apart, 2, axis=1)
        return np.stack([(means**2).sum(axis=1), (squares**2).sum(axis=1), squares.sum(axis=1) ** 2])


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
    return Family(np.geomspace(low / 2, 2 * high, N_BANDWIDTHS), np.where(spread > 0, spread, 1.0))


def shared_frequencies(sigmas: F64, d: int, n_frequencies: int, seed: int) -> Frequencies:
    """``n_frequencies`` drawn for each bandwidth, in d dimensions, and what they are to the others."""
    rng, draw = np.random.default_rng([seed, Role.TEST_FREQUENCIES]), DRAWS[least_error(d)]
    W = np.concatenate([draw(rng, n_frequencies, d) / sigma for sigma in sigmas])
    logs = d * np.log(sigmas)[:, None] - sigmas[:, None] ** 2 * (W**2).sum(axis=1) / 2
    density = np.exp(logs - logs.max(axis=0))
    return Frequencies(W, density / density.sum(axis=0) / n_frequencies)
