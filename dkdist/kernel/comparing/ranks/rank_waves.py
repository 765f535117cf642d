"""Waves over ranks: what differs in one narrow place, or again and again, shows in a few of them.

Ranks U in (0, 1)^d of both samples together are spread evenly along each coordinate. There the kernels

    cos 2 pi k (U_j - U'_j)                                                     k = 1 .. 8
    cos 2 pi k (U_i - U'_i) cos 2 pi l (U_j - U'_j),   i < j                    k, l = 1 .. 4

compare samples by one wave each, at any phase, where a narrow Gaussian kernel adds up some tens of them. (Neyman 1937,
by waves in place of polynomials.) Differences are mostly smooth: a kernel's part of what waves share falls as
1 / sqrt(k), or 1 / sqrt(k l). In more than three dimensions there are none: the pairs are too many.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from dkdist.loops.array_types import F64, I64

CYCLES, OF_PAIRS = 8, 4
MOST_DIMENSIONS = 3


class RankWaves(NamedTuple):
    """Frequencies (F, d) over ranks, and where each kernel's begin (kernels,): one of a coordinate, two of a pair."""

    W: F64
    firsts: I64

    @property
    def shares(self) -> F64:
        """What each kernel has of what they share, (kernels,), 1 together."""
        cycles = np.maximum(np.abs(self.W[self.firsts]) / (2 * np.pi), 1).prod(axis=1)
        return np.asarray(cycles**-0.5 / (cycles**-0.5).sum())

    def phases(self, U: F64) -> F64:
        """Sines and cosines (n, 2F) at ranks (n, d)."""
        phases = U @ self.W.T
        return np.concatenate([np.sin(phases), np.cos(phases)], axis=1)

    def distances(self, apart: F64) -> F64:
        """Squared distances (kernels, B) from differences of mean sines and cosines (B, 2F)."""
        sines, cosines = np.split(apart, 2, axis=1)
        return np.add.reduceat((sines**2 + cosines**2).T, self.firsts, axis=0)


def rank_waves(d: int) -> RankWaves | None:
    """The waves in d dimensions; None if these are too many."""
    if d > MOST_DIMENSIONS:
        return None
    axes = 2 * np.pi * np.eye(d)
    single = [[k * axes[j]] for j in range(d) for k in range(1, CYCLES + 1)]
    both = [
        [k * axes[i] + m * axes[j], k * axes[i] - m * axes[j]]
        for i, j in combinations(range(d), 2)
        for k in range(1, OF_PAIRS + 1)
        for m in range(1, OF_PAIRS + 1)
    ]
    kernels = single + both
    firsts = np.cumsum([0, *(len(of_one) for of_one in kernels[:-1])])
    return RankWaves(np.concatenate(kernels), firsts)
