"""Ridge regression from the rows themselves, for fewer rows than features: the dual problem.

    minimise |y - X w - b|^2 + alpha |w|^2:  w = Z'a,  (K + alpha I) a = y - mean y,  K = Z Z',  Z = X - m

K is n x n where the normal equations are D x D: n^2 D operations to make it and some 10 n^3 for every penalty, in
float64. A row that is left out would be missed by (with K = U diag(s) U', r = U'(y - mean y))

    e_i = sum_j u_ij r_j / (s_j + alpha)  /  sum_j u_ij^2 / (s_j + alpha)

over all directions u_j but that of the ones, which the intercept takes. K gets one large eigenvalue for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkdist.learners.rows import F, Rows, no_rows, usable
from dkdist.loops.array_types import F64, I64

PANEL = 512  # columns of a product


@dataclass(frozen=True)
class KeptRows:
    """Rows X (n, D), their targets y (n, k), which are held out (n,), and the rows that were skipped."""

    X: F
    y: F64
    held_out: NDArray[np.bool_]
    skipped: I64

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.X)


def keep_rows(dtype: np.dtype[Any], codes: F64 | None, blocks: Iterator[Any], rows: Rows) -> KeptRows:
    """The usable rows of several blocks in one task. With ``codes`` (n_classes, k) their targets are classes."""
    n_targets = rows.targets.shape[1] if codes is None else codes.shape[1]
    X, y = [np.empty((0, rows.n_features), dtype)], [np.empty((0, n_targets))]
    held_out, skipped = [np.zeros(0, np.bool_)], [no_rows()]
    for block, targets, held, bad in usable(dtype, blocks, rows):
        X.append(block)
        y.append(targets if codes is None else codes[targets])
        held_out.append(held)
        skipped.append(bad)
    return KeptRows(*(np.concatenate(parts) for parts in (X, y, held_out, skipped)))


def join_rows(a: KeptRows, b: KeptRows) -> KeptRows:
    """The rows of both, those of ``a`` first."""
    pairs = ((a.X, b.X), (a.y, b.y), (a.held_out, b.held_out), (a.skipped, b.skipped))
    return KeptRows(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True)
class Dual:
    """K = U diag(values) U' of n rows about their mean, and r = U'(y - mean y); ``values[-1]`` stands for the ones.

    Without an intercept there is no such direction, and ``ones`` is infinite.
    """

    mean_y: F64
    values: F64
    U: F64
    r: F64
    ones: float

    @classmethod
    def of(cls, K: F64, y: F64, centre: bool) -> Dual:
        """The eigendecomposition that all penalties share, of K (n, n) about the mean of its rows."""
        n, ones = len(K), np.inf
        if centre:
            ones = float(np.trace(K)) + 1.0
            K = K + ones / n
        values, U = scipy.linalg.eigh(K, driver="evd", check_finite=False, overwrite_a=centre)
        mean_y = y.mean(axis=0) if centre else np.zeros(y.shape[1])
        return cls(mean_y, np.maximum(values, 0.0), U, U.T @ (y - mean_y), ones)

    def weights(self, alpha: float) -> F64:
        """a (n, k) of one penalty, without the directions that rounding errors alone reach."""
        rounding = len(self.values) * np.finfo(np.float64).eps * self.values[-1]
        inverse = np.where(self.values > rounding, 1.0 / (self.values + alpha), 0.0)
        return np.asarray(self.U @ (self.r * inverse[:, None]))

    def leave_one_out(self, alpha: float) -> F64:
        """(n, k): by how much each target is missed by the model of all other rows."""
        inverse = 1.0 / (self.values + alpha)
        missed = self.U @ (self.r * inverse[:, None])
        left = (self.U**2) @ inverse - 1.0 / (len(inverse) * (self.ones + alpha))
        return np.asarray(missed / left[:, None])


def gram(rows: KeptRows, mean: F64) -> F64:
    """Z Z' (n, n) float64 of rows about ``mean``, over panels of columns; ValueError where squares are no floats."""
    X, K = rows.X, np.zeros((rows.n, rows.n))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        for a in range(0, X.shape[1], PANEL):
            Z = X[:, a : a + PANEL] - mean[a : a + PANEL]
            K += Z @ Z.T
        squares = (rows.y**2).sum()
    if not (np.isfinite(np.diag(K)).all() and np.isfinite(squares)):
        raise ValueError(
            "the features or targets are so large that sums of their squares are no floats: divide them by a number"
        )
    return K


def dual_held_out_errors(rows: KeptRows, alphas: F64, centre: bool) -> F64:
    """Mean squared error of every alpha, (n_alphas,), on the held-out rows by models of the others."""
    train = ~rows.held_out
    K = gram(rows, _mean(rows.X[train], centre))
    dual = Dual.of(K[np.ix_(train, train)], rows.y[train], centre)
    cross, y = K[np.ix_(rows.held_out, train)], rows.y[rows.held_out] - dual.mean_y
    return np.array([((cross @ dual.weights(float(alpha)) - y) ** 2).mean() for alpha in alphas])


def dual_leave_one_out_errors(rows: KeptRows, alphas: F64, centre: bool) -> F64:
    """Mean squared leave-one-out error of every alpha, (n_alphas,)."""
    dual = Dual.of(gram(rows, _mean(rows.X, centre)), rows.y, centre)
    return np.array([(dual.leave_one_out(float(alpha)) ** 2).mean() for alpha in alphas])


def dual_solution(rows: KeptRows, alpha: float, centre: bool) -> tuple[F64, F64]:
    """Coefficients (n_features, n_targets) and intercepts for one alpha: n^2 D + n^3 / 3 operations.

    By a Cholesky factor; where alpha is below the rounding error of K, so that there is none, by the eigenvalues.
    """
    mean = _mean(rows.X, centre)
    K, mean_y = gram(rows, mean), rows.y.mean(axis=0) if centre else np.zeros(rows.y.shape[1])
    penalised = K.copy()
    penalised[np.diag_indices_from(K)] += alpha
    try:
        factor = scipy.linalg.cho_factor(penalised, overwrite_a=True, check_finite=False)
        a = scipy.linalg.cho_solve(factor, rows.y - mean_y, check_finite=False)
    except np.linalg.LinAlgError:
        a = Dual.of(K, rows.y, centre).weights(alpha)
    w = np.empty((rows.X.shape[1], a.shape[1]))
    for first in range(0, len(w), PANEL):
        panel = slice(first, first + PANEL)
        w[panel] = (rows.X[:, panel] - mean[panel]).T @ a
    return w, mean_y - mean @ w


def _mean(X: F, centre: bool) -> F64:
    with np.errstate(over="ignore"):
        return X.mean(axis=0, dtype=np.float64) if centre else np.zeros(X.shape[1])
