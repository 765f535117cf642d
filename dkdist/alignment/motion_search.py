"""Multi-start search of `align`: a scan over rotations, then local refinement with more points and narrower kernels.

    f(R, t) = sum_ij p_i q_j exp(-|x_i - R y_j - t|^2 / (2 sigma^2))
    D^2(P, RQ + t) = kappa(P, P) + kappa(Q, Q) - 2 f(R, t)

For one rotation, f of all translations is a correlation: one inverse Fourier transform of products of Fourier
coefficients (Joshi et al. 2011, section 5, try translations one by one). In the plane, the coefficients of four
quarter turns follow by symmetry from those of one rotation. In space, three mean shifts per rotation replace the
transform.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft2, irfftn, next_fast_len

from dkdist._numba.arrays import F32, F64
from dkdist._numba.compilation import FINITE_FMA, inline_jit, jit
from dkdist._numba.elementary import exp, f32, sincos
from dkdist._numba.points import cell_means
from dkdist.alignment._slopes_numba import BATCH_POINTS, MIN_EXPONENT
from dkdist.alignment._tuning import (
    COARSE_SIGMA_RATIOS,
    MAX_FREQUENCY_SIGMAS,
    MIN_OVERLAP_RATIO,
    MIN_ROTATION_DIFFERENCE,
    N_COARSE_MEANS,
    N_MEAN_SHIFTS,
    N_ROTATIONS,
    N_STAGE_MEANS,
    ROTATION_BATCH_SIZE,
    STAGES,
)
from dkdist.alignment.local_refinement import refine_motions
from dkdist.kernels.kernel_sums import scaled, sums

C64 = NDArray[np.complex64]


def rotation_from(q: F64, d: int) -> F64:
    """Return the rotation matrix of an angle (1,) in the plane, or of a quaternion (4,) of any norm in space."""
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
    """Return about ``count`` evenly spread rotations: angles (n, 1), or quaternions (n, 4).

    Quaternions lie on a super-Fibonacci spiral (Alexa, Super-Fibonacci spirals, 2022).
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
    """Return the best translation (r, d) of a grid, and its f (r,), for each rotation (r, d, d) of the points y.

    ``radius`` bounds |x_i| and |y_j|. Translations are at most 1.5 (``radius`` + ``sigma``) per dimension. float32.
    """
    d, (L, max_frequency, n) = x.shape[1], translation_mesh(sigma, radius)
    k = np.arange(-max_frequency, max_frequency + 1)
    factors = damping(sigma, L, max_frequency, n)[np.abs(k)].astype(np.float32)
    coefficients_x = _coefficients(x[None], p, max_frequency, L)[0]
    for axis in range(d):
        coefficients_x = coefficients_x * (factors[max_frequency:] if axis == d - 1 else factors).reshape(
            [-1 if a == axis else 1 for a in range(d)]
        )
    best_t, best_f = np.empty((len(rotations), d)), np.empty(len(rotations))
    for first in range(0, len(rotations), ROTATION_BATCH_SIZE):
        part = slice(first, first + ROTATION_BATCH_SIZE)
        rotated = np.matmul(y, rotations[part].transpose(0, 2, 1))
        spectrum = np.zeros((len(rotated), *(n,) * (d - 1), n // 2 + 1), np.complex64)
        spectrum[np.ix_(np.arange(len(rotated)), *[k % n] * (d - 1), k[max_frequency:])] = (
            coefficients_x * np.conj(_coefficients(rotated, q, max_frequency, L))
        )
        overlap = irfftn(spectrum, (n,) * d, axes=tuple(range(1, d + 1)))
        best_t[part], best_f[part] = mesh_peaks(overlap, L)
    return best_t, best_f


def translation_mesh(sigma: float, radius: float) -> tuple[float, int, int]:
    """Return (side L of the box of translations, highest frequency, number of mesh points along a side).

    Sets whose centres are L / 2 apart overlap only at their boundaries, so periodic images matter only there.
    """
    L = 3 * radius + 3 * sigma
    max_frequency = int(np.ceil(MAX_FREQUENCY_SIGMAS * L / (2 * np.pi * sigma)))
    return L, max_frequency, next_fast_len(2 * max_frequency + 2, real=True)


def damping(sigma: float, L: float, max_frequency: int, n: int) -> F64:
    """Return the kernel's weights of frequencies 0 to ``max_frequency`` along one axis, for a transform of size n."""
    k = np.arange(max_frequency + 1)
    return np.asarray(np.exp(-0.5 * (2 * np.pi / L * k * sigma) ** 2) * np.sqrt(2 * np.pi) * sigma / L * n)


def mesh_peaks(overlap: F32, L: float) -> tuple[F64, F32]:
    """Return the translation of the largest value of each mesh (r, n, ...), and that value."""
    (count, n), d = overlap.shape[:2], overlap.ndim - 1
    flat = overlap.reshape(count, -1)
    best = flat.argmax(axis=1)
    j = np.stack(np.unravel_index(best, (n,) * d), axis=1)
    return np.where(2 * j > n, j - n, j) * (L / n), flat[np.arange(count), best]


def _coefficients(x: F64, p: F64, max_frequency: int, L: float) -> C64:
    """Return sum_i p_i exp(-2 pi i <k, x_i> / L) of sets (r, n, d), for |k_j| <= ``max_frequency`` and k_d >= 0."""
    turns = np.exp((-2j * np.pi / L) * x).astype(np.complex64)
    half = np.empty((max_frequency + 1, *x.shape), np.complex64)  # successive powers, with one product each
    half[0] = 1
    for k in range(1, max_frequency + 1):
        half[k] = half[k - 1] * turns
    waves = np.moveaxis(half, 0, -1)  # (r, n, d, max_frequency + 1)
    last = np.ascontiguousarray(waves[:, :, -1])
    if x.shape[2] == 1:
        return np.asarray(np.matmul(p.astype(np.complex64), last))
    both = np.concatenate([np.conj(waves[..., :0:-1]), waves], axis=3)
    first = both[:, :, 0] * p[:, None].astype(np.complex64)
    if x.shape[2] == 2:
        return np.asarray(np.matmul(first.transpose(0, 2, 1), last))
    pairs = (first[..., None] * both[:, :, 1, None, :]).reshape(*x.shape[:2], -1)
    coefficients: C64 = np.matmul(pairs.transpose(0, 2, 1), last)
    return coefficients.reshape(len(x), 2 * max_frequency + 1, 2 * max_frequency + 1, -1)


def best_of_angles(
    x: F64, p: F64, y: F64, q: F64, count: int, sigma: float, radius: float
) -> tuple[F64, F64]:
    """Return the best translation (count, 2) of a grid, and its f, for each angle 2 pi i / ``count`` of y.

    ``count`` is a multiple of 4: a quarter turn takes (u, v) to (-v, u), so the Fourier coefficients of four turns are

        F(k, m) = sum_j q_j exp(-i (k u_j + m v_j)),   F'(k, m) = F(m, -k),   F'' = conj F,   F''' = conj F'

    and F(k, m), F(-k, m) follow from one real matrix product of cosines and sines of k u_j and m v_j. ``radius`` and
    the range of translations are as in `best_translations`. float32.
    """
    L, max_frequency, n = translation_mesh(sigma, radius)
    spectra = _spectra(x, p, y, q, count // 4, 2 * np.pi / L, damping(sigma, L, max_frequency, n), n)
    t, f = mesh_peaks(irfft2(spectra, (n, n)), L)
    return t, f.astype(np.float64)


@jit(FINITE_FMA)
def _weighted_waves(u, weights, out):  # type: ignore[no-untyped-def]
    """Write weighted cosines of k u to the first half of the rows k, sines to the second half."""
    half = len(out) // 2
    for k in range(half):
        cosines, sines = out[k], out[half + k]
        for j in range(len(u)):
            s, c = sincos(f32(k) * u[j])
            cosines[j], sines[j] = weights[j] * c, weights[j] * s


@jit()
def _spectra(x, p, y, q, quarter, frequency, damped, n):  # type: ignore[no-untyped-def]
    """Return coefficients (4 quarter, n, n // 2 + 1) of the overlaps: products of those of x and conjugates of y."""
    K = len(damped)
    spectra = np.zeros((4 * quarter, n, n // 2 + 1), np.complex64)
    coefficients_x = _rotated_coefficients(x, p.astype(np.float32), 0.0, frequency, K)
    for k in range(K):
        for m in range(K):
            coefficients_x[:, k, m] *= f32(damped[k] * damped[m])
    for i in range(quarter):
        F = _rotated_coefficients(y, q.astype(np.float32), np.pi / 2 * i / quarter, frequency, K)
        for k in range(K):
            for m in range(K):
                plus, minus = F[0, k, m], F[1, m, k]
                spectra[i, k, m] = coefficients_x[0, k, m] * np.conj(plus)
                spectra[quarter + i, k, m] = coefficients_x[0, k, m] * minus
                spectra[2 * quarter + i, k, m] = coefficients_x[0, k, m] * plus
                spectra[3 * quarter + i, k, m] = coefficients_x[0, k, m] * np.conj(minus)
        for k in range(1, K):
            for m in range(K):
                plus, minus = F[0, m, k], F[1, k, m]
                spectra[i, n - k, m] = coefficients_x[1, k, m] * np.conj(minus)
                spectra[quarter + i, n - k, m] = coefficients_x[1, k, m] * np.conj(plus)
                spectra[2 * quarter + i, n - k, m] = coefficients_x[1, k, m] * minus
                spectra[3 * quarter + i, n - k, m] = coefficients_x[1, k, m] * plus
    return spectra


@jit()
def _rotated_coefficients(points, weights, angle, frequency, K):  # type: ignore[no-untyped-def]
    """Return F(k, m) and F(-k, m) for k, m from 0 to K - 1, (2, K, K), of rotated points."""
    c, s, n = np.cos(angle) * frequency, np.sin(angle) * frequency, len(points)
    u, v, ones = np.empty(n, np.float32), np.empty(n, np.float32), np.ones(n, np.float32)
    for j in range(n):
        u[j], v[j] = c * points[j, 0] - s * points[j, 1], s * points[j, 0] + c * points[j, 1]
    first, second = np.empty((2 * K, n), np.float32), np.empty((2 * K, n), np.float32)
    _weighted_waves(u, weights, first)
    _weighted_waves(v, ones, second)
    T = first @ second.T
    F = np.empty((2, K, K), np.complex64)
    for k in range(K):
        for m in range(K):
            cc, ss, sc, cs = T[k, m], T[K + k, K + m], T[K + k, m], T[k, K + m]
            F[0, k, m], F[1, k, m] = complex(cc - ss, -sc - cs), complex(cc + ss, sc - cs)
    return F


def best_of_rotations(x: F64, p: F64, y: F64, q: F64, rotations: F64, sigma: float) -> tuple[F64, F64]:
    """Return a shift (r, 3), and its f (r,), for each rotation (r, 3, 3) of y, by mean shifts from t = 0. float32.

        t <- t + sum_ij k_ij e_ij / sum_ij k_ij,   k_ij = p_i q_j exp(-|e_ij|^2 / 2),   e_ij = x_i - R y_j - t

    No step decreases f = sum k (Fukunaga, Hostetler 1975). With a sigma of a fifth of the radius, a few steps
    rank rotations ten times as fast as `best_translations`.
    """
    lanes = np.zeros((4, -(-len(x) // BATCH_POINTS) * BATCH_POINTS), np.float32)
    lanes[:3, : len(x)], lanes[3, : len(x)] = (x / sigma).T, p
    t, f = _best_shifts(lanes, y / sigma, q.astype(np.float32), rotations)
    return t * sigma, f


@inline_jit(FINITE_FMA)
def _mean_shift(lanes, m, q, t, acc):  # type: ignore[no-untyped-def]
    """Return sum k, and sum k e in three dimensions, for the points m + t; ``acc`` (4, n) is a buffer."""
    x, y, z, p = lanes[0], lanes[1], lanes[2], lanes[3]
    total, u, v, w = acc[0], acc[1], acc[2], acc[3]
    acc[:] = f32(0)
    for j in range(len(q)):
        a, b, c, weight = m[j, 0] + t[0], m[j, 1] + t[1], m[j, 2] + t[2], q[j]
        for i in range(len(p)):
            e, f, g = x[i] - a, y[i] - b, z[i] - c
            k = weight * p[i] * exp(max(f32(-0.5) * (e * e + f * f + g * g), MIN_EXPONENT))
            total[i] += k
            u[i] += k * e
            v[i] += k * f
            w[i] += k * g
    return total.sum(), u.sum(), v.sum(), w.sum()


@jit(FINITE_FMA)
def _best_shifts(lanes, y, q, rotations):  # type: ignore[no-untyped-def]
    shifts, values = np.zeros((len(rotations), 3)), np.zeros(len(rotations))
    m, acc, t = np.empty((len(y), 3), np.float32), np.empty_like(lanes), np.zeros(3, np.float32)
    for r in range(len(rotations)):
        R = rotations[r]
        for j in range(len(y)):
            for a in range(3):
                m[j, a] = R[a, 0] * y[j, 0] + R[a, 1] * y[j, 1] + R[a, 2] * y[j, 2]
        t[:] = f32(0)
        for _ in range(N_MEAN_SHIFTS + 1):
            total, u, v, w = _mean_shift(lanes, m, q, t, acc)
            if total <= values[r]:  # converged up to rounding, or no points nearby
                break
            values[r] = total
            for a in range(3):
                shifts[r, a] = t[a]
            t[0] += u / total
            t[1] += v / total
            t[2] += w / total
    return shifts, values


def search_motion(x: F64, p: F64, y: F64, q: F64, rotates: bool, equalizes_density: bool) -> tuple[F64, F64]:
    """Return the best motion (R, t) of the points y (m, d) onto x (n, d); weights p, q sum to one.

    Both sets are centred, in units of sigma. With ``equalizes_density`` the last stage uses
    `density_equalized_weights`.
    """
    d = x.shape[1]
    radius = max(float(np.sqrt((v**2).sum(axis=1).max())) for v in (x, y)) or 1.0
    coarse_sigma = max(1.0, COARSE_SIGMA_RATIOS[d] * radius)
    stages = [_stage_points(*v, equalizes_density) for v in ((x, p), (y, q))]
    R = _trial_rotations(d) if rotates else np.eye(d)[None]
    if rotates and d == 2:
        t, f = best_of_angles(*stages[0][0], *stages[1][0], len(R), coarse_sigma, radius)
    elif rotates:
        t, f = best_of_rotations(*stages[0][0], *stages[1][0], R, coarse_sigma)
    else:
        t, f = best_translations(*stages[0][0], *stages[1][0], R, coarse_sigma, radius)
    for k, (starts, power, steps, shortest) in enumerate(STAGES[max(2, d)]):
        best = _select_distinct(R, t, f, np.argsort(-f, kind="stable"), starts)
        R, t, f = refine_motions(
            *stages[0][k], *stages[1][k], coarse_sigma**power, (R[best], t[best]), rotates, steps, shortest
        )
    return R[0], t[0]


@cache
def _trial_rotations(d: int) -> F64:
    """Return the rotations (r, d, d) of the scan."""
    return np.array([rotation_from(turn, d) for turn in rotation_grid(d, N_ROTATIONS[d])])


def _stage_points(x: F64, p: F64, equalizes_density: bool) -> list[tuple[F64, F64]]:
    """Return points and weights of each stage: means of regions, finally all points."""
    last_weights = density_equalized_weights(x, p) if equalizes_density else p
    return [
        *(cell_means(x, size, p) for size in (N_COARSE_MEANS[x.shape[1]], *N_STAGE_MEANS)),
        (x, last_weights),
    ]


def density_equalized_weights(x: F64, p: F64) -> F64:
    """Return p_i / kappa(P, x_i)^(1/2), normalised to sum one, for points (n, d) in units of sigma.

    The density of a sample is random, and a motion that aligns dense regions can have a larger overlap than the true
    motion. Square roots for both sets divide each pair once by the local density.
    """
    u = scaled(x, 1.0)
    w = p / np.sqrt(sums(u, u, p[:, None])[:, 0])
    return np.asarray(w / w.sum())


@jit()
def _select_distinct(R, t, f, order, count):  # type: ignore[no-untyped-def]
    """Return positions of the ``count`` best distinct motions, without those far worse than the best."""
    selected = np.empty(count, np.int64)
    n = 0
    for i in order[: 4 * count]:
        if n == count or f[i] < MIN_OVERLAP_RATIO * f[order[0]]:
            break
        is_new = True
        for k in selected[:n]:
            if np.abs(R[i] - R[k]).max() < MIN_ROTATION_DIFFERENCE and np.abs(t[i] - t[k]).max() < 1:
                is_new = False
                break
        if is_new:
            selected[n] = i
            n += 1
    return selected[:n]
