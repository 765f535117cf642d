"""A sphere about the centre of two samples: points outside of it are compared as if they were on it.

A few points far out decide what distances between points are, and hide what the others tell. Ranks of coordinates,
which know only that they are there, are taken of the points as they were.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import F64

TIMES, SHARE = 1.5, 0.9  # times as far from the centre as this share of the points


def radius_for(u: F64) -> float:
    """Of the sphere for points (m, d) about their centre, of which some are not in it."""
    far = np.linalg.norm(u, axis=1)
    return TIMES * float(np.quantile(far[far > 0], SHARE))


def within(u: F64, radius: float) -> F64:
    """Points (n, d), those outside of the sphere on it."""
    far = np.linalg.norm(u, axis=1, keepdims=True)
    return np.asarray(u * (radius / np.maximum(far, radius)))
