"""A Gaussian kernel over ranks, by which points of many dimensions are compared as if no coordinate had tails.

Ranks U in (0, 1)^d of both samples together are spread evenly along each coordinate, and here over as much as the
coordinate itself is:

    k(x, y) = exp(-|v - v'|^2 / 2),   v = U s / b,   s_j the deviation of x_j,   b = .7 of the median of |s (U - U')|

b is half the median where narrow kernels see the points best, and the median itself where wide ones do
(`dkdist.kernel.comparing.parts_of_points`).

A distance between points is mostly one between those that are far out. To this kernel no point is far, so that it sees
shifts and shapes of most of the points where a few others hide them from distances; it is one of those that are mixed
(`dkdist.kernel.comparing.kernel_family`). From all pairs of points, or by random frequencies (Rahimi, Recht 2007):

    k(x, y) = E cos w . (U - U'),   w_j ~ s_j / b times a standard normal number
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist, pdist

from dkdist.base.roles import Role
from dkdist.loops.array_types import F64

OF_NARROW, OF_ANY, OF_WIDE = 0.5, 0.7, 1.0  # of the median distance
FREQUENCIES = 256


class RankKernel(NamedTuple):
    """By how much ranks are stretched, (d,); the mean of 1 - k(x, y) over pairs of points; and frequencies (F, d) over
    ranks."""

    stretch: F64
    noise: float
    W: F64

    def squares(self, U: F64) -> F64:
        """|v - v'|^2 of all pairs of points of ranks (n, d): (n, n)."""
        v = U * self.stretch
        return np.asarray(cdist(v, v, "sqeuclidean"))

    def distances(self, apart: F64) -> F64:
        """Squared distances (1, B) from differences of mean sines and cosines (B, 2F)."""
        return np.asarray((apart**2).sum(axis=1)[None] / len(self.W))


def stretch_for(sample: F64) -> F64:
    """How far ranks are stretched, (d,), for points like those of a sample (m, d), not all equal: 1 at most."""
    deviation = sample.std(axis=0)
    return np.asarray(deviation / deviation.max())


def rank_kernel(stretch: F64, U: F64, wideness: float) -> RankKernel:
    """The kernel over ranks like (m, d), as wide as it ought to be, from -1 to 1. Its frequencies are always the same
    ones in d dimensions, but for the stretch."""
    distances = pdist(U * stretch)
    width = float(np.interp(wideness, [-1, 0, 1], [OF_NARROW, OF_ANY, OF_WIDE]))
    b = width * np.median(distances[distances > 0])
    noise = float(-np.expm1(-((distances / b) ** 2) / 2).mean())
    d = len(stretch)
    rng = np.random.default_rng([d, Role.TEST_FREQUENCIES])
    return RankKernel(stretch / b, noise, rng.normal(size=(FREQUENCIES, d)) * (stretch / b))
