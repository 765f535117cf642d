"""Covariates and nuisance variables of automatic models: columns, their encoding, adjusted rows, and an offset.

The columns of all variables are Z = (C, A): covariates and adjusted variables. Rows R of sets are replaced by the
residuals R - Z B of weighted least squares of the training sets. For linear models of the rows this is the joint fit on
rows and columns (Frisch, Waugh 1933; Lovell 1963). Predictions add the offset C b of a ridge regression on (C, A),
which does not penalise A. Models of the rows are fitted to targets minus the offset of a fit without the own set or
group, because an offset that was fitted to a target would hide effects of covariates from the selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base._tuning import MIN_SETS_PER_CATEGORY
from dkdist._base.design_columns import DesignColumn, StudyDesign, encode, encodings
from dkdist._base.inputs import Sets
from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.serialization import serializable
from dkdist.auto import _tuning
from dkdist.auto.folds import draw_folds, max_folds
from dkdist.linear.cox import ArrayRows, Survival, fit_cox

COVARIATES = "covariates"
"""The name of the baseline that predicts from the covariates alone."""
RANK_RTOL = 1e-10  # singular values below this fraction of the largest are rounding errors of equal columns


@serializable("StudyDesign")
@dataclass(frozen=True)
class FittedDesign:
    """Encodings of all variables, and coefficients (k, t) of the columns of the covariates."""

    variables: tuple[DesignColumn, ...]
    n_covariates: int
    coef: F64

    def check_loaded(self) -> None:
        """Raise ValueError unless there is one row of coefficients per column of the covariates."""
        widths = [len(variable.centre) for variable in self.variables]
        if not 0 <= self.n_covariates <= len(widths) or self.coef.shape[:1] != (
            sum(widths[: self.n_covariates]),
        ):
            raise ValueError(
                f"The design has {self.n_covariates} covariates of {widths} columns and coefficients of shape "
                f"{self.coef.shape}, which are inconsistent."
            )

    @classmethod
    def fit(cls, design: StudyDesign, y: F64, weights: F64, groups: Any) -> tuple[FittedDesign, F64, F64]:
        """Return the fitted design, columns (n, q), and offsets (n, t) without the own set or group."""
        variables = encodings(design, weights)
        Z = encode(variables, design)
        k = sum(len(one.centre) for one in variables[: design.n_covariates])
        coef, offset = fit_offset(Z[:, :k], Z[:, k:], y, weights, groups)
        return cls(variables, design.n_covariates, coef), Z, offset

    @classmethod
    def fit_hazards(
        cls, design: StudyDesign, y: Survival, groups: Any, seed: int
    ) -> tuple[FittedDesign, F64, F64, F64]:
        """Return the design fitted by Cox regression, columns (n, q), and held-out log hazards of all variables (n,).

        Also the part (n, 1) of these that covariates predict.
        """
        variables = encodings(design, y.weights)
        Z = encode(variables, design)
        k = sum(len(one.centre) for one in variables[: design.n_covariates])
        coef, log_hazards, offset = fit_hazard_offset(Z[:, :k], Z[:, k:], y, groups, seed)
        return cls(variables, design.n_covariates, coef[:, None]), Z, log_hazards, offset[:, None]

    @property
    def n_columns(self) -> int:
        """Number q of columns."""
        return sum(len(variable.centre) for variable in self.variables)

    def read(self, sets: Sets) -> StudyDesign:
        """Read the variables from the targets of sets."""
        names = [variable.name for variable in self.variables]
        return StudyDesign.of(sets, names[: self.n_covariates], names[self.n_covariates :])

    def encode(self, design: StudyDesign, *, warn: bool = False) -> F64:
        """Return columns (n, q); warn of unknown categories."""
        return encode(self.variables, design, warn=warn)

    def offset(self, Z: F64) -> F64:
        """Return the predictions (n, t) from the covariates of columns (n, q), relative to their mean."""
        return np.asarray(Z[:, : len(self.coef)] @ self.coef)


def least_squares(Z: F64, weights: F64) -> F64:
    """Return P (q, n) such that P Y are the coefficients of weighted least squares of Y (n, m) on 1 and Z (n, q).

    The smallest coefficients, if columns are linearly dependent.
    """
    root = np.sqrt(weights)[:, None]
    centred = Z - np.average(Z, axis=0, weights=weights)
    return np.asarray(np.linalg.pinv(root * centred, rcond=RANK_RTOL) * root.T, np.float64)


def residuals(Z: F64, weights: F64, Y: F64) -> F64:
    """Return residuals (n, t) of weighted least squares of Y (n, t) on 1 and Z; values within rounding become 0."""
    centred = Y - np.average(Y, axis=0, weights=weights)
    left = centred - (Z - np.average(Z, axis=0, weights=weights)) @ (least_squares(Z, weights) @ Y)
    left[np.abs(left) <= 1e-9 * np.abs(centred).max(initial=0.0)] = 0.0
    return np.asarray(left)


def permutation_strata(design: StudyDesign, y: F64, weights: F64) -> I64:
    """Return a stratum (n,) of each set such that targets may be permuted within strata.

    Sets with the same design are exchangeable under independence given the design; the test is exact. If there are too
    few of these, as with numbers, sets with similar expected targets form strata of ten: targets are independent of the
    design given their expectation (Rosenbaum, Rubin 1983), which least squares estimates.
    """
    Z = encode(encodings(design, weights), design)
    cells, strata = np.unique(np.round(Z, 9), axis=0, return_inverse=True)
    if len(cells) * MIN_SETS_PER_CATEGORY <= len(y):
        return strata.reshape(-1)
    expected = y - residuals(Z, weights, y)
    centred = expected - expected.mean(axis=0)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    rank = np.argsort(np.argsort(centred @ axis, kind="stable"), kind="stable")
    return np.minimum(rank // _tuning.SETS_PER_STRATUM, max(0, len(y) // _tuning.SETS_PER_STRATUM - 1))


def adjust_rows(
    rows: Mapping[int, F32], Z: F64, weights: F64, images: Mapping[int, Sequence[I64]]
) -> tuple[dict[int, F32], dict[int, F64]]:
    """Return the residuals of rows (n, m) of each leaf, and the coefficients B (q, m) of its least squares.

    Coefficients are averaged over ``images`` of the columns of a leaf, as if the data contained all images, so that
    symmetric models remain symmetric.
    """
    P = least_squares(Z, weights)
    adjusted_rows, coefficients = {}, {}
    for leaf, leaf_rows in rows.items():
        # products in float64 copy the columns
        steps = range(0, leaf_rows.shape[1], _tuning.MAX_COLUMNS_OF_PRODUCT)
        B = np.concatenate([P @ leaf_rows[:, i : i + _tuning.MAX_COLUMNS_OF_PRODUCT] for i in steps], axis=1)
        if images.get(leaf):
            B = np.mean([B, *(B[:, columns] for columns in images[leaf])], axis=0)
        coefficients[leaf], adjusted_rows[leaf] = B, remove(leaf_rows, Z, B)
    return adjusted_rows, coefficients


def remove(rows: F32, Z: F64, B: F64) -> F32:
    """Return rows (n, m) minus Z B in float32."""
    return np.asarray(rows - Z @ B, np.float32)


def fit_offset(C: F64, A: F64, y: F64, weights: F64, groups: Any) -> tuple[F64, F64]:
    """Return coefficients (k, t) of C (n, k), and offsets (n, t) by the fits without the set or group of each row.

    Ridge regression of y (n, t) on (C, A) that penalises C alone, with the penalty of the smallest error without the
    own set or group. These fits are in closed form: with the residuals e and leverages H of the fit on all rows, those
    of held-out rows are (1 - H)^-1 e (Allen 1974).
    """
    if C.shape[1] == 0:
        return np.zeros((0, y.shape[1])), np.zeros(y.shape)
    root = np.sqrt(weights)[:, None]
    design = root * np.column_stack([np.ones(len(A)), A])
    basis, singular, _ = np.linalg.svd(design, full_matrices=False)
    basis = basis[:, singular > RANK_RTOL * singular[0]]
    columns, targets = root * C, root * y
    columns, targets = columns - basis @ (basis.T @ columns), targets - basis @ (basis.T @ targets)
    G = columns.T @ columns
    scale = max(float(np.trace(G)) / C.shape[1], np.finfo(float).tiny)
    rows_by_group = _rows_by_group(groups, len(C))
    best: tuple[float, F64, F64] | None = None
    for penalty in _tuning.OFFSET_PENALTIES:
        inverse = np.linalg.inv(G + penalty * scale * np.eye(len(G)))
        coef = inverse @ (columns.T @ targets)
        e, half = targets - columns @ coef, columns @ inverse
        held_out_errors, change = _held_out_errors(basis, columns, half, e, rows_by_group)
        error = float((held_out_errors**2).sum())
        if best is None or error < best[0]:
            best = error, coef, np.einsum("nk,nkt->nt", C, coef[None] - change)
    assert best is not None
    return best[1], best[2]


def fit_hazard_offset(C: F64, A: F64, y: Survival, groups: Any, seed: int) -> tuple[F64, F64, F64]:
    """Return coefficients (k,) of C (n, k), log hazards (n,) of (C, A) for held-out folds, and their part (n,) of C.

    Cox regression on (C, A). The penalty of C, relative to the number of events and the mean squared length of the
    columns, has the largest cross-validated partial likelihood (Verweij, van Houwelingen 1993) in up to ten folds of
    sets or groups. That of A is the smallest one, so that categories without events have finite coefficients.
    """
    X, k = np.concatenate([C, A], axis=1), C.shape[1]
    classes = y.event.astype(np.int64) if groups is None else None
    n_folds = max_folds(len(X), classes, groups, _tuning.MAX_INNER_FOLDS)
    folds = draw_folds(len(X), classes, groups, n_folds, seed)
    train_rows = [np.setdiff1d(np.arange(len(X)), test) for test in folds]
    best: tuple[float, F64, list[F64]] | None = None
    for penalty in _tuning.OFFSET_PENALTIES if k else _tuning.OFFSET_PENALTIES[:1]:
        relative = np.repeat([penalty, _tuning.OFFSET_PENALTIES[0]], [k, A.shape[1]])
        by_fold = [_cox_coefficients(X[train], y.take(train), relative) for train in train_rows]
        likelihood = sum(
            y.log_likelihood(X @ w) - y.take(train).log_likelihood(X[train] @ w)
            for train, w in zip(train_rows, by_fold, strict=True)
        )
        if best is None or likelihood > best[0]:
            best = likelihood, relative, by_fold
    assert best is not None
    log_hazards, offset = np.empty(len(X)), np.empty(len(X))
    for test, w in zip(folds, best[2], strict=True):
        log_hazards[test], offset[test] = X[test] @ w, C[test] @ w[:k]
    return _cox_coefficients(X, y, best[1])[:k], log_hazards, offset


def _cox_coefficients(X: F64, y: Survival, relative_penalties: F64) -> F64:
    """Return coefficients (q,) of a Cox regression with one penalty for each column; 0 without events."""
    if not y.event.any():
        return np.zeros(X.shape[1])
    mean_square = max(float(np.average((X**2).mean(axis=1), weights=y.weights)), np.finfo(float).tiny)
    scale = 1 / np.sqrt(relative_penalties * mean_square * y.weights[y.event].sum())
    w, _ = fit_cox(ArrayRows(X * scale), y, 1.0)
    return np.asarray(w * scale)


def _rows_by_group(groups: Any, n: int) -> list[I64] | None:
    """Return the rows of each group; None if every row is a group."""
    if groups is None:
        return None
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(np.asarray(groups)[order])) + 1)


def _held_out_errors(
    basis: F64, columns: F64, half: F64, e: F64, rows_by_group: list[I64] | None
) -> tuple[F64, F64]:
    """Return held-out errors (n, t), and the changes (n, k, t) of the coefficients by the own set or group."""
    if rows_by_group is None:
        freedom = 1 - (basis**2).sum(axis=1) - (columns * half).sum(axis=1)
        errors = np.divide(e, freedom[:, None], out=np.zeros_like(e), where=freedom[:, None] > RANK_RTOL)
        return errors, half[:, :, None] * errors[:, None, :]
    errors, change = np.zeros_like(e), np.zeros((*columns.shape, e.shape[1]))
    for rows in rows_by_group:
        freedom = np.eye(len(rows)) - basis[rows] @ basis[rows].T - columns[rows] @ half[rows].T
        errors[rows] = np.linalg.pinv(freedom, rcond=RANK_RTOL, hermitian=True) @ e[rows]
        change[rows] = half[rows].T @ errors[rows]
    return errors, change
