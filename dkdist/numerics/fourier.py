"""Random Fourier features of a Gaussian kernel, from a matrix of frequencies.

    z(x) = sqrt(2/D) (sin Wx / sigma, cos Wx / sigma),   z(x) . z(y) ~ exp(-|x - y|^2 / (2 sigma^2))

The product Wx, with W (D/2, m), is steady: a row's bits depend on no other row. Several sigmas share it. Cost of a
row: D m flops, D/2 sines and cosines, 4 D bytes written. (Rahimi & Recht 2007; Yu et al. 2016.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dkdist.numerics.elementary import LOOP, f32, sincos
from dkdist.numerics.products import TILE, Factor

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


def orthogonal_frequencies(gaussian: F64, norms: F64) -> F64:
    """Frequencies whose directions are orthogonal within each m rows: (F, m), for sigma = 1.

    ``gaussian`` holds ceil(F/m) standard normal m x m matrices, ``norms`` the F row lengths, chi-distributed
    with m degrees of freedom, so that each row alone is exactly standard normal.
    """
    blocks = []
    for matrix in gaussian:
        Q, R = np.linalg.qr(matrix)
        blocks.append((Q * np.sign(np.diag(R))).T)  # the sign makes Q uniform on the orthogonal group
    return np.concatenate(blocks)[: len(norms)] * norms[:, None]


def dense_features(X: F32, Wt: Factor, sigmas: Sequence[float], outs: Sequence[F32]) -> None:
    """Fill each of ``outs`` (n, 2F) with the features of rows ``X`` (n, m) for its sigma.

    ``Wt`` (m, F) are the transposed frequencies of sigma = 1.
    """
    F = outs[0].shape[1] // 2
    phases = np.empty((TILE, F), np.float32)
    for start in range(0, len(X), TILE):
        rows = X[start : start + TILE]
        Wt.product(rows, phases[: len(rows)])
        for sigma, out in zip(sigmas, outs, strict=True):
            _sine_cosine(phases, f32(1 / sigma), f32(1 / np.sqrt(F)), out[start : start + TILE])


@njit(nogil=True, cache=True, fastmath=LOOP)
def _sine_cosine(phases, inverse, scale, out):  # type: ignore[no-untyped-def]
    F = phases.shape[1]
    for s in range(len(out)):
        sines, cosines = out[s, :F], out[s, F:]
        for r in range(F):
            si, co = sincos(inverse * phases[s, r])
            sines[r] = scale * si
            cosines[r] = scale * co
