"""`SetPCA`: the principal components of the points of all sets: sets to sets of fewer dimensions, lazily for stores.

What gives points as principal components, in plain numbers: a mean, axes, and deviations to divide by.

    x' = (x - mean) axes^T / deviations

A `ComponentsSpec` is a map of views (`store.set_map`): it travels with them, and maps what they read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from functools import cached_property, lru_cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from dkdist._base.embedding import check_fitted_sets, set_fit_attributes
from dkdist._base.inputs import check_sets, summarize
from dkdist._base.invalid_sets import should_skip
from dkdist._base.sampling import PooledSample
from dkdist._numba.arrays import F64
from dkdist._numba.points import nonfinite_rows
from dkdist._numba.products import Factor, deterministic_factor
from dkdist._runtime.process import one_blas_thread
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.embeddings._tuning import POINTS_PER_PCA_BATCH
from dkdist.io import SetStore
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.labels import Names

Numbers = tuple[float, ...]


class SetMapSpec:
    """Base of maps of sets to sets, as views carry them: frozen dataclasses with the ``origin`` of their points."""

    origin: Numbers
    per_set = False  # whether a set decides its own map

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return len(self.origin)

    @cached_property
    def token(self) -> str:
        """A name of what it does, the same for equal maps."""
        return hashlib.blake2b(repr(astuple(self)).encode(), digest_size=16).hexdigest()  # type: ignore[call-overload]

    def names_of(self, names: Names | None) -> Names | None:
        """Names of the dimensions that it makes, from those of the points."""
        return names

    def for_chunks(self, pieces: Iterator[SampleSets], n_points: int) -> Any:
        """The map of one set that comes in pieces."""
        return self


@serializable("ComponentsSpec")
@dataclass(frozen=True)
class ComponentsSpec(SetMapSpec):
    """What defines `SetPCA`: ``axes`` (k, d) of points counted from ``origin``, and ``deviations`` (k,)."""

    origin: Numbers
    mean: Numbers
    axes: tuple[Numbers, ...]
    deviations: Numbers

    def __post_init__(self) -> None:
        lengths = {len(self.mean), *map(len, self.axes)}
        if lengths != {self.n_dims} or not 0 < len(self.axes) == len(self.deviations) <= self.n_dims:
            raise ValueError(
                f"mean and axes must be of {self.n_dims} columns, with a deviation for each axis"
            )
        if (
            not all(np.isfinite(values).all() for values in (self.mean, *self.axes))
            or min(self.deviations) <= 0
        ):
            raise ValueError("mean and axes must be finite, and deviations positive")

    @property
    def n_features(self) -> int:
        """The dimension k of what it makes."""
        return len(self.axes)

    @property
    def label(self) -> str:
        """Its name, for the repr of views."""
        return f"SetPCA({self.n_features})"

    def names_of(self, names: Names | None) -> Names | None:
        """Their numbers: a component is no dimension of the sets."""
        return tuple(f"component{i}" for i in range(self.n_features))

    def apply(self, sets: SampleSets) -> SampleSets:
        """The components, float32 from the origin 0; weights, ids and targets stay. A point's are its own."""
        points, factor = sets.rebased(np.array(self.origin)).relative, _factor(self)
        out = np.empty((len(points), self.n_features), np.float32)
        for start in range(0, len(points), POINTS_PER_PCA_BATCH):
            rows = slice(start, start + POINTS_PER_PCA_BATCH)
            with np.errstate(over="ignore", invalid="ignore"):  # told below
                factor.product((points[rows] - np.array(self.mean)).astype(np.float32), out[rows])
        if len(bad := nonfinite_rows(out)):
            i = int(np.searchsorted(sets.offsets, bad[0], side="right")) - 1
            raise SampleSetError(
                f"point {bad[0] - sets.offsets[i]} of set {i} is too far away for float32: clip the points (SetScaler)"
            )
        labels = replace(sets._labels, names=self.names_of(None))
        return SampleSets._trusted(out, sets.offsets, sets.weights, labels=labels)


@lru_cache(maxsize=16)
def _factor(spec: ComponentsSpec) -> Factor:
    return deterministic_factor(
        (np.array(spec.axes) / np.array(spec.deviations)[:, None]).T.astype(np.float32)
    )


ZERO_VARIANCE_RTOL = 1e-12  # of the largest variance: rounding, which no whitening makes a component of


