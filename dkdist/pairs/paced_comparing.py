"""All pairs of a tile, some rows at a time: slow distances take minutes, and nobody may wait for them any more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dkdist.base.bad_sets import naming
from dkdist.distances.distance import Comparing, Distance, points_for, traits
from dkdist.execution.own_threads import paced
from dkdist.loops.array_types import Array
from dkdist.sets import SampleSets

FIRST_PRODUCTS = 2**26  # of coordinates in the first run: a twentieth of a second by quick distances
LEAST_ROWS = 4  # that distances with lanes compare side by side


def compare_paced(distance: Distance, a: SampleSets, b: SampleSets, name: Callable[[int, int], str]) -> Array:
    """(len(a), len(b)) distances, as `compare` has them; ``name(i, j)`` says which pair of the user's a pair is."""
    comparing = Comparing(distance, b.alphabet)
    packed = comparing.prepare(
        points_for(distance, b), b.offsets, None if b.weights is None else b.weights.reshape(-1)
    )
    out = np.empty((len(a), len(b) * distance.n_parts), comparing.dtype)
    a_row = max(1, a.n_points * b.n_points * b.n_dims // max(1, len(a)))
    least = LEAST_ROWS if traits(distance).grain(b.sizes, b.n_dims).lanes > 1 else 1
    for rows in paced(len(a), FIRST_PRODUCTS // a_row, least):
        first = rows.start
        with naming(lambda i, j, first=first: name(first + i, j)):  # type: ignore[misc]
            comparing.fill(packed, a[rows], out[rows])
    return out
