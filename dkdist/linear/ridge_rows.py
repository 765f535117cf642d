"""Ridge regression from rows: the dual problem, samples of rows, and leave-one-out predictions.

Dual problem, for at most as many rows as features:

    minimise sum w_i (y_i - x_i v - b)^2 + alpha |v|^2:  v = Z'a,  (K + alpha I) a = r,  K = Z Z',
    Z = sqrt(w) (X - m),  r = sqrt(w) (y - mean y)

K is n x n, the normal equations are D x D. Cost: n^2 D operations for K, n^3 / 3 per penalty, about 10 n^3 for all
leave-one-out errors, in float64. With K = U diag(s) U', q = U'r the error of row i, times sqrt(w_i), is

    e_i = sum_j u_ij q_j / (s_j + alpha)  /  sum_j u_ij^2 / (s_j + alpha)

over all eigenvectors u_j except sqrt(w), the direction of the intercept, which gets one large eigenvalue in K. With the
normal equations and C as in `ridge_statistics`, the error is

    e_i = (y_i - f(x_i)) / (1 - h_i),   h_i = w_i (1/n + (x_i - m)' (C + alpha I)^-1 (x_i - m))

which takes a second pass over all rows, or only the sampled rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64
from dkdist.linear._tuning import COLUMNS_PER_DUAL_PRODUCT, ROWS_PER_LEAVE_ONE_OUT_TILE
from dkdist.linear.ridge_statistics import (
    GramAccumulator,
    Inverse,
    NormalEquations,
    Spectrum,
    Statistics,
    merge,
    solve,
)
from dkdist.linear.rows import F, RowBatch, RowLabels, no_rows, valid_rows


@dataclass(frozen=True)
class SampledRows:
    """Rows X (n, D), targets y (n, k), held-out mask, weights and keys (n,), and positions of skipped rows.

    A sample consists of the rows with the smallest keys.
    """

    X: F
    y: F64
    held_out: NDArray[np.bool_]
    weights: F64
    keys: F64
    skipped: I64

    @classmethod
    def of(cls, X: F, labels: RowLabels, codes: F64 | None, skipped: I64) -> SampledRows:
        """Return rows of `valid_rows`; if ``codes`` (n_classes, k) is not None, targets are class indices."""
        y = labels.targets if codes is None else codes[labels.targets]
        weights = np.ones(len(X)) if labels.weights is None else labels.weights
        keys = np.zeros(len(X)) if labels.keys is None else labels.keys
        return cls(X, y, labels.held_out, weights, keys, skipped)

    @classmethod
    def none(cls, n_features: int, n_targets: int, dtype: np.dtype[Any]) -> SampledRows:
        """Return an empty sample."""
        X, y = np.empty((0, n_features), dtype), np.empty((0, n_targets))
        return cls(X, y, np.zeros(0, np.bool_), np.zeros(0), np.zeros(0), no_rows())

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X)

    def part(self, mask: NDArray[Any]) -> SampledRows:
        """Return the rows that a mask or indices select."""
        arrays = (self.X, self.y, self.held_out, self.weights, self.keys)
        X, y, held_out, weights, keys = (array[mask] for array in arrays)
        return SampledRows(X, y, held_out, weights, keys, self.skipped)

    def with_smallest_keys(self, n: int) -> SampledRows:
        """Return the n rows with the smallest keys, in their original order."""
        return self.part(np.sort(np.argsort(self.keys, kind="stable")[:n]))


def collect_rows(
    dtype: np.dtype[Any], codes: F64 | None, blocks: Iterator[Any], rows: RowBatch
) -> SampledRows:
    """Return the valid rows of several blocks."""
    return concatenate_rows(
        [SampledRows.of(X, labels, codes, skipped) for X, labels, skipped in valid_rows(dtype, blocks, rows)]
    )


def join_rows(a: SampledRows, b: SampledRows) -> SampledRows:
    """Concatenate two groups of rows."""
    return concatenate_rows([a, b])


def concatenate_rows(parts: list[SampledRows]) -> SampledRows:
    """Concatenate groups of rows in order."""
    columns = zip(*((p.X, p.y, p.held_out, p.weights, p.keys, p.skipped) for p in parts), strict=True)
    return SampledRows(*(np.concatenate(arrays) for arrays in columns))


@dataclass(frozen=True)
class RidgeSums:
    """Statistics of all rows, or of training and held-out rows; sampled rows; and positions of skipped rows."""

    parts: tuple[Statistics, ...]
    sample: SampledRows
    skipped: I64


def accumulate(
    dtype: np.dtype[Any],
    centre: bool,
    has_held_out: bool,
    codes: F64 | None,
    blocks: Iterator[Any],
    rows: RowBatch,
) -> RidgeSums:
    """Return the statistics of several blocks, separate for training and held-out rows if requested.

    In memory: one block, and a Gram matrix and a tile of rows per part. ``centre`` is True for models with an
    intercept. If ``codes`` (n_classes, n_targets) is not None, targets are class indices.
    """
    n_targets = rows.labels.targets.shape[1] if codes is None else codes.shape[1]
    parts = [
        GramAccumulator(Statistics.empty(rows.n_features, n_targets), dtype, centre)
        for _ in range(1 + has_held_out)
    ]
    samples, skipped = [SampledRows.none(rows.n_features, n_targets, dtype)], [no_rows()]
    for X, labels, invalid in valid_rows(dtype, blocks, rows):
        skipped.append(invalid)
        masks = [~labels.held_out, labels.held_out] if has_held_out else [np.ones(len(X), bool)]
        for part, mask in zip(parts, masks, strict=True):
            _add_masked(part, X, labels, mask, codes)
        if labels.keys is not None:
            sampled = np.isfinite(labels.keys)
            samples.append(SampledRows.of(X[sampled], labels.part(sampled), codes, no_rows()))
    return RidgeSums(
        tuple(part.total() for part in parts), concatenate_rows(samples), np.concatenate(skipped)
    )


def _add_masked(gram: GramAccumulator, X: Any, labels: RowLabels, mask: Any, codes: F64 | None) -> None:
    if not mask.all():
        X, labels = X[mask], labels.part(mask)
    gram.add(X, labels.targets if codes is None else codes[labels.targets], labels.weights)


def merge_sums(a: RidgeSums, b: RidgeSums) -> RidgeSums:
    """Merge the statistics and rows of two tasks."""
    parts = tuple(merge(x, y) for x, y in zip(a.parts, b.parts, strict=True))
    return RidgeSums(parts, join_rows(a.sample, b.sample), np.concatenate([a.skipped, b.skipped]))


# Rounding errors can make 1 - h zero (tests/learners/test_ridge_rows.py).
MIN_ONE_MINUS_LEVERAGE = 1e-6


@dataclass(frozen=True)
class LeaveOneOutPass:
    """Parameters of the second pass: means, eigenvectors V in the dtype of the features, and weights for each alpha.

    ``inverse`` (n_features, n_alphas) is 1 / (values + alpha). ``weights`` has shape (n_features, n_alphas k).
    ``floor`` is the leverage of the intercept.
    """

    mean_x: F
    mean_y: F64
    floor: float
    V: F
    inverse: F
    weights: F

    @classmethod
    def of(
        cls, equations: NormalEquations, eigen: Spectrum, alphas: F64, dtype: np.dtype[Any], centre: bool
    ) -> LeaveOneOutPass:
        """Return the parameters from normal equations and their eigendecomposition."""
        inverse = 1.0 / (eigen.values[:, None] + alphas)
        weights = np.concatenate([eigen.weights(float(alpha)) for alpha in alphas], axis=1)
        floor = 1.0 / equations.n if centre else 0.0
        return cls(
            equations.mean_x.astype(dtype), equations.mean_y, floor, eigen.V.astype(dtype),
            inverse.astype(dtype), weights.astype(dtype),
        )  # fmt: skip


def add_leave_one_out_errors(
    params: LeaveOneOutPass, codes: F64 | None, blocks: Iterator[Any], rows: RowBatch
) -> F64:
    """Return the sums (n_alphas,) over rows and targets of weighted squared leave-one-out errors."""
    total = np.zeros(params.inverse.shape[1])
    for X, of_rows, _ in valid_rows(params.V.dtype, blocks, rows):
        w = np.ones(len(X)) if of_rows.weights is None else of_rows.weights
        for a in range(0, len(X), ROWS_PER_LEAVE_ONE_OUT_TILE):
            T, targets, weights = (
                of_all[a : a + ROWS_PER_LEAVE_ONE_OUT_TILE] for of_all in (X, of_rows.targets, w)
            )
            u = targets if codes is None else codes[targets]
            U = (T - params.mean_x) @ params.V
            h = ((U * U) @ params.inverse).astype(np.float64) + params.floor
            fitted = (U @ params.weights).astype(np.float64).reshape(len(T), len(total), -1)
            residual = (u - params.mean_y)[:, None, :] - fitted
            errors = residual / (1.0 - weights[:, None] * h)[:, :, None]
            total += weights @ (errors**2).sum(axis=2)
    return total


def leave_one_out_values(
    rows: SampledRows, equations: NormalEquations, inverse: Inverse, centre: bool
) -> F64:
    """Return leave-one-out predictions (n, k) of sampled training rows: 2 n D^2 operations."""
    w, b = solve(equations, inverse)
    X = rows.X.astype(np.float64)
    Z = X - equations.mean_x
    h = np.einsum("ij,ji->i", Z, inverse.times(Z.T)) + (1.0 / equations.n if centre else 0.0)
    one_minus_h = np.maximum(1.0 - rows.weights * h, MIN_ONE_MINUS_LEVERAGE)
    return np.asarray(rows.y - (rows.y - (X @ w + b)) / one_minus_h[:, None])


@dataclass(frozen=True)
class RowCentring:
    """Square roots of the weights (n,), and weighted means of rows and targets."""

    root: F64
    mean_x: F64
    mean_y: F64

    @classmethod
    def of(cls, rows: SampledRows, centre: bool) -> RowCentring:
        """Return the centring of rows; means are 0 without an intercept."""
        w = rows.weights
        if not centre:
            return cls(np.sqrt(w), np.zeros(rows.X.shape[1]), np.zeros(rows.y.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):  # `gram` raises ValueError for overflow
            return cls(np.sqrt(w), _weighted_mean(rows.X, w), w @ rows.y / w.sum())

    def targets(self, rows: SampledRows) -> F64:
        """Return r (n, k)."""
        return np.asarray(self.root[:, None] * (rows.y - self.mean_y))


def _weighted_mean(X: F, w: F64) -> F64:
    if (w == w[0]).all():
        return np.asarray(X.mean(axis=0, dtype=np.float64))
    return np.asarray(np.einsum("i,ij->j", w / w.sum(), X, dtype=np.float64))


@dataclass(frozen=True)
class DualSpectrum:
    """K = U diag(values) U', q = U'r, and the unit vector of the intercept (0 without an intercept)."""

    values: F64
    U: F64
    q: F64
    intercept_direction: F64
    intercept_eigenvalue: float

    @classmethod
    def of(cls, K: F64, r: F64, root: F64, centre: bool) -> DualSpectrum:
        """Return the eigendecomposition of K (n, n), which all penalties share."""
        direction, eigenvalue = _intercept_direction(K, root, centre)
        if centre:
            K = K + eigenvalue * np.outer(direction, direction)
        values, U = scipy.linalg.eigh(K, driver="evd", check_finite=False, overwrite_a=centre)
        return cls(np.maximum(values, 0.0), U, U.T @ r, direction, eigenvalue)

    def weights(self, alpha: float) -> F64:
        """Return dual coefficients a (n, k) for one penalty, without directions of rounding errors."""
        rounding = len(self.values) * np.finfo(np.float64).eps * self.values[-1]
        inverse = np.where(self.values > rounding, 1.0 / (self.values + alpha), 0.0)
        return np.asarray(self.U @ (self.q * inverse[:, None]))

    def leave_one_out(self, alpha: float) -> F64:
        """Return the leave-one-out errors (n, k), times sqrt(w)."""
        inverse = 1.0 / (self.values + alpha)
        numerator = self.U @ (self.q * inverse[:, None])
        denominator = (self.U**2) @ inverse - self.intercept_direction**2 / (
            self.intercept_eigenvalue + alpha
        )
        return np.asarray(numerator / denominator[:, None])


def _intercept_direction(K: F64, root: F64, centre: bool) -> tuple[F64, float]:
    """Return the unit vector along sqrt(w) and an eigenvalue above all others; without an intercept (0, inf)."""
    if not centre:
        return np.zeros(len(K)), np.inf
    return np.asarray(root / np.sqrt(root @ root)), float(np.trace(K)) + 1.0


def gram(rows: SampledRows, spread: RowCentring) -> F64:
    """Return Z Z' (n, n) float64, by panels of columns; ValueError for overflow."""
    X, K = rows.X, np.zeros((rows.n, rows.n))
    with np.errstate(over="ignore", invalid="ignore"):  # overflow raises ValueError below
        for a in range(0, X.shape[1], COLUMNS_PER_DUAL_PRODUCT):
            Z = spread.root[:, None] * (
                X[:, a : a + COLUMNS_PER_DUAL_PRODUCT] - spread.mean_x[a : a + COLUMNS_PER_DUAL_PRODUCT]
            )
            K += Z @ Z.T
        squares = (spread.targets(rows) ** 2).sum()
    if not (np.isfinite(np.diag(K)).all() and np.isfinite(squares)):
        raise ValueError(
            "X, y and sample_weight must have finite sums of squares; got an overflow. Divide them by a constant."
        )
    return K


