"""The first search of an alignment in space: for each of many rotations, the shift that mean shifts lead to.

    t <- t + sum_ij k_ij e_ij / sum_ij k_ij,   k_ij = p_i q_j exp(-|e_ij|^2 / 2),   e_ij = x_i - R y_j - t

from t = 0, where the middles of both sets meet: no step makes the overlap f = sum k less (Fukunaga, Hostetler 1975).
Under a kernel as wide as a fifth of the sets a few steps tell which rotations are worth a climb, in a tenth of the time
that the best of all shifts takes.
"""

from __future__ import annotations

import numpy as np

from dkdist.kernel.alignment.slopes_loops import FAR
from dkdist.loops.array_types import F64
from dkdist.loops.compile import ELEMENTWISE, inlined, loop
from dkdist.loops.elementary import exp, f32

STEPS = 3
WHOLE = 32  # points that compiled loops take at once; those without weight fill up


def best_of_rotations(x: F64, p: F64, y: F64, q: F64, rotations: F64, sigma: float) -> tuple[F64, F64]:
    """For each rotation (r, 3, 3) of y: a shift (r, 3) from about the origin, and f there (r,). float32."""
    lanes = np.zeros((4, -(-len(x) // WHOLE) * WHOLE), np.float32)
    lanes[:3, : len(x)], lanes[3, : len(x)] = (x / sigma).T, p
    t, f = _shifted(lanes, y / sigma, q.astype(np.float32), rotations)
    return t * sigma, f


@inlined(ELEMENTWISE)
def _pull(lanes, m, q, t, acc):  # type: ignore[no-untyped-def]
    """sum k, and sum k e in three dimensions, for the points m + t; ``acc`` (4, n) is room."""
    x, y, z, p = lanes[0], lanes[1], lanes[2], lanes[3]
    total, u, v, w = acc[0], acc[1], acc[2], acc[3]
    acc[:] = f32(0)
    for j in range(len(q)):
        a, b, c, weight = m[j, 0] + t[0], m[j, 1] + t[1], m[j, 2] + t[2], q[j]
        for i in range(len(p)):
            e, f, g = x[i] - a, y[i] - b, z[i] - c
            k = weight * p[i] * exp(max(f32(-0.5) * (e * e + f * f + g * g), FAR))
            total[i] += k
            u[i] += k * e
            v[i] += k * f
            w[i] += k * g
    return total.sum(), u.sum(), v.sum(), w.sum()


@loop(ELEMENTWISE)
def _shifted(lanes, y, q, rotations):  # type: ignore[no-untyped-def]
    shifts, values = np.zeros((len(rotations), 3)), np.zeros(len(rotations))
    m, acc, t = np.empty((len(y), 3), np.float32), np.empty_like(lanes), np.zeros(3, np.float32)
    for r in range(len(rotations)):
        R = rotations[r]
        for j in range(len(y)):
            for a in range(3):
                m[j, a] = R[a, 0] * y[j, 0] + R[a, 1] * y[j, 1] + R[a, 2] * y[j, 2]
        t[:] = f32(0)
        for _ in range(STEPS + 1):
            total, u, v, w = _pull(lanes, m, q, t, acc)
            if total <= values[r]:  # no more than rounding is left, or nothing is near
                break
            values[r] = total
            for a in range(3):
                shifts[r, a] = t[a]
            t[0] += u / total
            t[1] += v / total
            t[2] += w / total
    return shifts, values
