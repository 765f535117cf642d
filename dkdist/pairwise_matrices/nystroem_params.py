"""Parameters of Nyström features: sets -> squared distances to landmark sets -> kernel values -> features.

    phi(x) = K_LL^(-1/2) k(L, x),    k(x, y) = exp(-gamma d^2(x, y)),    L the landmarks (Williams and Seeger 2001)

Squared distances come from rows of an embedding, from a distance of objects, or from a divergence estimator of pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dkdist._base.array_record import Matrix
from dkdist._base.invalid_sets import RowError
from dkdist._base.params import Domain, EmbeddingWrapperParams, FittedParams, Params, RowSum
from dkdist._numba.arrays import F32, F64
from dkdist._numba.products import deterministic_factor
from dkdist._utils.serialization import serializable
from dkdist.distances._distance_embedding_numba import fill_features
from dkdist.distances.distance_embedding_params import DistanceSpec, Landmarks, MixingMatrix
from dkdist.pairwise_matrices._tuning import ROW_VALUES_PER_TILE
from dkdist.pairwise_matrices.divergence_params import SetPosition
from dkdist.pairwise_matrices.tiles import rectangle, square
from dkdist.sets import SampleSetError, SampleSets

# The square of a larger distance exceeds float32 (IEEE 754-2019); its kernel value is 0 in any case.
MAX_DISTANCE = np.float32(1e19)

SquaredDistances = Callable[[SampleSets], F32]
"""Maps n sets to squared distances (n, R) float32 to R landmarks."""


@serializable("EmbeddedLandmarks")
@dataclass(frozen=True)
class EmbeddedLandmarks(EmbeddingWrapperParams["RowDistances"]):
    """Landmarks as rows of an embedding, whose squared Euclidean distances are those of the sets."""

    embedding: Any
    landmarks: Matrix

    def __post_init__(self) -> None:
        shape = self.landmarks.values.shape
        if len(shape) != 2 or shape[1] != self.embedding.n_features:
            raise ValueError(
                f"rows of landmarks must have {self.embedding.n_features} columns; got shape {shape}"
            )

    @property
    def domain(self) -> Domain | None:
        """Domain of the embedding."""
        domain: Domain | None = self.embedding.domain
        return domain

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise the errors of the embedding for invalid sets; ``first`` is the position of the first set."""
        self.embedding.require(sets, first)

    def _build(self) -> RowDistances:
        return RowDistances(self)


