"""Few plain points as sets, at once: to look at a collection takes ten times as long as to compare two series.

Plain are floats of which there is nothing to say: `OrderedSample` (`sets/origins.py`) would find no origin and no
crowded column, `require_units` nothing to refuse, and `warn_if_coarse` nothing to tell. Each column is looked at in
its own order, S_0 <= .. <= S_(n-1). It is plain if it is as wide as many steps of float32, and

    all its values are float32; or
    different values stay different there, and both S_(n/4) and S_(3n/4) are further from the median than a 64th of it.

Fewer than half of the values lie between these quarters, so the median distance from the median, which a natural origin
is chosen by, is no less than that to the nearer one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.loops.compile import loop
from dkdist.loops.elementary import f32
from dkdist.sets import SampleSets
from dkdist.sets.origins import FAR, SAMPLE_ROWS, SAMPLE_VALUES

NEAREST, FARTHEST = 1e-15, 1e15  # coordinates and widths whose squares, and long sums of them, are float32
FLOATS = np.dtype(np.float64), np.dtype(np.float32)
MOST_DIMS = SAMPLE_VALUES // SAMPLE_ROWS  # in which all of so many rows are looked at
LEAST, MOST = 2 * NEAREST, FARTHEST / 2  # rounded to float32 they are still within what distances take
STEPS = 2.0**-16  # of the largest value: 128 steps of float32


def few_sets(arrays: Any) -> SampleSets | None:
    """The sets of a list of (n_i, d) arrays as `as_sample_sets` makes them, if they are few and plain; else None."""
    if type(arrays) not in (list, tuple):
        return None
    edges, d = [0], 0
    for points in arrays:
        if type(points) is not np.ndarray or points.dtype not in FLOATS or points.ndim != 2:
            return None
        n, own = points.shape
        if n == 0 or own == 0 or own != (d or own):
            return None
        edges.append(edges[-1] + n)
        d = own
    if not 0 < edges[-1] <= SAMPLE_ROWS or d > MOST_DIMS:
        return None
    rows = np.concatenate(arrays, dtype=np.float64)
    if not _are_plain(np.sort(rows, axis=0)):
        return None
    return SampleSets._trusted(rows.astype(np.float32), np.array(edges))


@loop()
def _are_plain(S):  # type: ignore[no-untyped-def]
    """Whether all columns of S (n, d), each in order, are plain; NaN stands last."""
    n, d = S.shape
    for j in range(d):
        low, high = S[0, j], S[n - 1, j]
        width, size = high - low, max(-low, high)
        if not (size <= MOST and (width == 0.0 or width >= max(LEAST, STEPS * size))):
            return False
        exact = distinct = True
        before = low
        for i in range(n):
            value = S[i, j]
            exact &= np.float64(f32(value)) == value
            distinct &= value == before or f32(value) != f32(before)
            before = value
        below, above = S[(n - 1) // 2, j], S[n // 2, j]
        spread = min(below - S[n // 4, j], S[n - 1 - n // 4, j] - above)
        if not (exact or (distinct and spread >= LEAST and max(-below, above) < FAR * spread)):
            return False
    return True
