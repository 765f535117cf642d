"""Ridge regression from the rows themselves, for fewer rows than features: the dual problem.

    minimise sum w_i (y_i - x_i v - b)^2 + alpha |v|^2:  v = Z'a,  (K + alpha I) a = r,  K = Z Z',
    Z = sqrt(w) (X - m),  r = sqrt(w) (y - mean y)

K is n x n where the normal equations are D x D: n^2 D operations to make it, n^3 / 3 for a penalty and some 10 n^3 for
the leave-one-out errors of all, in float64. A row that is left out would be missed, times sqrt(w_i), by (with
K = U diag(s) U', q = U'r)

    e_i = sum_j u_ij q_j / (s_j + alpha)  /  sum_j u_ij^2 / (s_j + alpha)

over all directions u_j but that of sqrt(w), which the intercept takes. K gets one large eigenvalue for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from dkdist.learners.kept_rows import KeptRows
from dkdist.learners.rows import F
from dkdist.loops.array_types import F64

PANEL = 512  # columns of a product


@dataclass(frozen=True)
class Spread:
    """Rows about their weighted mean: ``root`` is sqrt(w), (n,)."""

    root: F64
    mean_x: F64
    mean_y: F64

    @classmethod
    def of(cls, rows: KeptRows, centre: bool) -> Spread:
        """That of these rows; means are 0 where there is no intercept."""
        w = rows.weights
        if not centre:
            return cls(np.sqrt(w), np.zeros(rows.X.shape[1]), np.zeros(rows.y.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused with its squares
            return cls(np.sqrt(w), _weighted_mean(rows.X, w), w @ rows.y / w.sum())

    def right(self, rows: KeptRows) -> F64:
        """r (n, k)."""
        return np.asarray(self.root[:, None] * (rows.y - self.mean_y))


def _weighted_mean(X: F, w: F64) -> F64:
    if (w == w[0]).all():
        return np.asarray(X.mean(axis=0, dtype=np.float64))
    return np.asarray(np.einsum("i,ij->j", w / w.sum(), X, dtype=np.float64))


@dataclass(frozen=True)
class Dual:
    """K = U diag(values) U', q = U'r, and the direction of the intercept, of length 1; none without an intercept."""

    values: F64
    U: F64
    q: F64
    of_intercept: F64
    at_intercept: float

    @classmethod
    def of(cls, K: F64, r: F64, root: F64, centre: bool) -> Dual:
        """The eigendecomposition that all penalties share, of K (n, n) about the mean of its rows."""
        direction, at = _of_intercept(K, root, centre)
        if centre:
            K = K + at * np.outer(direction, direction)
        values, U = scipy.linalg.eigh(K, driver="evd", check_finite=False, overwrite_a=centre)
        return cls(np.maximum(values, 0.0), U, U.T @ r, direction, at)

    def weights(self, alpha: float) -> F64:
        """a (n, k) of one penalty, without the directions that rounding errors alone reach."""
        rounding = len(self.values) * np.finfo(np.float64).eps * self.values[-1]
        inverse = np.where(self.values > rounding, 1.0 / (self.values + alpha), 0.0)
        return np.asarray(self.U @ (self.q * inverse[:, None]))

    def leave_one_out(self, alpha: float) -> F64:
        """(n, k): by how much each target, times sqrt(w), is missed by the model of all other rows."""
        inverse = 1.0 / (self.values + alpha)
        missed = self.U @ (self.q * inverse[:, None])
        left = (self.U**2) @ inverse - self.of_intercept**2 / (self.at_intercept + alpha)
        return np.asarray(missed / left[:, None])


def _of_intercept(K: F64, root: F64, centre: bool) -> tuple[F64, float]:
    """The direction of sqrt(w), of length 1, and an eigenvalue for it beyond all others; none without an intercept."""
    if not centre:
        return np.zeros(len(K)), np.inf
    return np.asarray(root / np.sqrt(root @ root)), float(np.trace(K)) + 1.0


def gram(rows: KeptRows, spread: Spread) -> F64:
    """Z Z' (n, n) float64, over panels of columns; ValueError where squares are no floats."""
    X, K = rows.X, np.zeros((rows.n, rows.n))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        for a in range(0, X.shape[1], PANEL):
            Z = spread.root[:, None] * (X[:, a : a + PANEL] - spread.mean_x[a : a + PANEL])
            K += Z @ Z.T
        squares = (spread.right(rows) ** 2).sum()
    if not (np.isfinite(np.diag(K)).all() and np.isfinite(squares)):
        raise ValueError(
            "the features, targets or weights are so large that sums of their squares are no floats: divide them "
            "by a number"
        )
    return K


