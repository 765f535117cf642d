"""Validation of features, targets, classes and weights of linear estimators, and decision values over blocks.

A row of weight w is equivalent to w equal rows; a row of weight 0 is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from dkdist._base.inputs import reject_float_overflow, require_feature_rows
from dkdist._base.invalid_sets import should_skip
from dkdist._base.row_ids import unwrap_rows
from dkdist._numba.arrays import F64, I64
from dkdist._numba.points import nonfinite_rows
from dkdist._runtime.blocks import Blocks, Job, is_lazy, row_blocks
from dkdist._runtime.map_reduce import map_blocks
from dkdist._utils.validation import as_real_array
from dkdist.linear.rows import LazyRows, RowBatch, RowLabels, check_rows, no_rows, tiles
from dkdist.linear.rows import decision_values as linear_values

_FLOATS = [np.float64, np.float32]
CLASS_WEIGHTS = [None, dict, StrOptions({"balanced"})]
"""Constraints of the parameter ``class_weight``."""


def as_features(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return X as float features: an ndarray in C order, or a dask array that is validated when it is computed.

    An ndarray must be finite unless the estimator skips invalid rows.
    """
    X = unwrap_rows(X)
    require_feature_rows(estimator, X)
    if not is_lazy(X):
        finite = not should_skip(estimator)
        with reject_float_overflow():
            return validate_data(
                estimator, X, reset=reset, dtype=_FLOATS, order="C", ensure_all_finite=finite
            )
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n_sets, n_features); got {X.ndim} dimension(s).")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must have a real dtype; got {X.dtype}.")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


def as_problem(
    estimator: BaseEstimator, X: Any, y: Any, *, reset: bool = True, numeric: bool, multi_output: bool = False
) -> tuple[Any, NDArray[Any]]:
    """Return validated features, and targets of the same length as an ndarray."""
    with name_missing_targets(y):
        return _as_problem(estimator, X, y, reset=reset, numeric=numeric, multi_output=multi_output)


@contextmanager
def name_missing_targets(y: Any) -> Iterator[None]:
    """Raise an error that names missing targets if validation in the with block fails because of them."""
    try:
        yield
    except (ValueError, TypeError) as error:
        missing = [] if y is None else _missing_rows(y)
        if not missing:
            raise
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"Input y contains NaN or missing values: target {missing[0]}{more} of {len(y)} (counted from 0). Pass "
            "X[valid] and y[valid] with valid = ~pandas.isna(y), or fill in the missing values."
        ) from error


def _missing_rows(y: Any) -> list[int]:
    rows = np.asarray(y, dtype=object)
    if rows.ndim == 0 or rows.size == 0:
        return []
    return [i for i, row in enumerate(rows.reshape(len(rows), -1)) if any(_is_missing(v) for v in row)]


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, pandas.NA or pandas.NaT."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    return value is None or (isinstance(value, float) and value != value)


def _as_problem(
    estimator: BaseEstimator, X: Any, y: Any, *, reset: bool, numeric: bool, multi_output: bool
) -> tuple[Any, NDArray[Any]]:
    require_feature_rows(estimator, X)
    if not is_lazy(X):
        options = {
            "multi_output": multi_output, "y_numeric": numeric, "ensure_all_finite": not should_skip(estimator)
        }  # fmt: skip
        with reject_float_overflow():
            X, y = validate_data(estimator, X, y, reset=reset, dtype=_FLOATS, order="C", **options)
        if not numeric and y.shape[1:] == (1,):
            y = column_or_1d(y, warn=True)
    else:
        X, y = as_features(estimator, X, reset=reset), _as_targets(estimator, y, numeric, multi_output)
        if len(y) != X.shape[0]:
            raise ValueError(
                f"y must have one target for each of the {X.shape[0]} rows of X; got {len(y)} targets."
            )
        if len(y) == 0:
            raise ValueError("X must have at least 1 row; got 0.")
    return X, y.astype(np.float64, copy=False) if numeric else y


def _as_targets(estimator: BaseEstimator, y: Any, numeric: bool, multi_output: bool) -> NDArray[Any]:
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    if not (multi_output and np.ndim(y) == 2 and (numeric or np.shape(y)[1] > 1)):
        y = column_or_1d(y, warn=True)
    dtype = np.float64 if numeric else None
    return np.asarray(check_array(y, ensure_2d=False, dtype=dtype, input_name="y", ensure_min_samples=0))


