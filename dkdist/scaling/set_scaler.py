"""`SetScaler`: sets in units of their spread, or as ranks: sets to sets, lazily for stores."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from dkdist.base.bad_sets import require_nonnegative_weights, skips
from dkdist.base.drawn_samples import PooledSample
from dkdist.base.embedding import known_sets, learn_sets
from dkdist.base.inputs import NONE, check_sets, survey
from dkdist.base.parameter_checks import LEAST, MOST, one_of, within_float32
from dkdist.loops.array_types import F64
from dkdist.loops.points import set_arrays
from dkdist.plain.validation import as_flag
from dkdist.scaling.set_scaler_spec import STATISTICS, ScalerSpec, pooled_knots
from dkdist.sets import SampleSetError, SampleSets
from dkdist.store import SetStore

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
        method, alone = one_of("method", self.method, METHODS), as_flag("per_set", self.per_set)
        clip = None if self.clip is None else within_float32("clip", self.clip)
        skip = skips(self)
        sets = check_sets(X)
        statistics: dict[str, Any] = {}
        if alone or method == "none":
            learn_sets(self, sets, NONE, "")
        else:
            summary = survey(sets, None, skip=skip, sampled=True)
            learn_sets(self, sets, summary.bad, summary.reason)
            statistics = _pooled(method, summary.sample)  # type: ignore[arg-type]
        self.spec_ = ScalerSpec(method, tuple(map(float, sets.origin)), alone, clip, **statistics)
        return self

    def transform(self, X: Any) -> SampleSets | SetStore:
        """The sets X, scaled: in memory, or a lazy view of a store."""
        sets = known_sets(self, X)
        if self.spec_.method == "none":
            return sets
        if isinstance(sets, SetStore):
            return sets.mapped(self.spec_)
        if self.spec_.per_set:
            require_nonnegative_weights(sets)
        return self.spec_.of_sets(sets)

    @property
    def center_(self) -> F64 | None:
        """(d,): what is subtracted, in true coordinates."""
        centre = self.spec_.centre
        return None if centre is None else np.asarray(np.array(centre) + self.origin_)

    @property
    def scale_(self) -> F64 | None:
        """(d,): what points are divided by."""
        return None if self.spec_.scale is None else np.array(self.spec_.scale)


def _pooled(method: str, sample: PooledSample) -> dict[str, Any]:
    """Statistics of all points together, as the specification names them."""
    if method == "quantile":
        return {"knots": pooled_knots(sample.points, sample.weights)}
    rows = np.array([0, len(sample.points)])
    centre, scale = STATISTICS[method](*set_arrays(sample.points, rows, sample.weights))
    return {"centre": tuple(centre[0].tolist()), "scale": _usable(scale[0])}


def _usable(scale: F64) -> tuple[float, ...]:
    """Scales as points are divided by them: 1 for columns of equal values."""
    bad = (scale > 0) & ((scale < LEAST) | (scale > MOST))
    if bad.any():
        j = int(np.argmax(bad))
        raise SampleSetError(
            f"the points (of set 0 and all others) have a spread of {scale[j]:.3g} in column {j}: float32 scales "
            f"{LEAST:g} to {MOST:g}. Give the points in other units"
        )
    return tuple(np.where(scale > 0, scale, 1.0).tolist())
