"""Bounds of the overlap of two point sets over cells of rigid motions, for branch and bound.

A cell contains the motions whose rotation is at most ``a`` from R (radians) and whose translation is at most ``h`` from
t in each coordinate. Within a cell the point y_j moves by at most

    delta_j = a |y_j| + sqrt(d) h,

so with r_ij = |x_i - R y_j - t|, in units of sigma,

    f <= sum_ij p_i q_j exp(-max(0, r_ij - delta_j)^2 / 2)                                      (first)
    f <= f(R, t) + a |df/dR| + h |df/dt|_1 + sum_j q_j (a^2 |y_j| |G_j| + C_j delta_j^2) / 2   (second)

The slope of the kernel is at most exp(-1/2), so the first bound is at most W_P sum_j q_j delta_j exp(-1/2) above f(R,
t), as for a plain grid. The second bound is a Taylor expansion: G_j = sum_i p_i k_ij e_ij, a rotation deviates from
its tangent by a^2 |y| / 2, and the second derivative of the kernel along a line is at most (s^2 - 1) exp(-s^2 / 2); C_j
is the sum of p_i times its maximum for s between r_ij - delta_j and r_ij + delta_j. Near the optimum it allows several
times wider cells. The smaller bound is used.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from dkdist._numba.arrays import F64, I64
from dkdist._numba.compilation import FINITE_REASSOC, jit
from dkdist._numba.elementary import exp, f32
from dkdist.alignment._slopes_numba import MIN_EXPONENT

# bound on the float32 rounding error of f / (W_P W_Q) (tests/kernel/test_certified_alignments.py)
ROUNDING_RATIO = 1e-5
# s of the maximum of (s^2 - 1) exp(-s^2 / 2), by its derivative; equation C_j in the module docstring
MAX_CURVATURE_RADIUS = f32(np.sqrt(3.0))


def cell_rotations(centres: F64, d: int) -> F64:
    """Return rotations (k, d, d) of angles (k, 1) or rotation vectors (k, 3); identities for (k, 0)."""
    if centres.shape[1] == 0:
        return np.tile(np.eye(d), (len(centres), 1, 1))
    if d == 3:
        return np.asarray(Rotation.from_rotvec(centres).as_matrix())
    c, s = np.cos(centres[:, 0]), np.sin(centres[:, 0])
    return np.stack([np.stack([c, -s], axis=1), np.stack([s, c], axis=1)], axis=1)


def rotation_radius(half: F64, turns: int) -> F64:
    """Bound the angle (radians) between the centre of a cell of half side ``half`` and its rotations.

    In space a cell is a cube of rotation vectors, whose distance is at least the angle between the rotations (Hartley,
    Kahl 2009).
    """
    return np.asarray(half * np.sqrt(max(turns, 1)))


def split_cells(middles: F64, halves: F64, turns: int, radius: float) -> tuple[F64, F64, I64]:
    """Halve cells (k, D) along all coordinates of either rotation or translation, whichever moves points further.

    ``halves`` (k, 2) are half sides of rotations and translations; the first ``turns`` coordinates are those of the
    rotation. Also returns the position of each parent.
    """
    d = middles.shape[1] - turns
    splits_rotation = (rotation_radius(halves[:, 0], turns) * radius > np.sqrt(d) * halves[:, 1]) & (
        turns > 0
    )
    parts = []
    for kind, is_split, first, n in ((0, splits_rotation, 0, turns), (1, ~splits_rotation, turns, d)):
        if n == 0:
            continue
        parents = np.flatnonzero(is_split)
        signs = np.stack(np.meshgrid(*[[-0.5, 0.5]] * n, indexing="ij"), axis=-1).reshape(-1, n)
        parent_of_child = np.repeat(parents, len(signs))
        children, child_halves = middles[parent_of_child], halves[parent_of_child]
        children[:, first : first + n] += np.tile(signs, (len(parents), 1)) * child_halves[:, [kind]]
        child_halves[:, kind] /= 2
        parts.append((children, child_halves, parent_of_child))
    arrays_by_kind = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    return arrays_by_kind[0], arrays_by_kind[1], arrays_by_kind[2]


def grid_size(eps: float, d: int, turns: int, radius: float, width: float) -> float:
    """Return the size of a plain grid of motions that reaches the minimal D^2 within eps, for weights with sum 1.

    D^2 contains -2 f, so points may move by at most delta = eps exp(1/2) / 2 sigmas: half by the rotation, half by the
    translation. ``radius`` (of the points y) and ``width`` (largest translation) are in units of sigma.
    """
    delta = eps * np.exp(0.5) / 2
    shifts = (2 * width / (delta / np.sqrt(d))) ** d
    angle = min(np.pi, delta / 2 / max(radius, 1e-9)) if turns else np.pi
    rotations = {0: 1.0, 1: np.pi / angle, 3: 4 / 3 * np.pi**4 / (2 * angle / np.sqrt(3)) ** 3}[turns]
    return float(max(1.0, rotations) * max(1.0, shifts))


def bound_cells(x: F64, p: F64, y: F64, q: F64, R: F64, t: F64, a: F64, h: F64) -> tuple[F64, F64]:
    """Return (upper bound on f over each cell, f at its centre), for points in units of sigma and k cells."""
    d, columns = x.shape[1], np.zeros((3, len(x)), np.float32)
    columns[:d] = x.T
    rows, rotations, shifts = np.zeros((len(y), 3)), np.zeros((len(R), 3, 3)), np.zeros((len(R), 3))
    rows[:, :d], rotations[:, :d, :d], shifts[:, :d] = y, R, t
    upper, middle = _bounds(columns, p.astype(np.float32), rows, q, rotations, shifts, a, h, d)
    return upper + ROUNDING_RATIO * p.sum() * q.sum(), middle


@jit(FINITE_REASSOC)
def _sums(x, y, z, p, a, b, c, delta):  # type: ignore[no-untyped-def]
    """Return sum k, its bound, C and G of one point at (a, b, c) that moves by at most ``delta``."""
    total, upper, curvature, u, v, w = f32(0), f32(0), f32(0), f32(0), f32(0), f32(0)
    for i in range(len(p)):
        e, f, g = x[i] - a, y[i] - b, z[i] - c
        square = e * e + f * f + g * g
        r = np.sqrt(square)
        nearest = max(r - delta, f32(0))
        s = min(max(MAX_CURVATURE_RADIUS, nearest), r + delta)
        k = p[i] * exp(max(f32(-0.5) * square, MIN_EXPONENT))
        total += k
        upper += p[i] * exp(max(f32(-0.5) * nearest * nearest, MIN_EXPONENT))
        curvature += p[i] * max(s * s - f32(1), f32(0)) * exp(max(f32(-0.5) * s * s, MIN_EXPONENT))
        u += k * e
        v += k * f
        w += k * g
    return total, upper, curvature, u, v, w


@jit()
def _bounds(x, p, y, q, rotations, shifts, angles, halves, d):  # type: ignore[no-untyped-def]
    upper, middle = np.empty(len(rotations)), np.empty(len(rotations))
    lengths = np.sqrt((y**2).sum(axis=1))
    for n in range(len(rotations)):
        m, t, a, h = y @ rotations[n].T, shifts[n], angles[n], halves[n]
        f, first, remainder = 0.0, 0.0, 0.0
        shift, turn = np.zeros(3), np.zeros(3)
        for j in range(len(m)):
            delta = a * lengths[j] + np.sqrt(d) * h
            k, point_upper, curvature, u, v, w = _sums(
                x[0], x[1], x[2], p, f32(m[j, 0] + t[0]), f32(m[j, 1] + t[1]), f32(m[j, 2] + t[2]), f32(delta)
            )
            f += q[j] * k
            first += q[j] * point_upper
            remainder += (
                q[j] * (a * a * lengths[j] * np.sqrt(u * u + v * v + w * w) + curvature * delta * delta) / 2
            )
            shift[0] += q[j] * u
            shift[1] += q[j] * v
            shift[2] += q[j] * w
            turn[0] += q[j] * (m[j, 1] * w - m[j, 2] * v)
            turn[1] += q[j] * (m[j, 2] * u - m[j, 0] * w)
            turn[2] += q[j] * (m[j, 0] * v - m[j, 1] * u)
        slope = a * np.sqrt((turn**2).sum()) + h * np.abs(shift).sum()
        middle[n], upper[n] = f, min(first, f + slope + remainder)
    return upper, middle
