"""What linear estimators share: validation of features, targets, classes and weights, decision values over blocks.

A row of weight w counts as w equal rows, and one of weight 0 as none.
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

from dkdist._base.inputs import require_feature_rows, reject_float_overflow
from dkdist._base.invalid_sets import should_skip
from dkdist._base.row_ids import unwrap_rows
from dkdist._numba.arrays import F64, I64
from dkdist._numba.points import nonfinite_rows
from dkdist._runtime.blocks import Blocks, Job, is_lazy, row_blocks
from dkdist._runtime.map_reduce import map_blocks
from dkdist._utils.validation import as_real_array
from dkdist.linear.rows import LazyRows, RowBatch, RowLabels, checked_rows, no_rows, tiles
from dkdist.linear.rows import decision_values as linear_values

_FLOATS = [np.float64, np.float32]
CLASS_WEIGHTS = [None, dict, StrOptions({"balanced"})]
"""What the parameter ``class_weight`` may be."""


def as_features(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """X as float features: an ndarray in C order, or a dask array that is checked as it is made.

    An ndarray is finite, unless the estimator skips the rows that are not.
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
        raise ValueError(f"expected features of shape (n_sets, n_features), found {X.ndim} dimension(s)")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"features must be real numbers, found dtype {X.dtype}")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


def as_problem(
    estimator: BaseEstimator, X: Any, y: Any, *, reset: bool = True, numeric: bool, multi_output: bool = False
) -> tuple[Any, NDArray[Any]]:
    """Features and targets of equal length; the targets of dask features are NumPy arrays too."""
    with naming_missing(y):
        return _as_problem(estimator, X, y, reset=reset, numeric=numeric, multi_output=multi_output)


@contextmanager
def naming_missing(y: Any) -> Iterator[None]:
    """If targets are refused in this block and some are missing, say which."""
    try:
        yield
    except (ValueError, TypeError) as error:
        missing = [] if y is None else _without_value(y)
        if not missing:
            raise
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"Input y contains NaN: target {missing[0]}{more} of {len(y)}, counted from 0, has no value. Leave out the "
            "sets that have no target, X[known] and y[known] with known = ~pandas.isna(y), or fill it in"
        ) from error


def _without_value(y: Any) -> list[int]:
    rows = np.asarray(y, dtype=object)
    if rows.ndim == 0 or rows.size == 0:
        return []
    return [i for i, row in enumerate(rows.reshape(len(rows), -1)) if any(_is_missing(v) for v in row)]


def _is_missing(value: Any) -> bool:
    """None, NaN, and what pandas has for a missing value: NA and NaT."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    return value is None or (isinstance(value, float) and value != value)


def _as_problem(
    estimator: BaseEstimator, X: Any, y: Any, *, reset: bool, numeric: bool, multi_output: bool
) -> tuple[Any, NDArray[Any]]:
    require_feature_rows(estimator, X)
    if not is_lazy(X):
        kinds = {
            "multi_output": multi_output, "y_numeric": numeric, "ensure_all_finite": not should_skip(estimator)
        }  # fmt: skip
        with reject_float_overflow():
            X, y = validate_data(estimator, X, y, reset=reset, dtype=_FLOATS, order="C", **kinds)
        if not numeric and y.shape[1:] == (1,):
            y = column_or_1d(y, warn=True)
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
    if not (multi_output and np.ndim(y) == 2 and (numeric or np.shape(y)[1] > 1)):
        y = column_or_1d(y, warn=True)
    dtype = np.float64 if numeric else None
    return np.asarray(check_array(y, ensure_2d=False, dtype=dtype, input_name="y", ensure_min_samples=0))


def as_classes(y: NDArray[Any]) -> tuple[NDArray[Any], I64]:
    """The sorted classes and every target's index among them; ValueError unless there are two or more."""
    with naming_missing(y), np.errstate(invalid="ignore"):  # scikit-learn casts NaN before it refuses it
        try:
            check_classification_targets(y)
            classes, index = np.unique(y, return_inverse=True)
        except TypeError as error:
            raise ValueError(
                f"classes must be of one kind, numbers or text ({error}): convert them"
            ) from error
    if len(classes) < 2:
        raise ValueError(
            f"a classifier needs at least 2 classes in y, found 1 class: {classes.tolist()[0]!r}. "
            "Check how the targets were selected"
        )
    return classes, index.astype(np.int64)


