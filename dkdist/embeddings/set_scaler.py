"""`SetScaler`: scaling of points, or replacement by ranks; lazy for stores.

    robust, standard    x' = clip((x - centre) / scale, -c, c)
    quantile            x' = F(x), the mid-distribution function of the column, linear between knots

`ScalerSpec` holds the parameters. A view of a store (`SetStore.mapped`) applies it to the points when they are read.
Like pooled statistics, those of a single set (``per_set``) use up to 65,536 points, selected by a hash of their
positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from dkdist._base.embedding import check_fitted_sets, set_fit_attributes
from dkdist._base.inputs import NO_POSITIONS, SetsLike, check_sets, summarize
from dkdist._base.invalid_sets import require_nonnegative_weights, should_skip
from dkdist._base.parameter_checks import MAX_SCALE, MIN_SCALE, check_choice, check_scale
from dkdist._base.sampling import POOL_SEED, PooledSample, sample_size
from dkdist._numba.arrays import F32, F64
from dkdist._numba.points import read_only, sample_points, set_arrays, weight_array
from dkdist._numba.ranks import column_knots, rank_column, rank_sets
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.embeddings._set_scaler_numba import FLOAT32_MAX, means_and_stds, medians_and_spreads, standardize
from dkdist.embeddings._tuning import MAX_KNOTS, MAX_TOTAL_KNOTS, MIN_KNOTS
from dkdist.embeddings.set_pca import SetMapSpec
from dkdist.io.lazy_sets import LazySets
from dkdist.sets import SampleSetError, SampleSets

MAX_CUMULATED_WEIGHT = 1 + 1e-6  # allows for rounding of sums of weights (tests/scaling/test_set_scaler.py)

Numbers = tuple[float, ...]
STATISTICS: dict[str, Callable[..., Any]] = {"robust": medians_and_spreads, "standard": means_and_stds}


@serializable("Knots")
@dataclass(frozen=True)
class Knots:
    """Values of a column in ascending order, with the weight fractions ``below`` (<) and ``upto`` (<=) each value."""

    values: Numbers
    below: Numbers
    upto: Numbers

    def __post_init__(self) -> None:
        if not 0 < len(self.values) == len(self.below) == len(self.upto):
            raise ValueError("knots must have at least 1 value, and as many weight fractions as values")
        values, below, upto = map(np.asarray, (self.values, self.below, self.upto))
        is_increasing = (np.abs(values) <= np.finfo(np.float32).max).all() and (np.diff(values) > 0).all()
        if not is_increasing or not ((below >= 0) & (below <= upto) & (upto <= MAX_CUMULATED_WEIGHT)).all():
            raise ValueError("knots must be increasing float32 values, with weight fractions from 0 to 1")


@serializable("ScalerSpec")
@dataclass(frozen=True)
class ScalerSpec(SetMapSpec):
    """Parameters of `SetScaler`, relative to ``origin``; with ``per_set``, each set is scaled by its own statistics."""

    method: str
    origin: Numbers
    per_set: bool = False
    clip: float | None = None
    centre: Numbers | None = None
    scale: Numbers | None = None
    knots: tuple[Knots, ...] | None = None

    def __post_init__(self) -> None:
        required = {"none": (), "quantile": ("knots",)}.get(self.method, ("centre", "scale"))
        for name in () if self.per_set else required:
            if len(getattr(self, name) or ()) != self.n_dims:
                raise ValueError(f"{name} must have length {self.n_dims}, one entry per column")

    @property
    def n_features(self) -> int:
        """Dimension d of the scaled points."""
        return self.n_dims

    @property
    def label(self) -> str:
        """Name in the repr of views."""
        return f"SetScaler({self.method!r}{', per_set=True' if self.per_set else ''})"

    def apply(self, sets: SampleSets, sample: SampleSets | None = None) -> SampleSets:
        """Return scaled sets, float32 with origin 0. With ``per_set``, statistics are computed from ``sample``."""
        if self.method == "none":
            return sets
        rebased = sets.rebased(np.array(self.origin))
        points, out = rebased.relative, np.empty(rebased.relative.shape, np.float32)
        if self.per_set:
            self._scale_by(subsample_sets(rebased) if sample is None else sample, rebased, out)
        elif self.knots is not None:
            for j, knots in enumerate(self.knots):
                rank_column(points, j, *map(np.array, (knots.values, knots.below, knots.upto)), out)
        else:
            ends = read_only(np.array([0, len(points)]))
            standardize(points, ends, np.array([self.centre]), np.array([self.scale]), self._limit, out)
        return SampleSets._trusted(out, sets.offsets, sets.weights, labels=sets._labels)

    def for_chunks(self, pieces: Iterator[SampleSets], n_points: int) -> ScalerSpec | SingleSetMap:
        """Return the map for one set that is read in pieces."""
        return SingleSetMap(self, subsample_pieces(self, pieces, n_points)) if self.per_set else self

    @property
    def _limit(self) -> float:
        return FLOAT32_MAX if self.clip is None else self.clip

    def _scale_by(self, sample: SampleSets, sets: SampleSets, out: F32) -> None:
        """Scale each set by the statistics of its sample."""
        arrays = set_arrays(sample.relative, sample.offsets, sample.weights)
        points, offsets = sets.relative, sets.offsets
        if self.method == "quantile":
            rank_sets(points, offsets, *arrays, out)
            return
        centre, scale = STATISTICS[self.method](*arrays)
        standardize(points, offsets, centre, np.where(scale > 0, scale, 1.0), self._limit, out)


@dataclass(frozen=True)
class SingleSetMap(SetMapSpec):
    """Map of one set that is read in pieces, with statistics from a sample of the whole set."""

    spec: Any  # its method ``apply(sets, sample)`` computes statistics from the sample
    sample: SampleSets

    @property
    def label(self) -> str:
        """Name in the repr of views."""
        return str(self.spec.label)

    @property
    def token(self) -> str:
        """Hash of the parameters, which does not depend on the set."""
        return str(self.spec.token)

    @property
    def n_features(self) -> int:
        """Dimension of the transformed points."""
        return int(self.spec.n_features)

    def apply(self, sets: SampleSets) -> SampleSets:
        """Return a transformed piece of the set."""
        mapped: SampleSets = self.spec.apply(sets, self.sample)
        return mapped


def subsample_sets(sets: SampleSets) -> SampleSets:
    """Subsample large sets to the size of a pooled sample."""
    max_points, sizes = sample_size(sets.n_dims), sets.sizes
    if sizes.max(initial=0) <= max_points:
        return sets
    local_rows = [sample_points(np.array([0, n]), 0, 0, max_points / n, POOL_SEED) for n in sizes.tolist()]
    edges = np.concatenate([[0], np.cumsum(list(map(len, local_rows)))])
    rows = np.concatenate([start + local for start, local in zip(sets.offsets, local_rows, strict=False)])
    return sets._of_rows(rows, edges)


def subsample_pieces(spec: SetMapSpec, pieces: Iterator[SampleSets], n_points: int) -> SampleSets:
    """Subsample one set that is read in pieces; return one set."""
    fraction, start, parts = sample_size(spec.n_dims) / n_points, 0, list[SampleSets]()
    for piece in pieces:
        rows = sample_points(piece.offsets, 0, start, fraction, POOL_SEED)
        parts.append(piece.rebased(np.array(spec.origin))._of_rows(rows, np.array([0, len(rows)])))
        start += piece.n_points
    weights = [part.weights for part in parts if part.weights is not None]
    points = np.concatenate([part.relative for part in parts])
    return SampleSets._trusted(
        points, np.array([0, len(points)]), np.concatenate(weights) if weights else None
    )


def pooled_knots(points: F32, weights: F64 | None) -> tuple[Knots, ...]:
    """Return the knots of each column: its distinct values, or values at equally spaced ranks if there are too many."""
    max_knots = int(np.clip(MAX_TOTAL_KNOTS // points.shape[1], MIN_KNOTS, MAX_KNOTS))
    return tuple(_column_knots(points, j, weights, max_knots) for j in range(points.shape[1]))


def _column_knots(points: F32, j: int, weights: F64 | None, max_knots: int) -> Knots:
    knots = np.array(column_knots(points, j, *weight_array(weights)))
    if knots.shape[1] > max_knots:
        upto = knots[2]
        levels = np.linspace(0, 1, max_knots)
        knots = knots[:, np.unique(np.minimum(np.searchsorted(upto, levels), len(upto) - 1))]
    return Knots(*(tuple(row.tolist()) for row in knots))


METHODS = ("robust", "standard", "quantile", "none")


class SetScaler(TransformerMixin, BaseEstimator):
    """Scale the points of all sets, or replace coordinates by ranks.

    Parameters
    ----------
    method : {"robust", "standard", "quantile", "none"}, default="robust"
        Transformation of a column x. "robust": (x - median) / (interquartile range / 1.349), which is 1 standard
        deviation of a Gaussian and insensitive to outliers; columns with many equal values and a small interquartile
        range are divided by the standard deviation winsorized at 2 % on each side. "standard": (x - mean) / standard
        deviation. "quantile": the rank F(x) = P(X < x) + P(X = x) / 2 in [0, 1], linear between knots, 0 and 1 beyond
        them. "none": no change.
    per_set : bool, default=False
        Whether each set is scaled by its own statistics, which removes differences in location and scale between
        sets and keeps differences in shape.
    clip : float or None, default=10
        Limit to [-clip, clip] for "robust" and "standard"; None for no limit. Not used for "quantile" and "none".
    on_error : {"raise", "skip"}, default="raise"
        Treatment of an invalid set in `fit` (damaged or lost chunk, negative weights): "raise" names the first one;
        "skip" omits it, with a warning. In `transform`, the parameter of the embedding applies.

    Attributes
    ----------
    center_ : (d,) float64 array, or None
        Pooled median or mean; None for ranks, "none", or with ``per_set``.
    scale_ : (d,) float64 array, or None
        Pooled scale; 1 for a constant column. If all values except 2 % on each side are equal, it is the median
        distance of the other values from the median, divided by 0.6745.
    spec_ : ScalerSpec
        Fitted parameters with the knots of ranks, relative to ``origin_``.
    n_features_in_ : int
        Dimension d of the points.
    origin_ : (d,) float64 array
        Origin of the sets of `fit` (see `SampleSets`).
    skipped_ : (n_skipped,) int64 array
        Positions of the sets that `fit` skipped, sorted.

    Raises
    ------
    SampleSetError
        For empty sets, NaN or infinite points, other dimensions, or negative weights (the message names the set); or if
        the scale of a column exceeds the range of float32.
    StoreFormatError
        For a set that cannot be read; the message names it.
    ValueError
        For an unknown method, or a clip that is not positive.

    Notes
    -----
    `transform` gives `SampleSets` for sets in memory and a lazy view for a `SetStore`, which scales points when they
    are read, with bitwise identical results in every process. Weights, targets and ids are kept. `write_sets` and
    `compact` write a view as a new store.

    In pooled statistics, the weight of a set is its number of points; weights only matter within a set. They are
    computed from up to 65,536 points (fewer above 64 dimensions), selected by a hash of their positions if there are
    more; results do not depend on blocks or workers. The error of ranks is about 0.2 %. The same holds for ``per_set``.
    Ranks use 129 knots per column (1,024 for all columns, at least 17), or all distinct values if there are fewer.
    `fit` reads the data once, and not at all with ``per_set`` or "none".

    References
    ----------
    Parzen (2004), Quantile probability and statistical data modeling (the mid-distribution function).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.standard_cauchy((100, 1)) * 1000 for _ in range(20)]
    >>> scaled = dk.SetScaler().fit_transform(sets)
    >>> scaled, float(np.abs(scaled.points).max())
    (SampleSets(n_sets=20, n_points=2000, n_dims=1), 10.0)
    >>> dk.SetScaler("quantile").fit_transform([np.array([[3.0], [7], [7], [9]])]).points.ravel()
    array([0.125, 0.5  , 0.5  , 0.875], dtype=float32)
    """

    def __init__(
        self,
        method: str = "robust",
        per_set: bool = False,
        clip: float | None = 10.0,
        on_error: str = "raise",
    ) -> None:
        self.method = method
        self.per_set = per_set
        self.clip = clip
        self.on_error = on_error

    def fit(self, X: SetsLike, y: Any = None) -> SetScaler:
        """Compute centre and scale, or ranks, of the sets X in one pass. ``y`` is ignored."""
        method, per_set = check_choice("method", self.method, METHODS), check_bool("per_set", self.per_set)
        clip = None if self.clip is None else check_scale("clip", self.clip)
        skip = should_skip(self)
        sets = check_sets(X)
        statistics: dict[str, Any] = {}
        if per_set or method == "none":
            set_fit_attributes(self, sets, NO_POSITIONS, "")
        else:
            summary = summarize(sets, None, skip=skip, sampled=True)
            set_fit_attributes(self, sets, summary.bad, summary.reason)
            statistics = _pooled_statistics(method, summary.sample)  # type: ignore[arg-type]
        self.spec_ = ScalerSpec(method, tuple(map(float, sets.origin)), per_set, clip, **statistics)
        return self

    def transform(self, X: SetsLike) -> SampleSets | LazySets:
        """Return the scaled sets X: in memory, or as a lazy view of a store."""
        sets = check_fitted_sets(self, X)
        if self.spec_.method == "none":
            return sets
        if isinstance(sets, LazySets):
            return sets.mapped(self.spec_)
        if self.spec_.per_set:
            require_nonnegative_weights(sets)
        return self.spec_.apply(sets)

    @property
    def center_(self) -> F64 | None:
        """Pooled centre (d,) in the coordinates of the data, or None."""
        centre = self.spec_.centre
        return None if centre is None else np.asarray(np.array(centre) + self.origin_)

    @property
    def scale_(self) -> F64 | None:
        """Pooled scale (d,), or None."""
        return None if self.spec_.scale is None else np.array(self.spec_.scale)


def _pooled_statistics(method: str, sample: PooledSample) -> dict[str, Any]:
    """Return the pooled statistics as fields of `ScalerSpec`."""
    if method == "quantile":
        return {"knots": pooled_knots(sample.points, sample.weights)}
    rows = np.array([0, len(sample.points)])
    centre, scale = STATISTICS[method](*set_arrays(sample.points, rows, sample.weights))
    return {"centre": tuple(centre[0].tolist()), "scale": _check_scales(scale[0])}


def _check_scales(scale: F64) -> tuple[float, ...]:
    """Return positive scales: 1 for constant columns."""
    is_invalid = (scale > 0) & ((scale < MIN_SCALE) | (scale > MAX_SCALE))
    if is_invalid.any():
        j = int(np.argmax(is_invalid))
        raise SampleSetError(
            f"the spread of the points of all sets in column {j} must be between {MIN_SCALE:g} and "
            f"{MAX_SCALE:g}; got {scale[j]:.3g}. Rescale the points."
        )
    return tuple(np.where(scale > 0, scale, 1.0).tolist())
