"""What linear estimators share: validation of features and targets, decision values over blocks, seeds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from dkdist.estimators._skipping import skips
from dkdist.execution.blocks import is_lazy, row_blocks
from dkdist.execution.mapping import collect
from dkdist.learners.rows import checked, no_rows
from dkdist.learners.values import decision_values as linear_values
from dkdist.numerics.finite import not_finite
from dkdist.sets import SampleSets
from dkdist.store import SetStore

_FLOATS = [np.float64, np.float32]


def as_features(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """X as float features: an ndarray in C order, or a dask array that is checked as it is made.

    An ndarray is finite, unless the estimator skips the rows that are not.
    """
    require_rows_of_features(estimator, X)
    if not is_lazy(X):
        finite = not skips(estimator)
        with within_floats():
            return validate_data(
                estimator, X, reset=reset, dtype=_FLOATS, order="C", ensure_all_finite=finite
            )
    if X.ndim != 2:
        raise ValueError(f"expected features of shape (n_sets, n_features), found {X.ndim} dimension(s)")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"features must be real numbers, found dtype {X.dtype}")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


@contextmanager
def within_floats() -> Iterator[None]:
    """Whole numbers that no float reaches are refused by name."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"X or y holds a whole number that no float reaches ({error}): scale it") from error


def require_rows_of_features(estimator: BaseEstimator, X: Any) -> None:
    """Refuse sets, and paths of them, where rows of features are wanted."""
    if isinstance(X, (SampleSets, SetStore)):
        raise ValueError(
            f"{type(estimator).__name__} takes rows of features, found sample sets ({type(X).__name__}): put an "
            "embedding before it, such as DivergenceEmbedding, in a pipeline"
        )
    if np.ma.is_masked(X):
        raise ValueError("X is masked in part: fill the masked values, or drop their rows")
    if isinstance(X, (str, bytes, PathLike)):
        raise ValueError(
            f"{type(estimator).__name__} takes rows of features, found {type(X).__name__}: if it is the path of a "
            "store, give open_sets of it to an embedding, or open_features of it"
        )


def as_problem(
    estimator: BaseEstimator, X: Any, y: Any, *, reset: bool = True, numeric: bool, multi_output: bool = False
) -> tuple[Any, NDArray[Any]]:
    """Features and targets of equal length; the targets of dask features are NumPy arrays too."""
    if is_lazy(y):
        raise ValueError("targets must be in memory, found a dask array: give y.compute()")
    require_rows_of_features(estimator, X)
    if not is_lazy(X):
        kinds = {
            "multi_output": multi_output, "y_numeric": numeric, "ensure_all_finite": not skips(estimator)
        }  # fmt: skip
        with within_floats():
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
    try:
        check_classification_targets(y)
        classes, index = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"classes must be of one kind, numbers or text ({error}): convert them") from error
    if len(classes) < 2:
        raise ValueError(
            f"a classifier needs at least 2 classes in y, found 1 class: {classes.tolist()[0]!r}. "
            "Check how the targets were selected"
        )
    return classes, index.astype(np.int64)


def draw_seed(random_state: Any) -> int:
    """The integer that all randomness of one fit follows from; a generator moves on by one draw."""
    if isinstance(random_state, (str, bytes, bool, np.ma.MaskedArray)) or not isinstance(
        random_state, (type(None), int, np.integer, np.random.Generator, np.random.RandomState)
    ):
        raise ValueError(
            f"random_state must be None, a whole number >= 0 or a numpy Generator; found {random_state!r:.200}"
        )
    if isinstance(random_state, (int, np.integer)) and random_state < 0:
        raise ValueError(f"random_state must be >= 0; found {random_state}")
    return int(np.random.default_rng(random_state).integers(2**63))


def feature_dtype(X: Any) -> np.dtype[Any]:
    """float32 where the features are, else float64."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


def decision_values(estimator: BaseEstimator, X: Any) -> NDArray[Any]:
    """X W' + b as an ndarray, (n,) or (n, k); dask features are made and used block by block.

    NaN for rows that are not finite, if the estimator skips them.
    """
    check_is_fitted(estimator)
    X, skip = as_features(estimator, X, reset=False), skips(estimator)
    if not is_lazy(X):
        return _values(X, not_finite(X) if skip else no_rows(), estimator.coef_, estimator.intercept_)
    blocks = row_blocks(X)
    function = partial(_block_values, feature_dtype(X), skip, estimator.coef_, estimator.intercept_)
    return np.concatenate(collect(blocks, function, [int(a) for a in blocks.bounds[:-1]], label="predict"))


def _block_values(
    dtype: np.dtype[Any], skip: bool, coef: NDArray[Any], intercept: NDArray[Any], block: Any, start: int
) -> NDArray[Any]:
    return values_and_bad(dtype, skip, coef, intercept, block, start)[0]


def values_and_bad(
    dtype: np.dtype[Any], skip: bool, coef: NDArray[Any], intercept: NDArray[Any], block: Any, start: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The decision values of a block, and which of its rows are skipped."""
    X, bad = checked(block, dtype, start, (len(block), coef.shape[-1]), skip=skip)
    return _values(X, bad, coef, intercept), bad


def _values(
    X: NDArray[Any], bad: NDArray[np.int64], coef: NDArray[Any], intercept: NDArray[Any]
) -> NDArray[Any]:
    with np.errstate(invalid="ignore", over="ignore"):  # what overflows is refused
        values = linear_values(X, coef, intercept)
    values[bad] = 0
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values.reshape(len(values), -1)).all(axis=1)))
        raise ValueError(
            f"row {row} of X, or of a block of it, is so large that its prediction is no number: scale X as in fit"
        )
    values[bad] = np.nan
    return values
