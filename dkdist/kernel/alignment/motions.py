"""Rigid alignment by the kernel distance: where the overlap of two weighted point sets is large.

    f(R, t) = sum_ij p_i q_j exp(-|x_i - R y_j - t|^2 / (2 sigma^2))
    D^2(P, RQ + t) = kappa(P, P) + kappa(Q, Q) - 2 f(R, t)

For one rotation, f of all translations is a correlation: one inverse Fourier transform of products of Fourier
coefficients (P3, section 5, where translations are tried one by one). Rotations come from a grid. `climbing`
climbs f from the best of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfftn, next_fast_len

from dkdist.loops.array_types import F32, F64

C64 = NDArray[np.complex64]

REACH = 2.5  # frequencies up to REACH / sigma: what lies beyond weighs exp(-3.1)
TOGETHER = 16  # rotations of one product


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


def best_translations(
    x: F64, p: F64, y: F64, q: F64, rotations: F64, sigma: float, radius: float
) -> tuple[F64, F64]:
    """For each rotation (r, d, d) of the points y: the best translation (r, d) of a grid, and f there (r,).

    ``radius`` bounds |x_i| and |y_j|. Translations are at most 1.5 (``radius`` + ``sigma``) in each dimension. float32.
    """
    d, (L, most, n) = x.shape[1], mesh(sigma, radius)
    k = np.arange(-most, most + 1)
    along = damping(sigma, L, most, n)[np.abs(k)].astype(np.float32)
    own = _coefficients(x[None], p, most, L)[0]
    for axis in range(d):
        own = own * (along[most:] if axis == d - 1 else along).reshape(
            [-1 if a == axis else 1 for a in range(d)]
        )
    found_t, found_f = np.empty((len(rotations), d)), np.empty(len(rotations))
    for first in range(0, len(rotations), TOGETHER):
        part = slice(first, first + TOGETHER)
        turned = np.matmul(y, rotations[part].transpose(0, 2, 1))
        spectrum = np.zeros((len(turned), *(n,) * (d - 1), n // 2 + 1), np.complex64)
        spectrum[np.ix_(np.arange(len(turned)), *[k % n] * (d - 1), k[most:])] = own * np.conj(
            _coefficients(turned, q, most, L)
        )
        overlap = irfftn(spectrum, (n,) * d, axes=tuple(range(1, d + 1)))
        found_t[part], found_f[part] = peaks(overlap, L)
    return found_t, found_f


def mesh(sigma: float, radius: float) -> tuple[float, int, int]:
    """(side L of a box that translations do not leave, the highest frequency, points along a side).

    Sets whose middles are L / 2 apart overlap by a rim alone: there alone what comes from the next box counts.
    """
    L = 3 * radius + 3 * sigma
    most = int(np.ceil(REACH * L / (2 * np.pi * sigma)))
    return L, most, next_fast_len(2 * most + 2, real=True)


def damping(sigma: float, L: float, most: int, n: int) -> F64:
    """What the kernel makes of the frequencies 0 to ``most`` along one axis, for an inverse transform of length n."""
    k = np.arange(most + 1)
    return np.asarray(np.exp(-0.5 * (2 * np.pi / L * k * sigma) ** 2) * np.sqrt(2 * np.pi) * sigma / L * n)


def peaks(overlap: F32, L: float) -> tuple[F64, F32]:
    """The translation of the largest value of each mesh (r, n, ...), and that value."""
    (count, n), d = overlap.shape[:2], overlap.ndim - 1
    flat = overlap.reshape(count, -1)
    best = flat.argmax(axis=1)
    j = np.stack(np.unravel_index(best, (n,) * d), axis=1)
    return np.where(2 * j > n, j - n, j) * (L / n), flat[np.arange(count), best]


def _coefficients(x: F64, p: F64, most: int, L: float) -> C64:
    """sum_i p_i exp(-2 pi i <k, x_i> / L) of sets (r, n, d), for k up to ``most``; of the last dimension k >= 0."""
    turns = np.exp((-2j * np.pi / L) * x).astype(np.complex64)
    half = np.empty((most + 1, *x.shape), np.complex64)  # powers, one product each
    half[0] = 1
    for k in range(1, most + 1):
        half[k] = half[k - 1] * turns
    waves = np.moveaxis(half, 0, -1)  # (r, n, d, most + 1)
    last = np.ascontiguousarray(waves[:, :, -1])
    if x.shape[2] == 1:
        return np.asarray(np.matmul(p.astype(np.complex64), last))
    both = np.concatenate([np.conj(waves[..., :0:-1]), waves], axis=3)
    first = both[:, :, 0] * p[:, None].astype(np.complex64)
    if x.shape[2] == 2:
        return np.asarray(np.matmul(first.transpose(0, 2, 1), last))
    pairs = (first[..., None] * both[:, :, 1, None, :]).reshape(*x.shape[:2], -1)
    found: C64 = np.matmul(pairs.transpose(0, 2, 1), last)
    return found.reshape(len(x), 2 * most + 1, 2 * most + 1, -1)