def as_classes(y: NDArray[Any]) -> tuple[NDArray[Any], I64]:
    """Return the sorted classes and the class index of every target; ValueError for fewer than 2 classes."""
    with name_missing_targets(y), np.errstate(invalid="ignore"):  # scikit-learn casts NaN before it raises
        try:
            check_classification_targets(y)
            classes, index = np.unique(y, return_inverse=True)
        except TypeError as error:
            raise ValueError(
                f"y must contain either numbers or text; got both ({error}). Convert the labels to one type."
            ) from error
    if len(classes) < 2:
        raise ValueError(
            f"y must contain at least 2 classes; got 1 class: {classes.tolist()[0]!r}. Check how the targets were "
            "selected."
        )
    return classes, index.astype(np.int64)


def check_stream_classes(labels: ArrayLike | None, previous: NDArray[Any] | None) -> NDArray[Any]:
    """Return the sorted classes in a call of ``partial_fit``; ``previous`` are the classes of the first call."""
    if labels is None:
        if previous is None:
            raise ValueError(
                "classes must contain all labels in the first call of partial_fit; got None. Pass classes=."
            )
        return previous
    classes, _ = as_classes(np.asarray(labels))
    if previous is not None and not np.array_equal(classes, previous):
        raise ValueError(f"classes must be those of the first call, {previous}; got {classes}.")
    return classes


def class_index(classes: NDArray[Any], y: NDArray[Any]) -> I64:
    """Return the class index of every target; ValueError naming the first unknown label."""
    if (classes.dtype.kind in "biuf") != (y.dtype.kind in "biuf"):
        raise ValueError(f"y must have the type of the classes {classes}; got dtype {y.dtype}.")
    index = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    if np.any(unknown := classes[index] != y):
        row = int(np.argmax(unknown))
        raise ValueError(
            f"y must contain only the classes {classes}; got {y.tolist()[row]!r} in row {row}. Pass all classes in the "
            "first call of partial_fit."
        )
    return np.asarray(index, np.int64)


class LinearLearner(BaseEstimator):
    """Base class of linear estimators."""

    on_error: str
    by_sums: ClassVar[bool]
    """Whether it is fitted from sums over rows, in any order, instead of steps."""

    def require_valid(self) -> None:
        """Raise ValueError for parameters that ``fit`` does not accept."""
        self._validate_params()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.on_error == "skip"
        return tags


def block_range_job(blocks: Blocks, first: int, stop: int, labels: RowLabels, skip: bool) -> Job:
    """Return the job for blocks ``first`` to ``stop - 1``."""
    edges = blocks.bounds[first : stop + 1]
    starts, sizes = tuple(edges[:-1].tolist()), tuple(np.diff(edges).tolist())
    batch_labels = labels.part(slice(int(edges[0]), int(edges[-1])))
    return Job(tuple(range(first, stop)), RowBatch(starts, sizes, blocks.n_columns, batch_labels, skip=skip))


def feature_dtype(X: Any) -> np.dtype[Any]:
    """Return float32 for float32 features, else float64."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


def decision_values(estimator: BaseEstimator, X: Any) -> NDArray[Any]:
    """Return X W' + b as an ndarray, (n,) or (n, k); dask features are computed block by block.

    Skipped rows have values of NaN.
    """
    check_is_fitted(estimator)
    X = as_features(estimator, X, reset=False)
    if not is_lazy(X):
        return _checked_values(
            X,
            nonfinite_rows(X) if should_skip(estimator) else no_rows(),
            estimator.coef_,
            estimator.intercept_,
        )
    blocks = row_blocks(X).lazy_rows(eager=False)
    results = map_blocks(
        blocks,
        block_values_function(estimator, X),
        blocks.bounds[:-1].tolist(),
        label="predict",
        local_if_small=True,
    )
    return np.concatenate([values for values, _ in results])


def block_values_function(estimator: BaseEstimator, X: Any) -> Callable[[Any, int], tuple[NDArray[Any], I64]]:
    """Return a function of (block, first row) that gives decision values and the indices of skipped rows."""
    return partial(
        _block_values, feature_dtype(X), should_skip(estimator), estimator.coef_, estimator.intercept_
    )


def _values_by_tile(X: NDArray[Any] | LazyRows, coef: NDArray[Any], intercept: NDArray[Any]) -> NDArray[Any]:
    """Return X W' + b; lazy rows are computed one tile at a time."""
    if isinstance(X, np.ndarray) or not X.shape[0]:
        return linear_values(np.asarray(X), coef, intercept)
    rows = (tile for tile, _, _ in tiles(X, np.arange(X.shape[0])))
    return np.concatenate([linear_values(tile, coef, intercept) for tile in rows])


