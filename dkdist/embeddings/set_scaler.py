"""`SetScaler`: sets in units of their spread, or as ranks: sets to sets, lazily for stores.

What scales sets, in plain numbers: a centre and a scale of each column, knots of its ranks, or each set's own.

    robust, standard    x' = clip((x - centre) / scale, -c, c)
    quantile            x' = F(x), the mid-distribution function of the column, linear between knots

A `ScalerSpec` is a map of views (`store.set_map`): it travels with them, and scales what they read. Statistics of a set
of its own are of up to 65,536 of its points, drawn by a hash of their places, as those of all sets together are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from dkdist._base.embedding import check_fitted_sets, set_fit_attributes
from dkdist._base.inputs import NO_POSITIONS, check_sets, summarize
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
from dkdist.io import SetStore
from dkdist.sets import SampleSetError, SampleSets

MAX_CUMULATED_WEIGHT = 1 + 1e-6  # of all weight, in sums that were rounded

Numbers = tuple[float, ...]
STATISTICS: dict[str, Callable[..., Any]] = {"robust": medians_and_spreads, "standard": means_and_stds}


@serializable("Knots")
@dataclass(frozen=True)
class Knots:
    """Values of a column in rising order, with the share of all weight below and up to each."""

    values: Numbers
    below: Numbers
    upto: Numbers

    def __post_init__(self) -> None:
        if not 0 < len(self.values) == len(self.below) == len(self.upto):
            raise ValueError("knots must be as many values as shares of weight, and at least one")
        values, below, upto = map(np.asarray, (self.values, self.below, self.upto))
        rising = (np.abs(values) <= np.finfo(np.float32).max).all() and (np.diff(values) > 0).all()
        if not rising or not ((below >= 0) & (below <= upto) & (upto <= MAX_CUMULATED_WEIGHT)).all():
            raise ValueError("knots must be rising float32 values with shares of weight from 0 to 1")


@serializable("ScalerSpec")
@dataclass(frozen=True)
class ScalerSpec(SetMapSpec):
    """What defines a scaler: columns counted from ``origin``, or with ``per_set`` each set by its own statistics."""

    method: str
    origin: Numbers
    per_set: bool = False
    clip: float | None = None
    centre: Numbers | None = None
    scale: Numbers | None = None
    knots: tuple[Knots, ...] | None = None

    def __post_init__(self) -> None:
        needed = {"none": (), "quantile": ("knots",)}.get(self.method, ("centre", "scale"))
        for name in () if self.per_set else needed:
            if len(getattr(self, name) or ()) != self.n_dims:
                raise ValueError(f"{name} must be {self.n_dims}, one for each column")

    @property
    def n_features(self) -> int:
        """The dimension of what it makes: that of the points."""
        return self.n_dims

    @property
    def label(self) -> str:
        """Its name, for the repr of views."""
        return f"SetScaler({self.method!r}{', per_set=True' if self.per_set else ''})"

    def apply(self, sets: SampleSets, drawn: SampleSets | None = None) -> SampleSets:
        """Scaled sets, float32 from the origin 0; weights stay. Sets by their own statistics: those of ``drawn``."""
        if self.method == "none":
            return sets
        given = sets.rebased(np.array(self.origin))
        points, out = given.relative, np.empty(given.relative.shape, np.float32)
        if self.per_set:
            self._scale_by(subsample_sets(given) if drawn is None else drawn, given, out)
        elif self.knots is not None:
            for j, knots in enumerate(self.knots):
                rank_column(points, j, *map(np.array, (knots.values, knots.below, knots.upto)), out)
        else:
            ends = read_only(np.array([0, len(points)]))
            standardize(points, ends, np.array([self.centre]), np.array([self.scale]), self._limit, out)
        return SampleSets._trusted(out, sets.offsets, sets.weights, labels=sets._labels)

    def for_chunks(self, pieces: Iterator[SampleSets], n_points: int) -> ScalerSpec | SingleSetMap:
        """What scales the one set of these pieces, each by itself."""
        return SingleSetMap(self, subsample_pieces(self, pieces, n_points)) if self.per_set else self

    @property
    def _limit(self) -> float:
        return FLOAT32_MAX if self.clip is None else self.clip

    def _scale_by(self, drawn: SampleSets, sets: SampleSets, out: F32) -> None:
        """Scale each set by statistics of what was drawn of it."""
        of = set_arrays(drawn.relative, drawn.offsets, drawn.weights)
        points, offsets = sets.relative, sets.offsets
        if self.method == "quantile":
            rank_sets(points, offsets, *of, out)
            return
        centre, scale = STATISTICS[self.method](*of)
        standardize(points, offsets, centre, np.where(scale > 0, scale, 1.0), self._limit, out)


@dataclass(frozen=True)
class SingleSetMap(SetMapSpec):
    """What scales one set, which comes in pieces, by what was drawn of all of it."""

    spec: ScalerSpec
    drawn: SampleSets

    @property
    def label(self) -> str:
        """As that of its specification."""
        return self.spec.label

    @property
    def token(self) -> str:
        """As that of its specification: the set is the view's."""
        return self.spec.token

    @property
    def n_features(self) -> int:
        """The dimension of the points."""
        return self.spec.n_features

    def apply(self, sets: SampleSets) -> SampleSets:
        """A piece of the set, scaled."""
        return self.spec.apply(sets, self.drawn)


