"""Exact sums of a kernel over all pairs of points of a line, by one pass up and one down.

    f(t_i) = sum_j z_j k(|t_i - t_j|),   k(u) = (a_0 + a_1 u + a_2 u^2) exp(-decay u)

What is left of t_i enters by three sums A_m = sum_(t_j < t_i) z_j (t_i - t_j)^m exp(-decay (t_i - t_j)), which a step h
to the right turns into exp(-decay h) sum_l binom(m, l) h^(m - l) A_l; what is right of it likewise. Points at one place
are one, with the sum of their weights: opposite ones cancel. Cost: n log n to sort, .3 us a point in all. Nothing is
approximated; rounding of a step is carried on, so that a sum is off by some 1e-16 for each of the steps between points
that see each other.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import F64
from dkdist.loops.compile import loop


def line_sums(t: F64, z: F64, decay: float, polynomial: tuple[float, float, float]) -> tuple[F64, F64]:
    """(f, f') at the points t (n,) themselves, both (n, C), of weights z (n, C).

    At a kink of k, the slope between equal points counts as 0.
    """
    places, which = np.unique(t, return_inverse=True)
    found, a = np.zeros((2, z.shape[1], len(places))), np.array(polynomial, np.float64)
    for c in range(z.shape[1]):
        weights = np.bincount(which, z[:, c], len(places))
        _line(places, weights, float(decay), a, found[:, c])
    f, slopes = found[:, :, which]
    return np.ascontiguousarray(f.T), np.ascontiguousarray(slopes.T)


@loop()
def _line(t, z, decay, a, out):  # type: ignore[no-untyped-def]
    n, (a0, a1, a2) = len(t), (a[0], a[1], a[2])
    b0, b1, b2 = a1 - decay * a0, 2.0 * a2 - decay * a1, -decay * a2  # of the derivative of k
    for up in range(2):
        A0 = A1 = A2 = 0.0
        for step in range(n):
            i = step if up == 0 else n - 1 - step
            if step > 0:
                before = i - 1 if up == 0 else i + 1
                h = abs(t[i] - t[before])
                fall = np.exp(-decay * h)
                A0 += z[before]
                A2 = fall * (A2 + h * (2.0 * A1 + h * A0))
                A1 = fall * (A1 + h * A0)
                A0 *= fall
            out[0, i] += a0 * A0 + a1 * A1 + a2 * A2
            slope = b0 * A0 + b1 * A1 + b2 * A2
            out[1, i] += slope if up == 0 else -slope
        if up == 0:
            for i in range(n):
                out[0, i] += a0 * z[i]
