"""Weighted points of one dimension in order, with the distribution function of their set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.compile import loop
from dkdist.loops.lanes import Frozen, Runs
from dkdist.loops.points import read_only, set_arrays, total_weight


@dataclass(frozen=True)
class Line(Runs, Frozen):
    """Omegas of one dimension: sorted points (T,) and the distribution function at and after each, with offsets."""

    points: F32
    levels: F64
    offsets: I64

    @property
    def arrays(self) -> tuple[F32, F64, I64]:
        """(points, levels, offsets), as loops take them."""
        return read_only(self.points), read_only(self.levels), read_only(self.offsets)


def on_line(points: F32, offsets: I64, weights: F32 | None) -> Line:
    """Sets of points (T, 1) in order."""
    ordered, levels = np.empty(len(points), np.float32), np.empty(len(points))
    _sort(*set_arrays(points, offsets, weights), ordered, levels)
    return Line(ordered, levels, offsets.copy())


@loop()
def _sort(points, offsets, weights, weighted, ordered, levels):  # type: ignore[no-untyped-def]
    """Sorted points of each set, and its distribution function from each of them on: 1 from the last."""
    for s in range(len(offsets) - 1):
        start, stop = offsets[s], offsets[s + 1]
        total = total_weight(weights, weighted, start, stop)
        order = np.argsort(points[start:stop, 0], kind="mergesort")
        below = 0.0
        for i in range(stop - start):
            ordered[start + i] = points[start + order[i], 0]
            below += weights[start + order[i]] if weighted else 1.0
            levels[start + i] = below / total
        levels[stop - 1] = 1.0
