"""Random Fourier features of a Gaussian kernel, from a matrix of frequencies.

    z(x) = sqrt(2/D) (sin Wx / sigma, cos Wx / sigma),   z(x) . z(y) ~ exp(-|x - y|^2 / (2 sigma^2))

The product Wx, with W (D/2, m), is steady: a row's bits depend on no other row. Several sigmas share it. Cost of a
row: D m flops, D/2 sines and cosines, 4 D bytes written. (Rahimi & Recht 2007; Yu et al. 2016.)

Frequencies of sigma = 1 are standard normal: independent, orthogonal within each m rows, or quasi-random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dkdist.loops.array_types import F32, F64
from dkdist.loops.compile import ELEMENTWISE, loop
from dkdist.loops.elementary import f32, sincos
from dkdist.loops.products import TILE, Factor
from dkdist.loops.sobol import sobol_normals


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


@loop(ELEMENTWISE)
def _sine_cosine(phases, inverse, scale, out):  # type: ignore[no-untyped-def]
    F = phases.shape[1]
    for s in range(len(out)):
        sines, cosines = out[s, :F], out[s, F:]
        for r in range(F):
            si, co = sincos(inverse * phases[s, r])
            sines[r] = scale * si
            cosines[r] = scale * co


SOBOL_DIMS = 16  # up to which quasi-random frequencies have the least error: 10 times less at d = 2


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


def _iid(rng: np.random.Generator, count: int, d: int) -> F64:
    return rng.standard_normal((count, d))


def _orthogonal(rng: np.random.Generator, count: int, d: int) -> F64:
    gaussian = rng.standard_normal((-(-count // d), d, d))
    return orthogonal_frequencies(gaussian, np.sqrt(rng.chisquare(d, count)))


DRAWS: dict[str, Callable[[np.random.Generator, int, int], F64]] = {
    "orthogonal": _orthogonal,
    "sobol": sobol_normals,
    "iid": _iid,
}
"""Standard normal frequencies (count, d) by method."""


def least_error(d: int) -> str:
    """The method whose frequencies of d dimensions have the least error."""
    return "sobol" if d <= SOBOL_DIMS else "orthogonal"
