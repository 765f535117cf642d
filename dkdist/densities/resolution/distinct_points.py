"""Sets as places of different weights: what a bandwidth is cross-validated on.

Points at one place say nothing of each other's neighbourhood, and a density with atoms has no best bandwidth: points
that tie would draw it to zero. So equal points count as one, of their total weight; points outside the domain, which
would pile up at its wall, are left out, and so is a place that holds more than a tenth of a set twice over: an atom.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import F32, F64, I64
from dkdist.sets import SampleSets

ATOM = 0.1  # of a set's weight, from which several equal points are no part of a density
MOST_ALONE = 0.9  # of sum_i u_i^2: a set of one place, or as good as one, tells nothing of its density


def distinct_points(unit: F32, offsets: I64, weights: F32 | None) -> SampleSets | None:
    """The sets of points ``unit`` (n_points, d), the domain scaled to the unit cube, as weighted places.

    Sets of one place, or nearly so, are left out; None if that leaves no set.
    """
    w = np.ones(len(unit)) if weights is None else weights.reshape(-1).astype(np.float64)
    inside = ((unit >= 0) & (unit <= 1)).all(axis=1) & (w > 0)
    points: list[F32] = []
    masses: list[F64] = []
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        here = inside[start:stop]
        places, mass = _merged(unit[start:stop][here], w[start:stop][here])
        if (mass**2).sum() < MOST_ALONE * mass.sum() ** 2:
            points.append(places)
            masses.append(mass / mass.sum())
    if not points:
        return None
    ends = np.cumsum([0, *map(len, points)])
    return SampleSets._trusted(np.concatenate(points), ends, np.concatenate(masses).astype(np.float32))


def _merged(x: F32, w: F64) -> tuple[F32, F64]:
    """Different places of the points x, and what each holds; without atoms."""
    first = np.sort(x[:, 0]) if len(x) else np.zeros(0)
    if (first[1:] > first[:-1]).all():  # no two points are equal
        return x, w
    order = np.lexsort(x.T[::-1])
    x, w = x[order], w[order]
    starts = np.flatnonzero(np.concatenate([[True], (x[1:] != x[:-1]).any(axis=1)]))
    mass, count = np.add.reduceat(w, starts), np.diff(np.append(starts, len(x)))
    kept = (count == 1) | (mass <= ATOM * w.sum())
    return x[starts][kept], mass[kept]
