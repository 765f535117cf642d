"""How a pair of sample sets becomes a divergence: records of plain numbers, one for each estimator.

`prepare` makes of each set what is needed of it alone (a tree, a density), `pair` compares two of them. A pair's
value depends on these two sets alone, bit for bit, and where the divergence is symmetric, on no order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64
from dkdist._numba.ranks import Cloud
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist.pairwise_matrices import entropy as entropies
from dkdist.pairwise_matrices import integrals
from dkdist.pairwise_matrices import neighbour_ratios as ratios
from dkdist.sets import SampleSetError, SampleSets


@dataclass(frozen=True)
class Place:
    """Which set it is, for messages and seeds: its position, in the collection or in ``other``."""

    index: int
    other: bool

    def __str__(self) -> str:
        return f"set {self.index}" + " of other" * self.other


class DivergenceEstimator(Protocol):
    """An estimator of a divergence with all its choices made; ``symmetric`` if pair(a, b) is pair(b, a)."""

    @property
    def symmetric(self) -> bool:
        """Whether the order of the two sets changes nothing, not a bit."""

    def prepare(self, sets: SampleSets, places: list[Place]) -> list[Any]:
        """What is needed of each set alone."""

    def pair(self, a: Any, b: Any) -> float:
        """The divergence of two prepared sets."""


@dataclass(frozen=True)
class KNNEntropyJS:
    """Jensen-Shannon from all points, entropies of set and mixture taken with the same balls."""

    k: int
    symmetric: ClassVar[bool] = True

    def prepare(self, sets: SampleSets, places: list[Place]) -> list[Cloud]:
        """The trees."""
        return [Cloud(x) for x in sets]

    def pair(self, a: Cloud, b: Cloud) -> float:
        """JS(a, b) in nats."""
        return entropies.matched_jensen_shannon(a, b, self.k)


@dataclass(frozen=True)
class _HalvedSet:
    place: Place
    shuffled: F64
    entropy: float


@dataclass(frozen=True)
class HalvedEntropies:
    """Jensen-Shannon of entropies: the mixture is a random half of each set; spacings for d = 1, k-NN beyond.

    The halves are of equal size, ceil(n / 2) points of the smaller set's n.
    """

    k: int
    seed: int
    floor: bool
    symmetric: ClassVar[bool] = True

    def prepare(self, sets: SampleSets, places: list[Place]) -> list[_HalvedSet]:
        """Each set in an order drawn from the seed and its place, with its entropy."""
        made = []
        for x, place in zip(sets, places, strict=True):
            order = np.random.default_rng([self.seed, place.index, place.other]).permutation(len(x))
            points = x.astype(np.float64)
            made.append(_HalvedSet(place, points[order], self._entropy(points, str(place))))
        return made

    def pair(self, a: _HalvedSet, b: _HalvedSet) -> float:
        """JS(a, b) in nats."""
        half = -(-min(len(a.shuffled), len(b.shuffled)) // 2)
        mixture = np.concatenate([a.shuffled[:half], b.shuffled[:half]])
        entropy = self._entropy(mixture, f"the mixture of {a.place} and {b.place}")
        return entropy - (a.entropy + b.entropy) / 2

    def _entropy(self, points: F64, name: str) -> float:
        cloud = Cloud(points)
        if cloud.n_dims == 1:
            gaps = entropies.spacings(points[:, 0], self.k)
            return entropies.spacing_entropy(positive(gaps, cloud, self.floor, name), self.k)
        distances = positive(cloud.own_distances(self.k), cloud, self.floor, name)
        # sorted, so that the order of the two sets in a mixture changes no bit of a sum
        return entropies.neighbour_entropy(np.sort(distances), self.k, cloud.n_dims)


@dataclass(frozen=True)
class NeighbourRatios:
    """Divergences from ratios of k-NN densities: "kullback-leibler", "renyi" or "hellinger"."""

    divergence: str
    k: int
    alpha: float
    symmetric: bool
    floor: bool

    def prepare(self, sets: SampleSets, places: list[Place]) -> list[tuple[Place, Cloud]]:
        """The trees, and each set's distances within itself."""
        made = [(place, Cloud(x)) for place, x in zip(places, sets, strict=True)]
        for place, cloud in made:
            positive(cloud.own_distances(self.k), cloud, self.floor, str(place))
        return made

    def pair(self, a: tuple[Place, Cloud], b: tuple[Place, Cloud]) -> float:
        """d(a, b), or its mean with d(b, a)."""
        forward = self._directed(a, b)
        return (forward + self._directed(b, a)) / 2 if self.symmetric else forward

    def _directed(self, a: tuple[Place, Cloud], b: tuple[Place, Cloud]) -> float:
        (place, p), (other, q) = a, b
        own = positive(p.own_distances(self.k), p, self.floor, str(place))
        across = positive(p.distances(q, self.k), p, self.floor, f"{place} and {other}")
        log_ratio = ratios.log_ratios(own, across, p.n_dims, len(q))
        if self.divergence == "kullback-leibler":
            return ratios.kullback_leibler(log_ratio)
        if self.divergence == "hellinger":
            return ratios.hellinger(log_ratio, self.k)
        return ratios.renyi(log_ratio, self.alpha, self.k)


def positive(distances: F64, cloud: Cloud, floor: bool, name: str) -> F64:
    """Distances whose logarithms exist: zeros are refused, or with ``floor`` none counts as less than the set's."""
    zero: NDArray[np.bool_] = distances <= 0
    if floor and cloud.least_distance > 0:
        return np.asarray(np.maximum(distances, cloud.least_distance))
    if not zero.any():
        return distances
    raise SampleSetError(
        f"{int(zero.sum())} of {len(zero)} points (the first is point {int(np.argmax(zero))}) have k neighbours at "
        f"distance 0 in {name}: duplicates have no k-NN density. Use a larger k, "
        + ("leave out sets whose points all coincide" if floor else "duplicates='floor' of the estimator")
        + ", or an estimator that takes them: 'plugin', or 'entropy' with mixture='all'"
    )


@dataclass(frozen=True)
class PluginDensities:
    """Any divergence of reflected kernel density estimates, integrated over their nodes.

    ``kappa`` is an integrand kappa(p, q), or the order of a Renyi divergence; ``mean`` takes both directions.
    """

    spec: DivergenceSpec
    kappa: integrals.Integrand | float
    symmetric: bool
    mean: bool

    def prepare(self, sets: SampleSets, places: list[Place]) -> list[F64]:
        """Densities at the nodes, (parts, nodes) for each set: one part, or one for each dimension."""
        return list(self.spec.materialize().densities(sets).astype(np.float64))

    def pair(self, a: F64, b: F64) -> float:
        """d(a, b), or its mean with d(b, a)."""
        forward = self._directed(a, b)
        return (forward + self._directed(b, a)) / 2 if self.mean else forward

    def _directed(self, a: F64, b: F64) -> float:
        v = self.spec.materialize().node_weights
        return sum(_integrated(self.kappa, p, q, v) for p, q in zip(a, b, strict=True))


def _integrated(kappa: Callable[[F64, F64], F64] | float, p: F64, q: F64, v: F64) -> float:
    if callable(kappa):
        return integrals.integral(kappa, p, q, v)
    return integrals.renyi(p, q, v, kappa)
