"""Quantiles of the projections of weighted sets, whose squared distances are squared sliced Wasserstein distances.

    row[l Q + q] = F_l^-1((q + 1/2) / Q) / sqrt(L Q),    F_l^-1(t) = min {s : weight of {u_l . (x - c) <= s} >= t}

The mean over quantiles is the midpoint rule for W_2^2 = int_0^1 (F^-1 - G^-1)^2 dt on each of L directions, without
error for sets of Q points each, or of a divisor of Q. The outermost quantile leaves 1 / (2 Q) of the weight outside, so
that fewer points than that may be anywhere and move nothing. Cost: L n (d + log2 n) steps a set.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import F32, F64, I64
from dkdist.loops.compile import FUSED, inlined, loop
from dkdist.loops.elementary import f32
from dkdist.loops.points import set_arrays, total_weight

REACHED = 1.0 - 1e-12  # of a level: sums of weights are rounded


def projected_quantiles(
    points: F32, offsets: I64, weights: F32 | None, centre: F64, directions: F64, n_quantiles: int
) -> F32:
    """Rows (n_sets, L Q) float32 of L directions (L, d) and Q quantiles, those of one direction side by side."""
    out = np.empty((len(offsets) - 1, len(directions) * n_quantiles), np.float32)
    _quantiles(*set_arrays(points, offsets, weights), centre, directions, n_quantiles, out)
    return out


@loop(FUSED)
def _quantiles(points, offsets, weights, weighted, centre, U, Q, out):  # type: ignore[no-untyped-def]
    share = 1 / np.sqrt(float(out.shape[1]))
    for s in range(len(out)):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        total = total_weight(weights, weighted, start, start + n)
        line = np.empty(n, f32)
        for u in range(len(U)):
            for i in range(n):
                height = 0.0
                for k in range(len(centre)):
                    height += U[u, k] * (np.float64(points[start + i, k]) - centre[k])
                line[i] = f32(height)
            row = out[s, u * Q : (u + 1) * Q]
            if weighted:
                _of_weighted(line, weights[start : start + n], total, row)
            else:
                _of_equal(line, row)
            for q in range(Q):
                row[q] = f32(row[q] * share)


@inlined()
def _of_equal(line, row):  # type: ignore[no-untyped-def]
    line.sort()
    n, Q = len(line), len(row)
    for q in range(Q):
        row[q] = line[((2 * q + 1) * n + 2 * Q - 1) // (2 * Q) - 1]


@inlined()
def _of_weighted(line, weights, total, row):  # type: ignore[no-untyped-def]
    order, i, below = np.argsort(line, kind="mergesort"), 0, 0.0
    below = np.float64(weights[order[0]])
    for q in range(len(row)):
        level = (q + 0.5) / len(row) * total * REACHED
        while below < level and i < len(line) - 1:
            i += 1
            below += weights[order[i]]
        row[q] = line[order[i]]
