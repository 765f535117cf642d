"""Fitted estimators of divergences of two sample sets, as serializable dataclasses.

`prepare` computes a tree or a density for each set, and `pair` compares two prepared sets. A value depends only on its
two sets, and bitwise not on their order if the divergence is symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64
from dkdist._numba.ranks import NeighbourTree
from dkdist._utils.serialization import serializable
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist.embeddings.divergences import DIVERGENCES
from dkdist.pairwise_matrices import entropy as entropies
from dkdist.pairwise_matrices import integrals
from dkdist.pairwise_matrices import neighbour_ratios as ratios
from dkdist.sets import SampleSetError, SampleSets


@dataclass(frozen=True)
class SetPosition:
    """Position of a set in ``sets`` or ``other``, for messages and seeds."""

    index: int
    other: bool

    def __str__(self) -> str:
        return f"set {self.index}" + " of other" * self.other


class DivergenceEstimator(Protocol):
    """Interface of fitted estimators of a divergence."""

    @property
    def symmetric(self) -> bool:
        """Whether pair(a, b) and pair(b, a) are bitwise identical."""

    def prepare(self, sets: SampleSets, positions: list[SetPosition]) -> list[Any]:
        """Return one prepared object per set, for comparisons."""

    def pair(self, a: Any, b: Any) -> float:
        """Estimate the divergence of two prepared sets."""


@serializable("KNNEntropyJS")
@dataclass(frozen=True)
class KNNEntropyJS:
    """Jensen-Shannon divergence of all points, with the same balls for the entropies of set and mixture."""

    k: int
    symmetric: ClassVar[bool] = True

    def prepare(self, sets: SampleSets, positions: list[SetPosition]) -> list[NeighbourTree]:
        """Build the trees."""
        return [NeighbourTree(x) for x in sets]

    def pair(self, a: NeighbourTree, b: NeighbourTree) -> float:
        """Estimate JS(a, b) in nats."""
        return entropies.knn_jensen_shannon(a, b, self.k)


@dataclass(frozen=True)
class _ShuffledSet:
    position: SetPosition
    shuffled: F64
    entropy: float


@dataclass(frozen=True)
class HalfEntropyJS:
    """Jensen-Shannon divergence whose mixture contains a random half of each set.

    Entropies are estimated from spacings for d = 1, otherwise from k-NN distances. Both halves have ceil(n / 2) points,
    where n is the size of the smaller set.
    """

    k: int
    seed: int
    floor: bool
    symmetric: ClassVar[bool] = True

    def prepare(self, sets: SampleSets, positions: list[SetPosition]) -> list[_ShuffledSet]:
        """Shuffle each set with the seed and its position, and compute its entropy."""
        prepared = []
        for x, position in zip(sets, positions, strict=True):
            order = np.random.default_rng([self.seed, position.index, position.other]).permutation(len(x))
            points = x.astype(np.float64)
            prepared.append(_ShuffledSet(position, points[order], self._entropy(points, str(position))))
        return prepared

    def pair(self, a: _ShuffledSet, b: _ShuffledSet) -> float:
        """Estimate JS(a, b) in nats."""
        half = -(-min(len(a.shuffled), len(b.shuffled)) // 2)
        mixture = np.concatenate([a.shuffled[:half], b.shuffled[:half]])
        entropy = self._entropy(mixture, f"the mixture of {a.position} and {b.position}")
        return entropy - (a.entropy + b.entropy) / 2

    def _entropy(self, points: F64, name: str) -> float:
        cloud = NeighbourTree(points)
        if cloud.n_dims == 1:
            gaps = entropies.spacings(points[:, 0], self.k)
            return entropies.spacing_entropy(require_positive(gaps, cloud, self.floor, name), self.k)
        distances = require_positive(cloud.own_distances(self.k), cloud, self.floor, name)
        # sort, so that rounding of the sum does not depend on the order of the two sets
        return entropies.neighbour_entropy(np.sort(distances), self.k, cloud.n_dims)


@serializable("KNNRatioDivergence")
@dataclass(frozen=True)
class KNNRatioDivergence:
    """Divergence "kullback-leibler", "renyi" or "hellinger" from ratios of k-NN densities."""

    divergence: str
    k: int
    alpha: float
    symmetric: bool
    floor: bool

    def prepare(
        self, sets: SampleSets, positions: list[SetPosition]
    ) -> list[tuple[SetPosition, NeighbourTree]]:
        """Build the trees, and check the distances within each set."""
        prepared = [(position, NeighbourTree(x)) for position, x in zip(positions, sets, strict=True)]
        for position, cloud in prepared:
            require_positive(cloud.own_distances(self.k), cloud, self.floor, str(position))
        return prepared

    def pair(self, a: tuple[SetPosition, NeighbourTree], b: tuple[SetPosition, NeighbourTree]) -> float:
        """Estimate d(a, b), or its mean with d(b, a)."""
        forward = self._directed(a, b)
        return (forward + self._directed(b, a)) / 2 if self.symmetric else forward

    def _directed(self, a: tuple[SetPosition, NeighbourTree], b: tuple[SetPosition, NeighbourTree]) -> float:
        (position, p), (other, q) = a, b
        rho = require_positive(p.own_distances(self.k), p, self.floor, str(position))
        nu = require_positive(p.distances(q, self.k), p, self.floor, f"{position} and {other}")
        log_ratio = ratios.log_ratios(rho, nu, p.n_dims, len(q))
        if self.divergence == "kullback-leibler":
            return ratios.kullback_leibler(log_ratio)
        if self.divergence == "hellinger":
            return ratios.hellinger(log_ratio, self.k)
        return ratios.renyi(log_ratio, self.alpha, self.k)


def require_positive(distances: F64, cloud: NeighbourTree, floor: bool, name: str) -> F64:
    """Return positive distances, raised to the set's minimum if ``floor``; otherwise SampleSetError for zeros."""
    is_zero: NDArray[np.bool_] = distances <= 0
    if floor and cloud.least_distance > 0:
        return np.asarray(np.maximum(distances, cloud.least_distance))
    if not is_zero.any():
        return distances
    raise SampleSetError(
        f"{int(is_zero.sum())} of {len(is_zero)} points (first: point {int(np.argmax(is_zero))}) have k neighbours at "
        f"distance 0 in {name}; k-NN densities of duplicates are infinite. Use a larger k, "
        + ("drop sets whose points are all equal" if floor else "duplicates='floor' of the estimator")
        + ", or an estimator that accepts duplicates: 'plugin', or 'entropy' with mixture='all'."
    )


