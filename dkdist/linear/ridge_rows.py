"""Ridge regression from the rows themselves, for fewer rows than features: the dual problem.

    minimise sum w_i (y_i - x_i v - b)^2 + alpha |v|^2:  v = Z'a,  (K + alpha I) a = r,  K = Z Z',
    Z = sqrt(w) (X - m),  r = sqrt(w) (y - mean y)

K is n x n where the normal equations are D x D: n^2 D operations to make it, n^3 / 3 for a penalty and some 10 n^3 for
the leave-one-out errors of all, in float64. A row that is left out would be missed, times sqrt(w_i), by (with
K = U diag(s) U', q = U'r)

    e_i = sum_j u_ij q_j / (s_j + alpha)  /  sum_j u_ij^2 / (s_j + alpha)

over all directions u_j but that of sqrt(w), which the intercept takes. K gets one large eigenvalue for it.

Rows that are kept and travel: all of a few, or a sample of many, with what is known of them.

What a task of ridge regression sends: statistics of its rows, and those rows that are kept for a closer look.

What ridge regression would say of a row if it had not learned from it, without fitting it again.

    e_i = (y_i - f(x_i)) / (1 - h_i),   h_i = w_i (1/n + (x_i - m)' (C + alpha I)^-1 (x_i - m))

The errors of every row, for every penalty, take a second look at the rows; the values of a sample take only the rows
that were kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64
from dkdist.linear.ridge_statistics import (
    Centred,
    GramAccumulator,
    Inverse,
    Spectrum,
    Statistics,
    merge,
    solution,
)
from dkdist.linear.rows import F, RowBatch, RowLabels, no_rows, valid_rows


@dataclass(frozen=True)
class KeptRows:
    """Rows X (n, D), their targets y (n, k), which are held out (n,), weights and keys (n,), and rows that are skipped.

    Where rows are a sample of many, their keys are the smallest of all.
    """

    X: F
    y: F64
    held_out: NDArray[np.bool_]
    weights: F64
    keys: F64
    skipped: I64

    @classmethod
    def of(cls, X: F, known: RowLabels, codes: F64 | None, skipped: I64) -> KeptRows:
        """Rows as `valid_rows` gives them; with ``codes`` (n_classes, k) their targets are classes."""
        y = known.targets if codes is None else codes[known.targets]
        weights = np.ones(len(X)) if known.weights is None else known.weights
        keys = np.zeros(len(X)) if known.keys is None else known.keys
        return cls(X, y, known.held_out, weights, keys, skipped)

    @classmethod
    def none(cls, n_features: int, n_targets: int, dtype: np.dtype[Any]) -> KeptRows:
        """No rows."""
        X, y = np.empty((0, n_features), dtype), np.empty((0, n_targets))
        return cls(X, y, np.zeros(0, np.bool_), np.zeros(0), np.zeros(0), no_rows())

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.X)

    def part(self, mask: NDArray[Any]) -> KeptRows:
        """Some of the rows: a mask or indices."""
        arrays = (self.X, self.y, self.held_out, self.weights, self.keys)
        X, y, held_out, weights, keys = (array[mask] for array in arrays)
        return KeptRows(X, y, held_out, weights, keys, self.skipped)

    def with_smallest_keys(self, n: int) -> KeptRows:
        """At most n of the rows, in their order."""
        return self.part(np.sort(np.argsort(self.keys, kind="stable")[:n]))


def keep_rows(dtype: np.dtype[Any], codes: F64 | None, blocks: Iterator[Any], rows: RowBatch) -> KeptRows:
    """The usable rows of several blocks in one task."""
    return joined([KeptRows.of(X, known, codes, bad) for X, known, bad in valid_rows(dtype, blocks, rows)])


def join_rows(a: KeptRows, b: KeptRows) -> KeptRows:
    """The rows of both, those of ``a`` first."""
    return joined([a, b])


def joined(parts: list[KeptRows]) -> KeptRows:
    """The rows of all, in order."""
    each = zip(*((p.X, p.y, p.held_out, p.weights, p.keys, p.skipped) for p in parts), strict=True)
    return KeptRows(*(np.concatenate(arrays) for arrays in each))


@dataclass(frozen=True)
class Sums:
    """Statistics of all rows, or of (training, held-out) rows; the rows that were kept; those that were skipped."""

    parts: tuple[Statistics, ...]
    sample: KeptRows
    skipped: I64


def accumulate(
    dtype: np.dtype[Any], centre: bool, split: bool, codes: F64 | None, blocks: Iterator[Any], rows: RowBatch
) -> Sums:
    """Statistics of the rows of several blocks in one task: one part, or with ``split`` training and held-out.

    One block is alive, and of each part a Gram matrix and a tile of rows; ``centre`` is for models with an intercept.
    With ``codes`` (n_classes, n_targets) the targets of the rows are classes.
    """
    n_targets = rows.known.targets.shape[1] if codes is None else codes.shape[1]
    parts = [
        GramAccumulator(Statistics.empty(rows.n_features, n_targets), dtype, centre) for _ in range(1 + split)
    ]
    samples, skipped = [KeptRows.none(rows.n_features, n_targets, dtype)], [no_rows()]
    for X, known, bad in valid_rows(dtype, blocks, rows):
        skipped.append(bad)
        masks = [~known.held_out, known.held_out] if split else [np.ones(len(X), bool)]
        for part, mask in zip(parts, masks, strict=True):
            _add(part, X, known, mask, codes)
        if known.keys is not None:
            kept = np.isfinite(known.keys)
            samples.append(KeptRows.of(X[kept], known.part(kept), codes, no_rows()))
    return Sums(tuple(part.total() for part in parts), joined(samples), np.concatenate(skipped))


def _add(to: GramAccumulator, X: Any, known: RowLabels, mask: Any, codes: F64 | None) -> None:
    """The rows of a mask."""
    if not mask.all():
        X, known = X[mask], known.part(mask)
    to.add(X, known.targets if codes is None else codes[known.targets], known.weights)


def merge_sums(a: Sums, b: Sums) -> Sums:
    """Each part merged with its own kind."""
    parts = tuple(merge(x, y) for x, y in zip(a.parts, b.parts, strict=True))
    return Sums(parts, join_rows(a.sample, b.sample), np.concatenate([a.skipped, b.skipped]))


TILE = 1024  # rows that are looked at together
LEAST_LEFT = 1e-6  # of 1 - h, which rounding errors can take to 0


@dataclass(frozen=True)
class LeaveOneOut:
    """What a second pass needs to know: V in the features' dtype, means, and for every alpha its weights.

    ``inverse`` (n_features, n_alphas) is 1 / (values + alpha); ``weights`` (n_features, n_alphas k).
    """

    mean_x: F
    mean_y: F64
    floor: float
    V: F
    inverse: F
    weights: F

    @classmethod
    def of(
        cls, equations: Centred, eigen: Spectrum, alphas: F64, dtype: np.dtype[Any], centre: bool
    ) -> LeaveOneOut:
        """What follows from the normal equations; ``floor`` is the intercept's part of a leverage."""
        inverse = 1.0 / (eigen.values[:, None] + alphas)
        weights = np.concatenate([eigen.weights(float(alpha)) for alpha in alphas], axis=1)
        floor = 1.0 / equations.n if centre else 0.0
        return cls(
            equations.mean_x.astype(dtype), equations.mean_y, floor, eigen.V.astype(dtype),
            inverse.astype(dtype), weights.astype(dtype),
        )  # fmt: skip


