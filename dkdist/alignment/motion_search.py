"""The search of an alignment: motions of a grid, climbed on ever more points under ever narrower kernels.

Rigid alignment by the kernel distance: where the overlap of two weighted point sets is large.

    f(R, t) = sum_ij p_i q_j exp(-|x_i - R y_j - t|^2 / (2 sigma^2))
    D^2(P, RQ + t) = kappa(P, P) + kappa(Q, Q) - 2 f(R, t)

For one rotation, f of all translations is a correlation: one inverse Fourier transform of products of Fourier
coefficients (P3, section 5, where translations are tried one by one). Rotations come from a grid. `climbing`
climbs f from the best of them.

The first search of an alignment in the plane: the best translation for each of many angles, four by four.

A quarter turn takes (u, v) to (-v, u), so the Fourier coefficients of a set's four quarter turns are those of one:

    F(k, m) = sum_j q_j exp(-i (k u_j + m v_j)),   F'(k, m) = F(m, -k),   F'' = conj F,   F''' = conj F'

and F(k, m), F(-k, m) follow from sums of products of cosines and sines of k u_j and m v_j: one real product of
matrices. The rest is as in `motions.best_translations`.

The first search of an alignment in space: for each of many rotations, the shift that mean shifts lead to.

    t <- t + sum_ij k_ij e_ij / sum_ij k_ij,   k_ij = p_i q_j exp(-|e_ij|^2 / 2),   e_ij = x_i - R y_j - t

from t = 0, where the middles of both sets meet: no step makes the overlap f = sum k less (Fukunaga, Hostetler 1975).
Under a kernel as wide as a fifth of the sets a few steps tell which rotations are worth a climb, in a tenth of the time
that the best of all shifts takes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft2, irfftn, next_fast_len

from dkdist._numba.arrays import F32, F64
from dkdist._numba.compilation import ELEMENTWISE, inlined, loop
from dkdist._numba.elementary import exp, f32, sincos
from dkdist._numba.points import cell_means
from dkdist.alignment._slopes_numba import MIN_EXPONENT
from dkdist.alignment.local_refinement import refine_motions
from dkdist.kernels.kernel_sums import scaled, sums

C64 = NDArray[np.complex64]

MAX_FREQUENCY_SIGMAS = 2.5  # frequencies up to REACH / sigma: what lies beyond weighs exp(-3.1)
ROTATION_BATCH_SIZE = 16  # rotations of one product


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
    d, (L, most, n) = x.shape[1], translation_mesh(sigma, radius)
    k = np.arange(-most, most + 1)
    along = damping(sigma, L, most, n)[np.abs(k)].astype(np.float32)
    own = _coefficients(x[None], p, most, L)[0]
    for axis in range(d):
        own = own * (along[most:] if axis == d - 1 else along).reshape(
            [-1 if a == axis else 1 for a in range(d)]
        )
    found_t, found_f = np.empty((len(rotations), d)), np.empty(len(rotations))
    for first in range(0, len(rotations), ROTATION_BATCH_SIZE):
        part = slice(first, first + ROTATION_BATCH_SIZE)
        turned = np.matmul(y, rotations[part].transpose(0, 2, 1))
        spectrum = np.zeros((len(turned), *(n,) * (d - 1), n // 2 + 1), np.complex64)
        spectrum[np.ix_(np.arange(len(turned)), *[k % n] * (d - 1), k[most:])] = own * np.conj(
            _coefficients(turned, q, most, L)
        )
        overlap = irfftn(spectrum, (n,) * d, axes=tuple(range(1, d + 1)))
        found_t[part], found_f[part] = mesh_peaks(overlap, L)
    return found_t, found_f


def translation_mesh(sigma: float, radius: float) -> tuple[float, int, int]:
    """(side L of a box that translations do not leave, the highest frequency, points along a side).

    Sets whose middles are L / 2 apart overlap by a rim alone: there alone what comes from the next box counts.
    """
    L = 3 * radius + 3 * sigma
    most = int(np.ceil(MAX_FREQUENCY_SIGMAS * L / (2 * np.pi * sigma)))
    return L, most, next_fast_len(2 * most + 2, real=True)


def damping(sigma: float, L: float, most: int, n: int) -> F64:
    """What the kernel makes of the frequencies 0 to ``most`` along one axis, for an inverse transform of length n."""
    k = np.arange(most + 1)
    return np.asarray(np.exp(-0.5 * (2 * np.pi / L * k * sigma) ** 2) * np.sqrt(2 * np.pi) * sigma / L * n)


def mesh_peaks(overlap: F32, L: float) -> tuple[F64, F32]:
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


def best_of_angles(
    x: F64, p: F64, y: F64, q: F64, count: int, sigma: float, radius: float
) -> tuple[F64, F64]:
    """For each angle 2 pi i / ``count`` (a multiple of 4) of y: the best translation (count, 2) of a grid, f there.

    ``radius`` bounds |x_i| and |y_j|. Translations are at most 1.5 (``radius`` + ``sigma``) in each dimension. float32.
    """
    L, most, n = translation_mesh(sigma, radius)
    spectra = _spectra(x, p, y, q, count // 4, 2 * np.pi / L, damping(sigma, L, most, n), n)
    t, f = mesh_peaks(irfft2(spectra, (n, n)), L)
    return t, f.astype(np.float64)


@loop(ELEMENTWISE)
def _weighted_waves(u, weights, out):  # type: ignore[no-untyped-def]
    """Weighted cosines of k u in the first half of the rows k, sines in the others."""
    half = len(out) // 2
    for k in range(half):
        cosines, sines = out[k], out[half + k]
        for j in range(len(u)):
            s, c = sincos(f32(k) * u[j])
            cosines[j], sines[j] = weights[j] * c, weights[j] * s


@loop()
def _spectra(x, p, y, q, quarter, frequency, damped, n):  # type: ignore[no-untyped-def]
    """Coefficients (4 quarter, n, n // 2 + 1) of the overlaps: those of x times the conjugates of those of y."""
    K = len(damped)
    spectra = np.zeros((4 * quarter, n, n // 2 + 1), np.complex64)
    own = _rotated_coefficients(x, p.astype(np.float32), 0.0, frequency, K)
    for k in range(K):
        for m in range(K):
            own[:, k, m] *= f32(damped[k] * damped[m])
    for i in range(quarter):
        F = _rotated_coefficients(y, q.astype(np.float32), np.pi / 2 * i / quarter, frequency, K)
        for k in range(K):
            for m in range(K):
                plus, minus = F[0, k, m], F[1, m, k]
                spectra[i, k, m] = own[0, k, m] * np.conj(plus)
                spectra[quarter + i, k, m] = own[0, k, m] * minus
                spectra[2 * quarter + i, k, m] = own[0, k, m] * plus
                spectra[3 * quarter + i, k, m] = own[0, k, m] * np.conj(minus)
        for k in range(1, K):
            for m in range(K):
                plus, minus = F[0, m, k], F[1, k, m]
                spectra[i, n - k, m] = own[1, k, m] * np.conj(minus)
                spectra[quarter + i, n - k, m] = own[1, k, m] * np.conj(plus)
                spectra[2 * quarter + i, n - k, m] = own[1, k, m] * minus
                spectra[3 * quarter + i, n - k, m] = own[1, k, m] * plus
    return spectra


@loop()
def _rotated_coefficients(points, weights, angle, frequency, K):  # type: ignore[no-untyped-def]
    """F(k, m) and F(-k, m) for k, m from 0 to K - 1, (2, K, K), of turned points."""
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


N_MEAN_SHIFTS = 3
WHOLE = 32  # points that compiled loops take at once; those without weight fill up


def best_of_rotations(x: F64, p: F64, y: F64, q: F64, rotations: F64, sigma: float) -> tuple[F64, F64]:
    """For each rotation (r, 3, 3) of y: a shift (r, 3) from about the origin, and f there (r,). float32."""
    lanes = np.zeros((4, -(-len(x) // WHOLE) * WHOLE), np.float32)
    lanes[:3, : len(x)], lanes[3, : len(x)] = (x / sigma).T, p
    t, f = _best_shifts(lanes, y / sigma, q.astype(np.float32), rotations)
    return t * sigma, f


@inlined(ELEMENTWISE)
def _mean_shift(lanes, m, q, t, acc):  # type: ignore[no-untyped-def]
    """sum k, and sum k e in three dimensions, for the points m + t; ``acc`` (4, n) is room."""
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


@loop(ELEMENTWISE)
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
            if total <= values[r]:  # no more than rounding is left, or nothing is near
                break
            values[r] = total
            for a in range(3):
                shifts[r, a] = t[a]
            t[0] += u / total
            t[1] += v / total
            t[2] += w / total
    return shifts, values


N_ROTATIONS = {2: 48, 3: 320}
COARSE_SIGMA_RATIOS = {
    1: 1 / 8,
    2: 1 / 8,
    3: 1 / 5,
}  # of the radius: rotations are tried with a kernel at least as wide
N_COARSE_MEANS = {1: 64, 2: 64, 3: 32}  # means of regions in the first stage
N_STAGE_MEANS = (128, 256)  # in the others, but for the last one
STAGES = {  # starts, power of the first kernel's width, Newton's steps at most, and the last one's length in sigma
    2: ((24, 1.0, 4, 0.2), (6, 0.5, 6, 0.2), (3, 0.0, 8, 0.1), (1, 0.0, 50, 1e-4)),
    3: ((24, 1.0, 4, 0.2), (12, 0.5, 6, 0.2), (4, 0.0, 8, 0.1), (1, 0.0, 50, 1e-4)),
}  # the last one on all points; on a line as in the plane
MIN_ROTATION_DIFFERENCE = (
    0.1  # of an entry of the rotation, and a sigma of the translation: motions that are nearer are one
)
MIN_OVERLAP_RATIO = 0.8  # of the best overlap: ends with less go no further


def search_motion(x: F64, p: F64, y: F64, q: F64, rotates: bool, evened: bool) -> tuple[F64, F64]:
    """The motion (R, t) of the points y (m, d) that is found to overlap x (n, d) most; weights p, q sum to one.

    Both lie about the origin, in units of sigma. ``evened``: the last climb is of `density_equalized_weights`.
    """
    d = x.shape[1]
    radius = max(float(np.sqrt((v**2).sum(axis=1).max())) for v in (x, y)) or 1.0
    coarse = max(1.0, COARSE_SIGMA_RATIOS[d] * radius)
    few = [_stage_points(*v, evened) for v in ((x, p), (y, q))]
    R = _trial_rotations(d) if rotates else np.eye(d)[None]
    if rotates and d == 2:
        t, f = best_of_angles(*few[0][0], *few[1][0], len(R), coarse, radius)
    elif rotates:
        t, f = best_of_rotations(*few[0][0], *few[1][0], R, coarse)
    else:
        t, f = best_translations(*few[0][0], *few[1][0], R, coarse, radius)
    for k, (starts, power, steps, shortest) in enumerate(STAGES[max(2, d)]):
        best = _select_distinct(R, t, f, np.argsort(-f, kind="stable"), starts)
        R, t, f = refine_motions(
            *few[0][k], *few[1][k], coarse**power, (R[best], t[best]), rotates, steps, shortest
        )
    return R[0], t[0]


@cache
def _trial_rotations(d: int) -> F64:
    """The rotations that are tried, (r, d, d)."""
    return np.array([rotation_from(turn, d) for turn in rotation_grid(d, N_ROTATIONS[d])])


def _stage_points(x: F64, p: F64, evened: bool) -> list[tuple[F64, F64]]:
    """For each stage the means of regions, and their weights; at last all points."""
    last = density_equalized_weights(x, p) if evened else p
    return [*(cell_means(x, size, p) for size in (N_COARSE_MEANS[x.shape[1]], *N_STAGE_MEANS)), (x, last)]


def density_equalized_weights(x: F64, p: F64) -> F64:
    """p_i / kappa(P, x_i)^(1/2), to sum to one: of points (n, d) in units of sigma, less where many are near.

    Two samples of one shape are dense by chance in other places, and the motion that brings dense places together
    overlaps more than the true one does. With a root for each set, pairs are divided once by the density about them.
    """
    u = scaled(x, 1.0)
    w = p / np.sqrt(sums(u, u, p[:, None])[:, 0])
    return np.asarray(w / w.sum())


@loop()
def _select_distinct(R, t, f, order, count):  # type: ignore[no-untyped-def]
    """The ``count`` best motions that differ and are not far worse than the best."""
    kept = np.empty(count, np.int64)
    n = 0
    for i in order[: 4 * count]:
        if n == count or f[i] < MIN_OVERLAP_RATIO * f[order[0]]:
            break
        new = True
        for k in kept[:n]:
            if np.abs(R[i] - R[k]).max() < MIN_ROTATION_DIFFERENCE and np.abs(t[i] - t[k]).max() < 1:
                new = False
                break
        if new:
            kept[n] = i
            n += 1
    return kept[:n]
