"""Dynamic programming for all elastic distances of two series, by antidiagonals of the table.

    D_ij = min(D_(i-1)(j-1) + across_ij, D_(i-1)j + down_ij, D_i(j-1) + right_ij),    D_00 = 0

Cells of one antidiagonal (constant i + j) are independent, so a single pair of series can use SIMD. Costs for points
x_i and y_j, with the Euclidean norm |.|:

    WARP    across = down = right = |x_i - y_j|, or its square (dynamic time warping)
    SOFT    as WARP, but with a soft minimum -gamma log sum exp(-. / gamma) (Cuturi and Blondel 2017)
    ALIGN   as SOFT, with the cost -gamma log(w k / (2 - w k)), k = exp(-|x_i - y_j|^2 / gamma), and the weights w =
            1 - |i - j| / T of a triangular kernel, or w = 1 (Cuturi 2011). Each path also costs
            (n + m) gamma log(1 + sqrt(2)), which the normalisation of the kernel cancels
    GAPS    |x_i - y_j|, |x_i - g|, |y_j - g|: deleted points are compared with g (ERP, Chen and Ng 2004)
    STAMPS  |x_i - y_j| + |x_(i-1) - y_(j-1)| + 2 nu |i - j|, |x_i - x_(i-1)| + nu + lambda, and the same for y;
            x_0 = y_0 = 0 (TWED, Marteau 2009)
    MOVES   |x_i - y_j|, c if x_i is between x_(i-1) and y_j, else c + its distance to the nearer one, and the same for
            y; univariate series (MSM, Stefan, Athitsos and Das 2013)

Only GAPS allows paths along the border of the table. Cells outside the band are infinite. Distances are float32.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import borrowed
from dkdist._numba.compilation import FMA, inline_jit, jit
from dkdist._numba.elementary import exp, f32, log

WARP, SOFT, ALIGN, GAPS, STAMPS, MOVES = range(6)
INF = f32(np.inf)  # value of cells outside the band (tests/distances/test_elastic.py)
LARGE_COST = f32(1e37)  # replaces infinity in differences; the float32 maximum is 3.4e38 (IEEE 754-2019)
MIN_EXPONENT = f32(-87.0)  # exp(-87.3) is 1.2e-38, the smallest normal float32 (IEEE 754-2019)
# log(1 + sqrt(2)): two series of n points have about (1 + sqrt(2))^(2 n) alignments. With this growth removed, values
# of similar series are near 0: the error of 1,000 points is 1e-5, not 1e-2 (tests/distances/test_global_alignment.py).
ALIGNMENT_GROWTH = f32(0.8813736)
# Cells of an antidiagonal per step: a multiple of the SIMD width (python benchmarks/sequence_distances.py growth).
CELLS_PER_BLOCK = 32


@inline_jit(FMA)
def _add_squares(x, y, first, c):  # type: ignore[no-untyped-def]
    for i in range(len(c)):
        c[i] = (f32(0.0) if first else c[i]) + (x[i] - y[i]) * (x[i] - y[i])


@inline_jit(FMA)
def _add_four_squares(x, n, y, m, c):  # type: ignore[no-untyped-def]
    """Add squares of four dimensions, with strides n and m, in the order of `_add_squares`."""
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
def _add_stamps(c, previous, nu, shift, across):  # type: ignore[no-untyped-def]
    """Set across = c + (c of the previous points) + 2 nu |i - j|; ``shift`` is i - j of the first cell."""
    for i in range(len(c)):
        across[i] = c[i] + previous[i] + f32(2.0) * nu * np.abs(f32(shift + 2 * i))


@inline_jit(FMA)
def _hard_minimum_moves(x, step_x, y, step_y, cost, corner, above, left, D):  # type: ignore[no-untyped-def]
    """Compute the costs of MOVES and the minimum in one loop; ``steps`` are differences of successive points."""
    for i in range(len(D)):
        difference = y[i] - x[i]
        distance = np.abs(difference)
        down = cost + (f32(0.0) if step_x[i] * difference >= f32(0.0) else min(np.abs(step_x[i]), distance))
        right = cost + (f32(0.0) if step_y[i] * difference <= f32(0.0) else min(np.abs(step_y[i]), distance))
        D[i] = min(min(left[i] + right, corner[i] + distance), above[i] + down)


@inline_jit()
def _hard_minimum(corner, above, left, across, down, right, D):  # type: ignore[no-untyped-def]
    for i in range(len(D)):
        D[i] = min(min(left[i] + right[i], corner[i] + across[i]), above[i] + down[i])


@inline_jit()
def _hard_minimum_univariate(x, y, corner, above, left, D):  # type: ignore[no-untyped-def]
    """Compute squares of one variable and the minimum in one loop, with the same rounding as two loops."""
    for i in range(len(D)):
        D[i] = (x[i] - y[i]) * (x[i] - y[i]) + min(min(left[i], corner[i]), above[i])


@inline_jit(FMA)
def _add_alignment_costs(c, gamma, T, shift, step):  # type: ignore[no-untyped-def]
    """Convert squares to costs of ALIGN plus ``step``.

    ``T`` is 0 for w = 1; ``shift`` is i - j of the first cell.
    """
    inverse = f32(1.0) / gamma
    for i in range(len(c)):
        w = max(T - np.abs(f32(shift + 2 * i)), f32(1.0)) / T if f32(0.0) < T else f32(1.0)
        k = w * exp(max(-c[i] * inverse, MIN_EXPONENT))
        c[i] = (c[i] + step) + gamma * log((f32(2.0) - k) / w)


@inline_jit(FMA)
def _soft_minimum(corner, above, left, cost, gamma, step, D):  # type: ignore[no-untyped-def]
    """``step`` is the additional cost of a diagonal move, compared with the other moves."""
    inverse = f32(1.0) / gamma
    for i in range(len(D)):
        a, b, c = corner[i] + step, above[i], left[i]
        smallest = min(min(a, b), c)
        total = exp(max((smallest - a) * inverse, MIN_EXPONENT)) + exp(
            max((smallest - b) * inverse, MIN_EXPONENT)
        )
        D[i] = cost[i] + smallest - gamma * log(total + exp(max((smallest - c) * inverse, MIN_EXPONENT)))


@inline_jit(FMA)
def _norm(a, b, k, r, d, n, m):  # type: ignore[no-untyped-def]
    """Return the distance of point k of a (d, n) to point r of b (d, m)."""
    total = f32(0.0)
    for e in range(d):
        total += (a[e * n + k] - b[e * m + r]) * (a[e * n + k] - b[e * m + r])
    return np.sqrt(total)


@inline_jit(FMA)
def _deletion_costs(kind, x, n, d, back, extra, steps):  # type: ignore[no-untyped-def]
    """Fill ``steps`` with deletion costs of points (GAPS, STAMPS), or differences to previous points (MOVES).

    ``back`` is True for points in reverse order; ``extra`` is the fixed cost of a deletion.
    """
    origin = np.zeros(d, f32)
    for i in range(n):
        previous = i + 1 if back else i - 1
        is_first = previous < 0 or previous >= n
        if kind == MOVES:
            steps[i] = f32(0.0) if is_first else x[i] - x[previous]
        elif kind == STAMPS and not is_first:
            steps[i] = _norm(x, x, i, previous, d, n, n) + extra
        else:
            steps[i] = _norm(x, origin, i, 0, d, n, 1) + extra


@inline_jit(FMA)
def _path_cost(  # type: ignore[no-untyped-def]
    kind, euclidean, a, extra, x, n, steps_x, y, m, steps_y, d, low, high, work
):
    """Return the minimal cost of a path with low <= j - i <= high, for x (d, n) and y (d, m) in reverse order.

    ``a`` is gamma, nu or c, ``extra`` is T (ALIGN); ``work`` (7, n + 2 + CELLS_PER_BLOCK) is a buffer of antidiagonals.
    Up to CELLS_PER_BLOCK cells after the end of an antidiagonal are computed from data after x and y: the first of them
    is set to infinity, and the others are not read.
    """
    infinite = LARGE_COST if kind in (SOFT, ALIGN) else INF
    if not low <= m - n <= high:
        return INF
    step = a * ALIGNMENT_GROWTH if kind == ALIGN else f32(0.0)
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
        corner[i] = last[i] = D[i] = c[i] = c_last[i] = c_corner[i] = infinite
    last[0] = c_last[0] = f32(0.0)  # D_00 = 0 and |x_0 - y_0| = 0
    border_x, border_y = f32(0.0), f32(0.0)
    for k in range(1, n + m + 1):
        first_cell = max(max(1, k - m), (k - high + 1) // 2)
        end_cell = min(min(n, k - 1), (k - low) // 2) + 1
        at_y = m - k + first_cell
        rows = (end_cell - first_cell + CELLS_PER_BLOCK - 1) // CELLS_PER_BLOCK * CELLS_PER_BLOCK
        previous, current = slice(first_cell - 1, first_cell - 1 + rows), slice(first_cell, first_cell + rows)
        if end_cell > first_cell and (kind == MOVES or (kind == WARP and d == 1 and not euclidean)):
            diagonal, down, left = corner[previous], last[previous], last[current]
            if kind == MOVES:
                moves = x[previous], steps_x[previous], y[at_y : at_y + rows], steps_y[at_y : at_y + rows]
                _hard_minimum_moves(
                    moves[0], moves[1], moves[2], moves[3], a, diagonal, down, left, D[current]
                )
            else:
                _hard_minimum_univariate(x[previous], y[at_y : at_y + rows], diagonal, down, left, D[current])
        elif end_cell > first_cell:
            cost = c[current]
            if d >= 4:
                _clear(cost)
            for e in range(0, d - d % 4, 4):
                at_x, at_dim_y = e * n + first_cell - 1, e * m + at_y
                points = x[at_x : at_x + 3 * n + rows], y[at_dim_y : at_dim_y + 3 * m + rows]
                _add_four_squares(points[0], n, points[1], m, cost)
            for e in range(d - d % 4, d):
                at_x, at_dim_y = e * n + first_cell - 1, e * m + at_y
                _add_squares(x[at_x : at_x + rows], y[at_dim_y : at_dim_y + rows], e == 0, cost)
            if euclidean:
                _roots(cost)
            across, down, right = cost, cost, cost
            if kind in (GAPS, STAMPS):
                down, right = steps_x[previous], steps_y[at_y : at_y + rows]
            if kind == STAMPS:
                across = work[6][:rows]
                _add_stamps(cost, c_corner[previous], a, 2 * first_cell - k, across)
            if kind == ALIGN:
                _add_alignment_costs(cost, a, extra, 2 * first_cell - k, step)
            if kind in (SOFT, ALIGN):
                _soft_minimum(corner[previous], last[previous], last[current], cost, a, step, D[current])
            else:
                _hard_minimum(
                    corner[previous], last[previous], last[current], across, down, right, D[current]
                )
        D[first_cell - 1] = D[max(first_cell, end_cell)] = infinite
        if kind == GAPS and k <= m:
            border_y += steps_y[m - k]
            D[0] = border_y if k <= high else infinite
        if kind == GAPS and k <= n:
            border_x += steps_x[k - 1]
            D[k] = border_x if -k >= low else infinite
        corner, last, D = last, D, corner
        c, c_last, c_corner = c_corner, c, c_last
    return last[n]


@inline_jit()
def _band_limits(n, m, band):  # type: ignore[no-untyped-def]
    """Return the minimum and maximum j - i inside the band."""
    if band < 0:
        return -n, m
    radius = int(np.floor(band * max(n, m)))
    return -max(0, n - m) - radius, max(0, m - n) + radius


@jit(FMA)
def fill_diagonals(  # type: ignore[no-untyped-def]
    kind, euclidean, a, extra, band, root, normalize, Y, edges, columns, points, offsets, out
):
    """Set out[s, columns[j]] to the distance of series s to landmark j.

    Landmark j is Y[d * edges[j] : d * edges[j + 1]], (d, m) in reverse order. Y ends with CELLS_PER_BLOCK padding
    values.
    """
    d, R = points.shape[1], len(columns)
    steps = np.zeros(edges[R] + CELLS_PER_BLOCK if kind >= GAPS else 0, f32)  # costs of deletions
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
            if kind == ALIGN and extra > f32(0.0):
                low, high = 1 - int(extra), int(extra) - 1
            steps_y = steps[p : q + CELLS_PER_BLOCK] if kind >= GAPS else steps
            y = Y[d * p : d * q + CELLS_PER_BLOCK]
            total = _path_cost(
                kind, euclidean, a, extra, x, n, steps_x, y, q - p, steps_y, d, low, high, work
            )
            total = total / f32(n + q - p) if normalize else total
            out[s, columns[j]] = np.sqrt(total) if root else total