class SetPCA(TransformerMixin, BaseEstimator):
    """Give the points of all sets as their first principal components, before an embedding: sets to sets.

    Parameters
    ----------
    n_components : int, or float between 0 and 1, default=0.95
        How many components, at most d; or as many as explain this share of the variance.
    whiten : bool, default=False
        Whether each component is divided by its standard deviation.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of a bad set in `fit` (damaged or lost chunk, weights that are no measure): "raise" names the first
        one; "skip" leaves it out, with a warning.

    Attributes
    ----------
    components_ : (k, d) float64 array
        The axes, of unit length, largest variance first; the entry of each that is largest in size is positive.
    mean_ : (d,) float64 array
        What is subtracted.
    explained_variance_, explained_variance_ratio_ : (k,) float64 arrays
        The variance along each axis, and its share of the whole.
    n_components_ : int
        k.
    spec_ : ComponentsSpec
        The same in plain numbers, counted from ``origin_``.
    n_features_in_ : int
        The dimension d of the points.
    origin_ : (d,) float64 array
        What points are counted from, that of the sets of `fit` (see `SampleSets`).
    skipped_ : (n_skipped,) int64 array
        Positions of the sets that `fit` left out, sorted.

    Raises
    ------
    SampleSetError
        Naming the set: empty sets, NaN or infinite points, other dimensions, negative weights, points whose components
        float32 cannot hold; or if all points are equal.
    StoreFormatError
        Naming the set that cannot be read.
    ValueError
        For other numbers of components.

    Notes
    -----
    `transform` gives `SampleSets` for sets in memory and a view for a `SetStore`: nothing is read, and whatever reads
    it, in whatever process, maps the points as they come, to the same bits. Weights, targets and ids stay. A view is
    written as a store of its own by `write_sets` or `compact`.

    Mean and covariance are pooled: a set counts as many points as it has, and its points among themselves by their
    weights. They are of all of up to 65,536 points (4,194,304 / d from 64 dimensions on, 4,096 at least), and of about
    as many of more, drawn by a hash of their places: `fit` reads the data once, and the order of work changes nothing.
    Columns of unlike units want a `SetScaler` before. Cost of `fit`: n d^2 products for a sample of n points; of
    `transform`: d k for each point.

    References
    ----------
    Jolliffe: Principal component analysis (2002).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> plane = rng.normal(size=(2, 10))
    >>> sets = [rng.normal(size=(50, 2)) @ plane + rng.normal(0, 0.01, (50, 10)) for _ in range(20)]
    >>> components = dk.SetPCA(0.99).fit_transform(sets)
    >>> components
    SampleSets(n_sets=20, n_points=1000, n_dims=2)
    """

    def __init__(self, n_components: float = 0.95, whiten: bool = False, on_error: str = "raise") -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.on_error = on_error

    def fit(self, X: Any, y: Any = None) -> SetPCA:
        """Find mean and axes of the points of the sets X; one pass over the data. ``y`` is not used."""
        whiten, skip = check_bool("whiten", self.whiten), should_skip(self)
        sets = check_sets(X)
        wanted = _check_n_components(self.n_components, sets.n_dims)
        found = summarize(sets, None, skip=skip, sampled=True)
        mean, variances, axes = _principal_components(found.sample)  # type: ignore[arg-type]
        shares = variances / variances.sum()
        k = wanted if isinstance(wanted, int) else _n_explaining(shares, wanted)
        deviations = np.ones(k)
        if whiten:
            flat = variances[:k] <= ZERO_VARIANCE_RTOL * variances[0]
            deviations = np.where(flat, 1.0, np.sqrt(variances[:k]))
            axes[:k][flat] = 0
        set_fit_attributes(self, sets, found.bad, found.reason)
        self.explained_variance_, self.explained_variance_ratio_ = variances[:k], shares[:k]
        self.spec_ = ComponentsSpec(
            _floats(sets.origin), _floats(mean), tuple(map(_floats, axes[:k])), _floats(deviations)
        )
        return self

    def transform(self, X: Any) -> SampleSets | SetStore:
        """The components of the sets X: in memory, or a lazy view of a store."""
        sets = check_fitted_sets(self, X)
        return sets.mapped(self.spec_) if isinstance(sets, SetStore) else self.spec_.apply(sets)

    @property
    def components_(self) -> F64:
        """(k, d): the axes."""
        return np.array(self.spec_.axes)

    @property
    def mean_(self) -> F64:
        """(d,): what is subtracted, in true coordinates."""
        return np.asarray(np.array(self.spec_.mean) + self.origin_)

    @property
    def n_components_(self) -> int:
        """The number k of components."""
        return self.spec_.n_features


def _check_n_components(given: Any, d: int) -> int | float:
    """A number of components, or a share of the variance, checked."""
    number = isinstance(given, Real) and not isinstance(given, bool | np.bool_)
    if number and isinstance(given, Integral) and 1 <= int(given) <= d:
        return int(given)
    if number and not isinstance(given, Integral) and 0 < given < 1:
        return float(given)
    raise ValueError(
        f"n_components must be a whole number from 1 to the {d} dimensions of the points, or a share of the variance "
        f"between 0 and 1; found {given!r:.200}"
    )


def _principal_components(sample: PooledSample) -> tuple[F64, F64, F64]:
    """Mean (d,), variances (d,), largest first, and axes (d, d), of the points of a sample."""
    w = np.ones(len(sample.points)) if sample.weights is None else sample.weights
    x, w = sample.points[w > 0].astype(np.float64), w[w > 0] / w.sum()
    if len(x) == 0 or (x == x[0]).all():
        raise SampleSetError(
            "the points (of set 0 and all others) are equal: they have no principal components"
        )
    with one_blas_thread():  # whose sums have one order
        mean = w @ x
        x -= mean
        unit = np.abs(x).max()  # whose squares are floats, whatever the units
        x /= unit
        variances, axes = np.linalg.eigh((x * w[:, None]).T @ x)
    axes = axes.T[::-1]
    axes *= np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1))
    return mean, np.maximum(variances[::-1], 0) * float(unit) ** 2, axes


def _n_explaining(shares: F64, wanted: float) -> int:
    """The fewest first shares that sum to what is wanted."""
    return min(int(np.searchsorted(np.cumsum(shares), wanted)) + 1, len(shares))


def _floats(values: F64) -> tuple[float, ...]:
    return tuple(map(float, values))
