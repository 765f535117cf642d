"""Forward selection of columns by a pivoted Cholesky decomposition of F^T F + penalty."""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import FMA, jit


@jit(FMA)
def _add_products(F, other, c, out):  # type: ignore[no-untyped-def]
    """Set out = F^T other[:, c], row by row."""
    out[:] = 0.0
    for i in range(len(F)):
        row, factor = F[i], other[i, c]
        for k in range(len(out)):
            out[k] += factor * row[k]


@jit(FMA)
def select_columns(F, T, penalty, selected):  # type: ignore[no-untyped-def]
    """Fill ``selected`` with columns of F (n, C); each step adds the column that reduces the penalised error of T most.

    T is (n, k). For the set S of selected columns, G (k, C) are products of all columns with the residuals of T, and
    ``d`` squared norms of the residuals of the columns, plus the penalty. Column c reduces the error by G_c^2 / d_c.
    Cost per step: n C + C |S|.
    """
    C, n_targets, R = F.shape[1], T.shape[1], len(selected)
    d, G, L = np.full(C, penalty), np.empty((n_targets, C)), np.empty((R, C))
    is_free, score = np.ones(C, np.bool_), np.empty(C)
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
            if is_free[k] and (best < 0 or score[k] > score[best]):
                best = k
        selected[j], is_free[best] = best, False
        column, root = L[j], np.sqrt(d[best])
        _add_products(F, F, best, column)
        for previous in range(j):
            row, factor = L[previous], L[previous, best]
            for k in range(C):
                column[k] -= factor * row[k]
        for k in range(C):
            column[k] /= root
        for t in range(n_targets):
            g, factor = G[t], G[t, best] / root
            for k in range(C):
                g[k] -= factor * column[k]
        for k in range(C):
            d[k] = max(d[k] - column[k] * column[k], penalty)
