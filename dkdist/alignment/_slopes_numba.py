"""Overlap of two weighted point sets, with gradient and Hessian over rigid motions.

    f(R, t) = sum_ij k_ij,   k_ij = p_i q_j exp(-|e_ij|^2 / 2),   e_ij = x_i - m_j - t,  m_j = R y_j  (units of sigma)

For a small shift s and rotation w the points move to m + w x m + w x (w x m) / 2 + t + s, so that with
J v = s + w x m for v = (s, w)

    gradient  sum k J' e
    Hessian   sum k [ (J' e)(J' e)' - J' J ] + rotations: sum k [ (e m' + m e') / 2 - <e, m> I ]

All terms are computed from sum_i k, sum_i k e and sum_i k e e' of each point j, in one pass over near pairs.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import FINITE_REASSOC, inline_jit, jit
from dkdist._numba.elementary import exp, f32

CUTOFF_SIGMAS = 6.5  # exp(-6.5^2 / 2) < 1e-9: farther points are ignored (tests/kernel/test_align.py)
# loops over multiples of the SIMD width have no slow remainder (python benchmarks/alignment.py)
BATCH_POINTS = 32
# Minimum exponent: smaller ones, with weights below 1, give subnormal float32 numbers, which are ten times slower
# (python benchmarks/alignment.py).
MIN_EXPONENT = f32(-70.0)


@inline_jit()
def _near_range(x, a):  # type: ignore[no-untyped-def]
    """Return the range of points within the cutoff of ``a``, extended to a multiple of `BATCH_POINTS`."""
    first, last = np.searchsorted(x, a - f32(CUTOFF_SIGMAS)), np.searchsorted(x, a + f32(CUTOFF_SIGMAS))
    count = (last - first + BATCH_POINTS - 1) // BATCH_POINTS * BATCH_POINTS
    first = max(0, min(first, len(x) - count))
    return first, min(first + count, len(x))


@jit(FINITE_REASSOC)
def _moments(x, y, z, p, a, b, c):  # type: ignore[no-untyped-def]
    """Return sum k, sum k e and sum k e e' (xx, yy, zz, xy, xz, yz) over the points, for one m + t = (a, b, c)."""
    total, u, v, w = f32(0), f32(0), f32(0), f32(0)
    xx, yy, zz, xy, xz, yz = f32(0), f32(0), f32(0), f32(0), f32(0), f32(0)
    for i in range(len(p)):
        e, f, g = x[i] - a, y[i] - b, z[i] - c
        k = p[i] * exp(max(f32(-0.5) * (e * e + f * f + g * g), MIN_EXPONENT))
        ke, kf, kg = k * e, k * f, k * g
        total += k
        u += ke
        v += kf
        w += kg
        xx += ke * e
        yy += kf * f
        zz += kg * g
        xy += ke * f
        xz += ke * g
        yz += kf * g
    return total, u, v, w, xx, yy, zz, xy, xz, yz


@jit(FINITE_REASSOC)
def _plane_moments(x, y, p, a, b):  # type: ignore[no-untyped-def]
    """Return the sums of `_moments` in the plane, with xx, yy, xy."""
    total, u, v, xx, yy, xy = f32(0), f32(0), f32(0), f32(0), f32(0), f32(0)
    for i in range(len(p)):
        e, f = x[i] - a, y[i] - b
        k = p[i] * exp(max(f32(-0.5) * (e * e + f * f), MIN_EXPONENT))
        ke, kf = k * e, k * f
        total += k
        u += ke
        v += kf
        xx += ke * e
        yy += kf * f
        xy += ke * f
    return total, u, v, xx, yy, xy


