"""Random frequencies of kernels: standard normal vectors, turned into those of another spectral measure.

    k(x, y) = E cos(w . (x - y) / sigma)

    gaussian            w = g, standard normal
    matern, nu          w = g (2 nu / c)^(1/2), c chi-square with 2 nu degrees of freedom: a Student t vector
    rational-quadratic  w = g e^(1/2), e exponential: a mixture of Gaussian kernels of all widths
    laplace             w_j = tan(pi (Phi(g_j) - 1/2)), independent Cauchy numbers

The factors c and e of F frequencies are quantiles of F numbers, one at random in each F-th of (0, 1), so that their
mixture is less uneven than independent ones. Frequencies beyond 10^4 are shortened to it: float32 has no digits for
more, and the kernel changes by less than 7e-5 a dimension ("laplace", "matern12"), or nothing to speak of.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri
from scipy.stats import qmc

from dkdist.loops.array_types import F64

HIGHEST = 1e4
BITS = 30  # of a Sobol point
SOBOL_DIMS = 16  # up to which quasi-random frequencies have the least error: 10 times less at d = 2


def sobol_normals(rng: np.random.Generator, count: int, d: int) -> F64:
    """(count, d) standard normal vectors: Sobol points under a random digital shift, through the normal quantiles.

    The shift (one random word a dimension, added without carry) keeps the points evenly spread, and makes each of them
    uniform: means over them are unbiased, and vary less than over independent ones.
    """
    log2 = int(np.ceil(np.log2(count)))
    points = qmc.Sobol(d, scramble=False, bits=BITS).random_base2(log2)[:count]
    words = (points * 2**BITS).astype(np.int64) ^ rng.integers(2**BITS, size=d)
    return np.asarray(ndtri((words + 0.5) / 2**BITS))


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


def _quantiles(rng: np.random.Generator, count: int) -> F64:
    return np.asarray((rng.permutation(count) + 1 - rng.random(count)) / count)


def _matern(nu: float) -> Callable[[np.random.Generator, F64], F64]:
    def scaled(rng: np.random.Generator, g: F64) -> F64:
        chi2 = 2 * gammaincinv(nu, _quantiles(rng, len(g)))
        return _shortened(g * np.sqrt(2 * nu / np.maximum(chi2, 1e-30))[:, None])

    return scaled


def _rational_quadratic(rng: np.random.Generator, g: F64) -> F64:
    return np.asarray(g * np.sqrt(-np.log(_quantiles(rng, len(g))))[:, None])


def _laplace(rng: np.random.Generator, g: F64) -> F64:
    tail = np.maximum(ndtr(-np.abs(g)), 1e-30)
    return np.asarray(np.sign(g) * np.minimum(1 / np.tan(np.pi * tail), HIGHEST))


def _shortened(w: F64) -> F64:
    length = np.sqrt((w**2).sum(axis=1, keepdims=True))
    return np.asarray(w * np.minimum(1, HIGHEST / np.maximum(length, 1.0)))


RADIAL: dict[str, Callable[[np.random.Generator, F64], F64]] = {
    "gaussian": lambda rng, g: g,
    "matern12": _matern(0.5),
    "matern32": _matern(1.5),
    "matern52": _matern(2.5),
    "rational-quadratic": _rational_quadratic,
}
"""Kernels of |x - y|, whose frequencies (F, d) are the normal ones times a number each; so are their lengths (F, 1)."""

FREQUENCIES = {**RADIAL, "laplace": _laplace}
"""By kernel: frequencies (F, d) for sigma = 1 from a generator and standard normal ones."""