def subsample_sets(sets: SampleSets) -> SampleSets:
    """Sets as statistics see them: large ones have as many of their points as a sample has."""
    most, sizes = sample_size(sets.n_dims), sets.sizes
    if sizes.max(initial=0) <= most:
        return sets
    each = [sample_points(np.array([0, n]), 0, 0, most / n, POOL_SEED) for n in sizes.tolist()]
    edges = np.concatenate([[0], np.cumsum(list(map(len, each)))])
    rows = np.concatenate([a + own for a, own in zip(sets.offsets, each, strict=False)])
    return sets._of_rows(rows, edges)


def subsample_pieces(spec: ScalerSpec, pieces: Iterator[SampleSets], n_points: int) -> SampleSets:
    """The same of one set that comes in pieces: one set."""
    share, start, parts = sample_size(spec.n_dims) / n_points, 0, list[SampleSets]()
    for piece in pieces:
        rows = sample_points(piece.offsets, 0, start, share, POOL_SEED)
        parts.append(piece.rebased(np.array(spec.origin))._of_rows(rows, np.array([0, len(rows)])))
        start += piece.n_points
    weights = [part.weights for part in parts if part.weights is not None]
    points = np.concatenate([part.relative for part in parts])
    return SampleSets._trusted(
        points, np.array([0, len(points)]), np.concatenate(weights) if weights else None
    )


