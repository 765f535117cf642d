"""Exact sums over all pairs by sorting, for exponential kernels on a line and city-block ones in the plane.

On a line,

    f(t_i) = sum_j z_j k(|t_i - t_j|),   k(u) = (a_0 + a_1 u + a_2 u^2) exp(-decay u).

The points to the left of t_i contribute three sums A_m = sum_(t_j < t_i) z_j (t_i - t_j)^m exp(-decay (t_i - t_j)).
A step h to the right turns them into exp(-decay h) sum_l binom(m, l) h^(m - l) A_l. One pass is ascending, one
descending. Equal points are merged. Cost: n log n for sorting, 0.3 us per point in total. The rounding error is about
1e-16 per step.

In the plane,

    E = sum_i z_i^2 + 2 sum_(i < j) z_i z_j exp(-|x_i - x_j| - |y_i - y_j|),   points in order of x.

As in merge sort, adjacent runs are merged by y. With m between the runs in x, two points of different runs contribute
u_i v_j exp(-|y_i - y_j|), u_i = z_i exp(x_i - m), v_j = z_j exp(m - x_j): two sums that decay with each merge step.
Runs have 1, 2, 4, .. points. Cost: n log n, 1 us per point for 1e5 points. The result is exact up to rounding.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._numba.compilation import jit


def line_sums(t: F64, z: F64, decay: float, polynomial: tuple[float, float, float]) -> tuple[F64, F64]:
    """Return (f, f'), both (n, C), at the points t (n,) with weights z (n, C).

    At a kink of k, the derivative between equal points counts as 0.
    """
    unique_points, index = np.unique(t, return_inverse=True)
    sums, a = np.zeros((2, z.shape[1], len(unique_points))), np.array(polynomial, np.float64)
    for c in range(z.shape[1]):
        weights = np.bincount(index, z[:, c], len(unique_points))
        _line(unique_points, weights, float(decay), a, sums[:, c])
    f, slopes = sums[:, :, index]
    return np.ascontiguousarray(f.T), np.ascontiguousarray(slopes.T)


@jit()
def _line(t, z, decay, a, out):  # type: ignore[no-untyped-def]
    n, (a0, a1, a2) = len(t), (a[0], a[1], a[2])
    b0, b1, b2 = a1 - decay * a0, 2.0 * a2 - decay * a1, -decay * a2  # coefficients of the derivative of k
    for direction in range(2):
        A0 = A1 = A2 = 0.0
        for step in range(n):
            i = step if direction == 0 else n - 1 - step
            if step > 0:
                previous = i - 1 if direction == 0 else i + 1
                h = abs(t[i] - t[previous])
                decay_factor = np.exp(-decay * h)
                A0 += z[previous]
                A2 = decay_factor * (A2 + h * (2.0 * A1 + h * A0))
                A1 = decay_factor * (A1 + h * A0)
                A0 *= decay_factor
            out[0, i] += a0 * A0 + a1 * A1 + a2 * A2
            slope = b0 * A0 + b1 * A1 + b2 * A2
            out[1, i] += slope if direction == 0 else -slope
        if direction == 0:
            for i in range(n):
                out[0, i] += a0 * z[i]


def plane_energy(points: F64, z: F64) -> float:
    """Return E of points (n, 2) with weights z (n, C), summed over channels."""
    order = np.argsort(points[:, 0], kind="stable")
    x, y = (np.ascontiguousarray(points[order, j]) for j in range(2))
    total = float((z**2).sum())
    for c in range(z.shape[1]):
        total += 2 * _pairs(x, y, z[order, c], np.arange(len(x)), np.empty(len(x), np.int64))
    return total


@jit()
def _pairs(x, y, z, order, merged):  # type: ignore[no-untyped-def]
    n, width, total = len(x), 1, 0.0
    while width < n:
        for first in range(0, n - width, 2 * width):
            middle, end = first + width, min(first + 2 * width, n)
            m = x[middle - 1]
            i, j, left, right, run_total = first, middle, 0.0, 0.0, 0.0
            y_previous = min(y[order[first]], y[order[middle]])
            for position in range(first, end):
                from_left = j == end or (i < middle and y[order[i]] <= y[order[j]])
                point = order[i] if from_left else order[j]
                decay_factor = np.exp(y_previous - y[point])
                left *= decay_factor
                right *= decay_factor
                w = z[point] * np.exp(-abs(x[point] - m))
                if from_left:
                    run_total += w * right
                    left += w
                    i += 1
                else:
                    run_total += w * left
                    right += w
                    j += 1
                y_previous = y[point]
                merged[position] = point
            total += run_total
            for position in range(first, end):
                order[position] = merged[position]
        width *= 2
    return total
