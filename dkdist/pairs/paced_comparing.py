"""All pairs of a tile, some rows at a time: slow distances take minutes, and nobody may wait for them any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from dkdist.base.bad_sets import naming
from dkdist.distances.distance import Comparing, Distance, points_for, traits
from dkdist.execution.run import require_running
from dkdist.loops.array_types import Array
from dkdist.sets import SampleSets

FIRST_PRODUCTS = 2**26  # of coordinates in the first run: a twentieth of a second by quick distances
TARGET_SECONDS = 0.5  # of a run of rows: how long Ctrl-C waits
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


def paced(n: int, first: int, least: int) -> Iterator[slice]:
    """Rows 0 .. n - 1 in runs of about half a second, the first of ``first`` rows; a run that failed ends between two.

    None has fewer than ``least`` rows but the last.
    """
    start, size = 0, max(first, least)
    while start < n:
        require_running()
        begun = time.monotonic()
        yield slice(start, min(start + size, n))
        start, seconds = start + size, time.monotonic() - begun
        if seconds < TARGET_SECONDS / 2:
            size *= 2
        elif seconds > 2 * TARGET_SECONDS:
            size = max(least, size // 2)