INTEGRANDS = {name: divergence.kappa for name, divergence in DIVERGENCES.items()} | {
    "kullback-leibler": integrals.kullback_leibler
}
"""Integrands kappa(p, q) by name."""


@serializable("PluginIntegral")
@dataclass(frozen=True)
class PluginIntegral:
    """Divergence of reflected kernel density estimates, integrated numerically over their nodes.

    ``kappa`` is the name of an integrand, an integrand kappa(p, q), or the order of a Renyi divergence; ``mean``:
    average both directions.
    """

    spec: DivergenceSpec
    kappa: str | integrals.Integrand | float
    symmetric: bool
    mean: bool

    def __post_init__(self) -> None:
        if isinstance(self.kappa, str) and self.kappa not in INTEGRANDS:
            raise ValueError(
                f"kappa must be one of {', '.join(map(repr, INTEGRANDS))}; got {self.kappa!r:.80}"
            )

    def prepare(self, sets: SampleSets, positions: list[SetPosition]) -> list[F64]:
        """Return densities (n_parts, n_nodes) of each set; n_parts is 1 or the number of dimensions."""
        return list(self.spec.materialize().densities(sets).astype(np.float64))

    def pair(self, a: F64, b: F64) -> float:
        """Estimate d(a, b), or its mean with d(b, a)."""
        forward = self._directed(a, b)
        return (forward + self._directed(b, a)) / 2 if self.mean else forward

    def _directed(self, a: F64, b: F64) -> float:
        v = self.spec.materialize().node_weights
        kappa = INTEGRANDS[self.kappa] if isinstance(self.kappa, str) else self.kappa
        if callable(kappa):
            return sum(integrals.integral(kappa, p, q, v) for p, q in zip(a, b, strict=True))
        return sum(integrals.renyi(p, q, v, kappa) for p, q in zip(a, b, strict=True))
