"""Forward selection of columns by a Cholesky decomposition of F^T F + penalty that finds its own order."""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import FMA, jit


@jit(FMA)
def _add_products(F, other, c, out):  # type: ignore[no-untyped-def]
    """out = F^T other[:, c], row after row."""
    out[:] = 0.0
    for i in range(len(F)):
        row, share = F[i], other[i, c]
        for k in range(len(out)):
            out[k] += share * row[k]


@jit(FMA)
def select_columns(F, T, penalty, chosen):  # type: ignore[no-untyped-def]
    """Fill ``chosen`` with columns of F (n, C), each the one that lowers the penalised squares of T (n, k) most.

    With the columns S taken so far, G (k, C) are products of all columns with what is left of T, ``d`` the squares of
    what is left of them, with the penalty: G_c^2 / d_c is what column c would lower. Cost: n C + C |S| a step.
    """
    C, n_targets, R = F.shape[1], T.shape[1], len(chosen)
    d, G, L = np.full(C, penalty), np.empty((n_targets, C)), np.empty((R, C))
    free, score = np.ones(C, np.bool_), np.empty(C)
    for i in range(len(F)):
        row = F[i]
        for k in range(C):
            d[k] += row[k] * row[k]
    for t in range(n_targets):
        _add_products(F, T, t, G[t])
    for j in range(R):
        score[:] = 0.0
        for t in range(n_targets):
            g = G[t]
            for k in range(C):
                score[k] += g[k] * g[k]
        best = -1
        for k in range(C):
            score[k] /= d[k]
            if free[k] and (best < 0 or score[k] > score[best]):
                best = k
        chosen[j], free[best] = best, False
        column, root = L[j], np.sqrt(d[best])
        _add_products(F, F, best, column)
        for before in range(j):
            row, share = L[before], L[before, best]
            for k in range(C):
                column[k] -= share * row[k]
        for k in range(C):
            column[k] /= root
        for t in range(n_targets):
            g, share = G[t], G[t, best] / root
            for k in range(C):
                g[k] -= share * column[k]
        for k in range(C):
            d[k] = max(d[k] - column[k] * column[k], penalty)
