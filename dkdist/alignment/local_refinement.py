"""Local maximisation of the overlap f(R, t) of two weighted point sets over rigid motions, by Newton's method.

Eigenvalues of the Hessian are made negative, steps are at most one sigma long, and a step is halved until f increases.
`_slopes_numba` computes f and its derivatives.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._numba.compilation import jit
from dkdist.alignment._slopes_numba import BATCH_POINTS, overlap_derivatives, plane_derivatives
from dkdist.alignment._tuning import MAX_HALVINGS, MIN_CURVATURE_RATIO, MIN_STEP_SIGMAS

# indices of the rotation coordinates; in the plane, rotation around the third axis
ROTATION_COORDINATES = {
    1: [],
    2: [5],
    3: [3, 4, 5],
}


def refine_motions(
    x: F64, p: F64, y: F64, q: F64, sigma: float, starts: tuple[F64, F64], rotates: bool,
    steps: int, shortest: float = MIN_STEP_SIGMAS,
) -> tuple[F64, F64, F64]:  # fmt: skip
    """Return (R (r, d, d), t (r, d), f (r,)) after at most ``steps`` Newton steps from each (R, t) of ``starts``.

    A step shorter than ``shortest``, in sigma, is the last one.
    """
    d = x.shape[1]
    columns, weights = _sort_points(x, p, np.argsort(x[:, 0], kind="stable"), sigma)
    rows = np.zeros((len(y), 3))
    rows[:, :d] = y / sigma
    rotations = np.zeros((len(starts[0]), 3, 3))
    rotations[:, 2, 2] = rotations[:, 1, 1] = 1
    rotations[:, :d, :d] = starts[0]
    shifts = np.zeros((len(rotations), 3))
    shifts[:, :d] = starts[1] / sigma
    free = np.array([*range(d), *(ROTATION_COORDINATES[d] if rotates else [])])
    values = refine_in_place(columns, weights, rows, q, rotations, shifts, free, d < 3, steps, shortest)
    return rotations[:, :d, :d].copy(), shifts[:, :d] * sigma, values


@jit()
def _sort_points(x, p, order, sigma):  # type: ignore[no-untyped-def]
    """Return points (3, N) in units of sigma and weights in an ``order``, padded with points of weight 0."""
    n, d = x.shape
    columns = np.zeros((3, (n + BATCH_POINTS - 1) // BATCH_POINTS * BATCH_POINTS), np.float32)
    weights = np.zeros(columns.shape[1], np.float32)
    for i in range(n):
        weights[i] = p[order[i]]
        for a in range(d):
            columns[a, i] = x[order[i], a] / sigma
    columns[0, n:] = columns[0, n - 1]
    return columns, weights


@jit()
def _derivatives(flat, x, p, R, y, q, t, m):  # type: ignore[no-untyped-def]
    """Return f, gradient and Hessian at a motion; ``m`` is overwritten by R y."""
    for j in range(len(y)):
        for a in range(3):
            m[j, a] = R[a, 0] * y[j, 0] + R[a, 1] * y[j, 1] + R[a, 2] * y[j, 2]
    return plane_derivatives(x, p, m, q, t) if flat else overlap_derivatives(x, p, m, q, t)


@jit()
def _rotate(R, w, flat):  # type: ignore[no-untyped-def]
    """Return exp([w]) R (Rodrigues), with rows orthonormalised."""
    if flat:  # rotation around the third axis
        c = np.cos(w[2]) * R[0, 0] - np.sin(w[2]) * R[1, 0]
        s = np.sin(w[2]) * R[0, 0] + np.cos(w[2]) * R[1, 0]
        length = np.hypot(c, s)
        return np.array([[c / length, -s / length, 0.0], [s / length, c / length, 0.0], [0.0, 0.0, 1.0]])
    angle = np.sqrt((w**2).sum())
    K = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    if angle < 1e-9:
        turn = np.eye(3) + K
    else:
        turn = np.eye(3) + np.sin(angle) / angle * K + (1 - np.cos(angle)) / angle**2 * (K @ K)
    S = turn @ R
    return 1.5 * S - 0.5 * (S @ S.T @ S)


@jit()
def _solve_cholesky(H, g):  # type: ignore[no-untyped-def]
    """Solve H v = g by Cholesky decomposition; also return whether all eigenvalues reach the minimum curvature.

    Positive eigenvalues with sum T and product D are at least D ((n - 1) / T)^(n - 1).
    """
    n, L, v = len(H), np.zeros_like(H), g.copy()
    product, total = 1.0, np.trace(H)
    if not total > 0:
        return v, False
    for i in range(n):
        for j in range(i + 1):
            residual = H[i, j]
            for k in range(j):
                residual -= L[i, k] * L[j, k]
            if i == j:
                if residual <= 0:
                    return v, False
                product *= residual / total
                L[i, i] = np.sqrt(residual)
            else:
                L[i, j] = residual / L[j, j]
    for i in range(n):
        for k in range(i):
            v[i] -= L[i, k] * v[k]
        v[i] /= L[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            v[i] -= L[k, i] * v[k]
        v[i] /= L[i, i]
    return v, product * (n - 1) ** (n - 1) >= MIN_CURVATURE_RATIO


@jit()
def _newton_step(gradient, hessian, free, size):  # type: ignore[no-untyped-def]
    """Return Newton's step in the free coordinates (of 6), at most 1 long, with angles in units of 1 / ``size``."""
    n = len(free)
    g, H, scale = np.empty(n), np.empty((n, n)), np.ones(n)
    for a in range(n):
        if free[a] >= 3:
            scale[a] = 1 / size
    for a in range(n):
        g[a] = gradient[free[a]] * scale[a]
        for b in range(n):
            H[a, b] = -hessian[free[a], free[b]] * scale[a] * scale[b]
    v, is_definite = _solve_cholesky(H, g)
    if not is_definite:
        curvatures, axes = np.linalg.eigh(H)
        min_curvature = MIN_CURVATURE_RATIO * np.abs(curvatures).max() + 1e-300
        v = axes @ ((axes.T @ g) / np.maximum(np.abs(curvatures), min_curvature))
    length = np.sqrt((v**2).sum())
    if length > 1:
        v /= length
    step = np.zeros(6)
    for a in range(n):
        step[free[a]] = v[a] * scale[a]
    return step, min(length, 1.0)


@jit()
def refine_in_place(x, p, y, q, rotations, shifts, free, flat, steps, shortest):  # type: ignore[no-untyped-def]
    """Move every (rotation, shift) to a local maximum in place, and return f (r,)."""
    size, m = np.sqrt((y**2).sum() / len(y)) + 1e-12, np.empty_like(y)
    values = np.zeros(len(rotations))
    for r in range(len(rotations)):
        R, t = rotations[r].copy(), shifts[r].copy()
        value, gradient, hessian = _derivatives(flat, x, p, R, y, q, t, m)
        step, length = _newton_step(gradient, hessian, free, size)
        n_halvings = 0
        for _ in range(steps):
            S, s = _rotate(R, step[3:], flat), t + step[:3]
            trial_value, gradient, hessian = _derivatives(flat, x, p, S, y, q, s, m)
            if trial_value > value:
                R, t, value, n_halvings = S, s, trial_value, 0
                if length < shortest:
                    break
                step, length = _newton_step(gradient, hessian, free, size)
            elif n_halvings < MAX_HALVINGS and length > shortest:
                step, length, n_halvings = step / 2, length / 2, n_halvings + 1
            else:
                break
        rotations[r], shifts[r], values[r] = R, t, value
    return values
