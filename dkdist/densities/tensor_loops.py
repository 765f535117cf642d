"""Sums over points of products of functions of each dimension, d = 1, 2 or 3: cosine coefficients, densities at nodes.

    C_a = sum_i u_i prod_j cos(pi a_j x_ij),             a_j = 0 .. K_j - 1
    p_k = sum_i u_i prod_j G_(k_j)(x_ij),    G_k(x) = sum_(a < K) g_a cos(pi a x_k) cos(pi a x),   x_k = (k + 1/2) / q

for x in [0,1]^d and weights u with sum 1. C knows no bandwidth, which only damps: with g_0 = 1 and
g_a = 2 exp(-(pi a h)^2 / 2), p is the Gaussian estimate reflected at the walls of the cube, at its nodes. Where one
bandwidth is asked for, p straight from the points takes q^d instead of K^d sums, and no evaluation afterwards.

Columns of cosines come from the Chebyshev recurrence T_(a+1) = 2 cos(pi x) T_a - T_(a-1), sixteen points at a time. At
midpoints degrees fold, cos(pi (2 q - a) x_k) = -cos(pi a x_k), and nodes k and q - 1 - k share the sums over even and
odd degrees. Sums over points are taken eight together, four functions of the last dimension times two products of those
before it, whose eight lanes stay in registers.

Points are taken 256 at a time in float32. The recurrence amplifies the rounding of a cosine close to +-1: a lone point
near a wall is off by up to 4e-5 at 16 degrees and 1e-2 at 256, the mean of 200 points by some 100 times less. Every sum
has an order that follows from the number of the set's points alone, so that its numbers depend on no block, thread or
neighbour.
"""

from __future__ import annotations

from dkdist.loops.array_types import F32
from dkdist.loops.compile import ELEMENTWISE, inlined, loop
from dkdist.loops.elementary import cospi, f32, larger, smaller
from dkdist.loops.points import TILE, cache_lines, fill_shares, total_weight
from dkdist.loops.registers.vectors import (
    MANY_REGISTERS,
    add_outer,
    fused,
    fused_minus,
    load,
    minus,
    ones,
    plus,
    spread,
    store,
    times,
    totals,
    zeros,
)

POINTS = 16  # of a vector of cosines
BOTH = 2 * POINTS  # whose cosines are made together
ROWS, COLUMNS = 4, 2  # sums together
SUMS = ROWS * COLUMNS
# points whose products are summed together, and nodes whose series are: as many as stay in registers
LANES, NODES = (16, 5) if MANY_REGISTERS else (8, 3)
LEAST_ROWS = 8  # of the functions of a dimension: NODES are always written, also where there are two


