"""`SetPCA`: principal components of the points of all sets, lazy for stores.

    x' = (x - mean) axes^T / deviations

`ComponentsSpec` holds the parameters. A view of a store (`SetStore.mapped`) applies it to the points when they are
read.
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
from dkdist._base.inputs import SetsLike, check_sets, summarize
from dkdist._base.invalid_sets import should_skip
from dkdist._base.sampling import PooledSample
from dkdist._numba.arrays import F64
from dkdist._numba.points import nonfinite_rows
from dkdist._numba.products import Factor, deterministic_factor
from dkdist._runtime.process import one_blas_thread
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.embeddings._tuning import POINTS_PER_PCA_BATCH
from dkdist.io.lazy_sets import LazySets
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.labels import Names

Numbers = tuple[float, ...]


class SetMapSpec:
    """Base class for the parameters of set maps, which transform the points of a set (relative to ``origin``)."""

    origin: Numbers
    per_set = False  # True if the map depends on the points of the set

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return len(self.origin)

    @cached_property
    def token(self) -> str:
        """Hash of the parameters, equal for equal maps."""
        return hashlib.blake2b(repr(astuple(self)).encode(), digest_size=16).hexdigest()  # type: ignore[call-overload]

    def names_of(self, names: Names | None) -> Names | None:
        """Return the names of the output dimensions, given the names of the input dimensions."""
        return names

    def apply(self, sets: SampleSets) -> SampleSets:
        """Return the transformed sets, float32 with origin 0; weights, ids and targets are kept."""
        raise NotImplementedError

    def for_chunks(self, pieces: Iterator[SampleSets], n_points: int) -> Any:
        """Return the map for one set that is read in pieces."""
        return self


@serializable("ComponentsSpec")
@dataclass(frozen=True)
class ComponentsSpec(SetMapSpec):
    """Parameters of `SetPCA`: ``axes`` (k, d) for points relative to ``origin``, and ``deviations`` (k,)."""

    origin: Numbers
    mean: Numbers
    axes: tuple[Numbers, ...]
    deviations: Numbers

    def __post_init__(self) -> None:
        lengths = {len(self.mean), *map(len, self.axes)}
        if lengths != {self.n_dims} or not 0 < len(self.axes) == len(self.deviations) <= self.n_dims:
            raise ValueError(
                f"mean and axes must have {self.n_dims} columns, and deviations one value per axis"
            )
        if (
            not all(np.isfinite(values).all() for values in (self.mean, *self.axes))
            or min(self.deviations) <= 0
        ):
            raise ValueError("mean and axes must be finite, and deviations must be positive")

    @property
    def n_features(self) -> int:
        """Number k of components."""
        return len(self.axes)

    @property
    def label(self) -> str:
        """Name in the repr of views."""
        return f"SetPCA({self.n_features})"

    def names_of(self, names: Names | None) -> Names | None:
        """Return component0, component1, ..., regardless of the names of the dimensions."""
        return tuple(f"component{i}" for i in range(self.n_features))

    def apply(self, sets: SampleSets) -> SampleSets:
        """Return the components, float32 with origin 0; weights, ids and targets are kept."""
        points, factor = sets.rebased(np.array(self.origin)).relative, _factor(self)
        out = np.empty((len(points), self.n_features), np.float32)
        for start in range(0, len(points), POINTS_PER_PCA_BATCH):
            rows = slice(start, start + POINTS_PER_PCA_BATCH)
            with np.errstate(over="ignore", invalid="ignore"):  # overflow raises SampleSetError below
                factor.product((points[rows] - np.array(self.mean)).astype(np.float32), out[rows])
        if len(overflowed := nonfinite_rows(out)):
            i = int(np.searchsorted(sets.offsets, overflowed[0], side="right")) - 1
            raise SampleSetError(
                f"components of point {overflowed[0] - sets.offsets[i]} of set {i} exceed float32. Clip the points "
                "with SetScaler first."
            )
        labels = replace(sets._labels, names=self.names_of(None))
        return SampleSets._trusted(out, sets.offsets, sets.weights, labels=labels)


@lru_cache(maxsize=16)
def _factor(spec: ComponentsSpec) -> Factor:
    return deterministic_factor(
        (np.array(spec.axes) / np.array(spec.deviations)[:, None]).T.astype(np.float32)
    )


# Smaller variances, relative to the largest, are rounding errors (tests/scaling/test_set_pca.py).
ZERO_VARIANCE_RTOL = 1e-12


class SetPCA(TransformerMixin, BaseEstimator):
    """Transform the points of all sets to their first principal components.

    Parameters
    ----------
    n_components : int, or float between 0 and 1, default=0.95
        Number of components, at most d; or the fraction of the variance that they explain.
    whiten : bool, default=False
        Whether each component is divided by its standard deviation.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of an invalid set in `fit` (damaged or lost chunk, negative weights): "raise" names the first one;
        "skip" omits it, with a warning.

    Attributes
    ----------
    components_ : (k, d) float64 array
        Axes of unit length in order of variance; the entry of largest absolute value is positive.
    mean_ : (d,) float64 array
        Mean of the points.
    explained_variance_, explained_variance_ratio_ : (k,) float64 arrays
        Variance along each axis, and its fraction of the total.
    n_components_ : int
        Number k of components.
    spec_ : ComponentsSpec
        Fitted parameters, relative to ``origin_``.
    n_features_in_ : int
        Dimension d of the points.
    origin_ : (d,) float64 array
        Origin of the sets of `fit` (see `SampleSets`).
    skipped_ : (n_skipped,) int64 array
        Positions of the sets that `fit` skipped, sorted.

    Raises
    ------
    SampleSetError
        For empty sets, NaN or infinite points, other dimensions, negative weights, or components that exceed float32
        (the message names the set); or if all points are equal.
    StoreFormatError
        For a set that cannot be read; the message names it.
    ValueError
        For an invalid n_components.

    Notes
    -----
    `transform` gives `SampleSets` for sets in memory and a lazy view for a `SetStore`, which maps points when they are
    read, with bitwise identical results in every process. Weights, targets and ids are kept. `write_sets` and `compact`
    write a view as a new store.

    Mean and covariance are pooled: the weight of a set is its number of points, and weights only matter within a set.
    They are computed from up to 65,536 points (4,194,304 / d above 64 dimensions, at least 4,096), selected by a hash
    of their positions if there are more. `fit` reads the data once; results do not depend on blocks or workers. Use
    `SetScaler` first if columns have different units. Cost of `fit`: n d^2 products for a sample of n points; of
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

    def fit(self, X: SetsLike, y: Any = None) -> SetPCA:
        """Compute mean and axes of the points of the sets X in one pass. ``y`` is ignored."""
        whiten, skip = check_bool("whiten", self.whiten), should_skip(self)
        sets = check_sets(X)
        n_components = _check_n_components(self.n_components, sets.n_dims)
        summary = summarize(sets, None, skip=skip, sampled=True)
        mean, variances, axes = _principal_components(summary.sample)  # type: ignore[arg-type]
        ratios = variances / variances.sum()
        k = n_components if isinstance(n_components, int) else _n_explaining(ratios, n_components)
        deviations = np.ones(k)
        if whiten:
            is_constant = variances[:k] <= ZERO_VARIANCE_RTOL * variances[0]
            deviations = np.where(is_constant, 1.0, np.sqrt(variances[:k]))
            axes[:k][is_constant] = 0
        set_fit_attributes(self, sets, summary.bad, summary.reason)
        self.explained_variance_, self.explained_variance_ratio_ = variances[:k], ratios[:k]
        self.spec_ = ComponentsSpec(
            _floats(sets.origin), _floats(mean), tuple(map(_floats, axes[:k])), _floats(deviations)
        )
        return self

    def transform(self, X: SetsLike) -> SampleSets | LazySets:
        """Return the components of the sets X: in memory, or as a lazy view of a store."""
        sets = check_fitted_sets(self, X)
        return sets.mapped(self.spec_) if isinstance(sets, LazySets) else self.spec_.apply(sets)

    @property
    def components_(self) -> F64:
        """Axes (k, d)."""
        return np.array(self.spec_.axes)

    @property
    def mean_(self) -> F64:
        """Mean (d,) in the coordinates of the data."""
        return np.asarray(np.array(self.spec_.mean) + self.origin_)

    @property
    def n_components_(self) -> int:
        """Number k of components."""
        return self.spec_.n_features