@jit()
def plane_derivatives(x, p, m, q, t):  # type: ignore[no-untyped-def]
    """Return `overlap_derivatives` in the plane (z = 0): J is (I, (-m_y, m_x)'), other derivatives are 0."""
    total, gradient, hessian, s = 0.0, np.zeros(6), np.zeros((6, 6)), t.astype(np.float32)
    for j in range(len(m)):
        e, f = m[j, 0], m[j, 1]
        a, b = f32(e) + s[0], f32(f) + s[1]
        first, last = _near_range(x[0], a)
        k, u, v, xx, yy, xy = _plane_moments(x[0, first:last], x[1, first:last], p[first:last], a, b)
        if k == 0:  # no point within the cutoff
            continue
        A, B = e * xy - f * (xx - k), e * (yy - k) - f * xy
        total += q[j] * k
        gradient[0] += q[j] * u
        gradient[1] += q[j] * v
        gradient[5] += q[j] * (e * v - f * u)
        hessian[0, 0] += q[j] * (xx - k)
        hessian[0, 1] += q[j] * xy
        hessian[1, 1] += q[j] * (yy - k)
        hessian[0, 5] += q[j] * A
        hessian[1, 5] += q[j] * B
        hessian[5, 5] += q[j] * (e * B - f * A - u * e - v * f)
    hessian[1, 0], hessian[5, 0], hessian[5, 1] = hessian[0, 1], hessian[0, 5], hessian[1, 5]
    return total, gradient, hessian


@jit()
def overlap_derivatives(x, p, m, q, t):  # type: ignore[no-untyped-def]
    """Return (f, gradient (6,), Hessian (6, 6)) by shifts and rotations of the points m around the origin.

    Points x (3, n) are sorted by x[0].
    """
    total, gradient, hessian = 0.0, np.zeros(6), np.zeros((6, 6))
    E, A, s = np.empty((3, 3)), np.empty((6, 3)), t.astype(np.float32)
    for j in range(len(m)):
        e, f, g = m[j, 0], m[j, 1], m[j, 2]
        a, b, c = f32(e) + s[0], f32(f) + s[1], f32(g) + s[2]
        first, last = _near_range(x[0], a)
        k, u, v, w, xx, yy, zz, xy, xz, yz = _moments(
            x[0, first:last], x[1, first:last], x[2, first:last], p[first:last], a, b, c
        )
        if k == 0:  # no point within the cutoff
            continue
        total += q[j] * k
        E[0, 0], E[1, 1], E[2, 2] = xx - k, yy - k, zz - k
        E[0, 1], E[0, 2], E[1, 2] = xy, xz, yz
        E[1, 0], E[2, 0], E[2, 1] = xy, xz, yz
        for b in range(3):  # A = J' E; its lower half is m x (columns of E)
            A[0, b], A[1, b], A[2, b] = E[0, b], E[1, b], E[2, b]
            A[3, b] = f * E[2, b] - g * E[1, b]
            A[4, b] = g * E[0, b] - e * E[2, b]
            A[5, b] = e * E[1, b] - f * E[0, b]
        for a in range(6):
            for b in range(3):
                hessian[a, b] += q[j] * A[a, b]
        for a in range(3, 6):  # m x (rows of A)
            hessian[a, 3] += q[j] * (f * A[a, 2] - g * A[a, 1])
            hessian[a, 4] += q[j] * (g * A[a, 0] - e * A[a, 2])
            hessian[a, 5] += q[j] * (e * A[a, 1] - f * A[a, 0])
        hessian[3, 3] -= q[j] * (v * f + w * g)
        hessian[4, 4] -= q[j] * (u * e + w * g)
        hessian[5, 5] -= q[j] * (u * e + v * f)
        mixed = (q[j] * (u * f + v * e) / 2, q[j] * (u * g + w * e) / 2, q[j] * (v * g + w * f) / 2)
        hessian[3, 4] += mixed[0]
        hessian[4, 3] += mixed[0]
        hessian[3, 5] += mixed[1]
        hessian[5, 3] += mixed[1]
        hessian[4, 5] += mixed[2]
        hessian[5, 4] += mixed[2]
        gradient[0] += q[j] * u
        gradient[1] += q[j] * v
        gradient[2] += q[j] * w
        gradient[3] += q[j] * (f * w - g * v)
        gradient[4] += q[j] * (g * u - e * w)
        gradient[5] += q[j] * (e * v - f * u)
    for a in range(3):
        for b in range(3, 6):
            hessian[a, b] = hessian[b, a]
    return total, gradient, hessian