def pooled_knots(points: F32, weights: F64 | None) -> tuple[Knots, ...]:
    """The knots of each column: its different values, or of too many some that are as far apart in rank."""
    most = int(np.clip(MAX_TOTAL_KNOTS // points.shape[1], MIN_KNOTS, MAX_KNOTS))
    return tuple(_column_knots(points, j, weights, most) for j in range(points.shape[1]))


def _column_knots(points: F32, j: int, weights: F64 | None, most: int) -> Knots:
    found = np.array(column_knots(points, j, *weight_array(weights)))
    if found.shape[1] > most:
        upto = found[2]
        levels = np.linspace(0, 1, most)
        found = found[:, np.unique(np.minimum(np.searchsorted(upto, levels), len(upto) - 1))]
    return Knots(*(tuple(row.tolist()) for row in found))


METHODS = ("robust", "standard", "quantile", "none")


class SetScaler(TransformerMixin, BaseEstimator):
    """Give the points of all sets in units of their spread, or as ranks, before any embedding: sets to sets.

    Parameters
    ----------
    method : {"robust", "standard", "quantile", "none"}, default="robust"
        What becomes of a column x. "robust": (x - median) / (quartile distance / 1.349), so that the body of a Gaussian
        has the deviation 1 and a few points far away change nothing; of columns whose values are mostly alike, with
        quartiles close together, by their deviation with 2 % at each end moved inwards. "standard": (x - mean) /
        standard deviation. "quantile": the rank F(x) = P(X < x) + P(X = x) / 2 in [0, 1], so that equal values share
        one; between the knots that are kept it is linear, and 0 and 1 beyond them. "none": the sets as they are.
    per_set : bool, default=False
        Whether each set is scaled by its own points: what tells sets apart is then their shape, not where they lie and
        how wide they are.
    clip : float or None, default=10
        Points of "robust" and "standard" count at -clip and clip beyond these; None lets them be. Ranks need none, and
        "none" changes nothing.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of a bad set in `fit` (damaged or lost chunk, weights that are no measure): "raise" names the first
        one; "skip" leaves it out, with a warning. Embeddings have a parameter like it for what comes after.

    Attributes
    ----------
    center_ : (d,) float64 array, or None
        The pooled median or mean; None for ranks, "none", or with ``per_set``.
    scale_ : (d,) float64 array, or None
        What points are divided by; 1 for a column of equal values. Where all but 2 % at each end are equal, it is the
        median distance from the median of those that differ, over .6745.
    spec_ : ScalerSpec
        The same in plain numbers, with the knots of ranks; counted from ``origin_``.
    n_features_in_ : int
        The dimension d of the points.
    origin_ : (d,) float64 array
        What points are counted from, that of the sets of `fit` (see `SampleSets`).
    skipped_ : (n_skipped,) int64 array
        Positions of the sets that `fit` left out, sorted.

    Raises
    ------
    SampleSetError
        Naming the set: empty sets, NaN or infinite points, other dimensions, negative weights; or for a column so
        narrow or wide that float32 cannot hold its scale.
    StoreFormatError
        Naming the set that cannot be read.
    ValueError
        For a method that is none of these, or a clip that is no positive number.

    Notes
    -----
    `transform` gives `SampleSets` for sets in memory and a view for a `SetStore`: nothing is read, and whatever reads
    it, in whatever process, scales the sets as they come, to the same bits. Weights, targets and ids stay. A scaled
    view is written as a store of its own by `write_sets` or `compact`.

    Pooled statistics are those of all points: a set counts as many points as it has, and its points among themselves
    by their weights. They are of all of up to 65,536 points (fewer from 64 dimensions on), and of about as many of
    more, drawn by a hash of their places: the order of work changes nothing, and ranks are off by some .2 %. So are
    the statistics of a single set of more. Ranks keep 129 knots a column (1,024 of all columns, 17 at least), or all
    of fewer different values. `fit` reads the data once, and not at all with ``per_set`` or "none".

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

    def fit(self, X: Any, y: Any = None) -> SetScaler:
        """Find centre and scale, or ranks, of the sets X; one pass over the data. ``y`` is not used."""
        method, alone = check_choice("method", self.method, METHODS), check_bool("per_set", self.per_set)
        clip = None if self.clip is None else check_scale("clip", self.clip)
        skip = should_skip(self)
        sets = check_sets(X)
        statistics: dict[str, Any] = {}
        if alone or method == "none":
            set_fit_attributes(self, sets, NO_POSITIONS, "")
        else:
            summary = summarize(sets, None, skip=skip, sampled=True)
            set_fit_attributes(self, sets, summary.bad, summary.reason)
            statistics = _pooled_statistics(method, summary.sample)  # type: ignore[arg-type]
        self.spec_ = ScalerSpec(method, tuple(map(float, sets.origin)), alone, clip, **statistics)
        return self

    def transform(self, X: Any) -> SampleSets | SetStore:
        """The sets X, scaled: in memory, or a lazy view of a store."""
        sets = check_fitted_sets(self, X)
        if self.spec_.method == "none":
            return sets
        if isinstance(sets, SetStore):
            return sets.mapped(self.spec_)
        if self.spec_.per_set:
            require_nonnegative_weights(sets)
        return self.spec_.apply(sets)

    @property
    def center_(self) -> F64 | None:
        """(d,): what is subtracted, in true coordinates."""
        centre = self.spec_.centre
        return None if centre is None else np.asarray(np.array(centre) + self.origin_)

    @property
    def scale_(self) -> F64 | None:
        """(d,): what points are divided by."""
        return None if self.spec_.scale is None else np.array(self.spec_.scale)


def _pooled_statistics(method: str, sample: PooledSample) -> dict[str, Any]:
    """Statistics of all points together, as the specification names them."""
    if method == "quantile":
        return {"knots": pooled_knots(sample.points, sample.weights)}
    rows = np.array([0, len(sample.points)])
    centre, scale = STATISTICS[method](*set_arrays(sample.points, rows, sample.weights))
    return {"centre": tuple(centre[0].tolist()), "scale": _check_scales(scale[0])}


def _check_scales(scale: F64) -> tuple[float, ...]:
    """Scales as points are divided by them: 1 for columns of equal values."""
    bad = (scale > 0) & ((scale < MIN_SCALE) | (scale > MAX_SCALE))
    if bad.any():
        j = int(np.argmax(bad))
        raise SampleSetError(
            f"the points (of set 0 and all others) have a spread of {scale[j]:.3g} in column {j}: float32 scales "
            f"{MIN_SCALE:g} to {MAX_SCALE:g}. Give the points in other units"
        )
    return tuple(np.where(scale > 0, scale, 1.0).tolist())
