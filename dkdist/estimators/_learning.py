"""What linear estimators share: validation of features and targets, decision values over blocks, seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from dkdist.execution.blocks import is_lazy, row_blocks
from dkdist.execution.mapping import collect
from dkdist.learners.rows import checked

_FLOATS = [np.float64, np.float32]


def as_features(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """X as float features: a finite ndarray in C order, or a dask array that is checked as it is made."""
    if not is_lazy(X):
        return validate_data(estimator, X, reset=reset, dtype=_FLOATS, order="C")
    if X.ndim != 2:
        raise ValueError(f"expected features of shape (n_sets, n_features), found {X.ndim} dimension(s)")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"features must be real numbers, found dtype {X.dtype}")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


def as_problem(
    estimator: BaseEstimator, X: Any, y: Any, *, reset: bool = True, numeric: bool, multi_output: bool = False
) -> tuple[Any, NDArray[Any]]:
    """Features and targets of equal length; the targets of dask features are NumPy arrays too."""
    if is_lazy(y):
        raise ValueError("targets must be in memory, found a dask array: give y.compute()")
    if not is_lazy(X):
        kinds = {"multi_output": multi_output, "y_numeric": numeric}
        X, y = validate_data(estimator, X, y, reset=reset, dtype=_FLOATS, order="C", **kinds)
    else:
        X, y = as_features(estimator, X, reset=reset), _as_targets(estimator, y, numeric, multi_output)
        if len(y) != X.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} rows but y has {len(y)} targets: give one target for every row of X"
            )
        if len(y) == 0:
            raise ValueError("found 0 samples: a minimum of 1 is required")
    return X, y.astype(np.float64, copy=False) if numeric else y


def _as_targets(estimator: BaseEstimator, y: Any, numeric: bool, multi_output: bool) -> NDArray[Any]:
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    if not (numeric and multi_output and np.ndim(y) == 2):
        y = column_or_1d(y, warn=True)
    dtype = np.float64 if numeric else None
    return np.asarray(check_array(y, ensure_2d=False, dtype=dtype, input_name="y", ensure_min_samples=0))


def as_classes(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The sorted classes and every target's index among them; ValueError unless there are two or more."""
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"a classifier needs at least 2 classes in y, found 1 class: {classes.tolist()[0]!r}. "
            "Check how the targets were selected"
        )
    return classes, index.astype(np.int64)


def draw_seed(random_state: Any) -> int:
    """The integer that all randomness of one fit follows from; a generator moves on by one draw."""
    return int(np.random.default_rng(random_state).integers(2**63))


def feature_dtype(X: Any) -> np.dtype[Any]:
    """float32 where the features are, else float64."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


def decision_values(estimator: BaseEstimator, X: Any) -> NDArray[Any]:
    """X W' + b as an ndarray, (n,) or (n, k); dask features are made and used block by block."""
    check_is_fitted(estimator)
    X = as_features(estimator, X, reset=False)
    if not is_lazy(X):
        return np.asarray(X @ estimator.coef_.T + estimator.intercept_)
    blocks = row_blocks(X)
    function = partial(_block_values, feature_dtype(X), estimator.coef_, estimator.intercept_)
    return np.concatenate(collect(blocks, function, [int(a) for a in blocks.bounds[:-1]], label="predict"))


def _block_values(
    dtype: np.dtype[Any], coef: NDArray[Any], intercept: NDArray[Any], block: Any, start: int
) -> NDArray[Any]:
    X = checked(block, dtype, start, (len(block), coef.shape[-1]))
    return np.asarray(X @ coef.T + intercept)


def summed_scores(
    estimator: BaseEstimator,
    X: Any,
    y: NDArray[Any],
    sample_weight: Any,
    measure: Callable[..., NDArray[Any]],
) -> NDArray[np.float64]:
    """Sum over lazy rows of ``measure(decision values, y, weights)``: what comes back from a block is its sum."""
    check_is_fitted(estimator)
    X = as_features(estimator, X, reset=False)
    check_consistent_length(X, y)
    w = np.ones(len(y)) if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
    blocks = row_blocks(X)
    rows = [blocks.rows(i) for i in range(len(blocks))]
    function = partial(_block_score, measure, feature_dtype(X), estimator.coef_, estimator.intercept_)
    extras = [(here.start, y[here], w[here]) for here in rows]
    return np.asarray(sum(collect(blocks, function, extras, label="score")))


def _block_score(
    measure: Callable[..., NDArray[Any]],
    dtype: np.dtype[Any],
    coef: NDArray[Any],
    intercept: NDArray[Any],
    block: Any,
    extra: tuple[int, NDArray[Any], NDArray[np.float64]],
) -> NDArray[Any]:
    start, y, w = extra
    return measure(_block_values(dtype, coef, intercept, block, start), y, w)


def _correct(
    classes: NDArray[Any], values: NDArray[Any], y: NDArray[Any], w: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weights of the rows whose class is right, and of all rows."""
    return np.array([w @ (classes[_largest(values)] == y), w.sum()])


def _squared_errors(values: NDArray[Any], y: NDArray[Any], w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted sum of the squared errors of every output."""
    return np.asarray(w @ (y - values.reshape(y.shape).astype(np.float64)) ** 2)


def _largest(values: NDArray[Any]) -> NDArray[np.int64]:
    """The index of each row's class, from decision values (n, 1) or (n, n_classes)."""
    return (values[:, 0] > 0).astype(np.int64) if values.shape[1] == 1 else values.argmax(axis=1)


class LinearClassifier(ClassifierMixin, BaseEstimator):
    """Prediction by the largest decision value."""

    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Decision values: (n,), positive for ``classes_[1]``, or (n, n_classes).

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Blocks of a dask array are made, used and let go; only the values come back.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
        """
        values = decision_values(self, X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every row.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n,)
        """
        values = decision_values(self, X)
        return np.asarray(self.classes_[_largest(values)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows whose class is predicted right.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Blocks of a dask array are made, compared and let go; only two sums of each come back.
        y : array-like of shape (n,)
            The true classes.
        sample_weight : array-like of shape (n,) or None

        Returns
        -------
        float
        """
        if not is_lazy(X):
            return float(super().score(X, y, sample_weight))
        check_is_fitted(self)
        y = column_or_1d(y)
        right, total = summed_scores(self, X, y, sample_weight, partial(_correct, self.classes_))
        return float(right / total)


class LinearRegressor(RegressorMixin, BaseEstimator):
    """Prediction by the linear function itself."""

    def predict(self, X: Any) -> NDArray[Any]:
        """The predicted target of every row.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Blocks of a dask array are made, used and let go; only the values come back.

        Returns
        -------
        ndarray of shape (n,), or (n, n_targets) if ``fit`` was given two-dimensional targets
        """
        return decision_values(self, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R^2, averaged over targets.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
            Blocks of a dask array are made, compared and let go; only a sum of each comes back.
        y : array-like of shape (n,) or (n, n_targets)
            The true targets.
        sample_weight : array-like of shape (n,) or None

        Returns
        -------
        float
        """
        if not is_lazy(X) or len(y) < 2:
            return float(super().score(X, y, sample_weight))
        truth = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        truth = truth.reshape(len(truth), -1)
        errors = summed_scores(self, X, truth, sample_weight, _squared_errors)
        spread = (truth - np.average(truth, axis=0, weights=sample_weight)) ** 2
        spread = spread.sum(axis=0) if sample_weight is None else np.asarray(sample_weight) @ spread
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = np.where(spread > 0.0, 1.0 - errors / spread, np.where(errors == 0.0, 1.0, 0.0))
        return float(r2.mean())
