"""How wide kernels for points of many dimensions ought to be, as parts of the points tell it.

Points whose coordinates follow a few factors differ best in wide kernels, points in groups in narrow ones. Which of the
two these are both samples together say, and nobody asks whose a point is, so that a test's level stays exact. Some of
the points are cut off by some of their coordinates, and two kernels look for that part in the other coordinates:

    s_k = (D_k^2 of the part from the rest - its mean) / its deviation,   both over all ways to cut as many points off

A part is the half of the points that are nearest to one of them. On average over parts

    rho = s of the wide kernel / s of the narrow one

is some 1.1 for factors and .95 for groups. Coordinates that are independent of each other say nothing: s is about 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from dkdist.base.roles import Role
from dkdist.loops.array_types import F32, F64

MOST_POINTS = 256  # that are looked at
MOST_COORDINATES = 256  # by which a part is cut off, and in which it is looked for
MOST_PAIRS = 4096  # that a median is taken of
PARTS = 32
SHARE = 0.5  # of the points are in a part
NARROW, WIDE = 0.5, 1.4  # bandwidths, of the median distance
EVEN = 1.06  # rho of points for kernels that are neither wide nor narrow
FULL = 0.08  # from there to where they are as wide, or as narrow, as any
KNOWN = 5.0  # deviations: s from which on the coordinates are sure to depend on each other
MOST = 0.9  # of the points, where many are as near; a larger part is left out


def wideness(v: F64) -> float:
    """How wide kernels for points like these (n, d) ought to be, d > 1: from -1, narrow, to 1, wide; 0 if not known.

    The points are taken in an order of their own, so that this is always the same of the same points.
    """
    v = v[np.lexsort(v.T)]
    n, d = v.shape
    rng = np.random.default_rng([n, d, Role.TEST_PARTS])
    v = v[np.sort(rng.choice(n, min(n, MOST_POINTS), replace=False))]
    found = []
    for _ in range(PARTS):
        of_part, others = (some[:MOST_COORDINATES] for some in np.split(rng.permutation(d), [d // 2]))
        far = ((v[:, of_part] - v[rng.integers(len(v)), of_part]) ** 2).sum(axis=1)
        inside = far <= np.quantile(far, SHARE)
        squares = pdist(v[:, others], "sqeuclidean").astype(np.float32)
        some = squares[:: -(-len(squares) // MOST_PAIRS)]
        if inside.mean() <= MOST and some.any():
            squares /= np.median(some[some > 0])
            found.append([told(-np.expm1(-squares / (2 * width**2)), inside) for width in (NARROW, WIDE)])
    narrow, wide = np.mean(found, axis=0) if found else (0.0, 0.0)
    if min(narrow, wide) <= 0:
        return 0.0
    known = min((narrow + wide) / 2 / KNOWN, 1)
    return float(known * np.clip((wide / narrow - EVEN) / FULL, -1, 1))


def told(apart: F32 | F64, inside: NDArray[np.bool_]) -> float:
    """How well a kernel k tells the points ``inside`` (n,) from the others: D^2, from its mean, over its deviation.

    ``apart`` is 1 - k of all pairs of points, as `pdist` has them.

    With weights z of the points and the centred kernel K, D^2 = z' K z. Over permutations its mean is |z|^2 / (n - 1)
    trace K; if z were normal its deviation would be |z|^2 / (n - 1) the root of 2 sum_(i != j) K_ij^2.
    """
    apart = np.asarray(apart, np.float64)
    n, square = len(inside), squareform(apart, checks=False)
    z = np.where(inside, 1 / inside.sum(), -1 / (~inside).sum())
    rows = square.mean(axis=0)
    diagonal = 2 * rows - rows.mean()  # of the centred kernel
    all_squares = 2 * apart @ apart - 2 * n * rows @ rows + (n * rows.mean()) ** 2
    deviation = np.sqrt(2 * max(all_squares - diagonal @ diagonal, 0.0))
    excess = -z @ square @ z - z @ z / (n - 1) * diagonal.sum()
    return float(excess / (z @ z / (n - 1) * deviation)) if deviation > 0 else 0.0
