"""Normal scores of coordinates: a coordinate's rank among all points of both samples, as if these were normal.

    g_j(x) = Phi^-1(rank of x_j / N)

Any rising change of a coordinate leaves them as they are, and no point is far. Ranks are those of a sample of the
points, and straight lines between them, or between values that floats cannot divide by, steps; equal values have the
middle of their ranks. (Van der Waerden 1952.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from dkdist.loops.array_types import F64


class NormalScores(NamedTuple):
    """Values (d, m) that each coordinate has in a sample, in rising order, and the scores (d, m) of these."""

    values: F64
    scores: F64

    def of(self, u: F64) -> F64:
        """Scores (n, d) of points (n, d)."""
        columns = zip(u.T, self.values, self.scores, strict=True)
        return np.stack([_between(*column) for column in columns], axis=1)


def _between(x: F64, values: F64, scores: F64) -> F64:
    found = np.interp(x, values, scores)
    steep = np.flatnonzero(~np.isfinite(found))
    found[steep] = scores[np.searchsorted(values, x[steep], "right") - 1]
    return found


def normal_scores(sample: F64) -> NormalScores:
    """Scores by the ranks in a sample (m, d)."""
    values = np.sort(sample.T, axis=1)
    below = np.stack([np.searchsorted(x, x, "left") + np.searchsorted(x, x, "right") for x in values]) / 2
    return NormalScores(values, ndtri(below / len(sample)))
