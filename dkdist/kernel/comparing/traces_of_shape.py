"""What a difference of shape would leave in both samples together.

If two samples differ in skewness, in tails, in how coordinates depend on each other or in waves, their union shows
half of it: it is no normal sample. A shift by t standard deviations leaves only t^2 / 4 of its variance, and another
scale as little. So each kernel that sees shapes has a share of the level that grows with what it sees of the union
beside a normal distribution with the same means and covariance; in a union that looks normal nearly all of the level
is left for shifts and scales.

    y = R^(-1/2) (x - mean) / deviation,   R the correlations of coordinates

Y is the union with independent coordinates, each as near as can be to one of x. Each trace has mean 1 for normal
points, nearly:

    skewness    N mean(y_j^3)^2 / 6 on average over j
    kurtosis    N (mean(y_j^4) - 3)^2 / 24 on average over j
    products    N R_ij^2 on average over i < j
    waves       N |mean of exp(i w . Phi(y))|^2 on average over the frequencies w of a kernel over ranks

Nothing here knows whose a point is, so that the level stays exact. (Hypotheses weighted by what is independent of
them: Genovese, Roeder, Wasserman 2006; Ignatiadis et al. 2016.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from dkdist.kernel.comparing.ranks.rank_waves import RankWaves
from dkdist.loops.array_types import F64

FLAT = 1e-6  # of the mean: the least eigenvalue of correlations that is told from 0


class Traces(NamedTuple):
    """Traces of a union of samples; ``waves`` (kernels,), and ``roughness``: the mean trace of all frequencies, from 1,
    over its deviation for normal points."""

    skewness: float
    kurtosis: float
    products: float
    waves: F64
    roughness: float


def traces_of_shape(sample: F64, waves: RankWaves) -> Traces:
    """Traces in a sample (m, d) of the union."""
    x = sample - sample.mean(axis=0)
    x = x / np.maximum(np.abs(x).max(axis=0), np.finfo(float).tiny)  # whose squares are floats
    deviation = x.std(axis=0)
    x /= np.where(deviation > 0, deviation, 1)
    m, d = x.shape
    R = x.T @ x / m
    values, vectors = np.linalg.eigh(R)
    y = x @ (vectors / np.sqrt(np.maximum(values, FLAT))) @ vectors.T
    powers = m * waves.distances(waves.phases(ndtr(y)).mean(axis=0)[None])[:, 0]
    counts = np.diff(waves.firsts, append=len(waves.W))
    return Traces(
        skewness=float(m * ((y**3).mean(axis=0) ** 2).mean() / 6),
        kurtosis=float(m * (((y**4).mean(axis=0) - 3) ** 2).mean() / 24),
        products=float(m * (R[np.triu_indices(d, 1)] ** 2).mean()) if d > 1 else 1.0,
        waves=powers / counts,
        roughness=float((powers.sum() / counts.sum() - 1) * np.sqrt(counts.sum())),
    )