def factored(K: F64, alpha: float) -> F64 | None:
    """The Cholesky factor of K + alpha I; None where alpha is below the rounding error of K."""
    penalised = K.copy()
    penalised[np.diag_indices_from(K)] += alpha
    try:
        return np.asarray(scipy.linalg.cholesky(penalised, overwrite_a=True, check_finite=False))
    except np.linalg.LinAlgError:
        return None


@dataclass(frozen=True)
class DualProblem:
    """Some rows about their mean, K of them, and r; ``centre`` is for models with an intercept."""

    rows: KeptRows
    spread: Spread
    K: F64
    centre: bool

    @classmethod
    def of(cls, rows: KeptRows, centre: bool) -> DualProblem:
        """n^2 D operations."""
        spread = Spread.of(rows, centre)
        return cls(rows, spread, gram(rows, spread), centre)

    @property
    def right(self) -> F64:
        """r (n, k)."""
        return self.spread.right(self.rows)

    def spectrum(self) -> Dual:
        """The eigendecomposition that all penalties share."""
        return Dual.of(self.K, self.right, self.spread.root, self.centre)

    def leave_one_out_errors(self, alphas: F64) -> F64:
        """Mean squared leave-one-out error of every alpha, (n_alphas,)."""
        dual, total = self.spectrum(), float(self.rows.weights.sum()) * self.rows.y.shape[1]
        errors = [(dual.leave_one_out(float(alpha)) ** 2).sum() for alpha in alphas]
        found: F64 = np.array(errors) / total
        return found

    def values_without(self, alpha: float) -> F64:
        """(n, k): what the model would say of each row, had it not learned from it; n^3 operations."""
        root = self.spread.root
        direction, at = _of_intercept(self.K, root, self.centre)
        factor = factored(self.K + (at * np.outer(direction, direction) if self.centre else 0.0), alpha)
        if factor is None:
            missed = self.spectrum().leave_one_out(alpha)
        else:
            inverse, _ = scipy.linalg.lapack.dpotri(factor)
            a = scipy.linalg.cho_solve((factor, False), self.right, check_finite=False)
            missed = a / (np.diag(inverse) - direction**2 / (at + alpha))[:, None]
        return np.asarray(self.rows.y - missed / root[:, None])

    def weights(self, alpha: float) -> F64:
        """a (n, k): n^3 / 3 operations, by eigenvalues where there is no Cholesky factor."""
        factor = factored(self.K, alpha)
        if factor is None:
            return self.spectrum().weights(alpha)
        return np.asarray(scipy.linalg.cho_solve((factor, False), self.right, check_finite=False))

    def solution(self, alpha: float) -> tuple[F64, F64]:
        """Coefficients (n_features, n_targets) and intercepts for one alpha."""
        X, mean_x = self.rows.X, self.spread.mean_x
        a = self.weights(alpha) * self.spread.root[:, None]
        w = np.empty((X.shape[1], a.shape[1]))
        for first in range(0, len(w), PANEL):
            panel = slice(first, first + PANEL)
            w[panel] = (X[:, panel] - mean_x[panel]).T @ a
        return w, self.spread.mean_y - mean_x @ w


def dual_held_out_errors(rows: KeptRows, alphas: F64, centre: bool) -> F64:
    """Mean squared error of every alpha, (n_alphas,), on the held-out rows by models of the others."""
    held_out, train = rows.held_out, rows.part(~rows.held_out)
    of_train = Spread.of(train, centre)
    spread = replace(of_train, root=np.sqrt(rows.weights))
    K = gram(rows, spread)
    problem = DualProblem(train, of_train, K[np.ix_(~held_out, ~held_out)], centre)
    cross, right = K[np.ix_(held_out, ~held_out)], spread.right(rows)[held_out]
    errors = [((cross @ problem.weights(float(alpha)) - right) ** 2).sum() for alpha in alphas]
    found: F64 = np.array(errors) / (float(rows.weights[held_out].sum()) * right.shape[1])
    return found
