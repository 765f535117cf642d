"""Bounds of the overlap of two point sets over cells of rigid motions, for a certified search by branch and bound.

A cell holds the motions whose rotation is at most ``a`` from R (radians) and whose translation is at most ``h`` from t
in each coordinate. It moves the point y_j by at most

    delta_j = a |y_j| + sqrt(d) h,

so with r_ij = |x_i - R y_j - t|, in units of sigma,

    f <= sum_ij p_i q_j exp(-max(0, r_ij - delta_j)^2 / 2)                                      (first)
    f <= f(R, t) + a |df/dR| + h |df/dt|_1 + sum_j q_j (a^2 |y_j| |G_j| + C_j delta_j^2) / 2   (second)

The kernel has slope at most exp(-1/2): the first bound is at most W_P sum_j q_j delta_j exp(-1/2) above f(R, t), the
spacing rule of a plain grid. The second one is Taylor's: G_j = sum_i p_i k_ij e_ij, a turn leaves its tangent by
a^2 |y| / 2, and the kernel's second derivative along a line is at most (s^2 - 1) exp(-s^2 / 2), C_j = sum_i p_i times
its largest value for s between r_ij - delta_j and r_ij + delta_j. It lets cells near the optimum be several times
wider. The smaller one counts.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from dkdist._numba.arrays import F64, I64
from dkdist._numba.compilation import SUM, loop
from dkdist._numba.elementary import exp, f32
from dkdist.alignment._slopes_numba import MIN_EXPONENT

ROUNDING_RATIO = 1e-5  # of W_P W_Q: more than sums in float32 lose
MAX_CURVATURE_RADIUS = f32(np.sqrt(3.0))  # where the second derivative is largest


def cell_rotations(centres: F64, d: int) -> F64:
    """Rotations (k, d, d) of angles (k, 1), of rotation vectors (k, 3), or of nothing (k, 0)."""
    if centres.shape[1] == 0:
        return np.tile(np.eye(d), (len(centres), 1, 1))
    if d == 3:
        return np.asarray(Rotation.from_rotvec(centres).as_matrix())
    c, s = np.cos(centres[:, 0]), np.sin(centres[:, 0])
    return np.stack([np.stack([c, -s], axis=1), np.stack([s, c], axis=1)], axis=1)


def rotation_radius(half: F64, turns: int) -> F64:
    """How far (radians) rotations of a cell of this half side are from its middle.

    In space a cell is a cube of rotation vectors: their distance is at least the angle between the rotations (Hartley,
    Kahl 2009).
    """
    return np.asarray(half * np.sqrt(max(turns, 1)))


def split_cells(middles: F64, halves: F64, turns: int, radius: float) -> tuple[F64, F64, I64]:
    """Cells (k, D) cut in half in each coordinate of their turn, or of their translation: what moves points further.

    ``halves`` (k, 2): half sides of turns and translations; the first ``turns`` coordinates are those of the rotation.
    Also the position of each one's parent.
    """
    d = middles.shape[1] - turns
    turn = (rotation_radius(halves[:, 0], turns) * radius > np.sqrt(d) * halves[:, 1]) & (turns > 0)
    parts = []
    for which, chosen, first, n in ((0, turn, 0, turns), (1, ~turn, turns, d)):
        if n == 0:
            continue
        parents = np.flatnonzero(chosen)
        signs = np.stack(np.meshgrid(*[[-0.5, 0.5]] * n, indexing="ij"), axis=-1).reshape(-1, n)
        owner = np.repeat(parents, len(signs))
        children, smaller = middles[owner], halves[owner]
        children[:, first : first + n] += np.tile(signs, (len(parents), 1)) * smaller[:, [which]]
        smaller[:, which] /= 2
        parts.append((children, smaller, owner))
    joined = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    return joined[0], joined[1], joined[2]


def grid_size(eps: float, d: int, turns: int, radius: float, width: float) -> float:
    """Motions of a plain grid that comes within eps of the least D^2, for weights that sum to one.

    D^2 holds 2 f, so points may move by delta = eps exp(1/2) / 2 sigmas at most: half of it by the rotation, half by
    the translation. ``radius`` (of the points y) and ``width`` (half of that of translations) in units of sigma.
    """
    delta = eps * np.exp(0.5) / 2
    shifts = (2 * width / (delta / np.sqrt(d))) ** d
    angle = min(np.pi, delta / 2 / max(radius, 1e-9)) if turns else np.pi
    rotations = {0: 1.0, 1: np.pi / angle, 3: 4 / 3 * np.pi**4 / (2 * angle / np.sqrt(3)) ** 3}[turns]
    return float(max(1.0, rotations) * max(1.0, shifts))


def bound_cells(x: F64, p: F64, y: F64, q: F64, R: F64, t: F64, a: F64, h: F64) -> tuple[F64, F64]:
    """(upper bound of f over each cell, f in its middle), for points in units of sigma and k cells."""
    d, columns = x.shape[1], np.zeros((3, len(x)), np.float32)
    columns[:d] = x.T
    rows, turned, shifts = np.zeros((len(y), 3)), np.zeros((len(R), 3, 3)), np.zeros((len(R), 3))
    rows[:, :d], turned[:, :d, :d], shifts[:, :d] = y, R, t
    upper, middle = _bounds(columns, p.astype(np.float32), rows, q, turned, shifts, a, h, d)
    return upper + ROUNDING_RATIO * p.sum() * q.sum(), middle


@loop(SUM)
def _sums(x, y, z, p, a, b, c, delta):  # type: ignore[no-untyped-def]
    """sum k, its bound, C and G of one point at (a, b, c) that moves by at most ``delta``."""
    total, most, bend, u, v, w = f32(0), f32(0), f32(0), f32(0), f32(0), f32(0)
    for i in range(len(p)):
        e, f, g = x[i] - a, y[i] - b, z[i] - c
        square = e * e + f * f + g * g
        r = np.sqrt(square)
        near = max(r - delta, f32(0))
        s = min(max(MAX_CURVATURE_RADIUS, near), r + delta)
        k = p[i] * exp(max(f32(-0.5) * square, MIN_EXPONENT))
        total += k
        most += p[i] * exp(max(f32(-0.5) * near * near, MIN_EXPONENT))
        bend += p[i] * max(s * s - f32(1), f32(0)) * exp(max(f32(-0.5) * s * s, MIN_EXPONENT))
        u += k * e
        v += k * f
        w += k * g
    return total, most, bend, u, v, w


@loop()
def _bounds(x, p, y, q, rotations, shifts, angles, halves, d):  # type: ignore[no-untyped-def]
    upper, middle = np.empty(len(rotations)), np.empty(len(rotations))
    lengths = np.sqrt((y**2).sum(axis=1))
    for n in range(len(rotations)):
        m, t, a, h = y @ rotations[n].T, shifts[n], angles[n], halves[n]
        f, first, rest = 0.0, 0.0, 0.0
        shift, turn = np.zeros(3), np.zeros(3)
        for j in range(len(m)):
            delta = a * lengths[j] + np.sqrt(d) * h
            k, most, bend, u, v, w = _sums(
                x[0], x[1], x[2], p, f32(m[j, 0] + t[0]), f32(m[j, 1] + t[1]), f32(m[j, 2] + t[2]), f32(delta)
            )
            f += q[j] * k
            first += q[j] * most
            rest += q[j] * (a * a * lengths[j] * np.sqrt(u * u + v * v + w * w) + bend * delta * delta) / 2
            shift[0] += q[j] * u
            shift[1] += q[j] * v
            shift[2] += q[j] * w
            turn[0] += q[j] * (m[j, 1] * w - m[j, 2] * v)
            turn[1] += q[j] * (m[j, 2] * u - m[j, 0] * w)
            turn[2] += q[j] * (m[j, 0] * v - m[j, 1] * u)
        slope = a * np.sqrt((turn**2).sum()) + h * np.abs(shift).sum()
        middle[n], upper[n] = f, min(first, f + slope + rest)
    return upper, middle
