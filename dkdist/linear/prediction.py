"""Prediction and scores of linear estimators, block by block: decision values, classes, and sums beside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from dkdist._base.invalid_sets import format_positions, require_rows, should_skip, warn_nonfinite_rows
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.blocks import is_lazy, row_blocks
from dkdist._runtime.map_reduce import map_blocks
from dkdist.linear.problems import LinearLearner, as_features, as_weights, decision_values, values_of_blocks
from dkdist.linear.rows import without

Measure = Callable[[NDArray[Any], NDArray[Any], F64], F64]


def summed_scores(
    estimator: BaseEstimator, X: Any, y: NDArray[Any], sample_weight: F64 | None, measure: Measure
) -> tuple[F64, I64]:
    """Sum over rows of ``measure(decision values, y, weights)``, and the rows that were skipped.

    What comes back from a block is its sum.
    """
    check_is_fitted(estimator)
    X = as_features(estimator, X, reset=False)
    check_consistent_length(X, y)
    w = np.ones(len(y)) if sample_weight is None else sample_weight
    blocks = row_blocks(X).lazy_rows(eager=False)
    rows = [blocks.rows(i) for i in range(len(blocks))]
    values = values_of_blocks(estimator, X)
    extras = [(here.start, y[here], w[here]) for here in rows]
    sums, skipped = zip(
        *map_blocks(blocks, partial(_block_score, measure, values), extras, label="score"), strict=True
    )
    bad = np.concatenate(skipped)
    warn_nonfinite_rows(bad, len(y), "left out of the score")
    require_rows(len(y) - len(bad))
    return np.asarray(sum(sums)), bad


def _block_score(
    measure: Measure,
    values_and_bad: Callable[[Any, int], tuple[NDArray[Any], I64]],
    block: Any,
    extra: tuple[int, NDArray[Any], F64],
) -> tuple[F64, I64]:
    start, y, w = extra
    values, bad = values_and_bad(block, start)
    good = without(np.arange(len(values)), bad)
    return measure(values[good], y[good], w[good]), start + bad


def _correct(classes: NDArray[Any] | None, values: NDArray[Any], y: NDArray[Any], w: F64) -> F64:
    """Weights of the rows whose class is right (or, without classes, all of whose labels are), and of all rows."""
    right = ((values > 0) == y).all(axis=1) if classes is None else classes[_largest(values)] == y
    return np.array([w @ right, w.sum()])


def _squared_errors(values: NDArray[Any], y: NDArray[Any], w: F64) -> F64:
    """Weighted sum of the squared errors of every output."""
    return np.asarray(w @ (y - values.reshape(y.shape).astype(np.float64)) ** 2)


def _largest(values: NDArray[Any]) -> I64:
    """The index of each row's class, from decision values (n, 1) or (n, n_classes)."""
    return (values[:, 0] > 0).astype(np.int64) if values.shape[1] == 1 else values.argmax(axis=1)


class LinearClassifier(ClassifierMixin, LinearLearner):
    """Prediction by the largest decision value, or of labels that do not exclude each other by those above 0."""

    classes_: NDArray[Any]
    multilabel_: bool = False

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Decision values: (n,), positive for ``classes_[1]``, or (n, n_classes); NaN for rows that are skipped.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Blocks of a dask array are made, used and let go; only the values come back.
        """
        values = decision_values(self, X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every row, (n,), or its labels, (n, n_labels) of 0 and 1.

        ValueError naming rows that are not finite, and so have none.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        """
        values = decision_values(self, X)
        if should_skip(self) and len(lost := np.flatnonzero(np.isnan(values).any(axis=1))):
            raise ValueError(
                f"{len(lost)} of {len(values)} rows of X are not finite, and no class can be said of them: "
                f"{format_positions(lost)}. Leave them out; decision_function gives NaN for them"
            )
        return (
            (values > 0).astype(np.int64) if self.multilabel_ else np.asarray(self.classes_[_largest(values)])
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows whose class, or all labels, are predicted right; skipped rows are left out, with a warning.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Blocks of a dask array are made, compared and let go; only two sums of each come back.
        y : array-like or dask collection of shape (n,)
            The true classes.
        sample_weight : array-like of shape (n,) or None
        """
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        sample_weight = as_weights(sample_weight, len(y))
        if not (is_lazy(X) or should_skip(self)):
            return float(super().score(X, y, sample_weight))
        check_is_fitted(self)
        measure = partial(_correct, None if self.multilabel_ else self.classes_)
        truth = np.asarray(y) if self.multilabel_ else column_or_1d(y)
        (right, total), _ = summed_scores(self, X, truth, sample_weight, measure)
        return float(right / total)


class LinearRegressor(RegressorMixin, LinearLearner):
    """Prediction by the linear function itself."""

    def predict(self, X: Any) -> NDArray[Any]:
        """The predicted target of every row, (n,), or (n, n_targets) as in ``fit``; NaN for rows that are skipped.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Blocks of a dask array are made, used and let go; only the values come back.
        """
        return decision_values(self, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R^2, averaged over targets; skipped rows are left out, with a warning.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Blocks of a dask array are made, compared and let go; only a sum of each comes back.
        y : array-like or dask collection of shape (n,) or (n, n_targets)
            The true targets.
        sample_weight : array-like of shape (n,) or None
        """
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        sample_weight = as_weights(sample_weight, len(y))
        if not should_skip(self) and (not is_lazy(X) or len(y) < 2):
            return _finite_score(float(super().score(X, y, sample_weight)), len(y))
        truth = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        truth = truth.reshape(len(truth), -1)
        errors, bad = summed_scores(self, X, truth, sample_weight, _squared_errors)
        good = without(np.arange(len(truth)), bad)
        if len(good) < 2:
            return float("nan")  # as scikit-learn's: one row has no spread
        truth = truth[good]
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)[good]
        spread = (truth - np.average(truth, axis=0, weights=weights)) ** 2
        spread = spread.sum(axis=0) if weights is None else weights @ spread
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = np.where(spread > 0.0, 1.0 - errors / spread, np.where(errors == 0.0, 1.0, 0.0))
        return _finite_score(float(r2.mean()), len(good))


def _finite_score(score: float, n: int) -> float:
    """The score of n rows; NaN for a single one alone, as scikit-learn's: one row has no spread."""
    if n >= 2 and not np.isfinite(score):
        raise ValueError(
            "the targets or the weights are so large that their squares are no floats: divide them by a number"
        )
    return score
