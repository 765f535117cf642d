"""Jensen-Shannon divergences from densities of one half of each sample at the points of the other half.

    JS(p, q) ~ (H(m) - H(p) / 2 - H(q) / 2),   H(p) ~ -1 / |B| sum_(x in B) log p_A(x),   m = (p + q) / 2

p_A is the kernel density estimate from one half A of the points, and B is the other half; the entropy of the mixture is
the mean over the halves B of both sets. So JS is half of the mean of log(p_A / m_A) over B of p, plus the corresponding
term of q. The estimate is the mean of this value and of the value with A and B exchanged (JS_ent of P1, with the
missing factor 1 / |B|). No density is evaluated at points that it was estimated from.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist._numba.compilation import FINITE_REASSOC, jit
from dkdist._numba.products import pad_to_three
from dkdist.embeddings._density_numba import MIN_DENSITY


def densities_at(C: F32, tables: list[F32]) -> F64:
    """Return densities (n,) at points, given basis tables (n, K_j) for each of up to three axes.

    ``C`` (K_1 * .. * K_d,) are cosine coefficients; densities are at least 1e-6. Cost: n K^d.
    """
    n = len(tables[0])
    T, U, V = (
        table if table.shape != (1, 1) else np.ones((n, 1), np.float32) for table in pad_to_three(tables)
    )
    out = np.empty(n)
    _fill_densities(
        C.astype(np.float64), T.astype(np.float64), U.astype(np.float64), V.astype(np.float64), out
    )
    return np.maximum(out, MIN_DENSITY)


def mean_log_ratio(p: F64, q: F64) -> float:
    """Return the mean of log(p / m), m = (p + q) / 2, over densities at the same points."""
    return float(np.mean(np.log(2 * p / (p + q))))


@jit(FINITE_REASSOC)
def _fill_densities(C, T, U, V, out):  # type: ignore[no-untyped-def]
    A, B, K = T.shape[1], U.shape[1], V.shape[1]
    for i in range(len(out)):
        total = 0.0
        for a in range(A):
            line = 0.0
            for b in range(B):
                first, dot = (a * B + b) * K, 0.0
                for c in range(K):
                    dot += C[first + c] * V[i, c]
                line += U[i, b] * dot
            total += T[i, a] * line
        out[i] = total
