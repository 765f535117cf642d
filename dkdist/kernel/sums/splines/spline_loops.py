"""Loops that spread points on a mesh by cardinal B-splines, and gather a field of it at points: of `mesh_loops`.

Cost of a point: p^d multiply-adds of splines of order p, which are found for 64 points at a time.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.compile import ELEMENTWISE, inlined, loop
from dkdist.loops.registers.long_rows import add_row, in_registers, plus_part, write_row

LANES = 8  # cells of a row at a time
TWICE = 2 * LANES  # the longest row
NOTHING = np.zeros(TWICE)
TILE = 64  # points whose splines are found at a time


@inlined(ELEMENTWISE)
def _splines(u, p, B):  # type: ignore[no-untyped-def]
    """B[a, i] = the B-spline of order p at u_i + p - 1 - a, for fractions u in [0, 1): what cell a of p takes."""
    for i in range(TILE):
        B[0, i] = 1.0
    _raise_orders(u, 2, p, B)


@inlined(ELEMENTWISE)
def _raise_orders(u, first, p, B):  # type: ignore[no-untyped-def]
    """B of order ``first`` - 1 becomes that of order p."""
    for r in range(first, p + 1):
        over = 1.0 / (r - 1)
        for i in range(TILE):
            B[r - 1, i] = B[r - 2, i] * u[i] * over
        for a in range(r - 2, 0, -1):
            for i in range(TILE):
                B[a, i] = ((u[i] + (r - 1 - a)) * B[a - 1, i] + ((a + 1) - u[i]) * B[a, i]) * over
        for i in range(TILE):
            B[0, i] *= (1.0 - u[i]) * over


@inlined(ELEMENTWISE)
def _within_cells(places, first, m, j, u):  # type: ignore[no-untyped-def]
    """u[i] = how far point ``first`` + i is within its cell, along axis j."""
    for i in range(m):
        place = places[first + i, j]
        u[i] = place - np.floor(place)


@inlined(ELEMENTWISE)
def _corner(places, point, n1, n2):  # type: ignore[no-untyped-def]
    """The first cell that a point's splines reach, counted along the mesh's memory."""
    return (int(places[point, 0]) * n1 + int(places[point, 1])) * n2 + int(places[point, 2])


@loop(ELEMENTWISE)
def spread(places, z, p, f):  # type: ignore[no-untyped-def]
    """f[cells] += z_i times the product of the splines of three dimensions; one cell: that of no width."""
    n0, n1, n2 = f.shape
    row = p + (-p) % LANES
    g, u, line = np.zeros((3, TWICE, TILE)), np.zeros(TILE), np.zeros(TWICE)
    g[0, 0], g[1, 0] = 1.0, 1.0
    n_first, n_second = (p if n0 > 1 else 1), (p if n1 > 1 else 1)
    cells = f.reshape(-1)
    for first in range(0, len(places), TILE):
        m = min(TILE, len(places) - first)
        for j in range(3):
            if j == 2 or (n0 > 1 if j == 0 else n1 > 1):
                _within_cells(places, first, m, j, u)
                _splines(u, p, g[j])
        for i in range(m):
            point = first + i
            corner = _corner(places, point, n1, n2)
            for a in range(len(line)):
                line[a] = g[2, a, i]
            if row == LANES:
                _add_rows(cells, corner, n1, n2, z[point], g, n_first, n_second, i, in_registers(line, LANES))
            else:
                _add_rows(cells, corner, n1, n2, z[point], g, n_first, n_second, i, in_registers(line, TWICE))


@inlined(ELEMENTWISE)
def _add_rows(cells, corner, n1, n2, z, g, n_first, n_second, i, row):  # type: ignore[no-untyped-def]
    """The cells that point i of a tile reaches, row by row of the mesh."""
    for a in range(n_first):
        w = z * g[0, a, i]
        for b in range(n_second):
            add_row(row, w * g[1, b, i], cells, corner + (a * n1 + b) * n2)


@inlined(ELEMENTWISE)
def _splines_and_slopes(u, p, B, S):  # type: ignore[no-untyped-def]
    """B as `_splines`, and S[a, i] its derivative by u_i: B of order p - 1 there, less that one cell before."""
    _splines(u, p - 1, B)
    for i in range(TILE):
        S[0, i] = -B[0, i]
        S[p - 1, i] = B[p - 2, i]
    for a in range(1, p - 1):
        for i in range(TILE):
            S[a, i] = B[a - 1, i] - B[a, i]
    _raise_orders(u, p, p, B)


@loop(ELEMENTWISE)
def gather(places, p, f, out):  # type: ignore[no-untyped-def]
    """out[i] <- the field at point i, and its derivatives by three places: sums over the cells that `spread` fills."""
    n0, n1, n2 = f.shape
    row = p + (-p) % LANES
    g, s = np.zeros((3, TWICE, TILE)), np.zeros((3, TWICE, TILE))
    u, sums = np.zeros(TILE), np.zeros((3, TWICE))
    g[0, 0], g[1, 0] = 1.0, 1.0
    n_first, n_second = (p if n0 > 1 else 1), (p if n1 > 1 else 1)
    cells = f.reshape(-1)
    for first in range(0, len(places), TILE):
        m = min(TILE, len(places) - first)
        for j in range(3):
            if j == 2 or (n0 > 1 if j == 0 else n1 > 1):
                _within_cells(places, first, m, j, u)
                _splines_and_slopes(u, p, g[j], s[j])
        for i in range(m):
            corner = _corner(places, first + i, n1, n2)
            if row == LANES:
                _sum_rows(
                    cells, corner, n1, n2, g, s, n_first, n_second, i, sums, in_registers(NOTHING, LANES)
                )
            else:
                _sum_rows(
                    cells, corner, n1, n2, g, s, n_first, n_second, i, sums, in_registers(NOTHING, TWICE)
                )
            value = by_first = by_second = by_third = 0.0
            for n in range(p):
                value += sums[0, n] * g[2, n, i]
                by_first += sums[1, n] * g[2, n, i]
                by_second += sums[2, n] * g[2, n, i]
                by_third += sums[0, n] * s[2, n, i]
            at = first + i
            out[at, 0], out[at, 1], out[at, 2], out[at, 3] = value, by_first, by_second, by_third


@inlined(ELEMENTWISE)
def _sum_rows(cells, corner, n1, n2, g, s, n_first, n_second, i, sums, nothing):  # type: ignore[no-untyped-def]
    """The rows of the mesh that point i of a tile reaches, added up: weighed by its splines, and by two slopes."""
    value, by_first, by_second = nothing, nothing, nothing
    for a in range(n_first):
        for b in range(n_second):
            at = corner + (a * n1 + b) * n2
            value = plus_part(value, g[0, a, i] * g[1, b, i], cells, at)
            by_first = plus_part(by_first, s[0, a, i] * g[1, b, i], cells, at)
            by_second = plus_part(by_second, g[0, a, i] * s[1, b, i], cells, at)
    write_row(value, sums[0])
    write_row(by_first, sums[1])
    write_row(by_second, sums[2])