def _check_n_components(param: Any, d: int) -> int | float:
    """Return a number of components or a fraction of the variance."""
    is_number = isinstance(param, Real) and not isinstance(param, bool | np.bool_)
    if is_number and isinstance(param, Integral) and 1 <= int(param) <= d:
        return int(param)
    if is_number and not isinstance(param, Integral) and 0 < param < 1:
        return float(param)
    raise ValueError(
        f"n_components must be an integer from 1 to the {d} dimensions of the points, or a fraction of the variance "
        f"between 0 and 1; got {param!r:.200}"
    )


def _principal_components(sample: PooledSample) -> tuple[F64, F64, F64]:
    """Return mean (d,), variances (d,) in descending order, and axes (d, d) of a sample."""
    w = np.ones(len(sample.points)) if sample.weights is None else sample.weights
    x, w = sample.points[w > 0].astype(np.float64), w[w > 0] / w.sum()
    if len(x) == 0 or (x == x[0]).all():
        raise SampleSetError(
            "points must not all be equal for principal components; got equal points in all sets."
        )
    with one_blas_thread():  # keeps the order of sums fixed
        mean = w @ x
        x -= mean
        unit = np.abs(x).max()  # avoids overflow and underflow of squares
        x /= unit
        variances, axes = np.linalg.eigh((x * w[:, None]).T @ x)
    axes = axes.T[::-1]
    axes *= np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1))
    return mean, np.maximum(variances[::-1], 0) * float(unit) ** 2, axes


def _n_explaining(ratios: F64, fraction: float) -> int:
    """Return the smallest number of leading components that explain ``fraction`` of the variance."""
    return min(int(np.searchsorted(np.cumsum(ratios), fraction)) + 1, len(ratios))


def _floats(values: F64) -> tuple[float, ...]:
    return tuple(map(float, values))
