"""`SetEmbedding`, the base class of embeddings of sets.

`fit` summarizes the data in one pass and chooses parameters; `transform` returns rows, lazily for a store and as an
ndarray for sets in memory. Invalid sets raise an error or give rows of NaN. Names of dimensions follow scikit-learn's
rules for feature names.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dkdist._base.inputs import (
    DataSummary,
    LazySetsLike,
    Sets,
    SetsInMemory,
    SetsLike,
    block_views,
    check_sets,
    embed_in_pieces,
    outside_error,
    require_valid_sets,
    summarize,
)
from dkdist._base.invalid_sets import (
    PartialResult,
    name_set_errors,
    require_finite_rows,
    require_nonnegative_weights,
    run_skipping_invalid,
    should_skip,
    warn_skipped_rows,
    warn_skipped_sets,
)
from dkdist._base.params import AdditiveParameters, Domain, EmbeddingParameters, EmbeddingSpec, is_additive
from dkdist._base.row_ids import apply_set_output, attach_index, check_index_alignment
from dkdist._numba.arrays import F32, F64, I64
from dkdist._runtime.arrays import block_bounds, fill_in_memory, lazy_from_views
from dkdist._runtime.blocks import DaskArray
from dkdist._runtime.outcomes import SetWarning
from dkdist._runtime.process import materialize_params, warn
from dkdist._runtime.set_warnings import warn_of_sets
from dkdist._utils.validation import find_stacklevel
from dkdist.io import StoreFormatError
from dkdist.io.lazy_sets import LazySets
from dkdist.sets import SampleSetError, SampleSets


def set_feature_names(estimator: Any, sets: Any) -> None:
    """Set or delete ``feature_names_in_``, the names of the dimensions of the sets of ``fit``."""
    if sets.names is not None:
        estimator.feature_names_in_ = np.array(sets.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_feature_names(estimator: Any, sets: Any) -> None:
    """Raise unless the names of dimensions and their order are those of ``fit``; warn if one side has no names."""
    estimator_name = type(estimator).__name__
    names, fitted_names = sets.names, getattr(estimator, "feature_names_in_", None)
    if fitted_names is None:
        warn(f"X has feature names, but {estimator_name} was fitted without feature names")
    elif names is None:
        warn(f"X does not have valid feature names, but {estimator_name} was fitted with feature names")
    elif list(names) != list(fitted_names):
        requirement = (  # wording of scikit-learn, which its estimator checks require
            "be in the same order as they were"
            if sorted(names) == sorted(fitted_names)
            else "match those that were passed"
        )
        raise SampleSetError(
            f"the sets have the dimensions {', '.join(names)}, but {estimator_name} was fitted with "
            f"{', '.join(fitted_names)}: feature names must {requirement} in fit. Pass the columns of fit in the same "
            "order."
        )


# Columns with fewer float32 values between their bounds raise a warning: their coordinates have less than 6 bits of
# precision. python -m pytest tests/test_bad_input.py -k float32 shows the warning.
MIN_FLOAT32_STEPS = 64


class SetEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of embeddings: validation, names, invalid sets, lazy arrays and scikit-learn's protocol.

    A subclass has a method ``_fit`` that returns its parameters, and may have a parameter ``on_error`` and a prefix
    ``_label`` of task names. Parameters (`Params`) have ``n_dims``, ``n_features``, ``domain`` and a method ``embed``
    that maps a block of sets to rows. Each row must depend on its own set only. Coordinates are relative to
    ``origin_``, the origin of the sets of ``fit``.
    """

    on_error = "raise"
    _label = "embedding"
    _accepts_strings = False
    spec_: EmbeddingSpec

    def fit(self, X: SetsLike, y: Any = None) -> Self:
        """Learn parameters from the sets X, in one pass over the data. ``y`` is not used."""
        sets = check_sets(X, text=self._accepts_strings)
        self.spec_ = self._fit(sets, self._summarize_fit_sets(sets, None))
        return self

    def _fit(self, sets: Sets, summary: DataSummary) -> EmbeddingSpec:
        """Return the parameters; ``summary`` holds bounds of the points and the positions of invalid sets."""
        raise NotImplementedError

    @overload
    def transform(self, X: LazySetsLike) -> DaskArray: ...
    @overload
    def transform(self, X: SetsInMemory) -> F32: ...
    def transform(self, X: Any) -> Any:
        """Return rows of the sets X: (n_sets, m) float32, a dask array for a store, otherwise an ndarray."""
        sets = self._check_transform_sets(X)
        rows = transform_sets(self.spec_, sets, self._label, skip=should_skip(self))
        source = X if isinstance(X, (SampleSets, LazySets)) else sets
        return apply_set_output(self, attach_index(rows, source))

    def _check_transform_sets(self, X: Any) -> Sets:
        """Return the sets X, or raise if they do not match those of ``fit``."""
        return check_fitted_sets(self, X, text=self._accepts_strings)

    @overload
    def fit_transform(self, X: LazySetsLike, y: Any = None, **params: Any) -> DaskArray: ...
    @overload
    def fit_transform(self, X: SetsInMemory, y: Any = None, **params: Any) -> F32: ...
    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit on the sets X and return their rows.

        If the index of ``y`` has the ids of the sets in another order, only learners of this package accept the rows:
        they align targets by id. Other estimators raise an error.
        """
        try:
            rows = super().fit_transform(X, y, **params)
        except (SampleSetError, StoreFormatError) as error:  # internal frames would hide the message
            raise error.with_traceback(None) from error.__cause__
        return check_index_alignment(rows, X, y)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return column names (m,): from dimension names if each column has one dimension, otherwise numbered.

        ``input_features`` is ignored, because `ColumnTransformer` of scikit-learn passes the name of the column of
        sets.
        """
        check_is_fitted(self)
        dimension_names = getattr(self, "feature_names_in_", None)
        names = None if dimension_names is None else self.spec_.column_names(dimension_names.tolist())
        if names is None:
            return np.asarray(super().get_feature_names_out())
        return np.array(names, dtype=object)

    def _summarize_fit_sets(self, sets: Sets, domain: Domain | None, *, sampled: bool = False) -> DataSummary:
        """Check the sets of ``fit`` in one pass; return bounds, invalid sets and, if ``sampled``, a sample."""
        try:
            summary = summarize(sets, domain, skip=should_skip(self), sampled=sampled)
        except (SampleSetError, StoreFormatError) as error:  # internal frames would hide the message
            raise error.with_traceback(None) from error.__cause__
        set_fit_attributes(self, sets, summary.bad, summary.reason)
        if sets.points_dtype == np.float32:
            warn_coarse_columns(summary, sets.origin)
        return summary

    @property
    def _n_features_out(self) -> int:
        return self.spec_.n_features