def _block_values(
    dtype: np.dtype[Any], skip: bool, coef: NDArray[Any], intercept: NDArray[Any], block: Any, start: int
) -> tuple[NDArray[Any], I64]:
    X, skipped = check_rows(block, dtype, start, (block.shape[0], coef.shape[-1]), skip=skip, eager=False)
    return _checked_values(X, skipped, coef, intercept), skipped


def _checked_values(
    X: NDArray[Any] | LazyRows, skipped: I64, coef: NDArray[Any], intercept: NDArray[Any]
) -> NDArray[Any]:
    with np.errstate(invalid="ignore", over="ignore"):  # overflow raises ValueError below
        values = _values_by_tile(X, coef, intercept)
    values[skipped] = 0
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values.reshape(len(values), -1)).all(axis=1)))
        raise ValueError(
            f"X must have the scale seen in fit; the prediction of row {row} (of X or of one of its blocks) overflows. "
            "Scale X as in fit."
        )
    values[skipped] = np.nan
    return values


def as_weights(sample_weight: Any, n_rows: int) -> F64 | None:
    """Return weights (n,) as float64, or None; ValueError for another length or an invalid weight."""
    if sample_weight is None:
        return None
    values = as_real_array("sample_weight", sample_weight)
    if values.ndim == 0:
        values = np.full(n_rows, values)
    if values.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have shape ({n_rows},), one weight for each row of X; got {values.shape}."
        )
    weights = values.astype(np.float64)
    if len(invalid := np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))):
        raise ValueError(
            f"sample_weight must be finite and at least 0; got {weights[invalid[0]]} (row {invalid[0]}). Use 0 to "
            "ignore a row."
        )
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not 0 < total < np.inf:
        raise ValueError(
            f"sample_weight must not be zero in every row and must have a finite sum; got the sum {total}."
        )
    return weights


def row_weights(
    sample_weight: Any, class_weight: Any, classes: NDArray[Any], index: I64, *, stream: bool = False
) -> F64 | None:
    """Return the products (n,) of row and class weights; None if all are 1.

    Raises ValueError for "balanced" with ``stream``, because the classes cannot be counted in advance.
    """
    weights = as_weights(sample_weight, len(index))
    if stream and not isinstance(class_weight, Mapping | None):
        raise ValueError(
            f"class_weight must be a dict or None in partial_fit, which does not see all rows; got {class_weight!r}. "
            "Pass a dict of weights or sample_weight."
        )
    return apply_class_factors(weights, class_factors(class_weight, classes, index, weights), index)


def class_factors(class_weight: Any, classes: NDArray[Any], index: I64, weights: F64 | None) -> F64 | None:
    """Return the weight of each class, (n_classes,); 1 for classes that ``class_weight`` omits.

    "balanced" is total weight / (n_classes x weight of the class), as in scikit-learn.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, Mapping):
        return _factors_by_label(class_weight, classes)
    y, present = classes[index], np.unique(index if weights is None else index[weights > 0])
    factors = np.ones(len(classes))  # classes without a row of positive weight have factor 1
    used = slice(None) if weights is None else weights > 0
    used_weights = None if weights is None else weights[used]
    factors[present] = compute_class_weight(
        class_weight, classes=classes[present], y=y[used], sample_weight=used_weights
    )
    return factors


def _factors_by_label(class_weight: Mapping[Any, Any], classes: NDArray[Any]) -> F64:
    labels = classes.tolist()
    if unknown := [label for label in class_weight if label not in labels]:
        raise ValueError(
            f"class_weight must contain only the classes {labels}; got {unknown[0]!r}. Use the labels of y."
        )
    weights = [class_weight.get(label, 1.0) for label in labels]
    factors = as_real_array("class_weight", weights).astype(np.float64)
    if factors.ndim != 1 or not (np.isfinite(factors) & (factors >= 0)).all() or not factors.any():
        raise ValueError(
            "class_weight must contain finite weights >= 0, at least one of them positive; got "
            f"{dict(class_weight)!r:.200}."
        )
    return factors


def apply_class_factors(weights: F64 | None, factors: F64 | None, index: I64) -> F64 | None:
    """Return the products of row and class weights; ValueError if all products are 0."""
    if factors is None:
        return weights
    products = factors[index] if weights is None else weights * factors[index]
    if not products.any():
        raise ValueError(
            "class_weight times sample_weight must be above 0 for at least one row; got 0 for every row."
        )
    return np.asarray(products)


def normalize_weights(weights: F64 | None) -> F64 | None:
    """Scale weights to mean 1 over the rows with a weight above 0."""
    if weights is None:
        return None
    largest = weights / weights.max()
    return np.asarray(largest * ((largest > 0).sum() / largest.sum()))
