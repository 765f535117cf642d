"""Features averaged over symmetries of the domain: (1/|G|) sum over g of z(A(g P)) for each sample set P.

Their inner products are the kernel averaged over the group, k(P, Q) = mean over g, h of k(gP, hQ): sets that differ
by a symmetry are the same set. One set of features is alive beside the sum, whatever the order of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.embedding_spec import Domain, Specification, Tables
from dkdist.loops.array_types import F32
from dkdist.moments.symmetry import Element, moved
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets


@kept
@dataclass(frozen=True)
class InvariantSpec(Specification["InvariantParameters"]):
    """An embedding, features of its rows (None: the rows themselves), and the group that they are averaged over.

    ``box`` is what the group is of: the embedding's domain, if it has one.
    """

    embedding: Any
    features: Any
    elements: tuple[Element, ...]
    box: Domain

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self.box.n_dims

    @property
    def n_features(self) -> int:
        """Length of a set's row."""
        return int((self.features or self.embedding).n_features)

    @property
    def domain(self) -> Domain:
        """The box that the points must lie in."""
        return self.box

    def _tables(self) -> InvariantParameters:
        return InvariantParameters(self)


class InvariantParameters(Tables[InvariantSpec]):
    """Drawn tables of an `InvariantSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: InvariantSpec) -> None:
        self.spec = spec
        self._embedding = spec.embedding.draw()
        self._features = spec.features and spec.features.draw()

    def embed(self, sets: SampleSets) -> F32:
        """Averaged rows: (n_sets, m) float32; summed in the order of the group, each set for itself."""
        total = np.zeros((len(sets), self.spec.n_features), np.float32)
        low, high = self.spec.box.arrays
        points = np.clip(sets.relative, low, high).astype(np.float32, copy=False)
        for element in self.spec.elements:
            total += self._row(
                SampleSets._trusted(
                    moved(points, element, low, high), sets.offsets, sets.weights, None, sets.origin
                )
            )
        total *= np.float32(1 / len(self.spec.elements))
        return total

    def _row(self, sets: SampleSets) -> F32:
        A: F32 = self._embedding.embed(sets)
        return A if self._features is None else self._features.transform(A)
