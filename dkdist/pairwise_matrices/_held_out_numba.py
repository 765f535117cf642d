"""Jensen-Shannon divergences from densities of one half of each sample, averaged over the other half.

    JS(p, q) ~ (H(m) - H(p) / 2 - H(q) / 2),   H(p) ~ -1 / |B| sum_(x in B) log p_A(x),   m = (p + q) / 2

p_A is the kernel density estimate of one half of the points, B the other half; the mixture's entropy is the mean over
both sets' halves. So JS is half of the mean of log(p_A / m_A) over p's B, plus the same of q; then with A and B
exchanged, and the mean of both (P1, its JS_ent, with the factor 1 / |B| that it lacks there). No point has a part in
the density that it is looked up in.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist._numba.compilation import SUM, loop
from dkdist._numba.products import three_axes
from dkdist.embeddings._density_numba import FLOOR


def densities_at(C: F32, tables: list[F32]) -> F64:
    """(n,) densities at points whose `density.basis_table` along each of up to three axes are ``tables`` (n, K_j).

    ``C`` (K_1 * .. * K_d,) are cosine coefficients; a density counts as 1e-6 at least. Cost: n K^d.
    """
    n = len(tables[0])
    T, U, V = (
        table if table.shape != (1, 1) else np.ones((n, 1), np.float32) for table in three_axes(tables)
    )
    out = np.empty(n)
    _at(C.astype(np.float64), T.astype(np.float64), U.astype(np.float64), V.astype(np.float64), out)
    return np.maximum(out, FLOOR)


def one_way(own: F64, other: F64) -> float:
    """mean log(p / m) over points of p with densities ``own`` of p and ``other`` of q, m = (p + q) / 2."""
    return float(np.mean(np.log(2 * own / (own + other))))


@loop(SUM)
def _at(C, T, U, V, out):  # type: ignore[no-untyped-def]
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
