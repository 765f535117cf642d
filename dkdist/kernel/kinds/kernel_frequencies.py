"""Standard normal vectors for random frequencies: independent, orthogonal or quasi-random."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from dkdist.loops.array_types import F64

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
