"""The first search of an alignment in the plane: the best translation for each of many angles, four by four.

A quarter turn takes (u, v) to (-v, u), so the Fourier coefficients of a set's four quarter turns are those of one:

    F(k, m) = sum_j q_j exp(-i (k u_j + m v_j)),   F'(k, m) = F(m, -k),   F'' = conj F,   F''' = conj F'

and F(k, m), F(-k, m) follow from sums of products of cosines and sines of k u_j and m v_j: one real product of
matrices. The rest is as in `motions.best_translations`.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft2

from dkdist.kernel.alignment.motions import damping, mesh, peaks
from dkdist.loops.array_types import F64
from dkdist.loops.compile import ELEMENTWISE, loop
from dkdist.loops.elementary import f32, sincos


def best_of_angles(
    x: F64, p: F64, y: F64, q: F64, count: int, sigma: float, radius: float
) -> tuple[F64, F64]:
    """For each angle 2 pi i / ``count`` (a multiple of 4) of y: the best translation (count, 2) of a grid, f there.

    ``radius`` bounds |x_i| and |y_j|. Translations are at most 1.5 (``radius`` + ``sigma``) in each dimension. float32.
    """
    L, most, n = mesh(sigma, radius)
    spectra = _spectra(x, p, y, q, count // 4, 2 * np.pi / L, damping(sigma, L, most, n), n)
    t, f = peaks(irfft2(spectra, (n, n)), L)
    return t, f.astype(np.float64)


@loop(ELEMENTWISE)
def _waves(u, weights, out):  # type: ignore[no-untyped-def]
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
    _waves(u, weights, first)
    _waves(v, ones, second)
    T = first @ second.T
    F = np.empty((2, K, K), np.complex64)
    for k in range(K):
        for m in range(K):
            cc, ss, sc, cs = T[k, m], T[K + k, K + m], T[K + k, m], T[k, K + m]
            F[0, k, m], F[1, k, m] = complex(cc - ss, -sc - cs), complex(cc + ss, sc - cs)
    return F
