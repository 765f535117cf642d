"""Prediction and scores of linear estimators, block by block."""

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
from dkdist._runtime.progress import Progress
from dkdist.linear.problems import (
    LinearLearner,
    as_features,
    as_weights,
    block_values_function,
    decision_values,
)
from dkdist.linear.rows import exclude

BlockMeasure = Callable[[NDArray[Any], NDArray[Any], F64], F64]


def summed_scores(
    estimator: BaseEstimator, X: Any, y: NDArray[Any], sample_weight: F64 | None, measure: BlockMeasure
) -> tuple[F64, I64]:
    """Return the sum over blocks of ``measure(decision values, y, weights)``, and the indices of skipped rows."""
    check_is_fitted(estimator)
    X = as_features(estimator, X, reset=False)
    check_consistent_length(X, y)
    w = np.ones(len(y)) if sample_weight is None else sample_weight
    blocks = row_blocks(X).lazy_rows(eager=False)
    rows = [blocks.rows(i) for i in range(len(blocks))]
    values = block_values_function(estimator, X)
    extras = [(span.start, y[span], w[span]) for span in rows]
    with Progress(len(blocks), "score") as progress:
        work = partial(_score_block, measure, values)
        results = map_blocks(blocks, work, extras, label="score", progress=progress)
        reason = progress.pop_reason()
    sums, block_skipped = zip(*results, strict=True)
    skipped = np.concatenate(block_skipped)
    warn_nonfinite_rows(skipped, len(y), "left out of the score", reason)
    require_rows(len(y) - len(skipped))
    return np.asarray(sum(sums)), skipped


def _score_block(
    measure: BlockMeasure,
    values_and_bad: Callable[[Any, int], tuple[NDArray[Any], I64]],
    block: Any,
    extra: tuple[int, NDArray[Any], F64],
) -> tuple[F64, I64]:
    start, y, w = extra
    values, skipped = values_and_bad(block, start)
    valid = exclude(np.arange(len(values)), skipped)
    return measure(values[valid], y[valid], w[valid]), start + skipped


def _weighted_correct(classes: NDArray[Any] | None, values: NDArray[Any], y: NDArray[Any], w: F64) -> F64:
    """Return the weights of correct rows and of all rows; multilabel rows are correct if all labels are."""
    is_correct = (
        ((values > 0) == y).all(axis=1) if classes is None else classes[_predicted_index(values)] == y
    )
    return np.array([w @ is_correct, w.sum()])


def _squared_errors(values: NDArray[Any], y: NDArray[Any], w: F64) -> F64:
    return np.asarray(w @ (y - values.reshape(y.shape).astype(np.float64)) ** 2)


def _predicted_index(values: NDArray[Any]) -> I64:
    """Return the class index of every row from decision values (n, 1) or (n, n_classes)."""
    return (values[:, 0] > 0).astype(np.int64) if values.shape[1] == 1 else values.argmax(axis=1)


class LinearClassifier(ClassifierMixin, LinearLearner):
    """Mixin of classifiers: predict the class of the largest decision value, or all labels with values above 0."""

    classes_: NDArray[Any]
    multilabel_: bool = False

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return decision values (n,), positive for ``classes_[1]``, or (n, n_classes); NaN for skipped rows.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Blocks of a dask array are computed and released one after another; only the values are returned.
        """
        values = decision_values(self, X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the classes (n,), or for multilabel targets the labels (n, n_labels) as 0 and 1.

        Raises ValueError for rows that are not finite.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        """
        values = decision_values(self, X)
        if should_skip(self) and len(invalid := np.flatnonzero(np.isnan(values).any(axis=1))):
            raise ValueError(
                f"X must be finite in predict; {len(invalid)} of {len(values)} rows are not: "
                f"{format_positions(invalid)}. Drop them; decision_function returns NaN for them."
            )
        return (
            (values > 0).astype(np.int64)
            if self.multilabel_
            else np.asarray(self.classes_[_predicted_index(values)])
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy without skipped rows; multilabel rows count as correct if all labels are.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Each block of a dask array is reduced to the weight of its correct rows and of all its rows.
        y : array-like or dask collection of shape (n,)
            True classes.
        sample_weight : array-like of shape (n,) or None
        """
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        sample_weight = as_weights(sample_weight, len(y))
        if not (is_lazy(X) or should_skip(self)):
            return float(super().score(X, y, sample_weight))
        check_is_fitted(self)
        measure = partial(_weighted_correct, None if self.multilabel_ else self.classes_)
        truth = np.asarray(y) if self.multilabel_ else column_or_1d(y)
        (right, total), _ = summed_scores(self, X, truth, sample_weight, measure)
        return float(right / total)


class LinearRegressor(RegressorMixin, LinearLearner):
    """Mixin of regressors: predict the decision values."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted targets (n,) or (n, n_targets), as in ``fit``; NaN for skipped rows.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Blocks of a dask array are computed and released one after another; only the values are returned.
        """
        return decision_values(self, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2, averaged over targets, without skipped rows.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Each block of a dask array is reduced to the weight of its correct rows and of all its rows.
        y : array-like or dask collection of shape (n,) or (n, n_targets)
            True targets.
        sample_weight : array-like of shape (n,) or None
        """
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        sample_weight = as_weights(sample_weight, len(y))
        if not should_skip(self) and (not is_lazy(X) or len(y) < 2):
            return _finite_score(float(super().score(X, y, sample_weight)), len(y))
        truth = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        truth = truth.reshape(len(truth), -1)
        errors, skipped = summed_scores(self, X, truth, sample_weight, _squared_errors)
        valid = exclude(np.arange(len(truth)), skipped)
        if len(valid) < 2:
            return float("nan")  # as in scikit-learn: R^2 is undefined for one row
        truth = truth[valid]
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)[valid]
        spread = (truth - np.average(truth, axis=0, weights=weights)) ** 2
        spread = spread.sum(axis=0) if weights is None else weights @ spread
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = np.where(spread > 0.0, 1.0 - errors / spread, np.where(errors == 0.0, 1.0, 0.0))
        return _finite_score(float(r2.mean()), len(valid))


def _finite_score(score: float, n: int) -> float:
    """Return the score; raise ValueError if it overflows. One row gives NaN, as in scikit-learn."""
    if n >= 2 and not np.isfinite(score):
        raise ValueError(
            "y and sample_weight must have finite sums of squares; got an overflow. Divide them by a constant."
        )
    return score