def leave_one_out(known: LeaveOneOut, codes: F64 | None, blocks: Iterator[Any], rows: RowBatch) -> F64:
    """Weighted sum over rows and targets of the squared leave-one-out error of every alpha, (n_alphas,).

    ``codes`` as in `ridge_sums.accumulate`.
    """
    total = np.zeros(known.inverse.shape[1])
    for X, of_rows, _ in valid_rows(known.V.dtype, blocks, rows):
        w = np.ones(len(X)) if of_rows.weights is None else of_rows.weights
        for a in range(0, len(X), TILE):
            T, given, weights = (of_all[a : a + TILE] for of_all in (X, of_rows.targets, w))
            u = given if codes is None else codes[given]
            U = (T - known.mean_x) @ known.V
            h = ((U * U) @ known.inverse).astype(np.float64) + known.floor
            fitted = (U @ known.weights).astype(np.float64).reshape(len(T), len(total), -1)
            residual = (u - known.mean_y)[:, None, :] - fitted
            missed = residual / (1.0 - weights[:, None] * h)[:, :, None]
            total += weights @ (missed**2).sum(axis=2)
    return total


def values_without(rows: KeptRows, equations: Centred, inverse: Inverse, centre: bool) -> F64:
    """(n, k): what the model of one alpha would say of each row that it has learned from, had it not.

    2 n D^2 operations.
    """
    w, b = solution(equations, inverse)
    X = rows.X.astype(np.float64)
    Z = X - equations.mean_x
    h = np.einsum("ij,ji->i", Z, inverse.times(Z.T)) + (1.0 / equations.n if centre else 0.0)
    left = np.maximum(1.0 - rows.weights * h, LEAST_LEFT)
    return np.asarray(rows.y - (rows.y - (X @ w + b)) / left[:, None])


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
