"""Parameters of distance embeddings: objects -> distances to random objects (landmarks) -> random features (P2).

    phi_j(x) = exp(-gamma d(x, omega_j)) / sqrt(R),   or d(x, omega_j) itself for gamma = 0

The features of k gammas are concatenated and divided by sqrt(k), so that the kernel is the mean of their kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dkdist._base.array_record import ArrayRecord
from dkdist._base.params import FittedParams, Params
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._numba.products import deterministic_factor
from dkdist._utils.serialization import serializable
from dkdist.distances._distance_embedding_numba import fill_features, standardise
from dkdist.distances._tuning import N_NAMED_DIRECTIONS
from dkdist.distances.base import Distance, DistanceEvaluator, capabilities, points_for, require_squares
from dkdist.distances.dtw import DynamicTimeWarping
from dkdist.distances.elastic import ERP, MSM, TWED, GlobalAlignment, SoftDTW
from dkdist.distances.energy import Energy
from dkdist.distances.hausdorff import Chamfer, DirectedModifiedHausdorff, Hausdorff, ModifiedHausdorff
from dkdist.distances.pair_function import as_float32
from dkdist.distances.sliced_wasserstein import SlicedWasserstein
from dkdist.distances.strings.damerau_levenshtein import DamerauLevenshtein
from dkdist.distances.strings.jaro_winkler import JaroWinkler
from dkdist.distances.strings.levenshtein import Levenshtein
from dkdist.distances.wasserstein import Wasserstein
from dkdist.sets import SampleSets
from dkdist.sets.point_checks import SampleSetError, locate
from dkdist.sets.strings import translate_codes


def _sliced(n_dims: int, seed: int) -> Distance:
    normal = np.random.default_rng([seed, RngStream.DIRECTIONS, 1]).standard_normal(
        (N_NAMED_DIRECTIONS, n_dims)
    )
    return SlicedWasserstein(normal / np.linalg.norm(normal, axis=1, keepdims=True))


DISTANCE_FACTORIES: dict[str, Callable[[int, int], Distance]] = {
    "dtw": lambda n_dims, seed: DynamicTimeWarping(),
    "erp": lambda n_dims, seed: ERP(),
    "twed": lambda n_dims, seed: TWED(),
    "msm": lambda n_dims, seed: MSM(),
    "soft-dtw": lambda n_dims, seed: SoftDTW(),
    "global-alignment": lambda n_dims, seed: GlobalAlignment(),
    "levenshtein": lambda n_dims, seed: Levenshtein(),
    "osa": lambda n_dims, seed: Levenshtein(transposition=1),
    "indel": lambda n_dims, seed: Levenshtein(substitution=2),
    "damerau-levenshtein": lambda n_dims, seed: DamerauLevenshtein(),
    "jaro-winkler": lambda n_dims, seed: JaroWinkler(),
    "modified-hausdorff": lambda n_dims, seed: ModifiedHausdorff(),
    "directed-modified-hausdorff": lambda n_dims, seed: DirectedModifiedHausdorff(),
    "hausdorff": lambda n_dims, seed: Hausdorff(),
    "chamfer": lambda n_dims, seed: Chamfer(),
    "energy": lambda n_dims, seed: Energy(),
    "sliced-wasserstein": _sliced,
    "wasserstein": lambda n_dims, seed: Wasserstein(),
}
"""Functions (n_dims, seed) that build distances, by name."""


@serializable("Omegas")
@dataclass(frozen=True, eq=False)
class Landmarks(ArrayRecord):
    """Random objects (landmarks) as arrays."""

    points: Array
    offsets: I64
    weights: F32 | None

    @classmethod
    def of(cls, sets: SampleSets, distance: Distance) -> Landmarks:
        """Return the arrays of a collection, with points in the coordinates that the distance uses."""
        weights = None if sets.weights is None else sets.weights.reshape(-1)
        return cls(points_for(distance, sets), sets.offsets, weights)

    def sets(self, alphabet: str | None, distance: Distance, origin: F64) -> SampleSets:
        """Return the landmarks as a collection."""
        if capabilities(distance).is_translation_invariant:
            return SampleSets._trusted(self.points, self.offsets, self.weights, alphabet, origin)
        return SampleSets(self.points, self.offsets, self.weights, alphabet, origin)

    def __len__(self) -> int:
        return len(self.offsets) - 1


@serializable("Mixing")
@dataclass(frozen=True, eq=False)
class MixingMatrix(ArrayRecord):
    """Matrix (R, R) that multiplies rows of features."""

    matrix: F32


@serializable("DistanceSpec")
@dataclass(frozen=True)
class DistanceSpec(Params["DistanceParameters"]):
    """Parameters of a distance embedding: the distance, the random objects, and the scaling of features.

    ``alphabet`` contains the characters of landmarks that are text. Other characters differ from all others
    (``unknown`` "differ") or raise an error ("raise"). Features are centred by ``centre`` and divided by ``scale``, or
    multiplied by ``mixing``, if these are not None.
    """

    _cache_size = 0  # prepared landmarks are not cached

    distance: Distance
    omegas: Landmarks
    gammas: tuple[float, ...]
    n_dims: int
    alphabet: str | None = None
    unknown: str = "raise"
    centre: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    mixing: MixingMatrix | None = None
    domain: None = field(default=None, repr=False)

    @property
    def n_distances(self) -> int:
        """Number of distances per object: R times the number of parts of the distance."""
        return len(self.omegas) * self.distance.n_parts

    @property
    def n_features(self) -> int:
        """Length of an object's row."""
        return self.n_distances * len(self.gammas)

    @property
    def ordered(self) -> bool:
        """Whether the order of an object's points matters."""
        return bool(self.distance.ordered)

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise SampleSetError for points whose squares overflow and, with unknown="raise", for unknown symbols."""
        require_squares(self.distance, sets, first)
        if sets.alphabet is None or self.alphabet is None or self.unknown == "differ":
            return
        is_known = translate_codes(sets.alphabet, self.alphabet)[sets.relative[:, 0]] >= 0
        if not is_known.all():
            row = int(np.argmin(is_known))
            i, r = locate(sets.offsets, row)
            symbol = sets.alphabet[int(sets.relative[row, 0])]
            raise SampleSetError(
                f"symbol {r} of set {first + i} must occur in the strings passed to fit; got {symbol!r}. Fit on "
                "strings that have all symbols, or pass unknown_symbols='differ'."
            )

    def _build(self) -> DistanceParameters:
        return DistanceParameters(self)


class DistanceParameters(FittedParams[DistanceSpec]):
    """Prepared landmarks of a `DistanceSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: DistanceSpec) -> None:
        self.spec = spec
        self._evaluator = DistanceEvaluator(spec.distance, spec.alphabet)
        self._moments = (
            None
            if spec.centre is None or spec.scale is None
            else _centre_and_inverse_scale(spec.centre, spec.scale)
        )
        mixing, m = spec.mixing, spec.n_features
        if mixing is not None and mixing.matrix.shape != (m, m):
            raise ValueError(f"mixing must have shape ({m}, {m}); got {mixing.matrix.shape}.")
        self._mixing = None if mixing is None else deterministic_factor(mixing.matrix)
        self._packed = self._evaluator.prepare(spec.omegas.points, spec.omegas.offsets, spec.omegas.weights)

    def distances(self, sets: SampleSets) -> F32:
        """Return distances (n_sets, n_distances) float32; raise `PairError` if a user's function exceeds float32."""
        out = np.empty((len(sets), self.spec.n_distances), self._evaluator.dtype)
        self._evaluator.fill(self._packed, sets, out)
        return out if out.dtype == np.float32 else as_float32(out)

    def embed(self, sets: SampleSets) -> F32:
        """Return rows of the embedding: (n_sets, n_features) float32."""
        return self.features(self.distances(sets))

    def features(self, D: F32) -> F32:
        """Return rows (n, n_features) float32 of objects with distances D (n, n_distances)."""
        spec = self.spec
        if spec.gammas == (0.0,) and self._moments is None:
            return D
        out = np.empty((len(D), spec.n_features), np.float32)
        factor, m = np.float32(1 / np.sqrt(spec.n_features)), D.shape[1]
        for k, gamma in enumerate(spec.gammas):
            columns = out[:, k * m : (k + 1) * m]
            if gamma == 0:
                columns[:] = D
            else:
                fill_features(D, np.float32(gamma), factor, columns)
        if self._moments is not None:
            standardise(out, *self._moments)
        if self._mixing is None:
            return out
        mixed = np.empty_like(out)
        self._mixing.product(out, mixed)
        return mixed


def _centre_and_inverse_scale(centre: tuple[float, ...], scale: tuple[float, ...]) -> tuple[F32, F32]:
    deviation = np.array(scale)
    # features of scale 0 become 0
    inverse = np.divide(1, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    return np.array(centre, np.float32), inverse.astype(np.float32)
