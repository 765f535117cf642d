"""Embeddings of sets that are transformed by maps of sets to sets first, such as scalers."""

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
    """An embedding after maps of sets to sets, such as `ScalerSpec` and `ComponentsSpec`."""

    maps: tuple[Any, ...]
    embedding: Any
    domain: None = None

    @property
    def n_dims(self) -> int:
        """Dimension d of the points before all maps."""
        return int(self.maps[0].n_dims)

    @property
    def has_per_set_map(self) -> bool:
        """Whether a map depends on the points of the set."""
        return any(step.per_set for step in self.maps)

    def mapped(self, sets: SampleSets) -> SampleSets:
        """Return the sets after all maps."""
        for step in self.maps:
            sets = step.apply(sets)
        return sets

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise as the embedding for invalid sets; ``first`` is the position of set 0."""
        if type(self.embedding).require is not Params.require:
            self.embedding.require(self.mapped(sets), first)

    def _build(self) -> MappedEmbedding:
        return MappedEmbedding(self) if self.has_per_set_map else PointwiseMappedEmbedding(self)


class MappedEmbedding(FittedParams[MappedEmbeddingSpec]):
    """Fitted embedding after maps. Without a derivative, as maps may depend on the set."""

    def __init__(self, spec: MappedEmbeddingSpec) -> None:
        self.spec = spec
        self._embedding = spec.embedding.materialize()

    def embed(self, sets: SampleSets) -> F32:
        """Return rows of the mapped sets: (n_sets, m) float32."""
        rows: F32 = self._embedding.embed(self.spec.mapped(sets))
        return rows


class PointwiseMappedEmbedding(MappedEmbedding):
    """Fitted embedding after pointwise maps: the influence of a point is that of its image."""

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Return the influence (q, k) of points ``at`` (q, d), up to a constant of each column."""
        images = None if at is one.relative else self.spec.mapped(as_singletons(one, at)).relative
        return point_influences(self._embedding, self.spec.mapped(one), gradient, images)
