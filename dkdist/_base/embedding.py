"""What all embeddings of sets share: one look at the data in `fit`, and rows in `transform`.

Sets in, rows out: lazily for a store, at once for a collection in memory; bad sets refused, or rows of NaN.

Names of dimensions, as scikit-learn has them: learnt in fit, and compared with those of other sets.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dkdist._base.inputs import (
    DataSummary,
    Sets,
    block_views,
    check_sets,
    embed_in_pieces,
    outside_error,
    require_some,
    summarize,
)
from dkdist._base.invalid_sets import (
    PartialResult,
    naming_random,
    require_finite_rows,
    require_nonnegative_weights,
    run_skipping_invalid,
    skips,
    warn_skipped_sets,
)
from dkdist._base.params import Additive, Domain, EmbeddingParameters, EmbeddingSpec, is_additive
from dkdist._base.row_ids import attach_index, check_index_alignment, with_index
from dkdist._numba.arrays import F32, F64, I64
from dkdist._runtime.arrays import block_bounds, fill_in_memory, lazy_from_views
from dkdist._runtime.process import materialize_params, warn
from dkdist._utils.validation import find_stacklevel
from dkdist.io import SetStore
from dkdist.sets import SampleSetError, SampleSets


def learn_names(estimator: Any, sets: Any) -> None:
    """Keep the names of the dimensions of the sets of ``fit`` as ``feature_names_in_``; none if they have none."""
    if sets.names is not None:
        estimator.feature_names_in_ = np.array(sets.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def require_names(estimator: Any, sets: Any) -> None:
    """Refuse sets whose dimensions have other names than those of ``fit``, or the same in another order.

    One of both has names at least; where the other has none, a warning says so.
    """
    kind = type(estimator).__name__
    given, known = sets.names, getattr(estimator, "feature_names_in_", None)
    if known is None:
        warn(f"X has feature names, but {kind} was fitted without feature names")
    elif given is None:
        warn(f"X does not have valid feature names, but {kind} was fitted with feature names")
    elif list(given) != list(known):
        how = (
            "be in the same order as they were"
            if sorted(given) == sorted(known)
            else "match those that were passed"
        )
        raise SampleSetError(
            f"the sets have the dimensions {', '.join(given)}, but {kind} was fitted with {', '.join(known)}: feature "
            f"names must {how} in fit. Give the columns of fit, in their order"
        )


FEW_STEPS = 64  # of float32 between the bounds of a column
FATE = "cannot be embedded and have rows of NaN"


class SetEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of embeddings: validation, names, invalid sets, lazy arrays and scikit-learn's protocol.

    A subclass has a method ``_fit`` that returns its parameters, and may have a parameter ``on_error`` and a prefix
    ``_label`` of task names. Parameters are a `Specification` with ``n_dims``, ``n_features``, ``domain`` and a method
    ``embed`` that maps a block of sets to rows. Each row must depend on its own set only. Coordinates are relative to
    ``origin_``, the origin of the sets of ``fit``.
    """

    on_error = "raise"
    _label = "embedding"
    _takes_text = False
    spec_: EmbeddingSpec

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn parameters from the sets X, in one pass over the data. ``y`` is not used."""
        sets = check_sets(X, text=self._takes_text)
        self.spec_ = self._fit(sets, self._look(sets, None))
        return self

    def _fit(self, sets: Sets, summary: DataSummary) -> EmbeddingSpec:
        """Return the parameters; ``summary`` holds bounds of the points and the positions of invalid sets."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Rows of the sets X: (n_sets, m) float32, a dask array for a store and an ndarray for anything else."""
        sets = known_sets(self, X, text=self._takes_text)
        rows = transform_sets(self.spec_, sets, self._label, skip=skips(self))
        owners = X if isinstance(X, (SampleSets, SetStore)) else sets
        return with_index(self, attach_index(rows, owners))

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Rows of the sets X that it is fitted on.

        If ``y`` is a Series or frame whose index has the ids of the sets in another order, the rows can be used by
        learners of this package alone, which join them by id; others are refused.
        """
        return check_index_alignment(super().fit_transform(X, y, **params), X, y)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """(m,) names of the columns: of dimensions that have names, where each column is of one, else numbered."""
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        named = None if known is None else self.spec_.column_names(known.tolist())
        if named is None:
            return np.asarray(super().get_feature_names_out(input_features))
        return np.array(named, dtype=object)

    def _look(self, sets: Sets, given: Domain | None, *, sampled: bool = False) -> DataSummary:
        """One pass over the sets of ``fit``: every check, their bounds, and which of them are bad; and a sample."""
        found = summarize(sets, given, skip=skips(self), sampled=sampled)
        learn_sets(self, sets, found.bad, found.reason)
        if sets.points_dtype == np.float32:
            warn_if_coarse(found, sets.origin)
        return found

    @property
    def _n_features_out(self) -> int:
        return self.spec_.n_features


def learn_sets(estimator: Any, sets: Sets, skipped: I64, reason: str) -> None:
    """Set attributes that describe the sets of ``fit``; ``reason``: why the first skipped set is invalid."""
    require_some(sets, skipped, reason)
    warn_skipped_sets(skipped, reason, "left out of fit (see skipped_)")
    estimator.n_features_in_, estimator.origin_, estimator.skipped_ = sets.n_dims, sets.origin, skipped
    learn_names(estimator, sets)


def known_sets(estimator: Any, X: Any, *, text: bool = False) -> Sets:
    """The sets X for a fitted estimator: of its dimensions, by number and name, and counted from where it counts."""
    check_is_fitted(estimator)
    sets = check_sets(X, estimator.n_features_in_, text=text, origin=estimator.origin_)
    if sets.names is not None or hasattr(estimator, "feature_names_in_"):
        require_names(estimator, sets)
    return sets


def warn_if_coarse(found: DataSummary, origin: F64) -> None:
    """Tell of columns whose values float32, in which sets are kept, hardly tells apart."""
    low, high = found.low.astype(np.float64), found.high.astype(np.float64)
    steps = (high - low) / np.spacing(np.maximum(np.abs(found.low), np.abs(found.high)))
    coarse = (steps > 0) & (steps < FEW_STEPS)
    if coarse.any():
        j = int(np.argmax(coarse))
        where = f"between {low[j] + origin[j]:.10g} and {high[j] + origin[j]:.10g}"
        warnings.warn(
            f"column {j} of the points lies {where}, where float32, in which sets are kept, has {steps[j] + 1:.0f} "
            "values: make the sets of float64, which are counted from an origin near them, or subtract its middle "
            "before",
            stacklevel=find_stacklevel(),
        )


def transform_sets(spec: EmbeddingSpec, sets: Sets, label: str, *, skip: bool) -> Any:
    """(n_sets, m) float32 rows: a dask array for a store, an ndarray for sets in memory."""
    if isinstance(sets, SampleSets):
        return _in_memory(spec, sets, skip)
    views, bounds, read_bytes = block_views(sets, 4 * spec.n_features)
    label += "_skip" * skip  # not the same array: not the same name
    return lazy_from_views(partial(_embed_view, skip), spec, views, bounds, label, read_bytes)


def _in_memory(spec: EmbeddingSpec, sets: SampleSets, skip: bool) -> F32:
    parameters = materialize_params(spec)
    one = np.zeros(1, np.int64)
    checked = run_skipping_invalid(partial(_check, spec), sets, range(len(sets)), one, skip=skip)
    warn_skipped_sets(checked.bad, checked.reason, FATE)
    tell_outside(np.concatenate(checked.results), 0, spec.domain, sets.n_points)
    good, places = sets, np.arange(len(sets))
    if checked.bad:
        places = np.setdiff1d(places, checked.bad)
        good = sets[places]
    out = np.empty((len(sets), spec.n_features), np.float32)
    out[checked.bad] = np.nan

    lost = np.full((1, spec.n_features), np.nan, np.float32)
    late = dict[int, PartialResult[F32]]()  # sets that a user's own function refuses

    def fill(rows: slice) -> None:
        made = run_skipping_invalid(
            partial(_named_rows, parameters), good[rows], places[rows], lost, skip=skip
        )
        out[places[rows] if checked.bad else rows] = (
            made.results[0] if len(made.results) == 1 else np.concatenate(made.results)
        )
        if made.bad:
            late[rows.start] = made

    fill_in_memory(fill, block_bounds(good.sizes, 4 * sets.n_dims, 4 * spec.n_features))
    if late:
        parts = [late[start] for start in sorted(late)]
        warn_skipped_sets([i for part in parts for i in part.bad], parts[0].reason, FATE)
    return out


def _named_rows(parameters: EmbeddingParameters, sets: SampleSets, first: int) -> F32:
    """The rows of sets, the first of which stands at position ``first``."""
    with naming_random(range(first, first + len(sets))):
        rows = parameters.embed(sets)
        require_finite_rows(rows)
        return rows


def _embed_view(skip: bool, parameters: EmbeddingParameters, view: SetStore, first: int) -> F32:
    lost = np.full((1, parameters.spec.n_features), np.nan, np.float32), np.zeros(1, np.int64)
    positions = range(first, first + len(view))
    pieces = partial(_embed_pieces, parameters) if is_additive(parameters) else None
    made = run_skipping_invalid(partial(_embed, parameters), view, positions, lost, skip=skip, pieces=pieces)
    warn_skipped_sets(made.bad, made.reason, FATE)
    rows, outside = zip(*made.results, strict=True)
    tell_outside(np.concatenate(outside), first, parameters.spec.domain, view.n_points)
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _embed(parameters: EmbeddingParameters, sets: SampleSets, first: int) -> tuple[F32, I64]:
    outside = _check(parameters.spec, sets, first)
    return _named_rows(parameters, sets, first), outside


def _embed_pieces(parameters: Additive, view: SetStore, first: int) -> tuple[F32, I64]:
    outside = np.zeros(1, np.int64)

    def count(points: F32) -> None:
        piece = SampleSets._trusted(points, np.array([0, len(points)]), None, None, view.origin)
        outside[:] += count_outside(parameters.spec.domain, piece, first)

    row = embed_in_pieces(parameters, view, first, count)
    with naming_random([first]):
        require_finite_rows(row)
    return row, outside


def _check(spec: EmbeddingSpec, sets: SampleSets, first: int) -> I64:
    spec.require(sets, first)
    return count_outside(spec.domain, sets, first)


def count_outside(domain: Domain | None, sets: SampleSets, first: int) -> I64:
    """Points of each set outside the bounds seen in fit; `SampleSetError` for sets that cannot be embedded."""
    require_nonnegative_weights(sets, first)
    if domain is None:
        return np.zeros(len(sets), np.int64)
    outside = domain.outside(sets)
    if domain.fixed and outside.any():
        raise outside_error(sets, domain, first)
    return outside


def tell_outside(outside: I64, first: int, domain: Domain | None, n_points: int) -> None:
    """Warn once of points outside a box that was chosen from data, with their number, if more are than may be."""
    if domain is not None and outside.sum() > domain.expected_outside(n_points):
        warn(
            f"{outside.sum()} points of {(outside > 0).sum()} sets (the first is set {first + outside.argmax()}) "
            "lie outside the bounds seen in fit and count at the wall: fit on data that spans the range, or give a "
            "domain to an embedding that takes one"
        )
