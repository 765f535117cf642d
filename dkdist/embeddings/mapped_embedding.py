"""Rows of sets that go through maps of sets to sets first: what an influence on a prediction is, through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dkdist._base.influence import as_singletons, point_influences
from dkdist._base.params import EmbeddingWrapperParams, FittedParams, Params
from dkdist._numba.arrays import F32, F64
from dkdist._utils.serialization import serializable
from dkdist.sets import SampleSets


@serializable("MappedEmbeddingSpec")
@dataclass(frozen=True)
class MappedEmbeddingSpec(EmbeddingWrapperParams["MappedEmbedding"]):
    """An embedding after maps of sets to sets, such as `ScalerSpec` and `ComponentsSpec`, one after the other."""

    maps: tuple[Any, ...]
    embedding: Any
    domain: None = None

    @property
    def n_dims(self) -> int:
        """The dimension d of the points, before all maps."""
        return int(self.maps[0].n_dims)

    @property
    def has_per_set_map(self) -> bool:
        """Whether a set goes through a map that its own points decide."""
        return any(step.per_set for step in self.maps)

    def mapped(self, sets: SampleSets) -> SampleSets:
        """What the embedding is given."""
        for step in self.maps:
            sets = step.apply(sets)
        return sets

    def require(self, sets: SampleSets, first: int) -> None:
        """Refuse what the embedding refuses; ``first`` is the position of set 0."""
        if type(self.embedding).require is not Params.require:
            self.embedding.require(self.mapped(sets), first)

    def _build(self) -> MappedEmbedding:
        return MappedEmbedding(self) if self.has_per_set_map else PointwiseMappedEmbedding(self)


class MappedEmbedding(FittedParams[MappedEmbeddingSpec]):
    """The embedding's tables. They know no derivative where a set decides its map: points are left out in turn."""

    def __init__(self, spec: MappedEmbeddingSpec) -> None:
        self.spec = spec
        self._embedding = spec.embedding.materialize()

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the mapped sets: (n_sets, m) float32."""
        rows: F32 = self._embedding.embed(self.spec.mapped(sets))
        return rows


class PointwiseMappedEmbedding(MappedEmbedding):
    """The same where each point is mapped by itself: its influence is that of its image."""

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d), up to a constant of each column."""
        images = None if at is one.relative else self.spec.mapped(as_singletons(one, at)).relative
        return point_influences(self._embedding, self.spec.mapped(one), gradient, images)
