"""Exact Wasserstein distance of weighted sets: on the line by sorting, else through POT's network simplex, slowly.

    W_p = (min over plans of sum_ij plan_ij |x_i - y_j|^p)^(1/p)

On the line the plan takes both sets in order: n + m steps a pair, n log n an object. Else each pair is a linear
programme of its own: some n^3 log n steps, 0.1 ms for 30 points and 0.2 s for 1000; the sliced Wasserstein and energy
distances are metrics too, at a small part of the cost. In float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from scipy.spatial.distance import cdist

from dkdist.distances import Distance, Grain
from dkdist.distances.sorted_line import Line, on_line
from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.compile import loop
from dkdist.loops.lanes import Frozen, Runs
from dkdist.plain.kept import kept

MOST_STEPS = 10_000_000  # of the simplex, before it gives up


@dataclass(frozen=True)
class Measures(Runs, Frozen):
    """Points (T, d) in float64, their shares (T,), which sum to one in each set, and offsets."""

    points: F64
    shares: F64
    offsets: I64

    def __getitem__(self, s: int) -> tuple[F64, F64]:
        rows = slice(self.offsets[s], self.offsets[s + 1])
        return self.points[rows], self.shares[rows]


@kept
@dataclass(frozen=True)
class Wasserstein(Distance):
    """Exact Wasserstein distance of order p = 1 or 2 with Euclidean ground distance; slow but for one dimension.

    In more dimensions POT computes it: ImportError where that is missing, RuntimeError if its simplex does not end.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> sets = [np.array([[0.0], [1.0]]), np.array([[3.0]])]
    >>> round(float(dk.distance_matrix(sets, distance=dk.Wasserstein())[0, 1]), 4)
    2.5
    """

    p: int = 1
    takes_weights = True

    def __post_init__(self) -> None:
        if not isinstance(self.p, (int, float, np.number)) or self.p not in (1, 2):
            raise ValueError(f"The order p is {self.p!r}; set it to 1 or 2.")

    def grain(self, sizes: I64, n_dims: int) -> Grain:
        """Each pair is compared alone."""
        return Grain(1, 4)

    def prepare(self, points: F32, offsets: I64, weights: F32 | None) -> Measures | Line:
        """The omegas in float64, with shares for weights; of one dimension in order."""
        if points.shape[1] == 1:
            return on_line(points, offsets, weights)
        _pot()
        return _measures(points, offsets, weights)

    def fill(self, packed: Measures | Line, points: F32, offsets: I64, weights: F32 | None, out: F32) -> None:
        """Distances of a block of sets to all omegas: out (n, R)."""
        if isinstance(packed, Line):
            _line(*on_line(points, offsets, weights).arrays, *packed.arrays, self.p, out)
            return
        ot, own = _pot(), _measures(points, offsets, weights)
        ground = "euclidean" if self.p == 1 else "sqeuclidean"
        exactly = {"numItermax": MOST_STEPS, "log": True, "check_marginals": False, "center_dual": False}
        for s in range(len(out)):
            x, a = own[s]
            for j in range(packed.n_omegas):
                y, b = packed[j]
                cost, log = ot.emd2(a, b, cdist(x, y, ground), **exactly)
                if log["warning"] is not None:
                    raise RuntimeError(
                        f"POT found no optimal plan for set {s} and omega {j}: {log['warning']}"
                    )
                out[s, j] = max(cost, 0.0) ** (1 / self.p)


def _measures(points: F32, offsets: I64, weights: F32 | None) -> Measures:
    """Sets in float64, with shares for weights."""
    w = np.ones(len(points)) if weights is None else weights.astype(np.float64)
    totals = np.add.reduceat(w, offsets[:-1])
    return Measures(points.astype(np.float64), w / np.repeat(totals, np.diff(offsets)), offsets.copy())


@loop()
def _line(x, F, offsets, y, G, places, p, out):  # type: ignore[no-untyped-def]
    """The plan that takes both sets in order: share after share, to where one of both points has no more."""
    for s in range(len(out)):
        for j in range(out.shape[1]):
            i, stop, k, end = offsets[s], offsets[s + 1], places[j], places[j + 1]
            total, before = 0.0, 0.0
            while i < stop and k < end:
                level, apart = min(F[i], G[k]), np.abs(np.float64(x[i]) - np.float64(y[k]))
                total += (level - before) * (apart if p == 1 else apart * apart)
                before = level
                i, k = i + (F[i] == level), k + (G[k] == level)
            out[s, j] = np.float32(total if p == 1 else np.sqrt(total))


def _pot() -> ModuleType:
    try:
        import ot
    except ImportError as error:
        raise ImportError(
            "The exact Wasserstein distance is computed by POT, which is not installed: "
            "pip install 'dkdist[transport]', or use the sliced Wasserstein distance."
        ) from error
    return ot  # type: ignore[no-any-return]