@inlined(ELEMENTWISE, early=False)
def cosines(points, first, m, j, low, scale, cosine):  # type: ignore[no-untyped-def]
    """cosine[i] = cos(pi x_ij) for the m points from ``first`` on, and something as finite in the rest of the tile."""
    column, lowest, factor = points[first : first + m, j], low[j], scale[j]
    for i in range(TILE):
        cosine[i] = lowest
    for i in range(m):
        cosine[i] = f32(column[i])
    for i in range((m + BOTH - 1) // BOTH * BOTH):
        u = (cosine[i] - lowest) * factor
        cosine[i] = cospi(smaller(larger(u, f32(0.0)), f32(1.0)))


@inlined(early=False)
def all_degrees(cosine, m, K, rows, row):  # type: ignore[no-untyped-def]
    """rows[row + a TILE + i] = cos(pi a x_i) for m points."""
    for i in range(0, m, BOTH):
        before, here = ones(2, POINTS), load(cosine, i, POINTS, 2, POINTS)
        two = plus(here, here)
        store(before, rows, row + i, POINTS)
        store(here, rows, row + TILE + i, POINTS)
        for a in range(2, K):
            before, here = here, fused_minus(two, here, before)
            store(here, rows, row + a * TILE + i, POINTS)


@inlined(early=False)
def _nodes(cosine, m, K, q, places, factors, factor, table, entry, folded, rows, row):  # type: ignore[no-untyped-def]
    """rows[row + k TILE + i] = G_k(x_i) for m points, by the series at factors[factor], table[entry], flat."""
    terms, half, below = q + q % 2, (q + 1) // 2, smaller(K, q)
    for a in range(below, terms):
        store(zeros(2, POINTS), folded, a * BOTH, POINTS)
    for i in range(0, m, BOTH):
        before, here = ones(2, POINTS), load(cosine, i, POINTS, 2, POINTS)
        two = plus(here, here)
        store(before, folded, 0, POINTS)
        store(here, folded, BOTH, POINTS)
        for a in range(2, below):
            before, here = here, fused_minus(two, here, before)
            store(here, folded, a * BOTH, POINTS)
        for a in range(below, K):
            before, here = here, fused_minus(two, here, before)
            at = places[a] * BOTH
            more = fused(spread(factors, factor + a, 0, 2, POINTS), here, load(folded, at, POINTS, 2, POINTS))
            store(more, folded, at, POINTS)
        for part in range(0, smaller(m - i, BOTH), POINTS):
            for start in range(0, half, NODES):
                k = larger(smaller(start, half - NODES), 0)
                even, odd = zeros(NODES, POINTS), zeros(NODES, POINTS)
                for a in range(0, terms, 2):
                    at, f = entry + k * terms + a, a * BOTH + part
                    even = add_outer(
                        spread(table, at, terms, NODES, POINTS), load(folded, f, 0, 1, POINTS), even
                    )
                    f += BOTH
                    odd = add_outer(
                        spread(table, at + 1, terms, NODES, POINTS), load(folded, f, 0, 1, POINTS), odd
                    )
                store(minus(even, odd), rows, row + (q - 1 - k) * TILE + i + part, -TILE)
                store(plus(even, odd), rows, row + k * TILE + i + part, TILE)


@inlined(early=False)
def _left(share, rows, size, lengths, d, c, full, X, x):  # type: ignore[no-untyped-def]
    """X[x TILE + i] = the c-th product of the functions of all dimensions but the last, times the share of point i."""
    used = c < lengths[0] * lengths[1]
    first, second = c // lengths[1] * TILE, size + c % lengths[1] * TILE
    for i in range(0, full, LANES):
        product = zeros(1, LANES)
        if used:
            product = load(share, i, 0, 1, LANES)
            if d > 2:
                product = times(product, load(rows, first + i, 0, 1, LANES))
            if d > 1:
                product = times(product, load(rows, second + i, 0, 1, LANES))
        store(product, X, x * TILE + i, 0)


@loop()
def tensor_sums(  # type: ignore[no-untyped-def]
    points,
    spans,
    weights,
    weighted,
    low,
    scale,
    column,
    d,
    lengths,
    degrees,
    q,
    places,
    factors,
    table,
    room,
    out,
):
    """out[s] <- sums over the points of a set of products of ``lengths`` functions; those of d < 3 begin with ones.

    Functions are cosines of ``degrees``, or with q > 0 series of them at q nodes. It works in ``room``.
    """
    share, cosine, folded, rows, X, sums = room
    n_left, n_last = lengths[0] * lengths[1], lengths[2]
    groups = (n_last + ROWS - 1) // ROWS
    size = len(rows) // 3  # of the functions of a dimension
    for s in range(len(spans)):
        start, stop = spans[s, 0], spans[s, 1]
        total = total_weight(weights, weighted, start, stop)
        for k in range(len(sums)):
            sums[k] = f32(0.0)
        for first in range(start, stop, TILE):
            m = smaller(stop - first, TILE)
            full = (m + LANES - 1) // LANES * LANES
            fill_shares(weights, weighted, first, m, total, share)
            for j in range(d):
                axis = 3 - d + j
                cosines(points, first, m, column + j, low, scale, cosine)
                K, at = degrees[axis], axis * size
                if q > 0:
                    series, entry = j * len(places), j * table.shape[1]
                    _nodes(cosine, m, K, q, places, factors, series, table, entry, folded, rows, at)
                else:
                    all_degrees(cosine, m, K, rows, at)
            at = 0
            for c in range(0, n_left, COLUMNS):
                for x in range(COLUMNS):
                    _left(share, rows, size, lengths, d, c + x, full, X, x)
                for r in range(0, groups * ROWS, ROWS):
                    tile = zeros(SUMS, LANES)
                    for i in range(0, full, LANES):
                        last = load(rows, 2 * size + r * TILE + i, TILE, ROWS, LANES)
                        tile = add_outer(last, load(X, i, TILE, COLUMNS, LANES), tile)
                    store(plus(load(sums, at, 0, 1, SUMS), totals(tile)), sums, at, 0)
                    at += SUMS
        for c in range(n_left):
            for r in range(n_last):
                at = ((c // COLUMNS) * groups + r // ROWS) * SUMS
                out[s, c * n_last + r] = sums[at + (r % ROWS) * COLUMNS + c % COLUMNS]


def room_for(lengths: tuple[int, ...], q: int) -> tuple[F32, ...]:
    """What `tensor_sums` works in; NODES are always written, of fewer from the tiles before ``rows`` on."""
    n_left, groups = lengths[0] * lengths[1], -(-lengths[2] // ROWS)
    n_rows = 3 * max(LEAST_ROWS, ROWS * -(-max(lengths) // ROWS)) * TILE
    n_sums = -(-n_left // COLUMNS) * groups * SUMS
    _, rows, *others = cache_lines(NODES * TILE, n_rows, TILE, TILE, (q + 1) * BOTH, COLUMNS * TILE, n_sums)
    rows[:] = 0
    share, cosine, folded, X, sums = others
    return share, cosine, folded, rows, X, sums
