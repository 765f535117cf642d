"""Points drawn by a hash of their places: the same ones in whatever blocks, pieces and order they are looked at.

A point is drawn where a hash of (seed, set, place in the set) lies below a threshold: each by itself, so that parts
need no merging but one after the other. The hash is the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import I64
from dkdist.loops.compile import inlined, loop

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def drawn_points(offsets: I64, first_set: int, first_point: int, share: float, seed: int) -> I64:
    """Rows of the points of some sets that are drawn, a ``share`` of them; all of them where it is 1 or more.

    Set 0 stands at position ``first_set`` of its collection, and row ``offsets[0]`` is its point ``first_point``.
    """
    if share >= 1:
        return np.arange(offsets[0], offsets[-1])
    drawn: I64 = _drawn(offsets, first_set, first_point, np.uint64(share * 2.0**64), np.uint64(seed))
    return drawn


@inlined()
def _mixed(z):  # type: ignore[no-untyped-def]
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@loop()
def _drawn(offsets, first_set, first_point, threshold, seed):  # type: ignore[no-untyped-def]
    rows = np.empty(offsets[-1] - offsets[0], np.int64)
    n = 0
    for s in range(len(offsets) - 1):
        key = _mixed(seed + GOLDEN * np.uint64(first_set + s + 1))
        skipped = first_point if s == 0 else 0
        for i in range(offsets[s], offsets[s + 1]):
            place = np.uint64(skipped + i - offsets[s] + 1)
            rows[n] = i
            n += _mixed(key + GOLDEN * place) < threshold
    return rows[:n].copy()