def set_fit_attributes(estimator: Any, sets: Sets, skipped: I64, reason: str) -> None:
    """Set attributes that describe the sets of ``fit``; ``reason`` is the error of the first skipped set."""
    require_valid_sets(sets, skipped, reason)
    warn_skipped_sets(skipped, reason)
    estimator.n_features_in_, estimator.origin_, estimator.skipped_ = sets.n_dims, sets.origin, skipped
    set_feature_names(estimator, sets)


def check_fitted_sets(estimator: Any, X: Any, *, text: bool = False) -> Sets:
    """Return the sets X relative to the origin of a fitted estimator; raise unless their dimensions match."""
    check_is_fitted(estimator)
    sets = check_sets(X, estimator.n_features_in_, text=text, origin=estimator.origin_)
    if sets.names is not None or hasattr(estimator, "feature_names_in_"):
        check_feature_names(estimator, sets)
    return sets


def warn_coarse_columns(summary: DataSummary, origin: F64) -> None:
    """Warn about columns with too few float32 values between their bounds."""
    low, high = summary.low.astype(np.float64), summary.high.astype(np.float64)
    steps = (high - low) / np.spacing(np.maximum(np.abs(summary.low), np.abs(summary.high)))
    coarse = (steps > 0) & (steps < MIN_FLOAT32_STEPS)
    if coarse.any():
        j = int(np.argmax(coarse))
        warnings.warn(
            f"column {j} has only {steps[j] + 1:.0f} float32 values between {low[j] + origin[j]:.10g} and "
            f"{high[j] + origin[j]:.10g}. Pass float64 points, which are stored relative to an origin, or subtract the "
            "centre of the column.",
            stacklevel=find_stacklevel(),
        )


def transform_sets(spec: EmbeddingSpec, sets: Sets, label: str, *, skip: bool) -> Any:
    """Return rows (n_sets, m) float32: a dask array for a store, an ndarray for sets in memory."""
    if isinstance(sets, SampleSets):
        return _embed_in_memory(spec, sets, skip)
    source, bounds, read_bytes = block_views(sets, 4 * spec.n_features)
    label += "_skip" * skip  # rows of invalid sets are NaN, so the array needs another name
    return lazy_from_views(partial(_embed_view, skip), spec, source, bounds, label, read_bytes)