class RowDistances(FittedParams[EmbeddedLandmarks]):
    """Prepared rows of landmarks, relative to their mean, which reduces cancellation in squared distances."""

    def __init__(self, spec: EmbeddedLandmarks) -> None:
        self.spec, self.embedding = spec, spec.embedding.materialize()
        rows = spec.landmarks.values
        self._centre = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        centred = rows - self._centre
        self._squares, self._factor = _squared_norms(centred), deterministic_factor(centred.T)

    def squared_distances(self, sets: SampleSets) -> F32:
        """Return squared distances (n_sets, R) float32; tiles of sets are embedded in turn to limit memory."""
        out = np.empty((len(sets), len(self._squares)), np.float32)
        step = max(1, ROW_VALUES_PER_TILE // self.spec.n_features)
        for start in range(0, len(sets), step):
            tile = slice(start, start + step)
            self.fill(self.embedding.embed(sets[tile]), out[tile])
        return out

    def fill(self, rows: F32, out: F32) -> None:
        """Set out = |row - landmark|^2 for rows (n, m)."""
        centred = rows - self._centre
        self._factor.product(centred, out)
        out *= np.float32(-2)
        out += self._squares
        out += _squared_norms(centred)[:, None]
        np.maximum(out, 0, out=out)


def _squared_norms(rows: F32) -> F32:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


@serializable("ComparedLandmarks")
@dataclass(frozen=True)
class ComparedLandmarks(Params["PairDivergences"]):
    """Landmarks that a fitted divergence estimator compares with every set, in Python."""

    _cache_size = 0  # prepared landmarks are not cached

    estimator: Any
    landmarks: Landmarks

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return int(self.landmarks.points.shape[1])

    @property
    def domain(self) -> Domain | None:
        """Domain of the densities; None for other estimators."""
        return getattr(getattr(self.estimator, "spec", None), "domain", None)

    def _build(self) -> PairDivergences:
        return PairDivergences(self)


@dataclass(frozen=True)
class _NamedSet(SetPosition):
    name: str = "the set"

    def __str__(self) -> str:
        return self.name


class PairDivergences(FittedParams[ComparedLandmarks]):
    """Prepared landmarks of a divergence estimator."""

    def __init__(self, spec: ComparedLandmarks) -> None:
        self.spec, self._estimator = spec, spec.estimator
        L = spec.landmarks
        names = [_NamedSet(i, True, f"landmark {i}") for i in range(len(L))]
        sets = SampleSets._trusted(L.points, L.offsets, L.weights)
        self._landmarks = spec.estimator.prepare(sets, names)

    def squared_distances(self, sets: SampleSets) -> F32:
        """Return divergences (n_sets, R) float32; negative estimates are 0."""
        out = np.empty((len(sets), len(self._landmarks)))
        for i in range(len(sets)):
            try:
                (prepared_set,) = self._estimator.prepare(sets[i : i + 1], [_NamedSet(i, False)])
                out[i] = rectangle(self._estimator, [prepared_set], self._landmarks)[0]
            except SampleSetError as error:
                raise RowError(i, f"has no row: {error}") from error
        return np.maximum(out, 0).astype(np.float32)

    def between_landmarks(self) -> F64:
        """Return divergences (R, R) of the landmarks; negative estimates are 0."""
        return np.maximum(square(self._estimator, self._landmarks), 0)


@serializable("NystroemParams")
@dataclass(frozen=True)
class NystroemParams(Params["NystroemFeatures"]):
    """Parameters of Nyström features: landmarks, gamma, and K_LL^(-1/2) as ``mixing``."""

    _cache_size = 0  # prepared landmarks are not cached

    landmarks: EmbeddedLandmarks | DistanceSpec | ComparedLandmarks
    gamma: float
    mixing: MixingMatrix

    def __post_init__(self) -> None:
        source = self.landmarks
        R = len(source.omegas if isinstance(source, DistanceSpec) else source.landmarks)
        if self.mixing.matrix.shape != (R, R):
            raise ValueError(f"mixing must have shape ({R}, {R}); got {self.mixing.matrix.shape}")

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return int(self.landmarks.n_dims)

    @property
    def n_features(self) -> int:
        """Number R of landmarks."""
        return len(self.mixing.matrix)

    @property
    def domain(self) -> Domain | None:
        """Domain of the points."""
        return self.landmarks.domain

    @property
    def ordered(self) -> bool:
        """Whether a row may depend on the order of the points of a set."""
        return bool(getattr(self.landmarks, "ordered", False))

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise SampleSetError for the first set that has no row; ``first`` is the position of set 0."""
        self.landmarks.require(sets, first)

    def _build(self) -> NystroemFeatures:
        source: Any = self.landmarks.materialize()
        is_additive = isinstance(source, RowDistances) and hasattr(source.embedding, "row_sum")
        return (AdditiveNystroemFeatures if is_additive else NystroemFeatures)(self, source)


def squared_distance_function(source: Any) -> SquaredDistances:
    """Return the function of materialized landmarks that gives squared distances; distances of objects are squared."""
    if isinstance(source, (RowDistances, PairDivergences)):
        return source.squared_distances
    return lambda sets: np.square(np.minimum(source.distances(sets), MAX_DISTANCE))


class NystroemFeatures(FittedParams[NystroemParams]):
    """Prepared landmarks and K_LL^(-1/2)."""

    def __init__(self, spec: NystroemParams, source: Any) -> None:
        self.spec, self._source = spec, source
        self._squared_distances = squared_distance_function(source)
        self._mixing = deterministic_factor(spec.mixing.matrix)

    def embed(self, sets: SampleSets) -> F32:
        """Return rows (n_sets, R) float32."""
        return self.features(self._squared_distances(sets))

    def features(self, squares: F32) -> F32:
        """Return rows (n, R) float32 for squared distances (n, R)."""
        kernel, out = np.empty_like(squares), np.empty_like(squares)
        fill_features(squares, np.float32(self.spec.gamma), np.float32(1), kernel)
        self._mixing.product(kernel, out)
        return out


class AdditiveNystroemFeatures(NystroemFeatures):
    """Nyström features for an embedding that accumulates rows over pieces of large sets."""

    def row_sum(self, n_points: int, weight: float) -> RowSum:
        """Return an accumulator for the row (R,) of one set that is read in pieces."""
        return _NystroemRowSum(self, self._source, self._source.embedding.row_sum(n_points, weight))


class _NystroemRowSum(NamedTuple):
    features: NystroemFeatures
    source: RowDistances
    embedding_sum: RowSum

    def add(self, points: F32, weights: F32 | None) -> None:
        """Add the next points (m, d) and their weights (m,)."""
        self.embedding_sum.add(points, weights)

    def row(self) -> F32:
        """Return the row (R,) of all points added."""
        squares = np.empty((1, len(self.source.spec.landmarks)), np.float32)
        self.source.fill(self.embedding_sum.row()[None], squares)
        return self.features.features(squares).reshape(-1)