def cholesky_or_none(K: F64, alpha: float) -> F64 | None:
    """Return the Cholesky factor of K + alpha I, or None if alpha is below the rounding error of K."""
    penalised = K.copy()
    penalised[np.diag_indices_from(K)] += alpha
    try:
        return np.asarray(scipy.linalg.cholesky(penalised, overwrite_a=True, check_finite=False))
    except np.linalg.LinAlgError:
        return None


@dataclass(frozen=True)
class DualProblem:
    """Rows, their centring and kernel matrix K; ``centre`` is True for models with an intercept."""

    rows: SampledRows
    centring: RowCentring
    K: F64
    centre: bool

    @classmethod
    def of(cls, rows: SampledRows, centre: bool) -> DualProblem:
        """Return the problem with its kernel matrix K: n^2 D operations."""
        centring = RowCentring.of(rows, centre)
        return cls(rows, centring, gram(rows, centring), centre)

    @property
    def targets(self) -> F64:
        """Centred and weighted targets r (n, k)."""
        return self.centring.targets(self.rows)

    def spectrum(self) -> DualSpectrum:
        """Return the eigendecomposition that all penalties share."""
        return DualSpectrum.of(self.K, self.targets, self.centring.root, self.centre)

    def leave_one_out_errors(self, alphas: F64) -> F64:
        """Return the mean squared leave-one-out error (n_alphas,) for every alpha."""
        dual, total = self.spectrum(), float(self.rows.weights.sum()) * self.rows.y.shape[1]
        errors = [(dual.leave_one_out(float(alpha)) ** 2).sum() for alpha in alphas]
        errors_mean: F64 = np.array(errors) / total
        return errors_mean

    def values_without(self, alpha: float) -> F64:
        """Return leave-one-out predictions (n, k): n^3 operations."""
        root = self.centring.root
        direction, eigenvalue = _intercept_direction(self.K, root, self.centre)
        factor = cholesky_or_none(
            self.K + (eigenvalue * np.outer(direction, direction) if self.centre else 0.0), alpha
        )
        if factor is None:
            residuals = self.spectrum().leave_one_out(alpha)
        else:
            inverse, _ = scipy.linalg.lapack.dpotri(factor)
            a = scipy.linalg.cho_solve((factor, False), self.targets, check_finite=False)
            residuals = a / (np.diag(inverse) - direction**2 / (eigenvalue + alpha))[:, None]
        return np.asarray(self.rows.y - residuals / root[:, None])

    def weights(self, alpha: float) -> F64:
        """Return dual coefficients a (n, k): n^3 / 3 operations, or by eigenvalues without a Cholesky factor."""
        factor = cholesky_or_none(self.K, alpha)
        if factor is None:
            return self.spectrum().weights(alpha)
        return np.asarray(scipy.linalg.cho_solve((factor, False), self.targets, check_finite=False))

    def solution(self, alpha: float) -> tuple[F64, F64]:
        """Return coefficients (n_features, n_targets) and intercepts for one alpha."""
        X, mean_x = self.rows.X, self.centring.mean_x
        a = self.weights(alpha) * self.centring.root[:, None]
        w = np.empty((X.shape[1], a.shape[1]))
        for first in range(0, len(w), COLUMNS_PER_DUAL_PRODUCT):
            panel = slice(first, first + COLUMNS_PER_DUAL_PRODUCT)
            w[panel] = (X[:, panel] - mean_x[panel]).T @ a
        return w, self.centring.mean_y - mean_x @ w


def dual_held_out_errors(rows: SampledRows, alphas: F64, centre: bool) -> F64:
    """Return the mean squared error (n_alphas,) on held-out rows of models fitted on training rows."""
    held_out, train = rows.held_out, rows.part(~rows.held_out)
    train_centring = RowCentring.of(train, centre)
    centring = replace(train_centring, root=np.sqrt(rows.weights))
    K = gram(rows, centring)
    problem = DualProblem(train, train_centring, K[np.ix_(~held_out, ~held_out)], centre)
    cross, targets = K[np.ix_(held_out, ~held_out)], centring.targets(rows)[held_out]
    errors = [((cross @ problem.weights(float(alpha)) - targets) ** 2).sum() for alpha in alphas]
    mean_errors: F64 = np.array(errors) / (float(rows.weights[held_out].sum()) * targets.shape[1])
    return mean_errors