def classes_of_stream(given: ArrayLike | None, before: NDArray[Any] | None) -> NDArray[Any]:
    """The sorted classes of a call of ``partial_fit``; ``before`` are those of the first call, None in it."""
    if given is None:
        if before is None:
            raise ValueError("the first call of partial_fit needs classes: all labels that will ever occur")
        return before
    classes, _ = as_classes(np.asarray(given))
    if before is not None and not np.array_equal(classes, before):
        raise ValueError(f"classes={classes} differ from those of the first call, {before}")
    return classes


def index_among(classes: NDArray[Any], y: NDArray[Any]) -> I64:
    """Each target's place among the classes; ValueError naming the first that is none of them."""
    if (classes.dtype.kind in "biuf") != (y.dtype.kind in "biuf"):
        raise ValueError(f"y holds {y.dtype}, but the classes are {classes}: give targets of their kind")
    index = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    if np.any(unknown := classes[index] != y):
        row = int(np.argmax(unknown))
        raise ValueError(
            f"target {y.tolist()[row]!r} in row {row} is not one of the classes {classes}: "
            "name all classes in the first call of partial_fit"
        )
    return np.asarray(index, np.int64)


class LinearLearner(BaseEstimator):
    """What all learners have: rows that are not finite are refused, or left out; parameters are checked when asked."""

    on_error: str
    by_sums: ClassVar[bool]
    """Whether it learns from sums over rows, in any order, and not step by step."""

    def require_valid(self) -> None:
        """Refuse parameters that are out of range, as ``fit`` does."""
        self._validate_params()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.on_error == "skip"
        return tags


def neighbours_job(blocks: Blocks, first: int, stop: int, known: RowLabels, skip: bool) -> Job:
    """The job that takes blocks ``first`` to ``stop`` - 1 with what is known of their rows."""
    edges = blocks.bounds[first : stop + 1]
    here = slice(int(edges[0]), int(edges[-1]))
    starts, sizes = tuple(edges[:-1].tolist()), tuple(np.diff(edges).tolist())
    rows = RowBatch(starts, sizes, blocks.n_columns, known.part(here), skip=skip)
    return Job(tuple(range(first, stop)), rows)


def feature_dtype(X: Any) -> np.dtype[Any]:
    """float32 where the features are, else float64."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


def decision_values(estimator: BaseEstimator, X: Any) -> NDArray[Any]:
    """X W' + b as an ndarray, (n,) or (n, k); dask features are made and used block by block.

    NaN for rows that are not finite, if the estimator skips them.
    """
    check_is_fitted(estimator)
    X = as_features(estimator, X, reset=False)
    if not is_lazy(X):
        return _values(
            X, nonfinite_rows(X) if should_skip(estimator) else no_rows(), estimator.coef_, estimator.intercept_
        )
    blocks = row_blocks(X).lazy_rows(eager=False)
    found = map_blocks(blocks, values_of_blocks(estimator, X), blocks.bounds[:-1].tolist(), label="predict")
    return np.concatenate([values for values, _ in found])


def values_of_blocks(estimator: BaseEstimator, X: Any) -> Callable[[Any, int], tuple[NDArray[Any], I64]]:
    """What gives the decision values of a block of X that starts at some row, and which of its rows are skipped."""
    return partial(_values_and_bad, feature_dtype(X), should_skip(estimator), estimator.coef_, estimator.intercept_)


def _by_tiles(X: NDArray[Any] | LazyRows, coef: NDArray[Any], intercept: NDArray[Any]) -> NDArray[Any]:
    """X W' + b; of rows that are made when they are asked for, a tile after the other."""
    if isinstance(X, np.ndarray) or not X.shape[0]:
        return linear_values(np.asarray(X), coef, intercept)
    rows = (tile for tile, _, _ in tiles(X, np.arange(X.shape[0])))
    return np.concatenate([linear_values(some, coef, intercept) for some in rows])


def _values_and_bad(
    dtype: np.dtype[Any], skip: bool, coef: NDArray[Any], intercept: NDArray[Any], block: Any, start: int
) -> tuple[NDArray[Any], I64]:
    X, bad = checked_rows(block, dtype, start, (block.shape[0], coef.shape[-1]), skip=skip, at_once=False)
    return _values(X, bad, coef, intercept), bad