def _embed_in_memory(spec: EmbeddingSpec, sets: SampleSets, skip: bool) -> F32:
    parameters = materialize_params(spec)
    check, zero = partial(_require_and_count_outside, spec), np.zeros(1, np.int64)
    checked = run_skipping_invalid(check, sets, range(len(sets)), zero, skip=skip)
    warn_skipped_rows(checked.bad, checked.reason)
    warn_outside(np.concatenate(checked.results), 0, spec.domain, sets.n_points)
    valid_sets, positions = sets, np.arange(len(sets))
    if checked.bad:
        positions = np.setdiff1d(positions, checked.bad)
        valid_sets = sets[positions]
    out = np.empty((len(sets), spec.n_features), np.float32)
    out[checked.bad] = np.nan

    nan_row = np.full((1, spec.n_features), np.nan, np.float32)
    failures = dict[
        int, PartialResult[F32]
    ]()  # sets that a user's function rejects are detected only when they are embedded

    def fill(rows: slice) -> None:
        result = run_skipping_invalid(
            partial(_embed_finite, parameters), valid_sets[rows], positions[rows], nan_row, skip=skip
        )
        out[positions[rows] if checked.bad else rows] = (
            result.results[0] if len(result.results) == 1 else np.concatenate(result.results)
        )
        if result.bad:
            failures[rows.start] = result

    fill_in_memory(fill, block_bounds(valid_sets.sizes, 4 * sets.n_dims, 4 * spec.n_features))
    if failures:
        parts = [failures[start] for start in sorted(failures)]
        warn_skipped_rows([i for part in parts for i in part.bad], parts[0].reason)
    return out


def _embed_finite(parameters: EmbeddingParameters, sets: SampleSets, first: int) -> F32:
    with name_set_errors(range(first, first + len(sets))):
        rows = parameters.embed(sets)
        require_finite_rows(rows)
        return rows


def _embed_view(skip: bool, parameters: EmbeddingParameters, view: LazySets, first: int) -> F32:
    nan_row = np.full((1, parameters.spec.n_features), np.nan, np.float32), np.zeros(1, np.int64)
    positions = range(first, first + len(view))
    pieces = partial(_embed_pieces, parameters) if is_additive(parameters) else None
    result = run_skipping_invalid(
        partial(_embed, parameters), view, positions, nan_row, skip=skip, pieces=pieces
    )
    warn_skipped_rows(result.bad, result.reason, workers_warn=False)  # rows of NaN list the sets
    rows, outside = zip(*result.results, strict=True)
    warn_outside(np.concatenate(outside), first, parameters.spec.domain, view.n_points)
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _embed(parameters: EmbeddingParameters, sets: SampleSets, first: int) -> tuple[F32, I64]:
    outside = _require_and_count_outside(parameters.spec, sets, first)
    return _embed_finite(parameters, sets, first), outside


def _embed_pieces(parameters: AdditiveParameters, view: LazySets, first: int) -> tuple[F32, I64]:
    outside = np.zeros(1, np.int64)

    def count(points: F32) -> None:
        piece = SampleSets._trusted(points, np.array([0, len(points)]), None, None, view.origin)
        outside[:] += count_outside(parameters.spec.domain, piece, first)

    row = embed_in_pieces(parameters, view, first, count)
    with name_set_errors([first]):
        require_finite_rows(row)
    return row, outside


def _require_and_count_outside(spec: EmbeddingSpec, sets: SampleSets, first: int) -> I64:
    spec.require(sets, first)
    return count_outside(spec.domain, sets, first)


def count_outside(domain: Domain | None, sets: SampleSets, first: int) -> I64:
    """Return the number of points of each set outside the domain; raise for a fixed domain or invalid weights."""
    require_nonnegative_weights(sets, first)
    if domain is None:
        return np.zeros(len(sets), np.int64)
    outside = domain.count_outside(sets)
    if domain.fixed and outside.any():
        raise outside_error(sets, domain, first)
    return outside


def warn_outside(outside: I64, first: int, domain: Domain | None, n_points: int) -> None:
    """Warn if more points are outside the domain than expected; ``outside`` (n_sets,) counts them."""
    if domain is not None and outside.sum() > domain.expected_outside(n_points):
        text = (
            "{n_points} points in {n_sets} sets (first: set {first}) are outside the range seen in fit and were "
            "clipped. Fit on representative data or pass domain=."
        )
        warn_of_sets(
            SetWarning.of(text, first + np.flatnonzero(outside).astype(np.int64), n_points=outside.sum())
        )
