"""`PrincipalAxes` and `DistanceProfiles`: points of sets in coordinates that rotations of the set do not change.

    PrincipalAxes       y = V' (x - mean),  V the eigenvectors of the covariance of the set
    DistanceProfiles    y_q = L int_(q/L)^((q+1)/L) F_x^(-1)(t) dt,  F_x the distribution of |x - x'| for points x' of
                        the set and q = 0, ..., L - 1

The statistics of a set are computed from up to 65,536 of its points, as those of `SetScaler` with per_set=True.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from dkdist._base.embedding import check_fitted_sets, set_fit_attributes
from dkdist._base.inputs import NO_POSITIONS, SetsLike, check_sets
from dkdist._base.invalid_sets import require_nonnegative_weights
from dkdist._base.parameter_checks import check_int
from dkdist._numba.arrays import F32, F64
from dkdist._utils.serialization import serializable
from dkdist.embeddings._profiles_numba import fill_profiles
from dkdist.embeddings._tuning import MAX_REFERENCE_POINTS, N_DISTANCES_PER_BATCH
from dkdist.embeddings.gaussian_fits import fit_gaussians
from dkdist.embeddings.set_pca import SetMapSpec
from dkdist.embeddings.set_scaler import SingleSetMap, subsample_pieces, subsample_sets
from dkdist.io.lazy_sets import LazySets
from dkdist.sets import SampleSets
from dkdist.sets.labels import Names


class RotationMapSpec(SetMapSpec):
    """Base class for the parameters of set maps whose output rotations of a set do not change."""

    per_set = True
    prefix: str  # of the names of output dimensions

    @property
    def n_features(self) -> int:
        """Dimension of the output points."""
        return self.n_dims

    @property
    def label(self) -> str:
        """Name in the repr of views."""
        return type(self).__name__.removesuffix("Spec")

    def names_of(self, names: Names | None) -> Names | None:
        """Return numbered names, regardless of the names of the dimensions."""
        return tuple(f"{self.prefix}{i}" for i in range(self.n_features))

    def apply(self, sets: SampleSets, sample: SampleSets | None = None) -> SampleSets:
        """Return float32 sets with origin 0; statistics of each set are computed from ``sample``."""
        rebased = sets.rebased(np.array(self.origin))
        sample = subsample_sets(rebased) if sample is None else sample
        out = self._coordinates(rebased, _with_valid_weights(sample))
        labels = replace(sets._labels, names=self.names_of(None))
        return SampleSets._trusted(out, sets.offsets, sets.weights, labels=labels)

    def for_chunks(self, pieces: Iterator[SampleSets], n_points: int) -> SingleSetMap:
        """Return the map for one set that is read in pieces."""
        return SingleSetMap(self, subsample_pieces(self, pieces, n_points))

    def _coordinates(self, sets: SampleSets, sample: SampleSets) -> F32:
        """Return the output points (n, n_features)."""
        raise NotImplementedError


def _with_valid_weights(sets: SampleSets) -> SampleSets:
    """Return the sets, with weights 1 for sets with invalid weights, for which embeddings raise an error later."""
    if sets.weights is None or len(sets) == 0:
        return sets
    weights = None
    if sets.weights.size == sets.n_points:
        weights, starts = sets.weights.reshape(-1), sets.offsets[:-1]
        totals = np.add.reduceat(weights, starts, dtype=np.float64)
        is_invalid = (np.minimum.reduceat(weights, starts) < 0) | (totals <= 0)
        weights = np.where(np.repeat(is_invalid, sets.sizes), np.float32(1), weights)
    return SampleSets._trusted(sets.relative, sets.offsets, weights, None, sets.origin)


@serializable("PrincipalAxesSpec")
@dataclass(frozen=True)
class PrincipalAxesSpec(RotationMapSpec):
    """Parameters of `PrincipalAxes`: the origin of the points."""

    origin: tuple[float, ...]
    prefix = "axis"

    def _coordinates(self, sets: SampleSets, sample: SampleSets) -> F32:
        mean, axes = _principal_axes(sample)
        signs = np.where(_third_moments(_turned(sample, mean, axes), sample) < 0, -1.0, 1.0)
        return np.ascontiguousarray(_turned(sets, mean, axes * signs[:, None, :]).T, np.float32)


def _principal_axes(sets: SampleSets) -> tuple[F64, F64]:
    """Return means (n_sets, d) and axes (n_sets, d, d), in columns by descending variance."""
    d = sets.n_dims
    mean, covariance = fit_gaussians(sets, 0.0, np.zeros(d), np.ones(d))
    return mean, np.linalg.eigh(covariance)[1][..., ::-1]


def _turned(sets: SampleSets, mean: F64, axes: F64) -> F64:
    """Return the coordinates (d, n) of the points along the axes of their sets; they do not depend on other sets."""
    sizes = sets.sizes
    x = sets.relative.T - np.repeat(mean.T, sizes, axis=1)
    y = np.zeros_like(x)
    for k in range(len(x)):
        for j in range(len(x)):
            y[k] += x[j] * np.repeat(axes[:, j, k], sizes)
    return y


def _third_moments(y: F64, sets: SampleSets) -> F64:
    """Return the sums (n_sets, d) of third powers of coordinates y (d, n)."""
    cubes = y**3 if sets.weights is None else y**3 * sets.weights
    return np.add.reduceat(cubes, sets.offsets[:-1], axis=1).T


@serializable("DistanceProfilesSpec")
@dataclass(frozen=True)
class DistanceProfilesSpec(RotationMapSpec):
    """Parameters of `DistanceProfiles`: the origin of the points and the number of distances per point."""

    origin: tuple[float, ...]
    n_quantiles: int
    prefix = "distance"

    @property
    def n_features(self) -> int:
        """Dimension of the output points."""
        return self.n_quantiles

    @property
    def label(self) -> str:
        """Name in the repr of views."""
        return f"DistanceProfiles({self.n_quantiles})"

    def _coordinates(self, sets: SampleSets, sample: SampleSets) -> F32:
        L, points = self.n_quantiles, sets.relative
        out = np.empty((sets.n_points, L), np.float32)
        if sample.weights is None and sample.sizes.max(initial=0) <= MAX_REFERENCE_POINTS:
            fill_profiles(points, sets.offsets, sample.relative, sample.offsets, L, out)
            return out
        for i in range(len(sets)):
            rows = slice(sets.offsets[i], sets.offsets[i + 1])
            references, weights = _references(sample, i)
            if weights is None:
                edges = sets.offsets[i : i + 2] - sets.offsets[i], np.array([0, len(references)])
                fill_profiles(points[rows], edges[0], references.astype(np.float32), edges[1], L, out[rows])
            else:
                out[rows] = _profiles(points[rows].astype(np.float64), references, weights, L)
        return out


def _references(sets: SampleSets, i: int) -> tuple[F64, F64 | None]:
    """Return points (m, d) of set i and their weights (m,), None if they are equal.

    A larger set is represented by points at equally spaced cumulative weights in the order of distance from the mean,
    which neither rotations nor the order of the points change.
    """
    rows = slice(sets.offsets[i], sets.offsets[i + 1])
    x = sets.relative[rows].astype(np.float64)
    w = None if sets.weights is None else sets.weights[rows].astype(np.float64)
    if len(x) <= MAX_REFERENCE_POINTS:
        return x, w
    w = np.ones(len(x)) if w is None else w
    centred = x - w @ x / w.sum()
    order = np.argsort((centred**2).sum(axis=1), kind="stable")
    cumulated = w[order].cumsum()
    levels = (np.arange(MAX_REFERENCE_POINTS) + 0.5) / MAX_REFERENCE_POINTS * cumulated[-1]
    return x[order[np.minimum(np.searchsorted(cumulated, levels), len(x) - 1)]], None


def _profiles(points: F64, references: F64, weights: F64, n_quantiles: int) -> F64:
    """Return mean quantiles (n, L) of the distances from each point to the references."""
    height = max(1, N_DISTANCES_PER_BATCH // len(references))
    batches = [
        _mean_quantiles(_distances(points[i : i + height], references), weights, n_quantiles)
        for i in range(0, len(points), height)
    ]
    return np.concatenate(batches)


def _distances(points: F64, references: F64) -> F64:
    squares = np.zeros((len(points), len(references)))
    for x, y in zip(points.T, references.T, strict=True):
        differences = x[:, None] - y
        differences *= differences
        squares += differences
    return np.sqrt(squares, out=squares)


def _mean_quantiles(values: F64, weights: F64, L: int) -> F64:
    """Return the means (n, L) of the quantile function of each row (n, m) over L equal intervals of levels."""
    n, m = values.shape
    order = np.argsort(values, axis=1)
    values, mass = np.take_along_axis(values, order, axis=1), weights[order]
    total, below = mass.sum(axis=1, keepdims=True), _prepend_zeros(mass.cumsum(axis=1))
    integrals_below = _prepend_zeros((values * mass).cumsum(axis=1))
    integrals = np.empty((n, L + 1))
    for q in range(L + 1):
        level = total * (q / L)
        items = np.minimum((below[:, 1:] < level).sum(axis=1), m - 1)[:, None]
        remainder = (level - np.take_along_axis(below, items, 1)) * np.take_along_axis(values, items, 1)
        integrals[:, q] = (np.take_along_axis(integrals_below, items, 1) + remainder)[:, 0]
    return np.asarray(np.diff(integrals, axis=1) * (L / total))


def _prepend_zeros(x: F64) -> F64:
    return np.concatenate([np.zeros((len(x), 1)), x], axis=1)


class _RotationMap(TransformerMixin, BaseEstimator):
    """Base class of set maps whose parameters do not depend on the data of ``fit``."""

    spec_: RotationMapSpec

    def fit(self, X: SetsLike, y: Any = None) -> Any:
        """Check the sets X; reads no points of a store. ``y`` is ignored."""
        sets = check_sets(X)
        spec = self._spec(tuple(map(float, sets.origin)))
        set_fit_attributes(self, sets, NO_POSITIONS, "")
        self.spec_ = spec
        return self

    def transform(self, X: SetsLike) -> SampleSets | LazySets:
        """Return the sets X in the new coordinates: in memory, or as a lazy view of a store."""
        sets = check_fitted_sets(self, X)
        if isinstance(sets, LazySets):
            return sets.mapped(self.spec_)
        require_nonnegative_weights(sets)
        return self.spec_.apply(sets)

    def _spec(self, origin: tuple[float, ...]) -> RotationMapSpec:
        raise NotImplementedError


class PrincipalAxes(_RotationMap):
    """Rotate each set about its mean to its own principal axes, so that rotated copies of a set become equal.

    Axes are in order of descending variance. The sign of an axis is such that the third moment along it is positive;
    for points along an axis without skewness, use `InvariantFeatures` with symmetries="reflections" on top.

    Attributes
    ----------
    spec_ : PrincipalAxesSpec
        Fitted parameters.
    n_features_in_ : int
        Dimension d of the points.
    origin_ : (d,) float64 array
        Origin of the sets of `fit` (see `SampleSets`).

    Raises
    ------
    SampleSetError
        For empty sets, NaN or infinite points, other dimensions, or invalid weights (the message names the set).
    StoreFormatError
        For a set that cannot be read; the message names it.

    Notes
    -----
    The result does not change if a set is shifted, rotated or reflected: mirror images become equal. The scale is kept.
    Axes are not determined by the points if variances are equal, as those of a square or a ball; then rotated copies
    may differ, and `DistanceProfiles` is the better choice. The same holds for signs without skewness. A single point,
    or equal points, become 0; collinear points lie on the first axis.

    `transform` gives `SampleSets` for sets in memory and a lazy view for a `SetStore`, which rotates points when they
    are read. Weights, targets and ids are kept. Axes of larger sets are computed from 65,536 points. Cost per set:
    2 n d^2 products, and d^3 for the axes.

    References
    ----------
    Jolliffe: Principal component analysis (2002).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> x = rng.gamma(2, size=(50, 2)) * [3, 1]
    >>> quarter_turn = x @ [[0, 1], [-1, 0]] + 5
    >>> a, b = dk.PrincipalAxes().fit_transform([x, quarter_turn])
    >>> bool(np.allclose(a, b, atol=1e-5))
    True
    """

    def __init__(self) -> None: ...

    def _spec(self, origin: tuple[float, ...]) -> RotationMapSpec:
        return PrincipalAxesSpec(origin)


class DistanceProfiles(_RotationMap):
    """Replace each point by the distribution of its distances to the points of its set.

    The coordinates of a point are ``n_quantiles`` means of its sorted distances: the mean of the smallest fraction
    1 / n_quantiles, of the next fraction, and so on. They do not change if a set is shifted, rotated or reflected.

    Parameters
    ----------
    n_quantiles : int, default=16
        Number L of distances per point, the dimension of the result.

    Attributes
    ----------
    spec_ : DistanceProfilesSpec
        Fitted parameters.
    n_features_in_ : int
        Dimension d of the points.
    origin_ : (d,) float64 array
        Origin of the sets of `fit` (see `SampleSets`).

    Raises
    ------
    SampleSetError
        For empty sets, NaN or infinite points, other dimensions, or invalid weights (the message names the set).
    StoreFormatError
        For a set that cannot be read; the message names it.
    ValueError
        If n_quantiles is not an integer >= 1.

    Notes
    -----
    Distances are Euclidean, in the units of the points; use `SetScaler` first if columns have different units, although
    rotations then have no meaning. A point has the distance 0 to itself, so that a point of weight 2 equals two points.
    Degenerate sets are no exception: equal points become 0.

    Distances are to all points of sets with up to 256 points, and otherwise to 256 of them, which are selected by their
    distance from the mean. `transform` gives `SampleSets` for sets in memory and a lazy view for a `SetStore`.
    Weights, targets and ids are kept. Cost per set: n min(n, 256) distances, which are sorted.

    References
    ----------
    Mémoli: Gromov-Wasserstein distances and the metric approach to object matching (2011; local
    distribution of distances). Dubey, Chen, Müller: Metric statistics: exploration and inference for random objects
    with distance profiles (2024).

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.DistanceProfiles(2).fit_transform([[[0, 0], [0, 2], [0, 4], [0, 6]]]).points[:, :]
    array([[1., 5.],
           [1., 3.],
           [1., 3.],
           [1., 5.]], dtype=float32)
    """

    def __init__(self, n_quantiles: int = 16) -> None:
        self.n_quantiles = n_quantiles

    def _spec(self, origin: tuple[float, ...]) -> RotationMapSpec:
        return DistanceProfilesSpec(origin, check_int("n_quantiles", self.n_quantiles))
