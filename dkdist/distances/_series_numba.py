"""The cheapest way through the table of two series, one diagonal after the other: what all elastic distances share.

    D_ij = least(D_(i-1)(j-1) + across_ij, D_(i-1)j + down_ij, D_i(j-1) + right_ij),    D_00 = 0

Cells of one diagonal (i + j the same) do not need each other, so that a vector register takes eight of them, however
few the series are. With points x_i and y_j, |.| the Euclidean norm:

    WARP    across = down = right = |x_i - y_j|, or its square (dynamic time warping)
    SOFT    the same, and a soft minimum -gamma log sum exp(-. / gamma) (Cuturi and Blondel 2017)
    GAPS    |x_i - y_j|, |x_i - g|, |y_j - g|: points that are left out are compared with g (ERP, Chen and Ng 2004)
    STAMPS  |x_i - y_j| + |x_(i-1) - y_(j-1)| + 2 nu |i - j|, |x_i - x_(i-1)| + nu + lambda, the same of y; x_0 and y_0
            are 0 (TWED, Marteau 2009)
    MOVES   |x_i - y_j|, c or, where x_i is not between its neighbours x_(i-1) and y_j, c + its distance to the nearer,
            the same of y; series of one variable (MSM, Stefan, Athitsos and Das 2013)

Ways may begin along the border of the table for GAPS alone. Cells outside the band are closed. Distances are float32.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import borrowed
from dkdist._numba.compilation import FMA, inline_jit, jit
from dkdist._numba.elementary import exp, f32, log

WARP, SOFT, GAPS, STAMPS, MOVES = range(5)
INF = f32(np.inf)  # a closed cell (tests/distances/test_elastic.py)
LARGE_COST = f32(1e37)  # replaces infinity in differences; float32 holds up to 3.4e38 (IEEE 754-2019)
MIN_EXPONENT = f32(-87.0)  # exp(-87.3) is 1.2e-38, the smallest normal float32 (IEEE 754-2019)
CELLS_PER_BLOCK = (
    32  # of a diagonal: a multiple of the SIMD width (python benchmarks/sequence_distances.py growth)
)


@inline_jit(FMA)
def _add_squares(x, y, first, c):  # type: ignore[no-untyped-def]
    for i in range(len(c)):
        c[i] = (f32(0.0) if first else c[i]) + (x[i] - y[i]) * (x[i] - y[i])


@inline_jit(FMA)
def _add_four_squares(x, n, y, m, c):  # type: ignore[no-untyped-def]
    """Of four dimensions, which stand n and m apart, in the same order."""
    p, q, r, s = x[:n], x[n : 2 * n], x[2 * n : 3 * n], x[3 * n :]
    t, u, v, w = y[:m], y[m : 2 * m], y[2 * m : 3 * m], y[3 * m :]
    for i in range(len(c)):
        total = (c[i] + (p[i] - t[i]) * (p[i] - t[i])) + (q[i] - u[i]) * (q[i] - u[i])
        c[i] = (total + (r[i] - v[i]) * (r[i] - v[i])) + (s[i] - w[i]) * (s[i] - w[i])


@inline_jit()
def _clear(c):  # type: ignore[no-untyped-def]
    for i in range(len(c)):
        c[i] = f32(0.0)


@inline_jit()
def _roots(c):  # type: ignore[no-untyped-def]
    for i in range(len(c)):
        c[i] = np.sqrt(c[i])


@inline_jit(FMA)
def _add_stamps(c, before, nu, shift, across):  # type: ignore[no-untyped-def]
    """across = c + that of both points before + 2 nu |i - j|, where ``shift`` is i - j of the first cell."""
    for i in range(len(c)):
        across[i] = c[i] + before[i] + f32(2.0) * nu * np.abs(f32(shift + 2 * i))


@inline_jit(FMA)
def _hard_minimum_moves(x, step_x, y, step_y, cost, corner, above, left, D):  # type: ignore[no-untyped-def]
    """MOVES and the hard minimum in one go; steps are how far points are from those before."""
    for i in range(len(D)):
        away = y[i] - x[i]
        near = np.abs(away)
        down = cost + (f32(0.0) if step_x[i] * away >= f32(0.0) else min(np.abs(step_x[i]), near))
        right = cost + (f32(0.0) if step_y[i] * away <= f32(0.0) else min(np.abs(step_y[i]), near))
        D[i] = min(min(left[i] + right, corner[i] + near), above[i] + down)


@inline_jit()
def _hard_minimum(corner, above, left, across, down, right, D):  # type: ignore[no-untyped-def]
    for i in range(len(D)):
        D[i] = min(min(left[i] + right[i], corner[i] + across[i]), above[i] + down[i])


@inline_jit()
def _hard_minimum_univariate(x, y, corner, above, left, D):  # type: ignore[no-untyped-def]
    """Squares of one variable and the hard minimum in one go, rounded as if they were two."""
    for i in range(len(D)):
        D[i] = (x[i] - y[i]) * (x[i] - y[i]) + min(min(left[i], corner[i]), above[i])


@inline_jit(FMA)
def _soft_minimum(corner, above, left, cost, gamma, D):  # type: ignore[no-untyped-def]
    inverse = f32(1.0) / gamma
    for i in range(len(D)):
        a, b, c = corner[i], above[i], left[i]
        least = min(min(a, b), c)
        total = exp(max((least - a) * inverse, MIN_EXPONENT)) + exp(max((least - b) * inverse, MIN_EXPONENT))
        D[i] = cost[i] + least - gamma * log(total + exp(max((least - c) * inverse, MIN_EXPONENT)))


@inline_jit(FMA)
def _norm(a, b, k, r, d, n, m):  # type: ignore[no-untyped-def]
    """The distance of point k of a (d, n) to point r of b (d, m)."""
    total = f32(0.0)
    for e in range(d):
        total += (a[e * n + k] - b[e * m + r]) * (a[e * n + k] - b[e * m + r])
    return np.sqrt(total)


@inline_jit(FMA)
def _deletion_costs(kind, x, n, d, back, extra, steps):  # type: ignore[no-untyped-def]
    """What it costs to leave out each point (GAPS, STAMPS), or how far it is from the one before (MOVES).

    ``back`` is 1 where points come from the last to the first; ``extra`` is what a point costs to leave out anyway.
    """
    nothing = np.zeros(d, f32)
    for i in range(n):
        before = i + 1 if back else i - 1
        none = before < 0 or before >= n
        if kind == MOVES:
            steps[i] = f32(0.0) if none else x[i] - x[before]
        elif kind == STAMPS and not none:
            steps[i] = _norm(x, x, i, before, d, n, n) + extra
        else:
            steps[i] = _norm(x, nothing, i, 0, d, n, 1) + extra


@inline_jit(FMA)
def _path_cost(kind, euclidean, a, x, n, steps_x, y, m, steps_y, d, low, high, work):  # type: ignore[no-untyped-def]
    """The cheapest way; x (d, n) and y (d, m), which is from the last point to the first; open j - i are low to high.

    ``a`` is gamma, nu or c; ``work`` (7, n + 2 + WHOLE) is room for diagonals. Behind the end of a diagonal up to WHOLE
    cells more are filled, of what stands behind x and y: the first of them is closed, and the others are not read.
    """
    closed = LARGE_COST if kind == SOFT else INF
    x, y, steps_x, steps_y, work = (
        borrowed(x),
        borrowed(y),
        borrowed(steps_x),
        borrowed(steps_y),
        borrowed(work),
    )
    corner, last, D = work[0], work[1], work[2]
    c, c_last, c_corner = work[3], work[4], work[5]
    for i in range(work.shape[1]):
        corner[i] = last[i] = D[i] = c[i] = c_last[i] = c_corner[i] = closed
    last[0] = c_last[0] = f32(0.0)  # D_00, and the distance of both points before the first
    border_x, border_y = f32(0.0), f32(0.0)
    for k in range(1, n + m + 1):
        begin = max(max(1, k - m), (k - high + 1) // 2)
        end = min(min(n, k - 1), (k - low) // 2) + 1
        at_y = m - k + begin
        rows = (end - begin + CELLS_PER_BLOCK - 1) // CELLS_PER_BLOCK * CELLS_PER_BLOCK
        before, ours = slice(begin - 1, begin - 1 + rows), slice(begin, begin + rows)
        if end > begin and (kind == MOVES or (kind == WARP and d == 1 and not euclidean)):
            at, down, left = corner[before], last[before], last[ours]
            if kind == MOVES:
                there = x[before], steps_x[before], y[at_y : at_y + rows], steps_y[at_y : at_y + rows]
                _hard_minimum_moves(there[0], there[1], there[2], there[3], a, at, down, left, D[ours])
            else:
                _hard_minimum_univariate(x[before], y[at_y : at_y + rows], at, down, left, D[ours])
        elif end > begin:
            cost = c[ours]
            if d >= 4:
                _clear(cost)
            for e in range(0, d - d % 4, 4):
                at_x, beside = e * n + begin - 1, e * m + at_y
                points = x[at_x : at_x + 3 * n + rows], y[beside : beside + 3 * m + rows]
                _add_four_squares(points[0], n, points[1], m, cost)
            for e in range(d - d % 4, d):
                at_x, beside = e * n + begin - 1, e * m + at_y
                _add_squares(x[at_x : at_x + rows], y[beside : beside + rows], e == 0, cost)
            if euclidean:
                _roots(cost)
            across, down, right = cost, cost, cost
            if kind in (GAPS, STAMPS):
                down, right = steps_x[before], steps_y[at_y : at_y + rows]
            if kind == STAMPS:
                across = work[6][:rows]
                _add_stamps(cost, c_corner[before], a, 2 * begin - k, across)
            if kind == SOFT:
                _soft_minimum(corner[before], last[before], last[ours], cost, a, D[ours])
            else:
                _hard_minimum(corner[before], last[before], last[ours], across, down, right, D[ours])
        D[begin - 1] = D[max(begin, end)] = closed
        if kind == GAPS and k <= m:
            border_y += steps_y[m - k]
            D[0] = border_y if k <= high else closed
        if kind == GAPS and k <= n:
            border_x += steps_x[k - 1]
            D[k] = border_x if -k >= low else closed
        corner, last, D = last, D, corner
        c, c_last, c_corner = c_corner, c, c_last
    return last[n]


@inline_jit()
def _band_limits(n, m, band):  # type: ignore[no-untyped-def]
    """The least and the largest j - i of open cells."""
    if band < 0:
        return -n, m
    radius = int(np.floor(band * max(n, m)))
    return -max(0, n - m) - radius, max(0, m - n) + radius


@jit(FMA)
def fill_diagonals(  # type: ignore[no-untyped-def]
    kind, euclidean, a, extra, band, root, normalize, Y, edges, columns, points, offsets, out
):
    """out[s, columns[j]] of series s and the one that is Y[d * edges[j] : d * edges[j + 1]], (d, m) backwards.

    Y goes on for WHOLE numbers after the last one.
    """
    d, R = points.shape[1], len(columns)
    steps = np.zeros(edges[R] + CELLS_PER_BLOCK if kind >= GAPS else 0, f32)  # of the omegas
    for j in range(R if kind >= GAPS else 0):
        p, q = edges[j], edges[j + 1]
        _deletion_costs(kind, Y[d * p : d * q], q - p, d, True, extra, steps[p:q])
    for s in range(len(offsets) - 1):
        start, n = offsets[s], offsets[s + 1] - offsets[s]
        x, work, steps_x = (
            np.zeros(d * n + CELLS_PER_BLOCK, f32),
            np.zeros((7, n + 2 + CELLS_PER_BLOCK), f32),
            np.zeros(n + CELLS_PER_BLOCK, f32),
        )
        for i in range(n):
            for e in range(d):
                x[e * n + i] = points[start + i, e]
        if kind >= GAPS:
            _deletion_costs(kind, x, n, d, False, extra, steps_x)
        for j in range(R):
            p, q = edges[j], edges[j + 1]
            low, high = _band_limits(n, q - p, band)
            own = steps[p : q + CELLS_PER_BLOCK] if kind >= GAPS else steps
            y = Y[d * p : d * q + CELLS_PER_BLOCK]
            total = _path_cost(kind, euclidean, a, x, n, steps_x, y, q - p, own, d, low, high, work)
            total = total / f32(n + q - p) if normalize else total
            out[s, columns[j]] = np.sqrt(total) if root else total