def _values(
    X: NDArray[Any] | LazyRows, bad: I64, coef: NDArray[Any], intercept: NDArray[Any]
) -> NDArray[Any]:
    with np.errstate(invalid="ignore", over="ignore"):  # what overflows is refused
        values = _by_tiles(X, coef, intercept)
    values[bad] = 0
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values.reshape(len(values), -1)).all(axis=1)))
        raise ValueError(
            f"row {row} of X, or of a block of it, is so large that its prediction is no number: scale X as in fit"
        )
    values[bad] = np.nan
    return values


def as_weights(sample_weight: Any, n_rows: int) -> F64 | None:
    """Weights (n,) as float64, or None; ValueError naming the first that is none, and for weights of another length."""
    if sample_weight is None:
        return None
    given = as_real_array("sample_weight", sample_weight)
    if given.ndim == 0:
        given = np.full(n_rows, given)
    if given.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {given.shape}, but X has {n_rows} rows: expected ({n_rows},), one for every row"
        )
    weights = given.astype(np.float64)
    if len(odd := np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))):
        raise ValueError(
            f"sample_weight of row {odd[0]} is {weights[odd[0]]}: weights must be finite numbers >= 0. "
            "Give 0 to leave a row out"
        )
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not 0 < total < np.inf:
        raise ValueError(
            f"sample_weight is zero in every row, or so large that its sum is no float ({total}): give at least one "
            "row a weight above 0"
        )
    return weights


def weights_of(
    sample_weight: Any, class_weight: Any, classes: NDArray[Any], index: I64, *, stream: bool = False
) -> F64 | None:
    """Weights of rows times those of their classes, (n,); None where all rows count one.

    The classes of a ``stream``, of which more rows follow, cannot be counted: ValueError for "balanced".
    """
    weights = as_weights(sample_weight, len(index))
    if stream and not isinstance(class_weight, Mapping | None):
        raise ValueError(
            f"class_weight={class_weight!r} needs to see all rows, and partial_fit does not: give a dict of weights, "
            "or sample_weight"
        )
    return times_factors(weights, class_factors(class_weight, classes, index, weights), index)


def class_factors(class_weight: Any, classes: NDArray[Any], index: I64, weights: F64 | None) -> F64 | None:
    """The weight of each class, (n_classes,): what ``class_weight`` says, 1 where it says nothing.

    "balanced" is total weight / (n_classes x weight of the class), as scikit-learn's.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, Mapping):
        return _named_factors(class_weight, classes)
    y, present = classes[index], np.unique(index if weights is None else index[weights > 0])
    factors = np.ones(len(classes))  # of classes all of whose rows have weight 0, nothing is learned
    kept = slice(None) if weights is None else weights > 0
    of_rows = None if weights is None else weights[kept]
    factors[present] = compute_class_weight(
        class_weight, classes=classes[present], y=y[kept], sample_weight=of_rows
    )
    return factors


def _named_factors(class_weight: Mapping[Any, Any], classes: NDArray[Any]) -> F64:
    labels = classes.tolist()
    if unknown := [label for label in class_weight if label not in labels]:
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not one of the classes {labels}: name classes as y does"
        )
    given = [class_weight.get(label, 1.0) for label in labels]
    factors = as_real_array("class_weight", given).astype(np.float64)
    if factors.ndim != 1 or not (np.isfinite(factors) & (factors >= 0)).all() or not factors.any():
        raise ValueError(
            f"class_weight must give finite weights >= 0, one of them above 0; found {dict(class_weight)!r:.200}"
        )
    return factors


def times_factors(weights: F64 | None, factors: F64 | None, index: I64) -> F64 | None:
    """Weights of rows times those of their classes; ValueError if nothing is left of them."""
    if factors is None:
        return weights
    found = factors[index] if weights is None else weights * factors[index]
    if not found.any():
        raise ValueError(
            "class_weight and sample_weight leave no row of weight above 0: give some class more than 0"
        )
    return np.asarray(found)


def of_mean_one(weights: F64 | None) -> F64 | None:
    """Weights whose mean over rows that have any is 1."""
    if weights is None:
        return None
    largest = weights / weights.max()
    return np.asarray(largest * ((largest > 0).sum() / largest.sum()))
