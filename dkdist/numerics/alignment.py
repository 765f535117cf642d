"""Rigid alignment by the kernel distance: the overlap of two weighted point sets as a function of a rigid motion.

    f(R, t) = sum_ij p_i q_j exp(-|x_i - R y_j - t|^2 / (2 sigma^2))
    D^2(P, RQ + t) = kappa(P, P) + kappa(Q, Q) - 2 f(R, t)

For one rotation, f of all translations is a correlation: one inverse Fourier transform of products of Fourier
coefficients (P3, section 5, where translations are tried one by one). Rotations come from a grid. From the best of them
f is climbed on all points, with its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import minimize

from dkdist.numerics.elementary import SUM, exp, f32

F64 = NDArray[np.float64]

REACH = 3.0  # frequencies up to REACH / sigma: what lies beyond weighs exp(-4.5)
UNDERFLOW = f32(-87.0)


def rotation_from(q: F64, d: int) -> F64:
    """The rotation matrix of an angle (1,) in the plane, or of a quaternion (4,), of any length, in space."""
    if d == 2:
        c, s = np.cos(q[0]), np.sin(q[0])
        return np.array([[c, -s], [s, c]])
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def rotation_grid(d: int, count: int) -> F64:
    """About ``count`` rotations spread evenly: angles (n, 1), or quaternions (n, 4) on a super-Fibonacci spiral.

    (Alexa, Super-Fibonacci spirals, 2022.)
    """
    if d == 2:
        return (2 * np.pi * np.arange(count) / count)[:, None]
    s = np.arange(count) + 0.5
    r, big = np.sqrt(s / count), np.sqrt(1 - s / count)
    alpha, beta = 2 * np.pi * s / np.sqrt(2), 2 * np.pi * s / 1.533751168755204288118041
    return np.stack([r * np.sin(alpha), r * np.cos(alpha), big * np.sin(beta), big * np.cos(beta)], axis=1)


def translation_search(
    x: F64, p: F64, sigma: float, radius: float
) -> Callable[[F64, F64], tuple[F64, float]]:
    """A function of (y, q) that gives the best translation of points y with weights q, and f there, up to the grid.

    ``radius`` bounds |x_i| and |y_j|. Translations are at most 2 ``radius`` in each dimension.
    """
    d, L = x.shape[1], 4 * radius + 4 * sigma
    most = int(np.ceil(REACH * L / (2 * np.pi * sigma)))
    k = np.arange(-most, most + 1)
    omega = np.asarray(2 * np.pi / L * k, np.float64)
    damping = np.exp(-0.5 * (omega * sigma) ** 2) * np.sqrt(2 * np.pi) * sigma / L
    n = 1 << int(np.ceil(np.log2(len(k) if d == 3 else 2 * len(k))))
    own = _coefficients(x, p, omega)
    for axis in range(d):
        own = own * damping.reshape([-1 if a == axis else 1 for a in range(d)])
    places = np.ix_(*[k % n] * d)

    def search(y: F64, q: F64) -> tuple[F64, float]:
        spectrum = np.zeros((n,) * d, np.complex128)
        spectrum[places] = own * np.conj(_coefficients(y, q, omega))
        overlap = np.fft.fftn(spectrum).real  # sum_k c_k exp(-i omega_k t), at t = -L j / n
        j = np.array(np.unravel_index(int(np.argmax(overlap)), overlap.shape))
        t = -L * j / n
        return np.where(t < -L / 2, t + L, t), float(overlap.max())

    return search


def _coefficients(x: F64, p: F64, omega: F64) -> NDArray[np.complex128]:
    """sum_i p_i exp(-i omega_k x_i) for all products of one frequency of each dimension."""
    waves = [np.exp(-1j * omega[:, None] * x[:, axis]) for axis in range(x.shape[1])]
    first = waves[0] * p
    if len(waves) == 1:
        return np.asarray(first.sum(axis=1))
    if len(waves) == 2:
        return np.asarray(first @ waves[1].T)
    pairs = (first[:, None, :] * waves[1][None]).reshape(-1, x.shape[0])
    return np.asarray((pairs @ waves[2].T).reshape(len(omega), len(omega), len(omega)))


def climb(
    x: F64, p: F64, y: F64, q: F64, sigma: float, start: tuple[F64, F64], rotates: bool
) -> tuple[F64, F64, float]:
    """(rotation parameters, t, f) at a local maximum of f, by L-BFGS from a start (rotation parameters, t)."""
    d, (angles, t) = x.shape[1], start
    scale = max(1e-300, float(p.sum() * q.sum()))
    columns = np.zeros((3, len(x)), np.float32)
    columns[:d] = (x / sigma).T
    y3, p32, q32 = np.zeros((len(y), 3)), p.astype(np.float32), q.astype(np.float32)
    y3[:, :d] = y / sigma
    moved = np.zeros((len(y), 3), np.float32)

    def negative(v: F64) -> tuple[float, F64]:
        turn, shift = (v[: len(angles)], v[len(angles) :]) if rotates else (angles, v)
        R = rotation_from(turn, d) if len(angles) else np.eye(d)
        moved[:, :d] = y3[:, :d] @ R.T + shift
        total, by_shift, by_rotation = overlap_with_slopes(columns, p32, moved, y3, q32)
        slopes = [by_shift[:d]]
        if rotates:
            step = 1e-6
            units = np.eye(len(turn)) * step
            change = [(rotation_from(turn + e, d) - rotation_from(turn - e, d)) / (2 * step) for e in units]
            slopes.insert(0, np.array([(by_rotation[:d, :d] * c).sum() for c in change]))
        return -total / scale, -np.concatenate(slopes) / scale

    v0 = np.concatenate([angles, t / sigma]) if rotates else t / sigma
    found = minimize(negative, v0, jac=True, method="L-BFGS-B", options={"maxiter": 100})
    turn, shift = (found.x[: len(angles)], found.x[len(angles) :]) if rotates else (angles, found.x)
    return turn, shift * sigma, -float(found.fun) * scale


@njit(nogil=True, cache=True, fastmath=SUM)
def _pulls(x, y, z, p, a, b, c):  # type: ignore[no-untyped-def]
    """sum_i k_i and sum_i k_i (x_i - m) for k_i = p_i exp(-|x_i - m|^2 / 2) and one point m = (a, b, c)."""
    total, u, v, w = f32(0), f32(0), f32(0), f32(0)
    for i in range(len(p)):
        e, f, g = x[i] - a, y[i] - b, z[i] - c
        k = p[i] * exp(max(f32(-0.5) * (e * e + f * f + g * g), UNDERFLOW))
        total += k
        u += k * e
        v += k * f
        w += k * g
    return total, u, v, w


@njit(nogil=True, cache=True)
def overlap_with_slopes(x, p, moved, y, q):  # type: ignore[no-untyped-def]
    """(f, df/dt, df/dR) for points in units of sigma: f = sum p q exp(-|x - m|^2 / 2), m = R y + t.

    ``x`` (3, n) are columns, ``moved`` and ``y`` (m, 3) rows; dimensions that there are not are zero.
    """
    total, shift, turn = 0.0, np.zeros(3), np.zeros((3, 3))
    for j in range(len(moved)):
        k, u, v, w = _pulls(x[0], x[1], x[2], p, moved[j, 0], moved[j, 1], moved[j, 2])
        total += q[j] * k
        pull = (q[j] * u, q[j] * v, q[j] * w)
        for a in range(3):
            shift[a] += pull[a]
            for b in range(3):
                turn[a, b] += pull[a] * y[j, b]
    return total, shift, turn
