"""Kernels that samples are compared by: Gaussian ones of ten bandwidths, which share one set of random frequencies.

    k_s(x, y) = E_w cos(w . (x - y)),   w ~ p_s normal with standard deviation 1 / s
    D_s^2 ~ sum_j a_sj |mean over P of exp(i w_j . x) - mean over Q of exp(i w_j . y)|^2
    a_sj = p_s(w_j) / (M sum_t p_t(w_j))

Each of the bandwidths draws M frequencies, and a frequency counts for every bandwidth that has it
(multiple importance sampling with the balance heuristic, Veach 1997): one pass over the points serves all of them.

Beside them two kernels of squares u^2, of coordinates u from their medians in units of their spread, cut at 4:

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


class Family(NamedTuple):
    """Bandwidths (K,), frequencies (F, d), weights (K, F) of these, and the spread (d,) of coordinates."""

    sigmas: F64
    frequencies: F64
    weights: F64
    spread: F64

    @property
    def names(self) -> list[str]:
        """The kernels in the order of `statistics`."""
        return ["gaussian"] * len(self.sigmas) + ["spread", "radius"]

    def statistics(self, apart: F64) -> F64:
        """Squared distances (K + 2, B) from differences of means (B, 2F + d): of sines, cosines and squares."""
        F = len(self.frequencies)
        sines, cosines, squares = apart[:, :F], apart[:, F : 2 * F], apart[:, 2 * F :]
        gaussian = self.weights @ (sines**2 + cosines**2).T
        return np.concatenate([gaussian, [(squares**2).sum(axis=1), squares.sum(axis=1) ** 2]])


def kernel_family(sample: F64, n_frequencies: int, seed: int) -> Family | None:
    """Kernels for points like those of a sample (m, d), about the origin; None if these are all equal.

    Each bandwidth draws ``n_frequencies``.
    """
    distances = pdist(sample)
    distances = distances[distances > 0]
    if len(distances) == 0:
        return None
    low, high = np.quantile(distances, QUANTILES)
    sigmas, d = np.geomspace(low / 2, 2 * high, N_BANDWIDTHS), sample.shape[1]
    rng, draw = np.random.default_rng([seed, Role.TEST_FREQUENCIES]), DRAWS[least_error(d)]
    W = np.concatenate([draw(rng, n_frequencies, d) / sigma for sigma in sigmas])
    logs = d * np.log(sigmas)[:, None] - sigmas[:, None] ** 2 * (W**2).sum(axis=1) / 2
    density = np.exp(logs - logs.max(axis=0))
    spread = TO_STANDARD * np.median(np.abs(sample), axis=0)
    spread = np.where(spread > 0, spread, sample.std(axis=0))
    return Family(sigmas, W, density / density.sum(axis=0) / n_frequencies, np.where(spread > 0, spread, 1.0))
