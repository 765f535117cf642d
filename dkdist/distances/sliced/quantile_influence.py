"""How quantiles of projections move with the weights of points.

The mean quantile over levels a to b moves, when a point at s comes in, by

    1 / (b - a) int_(F^-1(a))^(F^-1(b)) (F(y) - 1{s <= y}) dy,

so that a function with the derivative g_q by the quantile of cell q = [e_q, e_(q+1)] moves, up to a constant, by a
potential that is continuous and linear between the quantiles F^-1(e_q), with slopes g_q / (e_(q+1) - e_q). No density
is estimated. Cells are those that the levels (q + 1/2) / Q stand for; the two outermost leave out half of what is
outside the outermost levels, so that points far away have no more influence than those at the edge.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import F64, I64


def quantile_potentials(lines: F64, shares: F64, at: F64, gradient: F64) -> F64:
    """(q, k) summed potentials of L directions at projections ``at`` (q, L), of points with projections (n, L).

    ``gradient`` (L, Q, k) are derivatives by the quantiles of each direction.
    """
    edges = _edges(gradient.shape[1])
    widths = np.diff(edges)[:, None]
    found = np.zeros((len(at), gradient.shape[2]))
    for line, there, g in zip(lines.T, at.T, gradient, strict=True):
        order = np.argsort(line, kind="stable")
        knots = line[order][_reached(shares[order].cumsum(), edges)]
        rises = g / widths * np.diff(knots)[:, None]
        heights = np.concatenate([np.zeros((1, g.shape[1])), rises.cumsum(axis=0)])
        for k in range(g.shape[1]):
            found[:, k] += np.interp(there, knots, heights[:, k])
    return found


def _edges(n_quantiles: int) -> F64:
    """The levels between cells, (Q + 1,)."""
    edges = np.arange(n_quantiles + 1.0)
    edges[0], edges[-1] = 0.25, n_quantiles - 0.25
    return edges / n_quantiles


def _reached(cumulated: F64, levels: F64) -> I64:
    """The first position whose cumulated weight is at least each level."""
    return np.minimum(np.searchsorted(cumulated, levels * (1 - 1e-12)), len(cumulated) - 1)
