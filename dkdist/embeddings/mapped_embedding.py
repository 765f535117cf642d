"""Embeddings of sets that are first transformed by set maps, such as scalers."""

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
    """Parameters of an embedding applied after set maps, such as `ScalerSpec` and `ComponentsSpec`."""

    maps: tuple[Any, ...]
    embedding: Any
    domain: None = None

    @property
    def n_dims(self) -> int:
        """Dimension d of the points before the maps."""
        return int(self.maps[0].n_dims)

    @property
    def has_per_set_map(self) -> bool:
        """Whether any map depends on the points of the set."""
        return any(step.per_set for step in self.maps)

    def mapped(self, sets: SampleSets) -> SampleSets:
        """Return the sets after all maps."""
        for step in self.maps:
            sets = step.apply(sets)
        return sets

    def permuted_columns(self, element: tuple[int, ...]) -> Any:
        """Return the column order that gives the row of the image of the mapped set under a symmetry, or None."""
        return self.embedding.permuted_columns(element)

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise the errors of the embedding for invalid sets; ``first`` is the position of the first set."""
        if type(self.embedding).require is not Params.require:
            self.embedding.require(self.mapped(sets), first)

    def _build(self) -> MappedEmbedding:
        return MappedEmbedding(self) if self.has_per_set_map else PointwiseMappedEmbedding(self)


class MappedEmbedding(FittedParams[MappedEmbeddingSpec]):
    """Fitted embedding after set maps, without `influence`, because the maps may depend on the set."""

    adds_points = True  # influence of other points, by adding them to the set

    def __init__(self, spec: MappedEmbeddingSpec) -> None:
        self.spec = spec
        self._embedding = spec.embedding.materialize()

    def embed(self, sets: SampleSets) -> F32:
        """Return rows of the mapped sets: (n_sets, m) float32."""
        rows: F32 = self._embedding.embed(self.spec.mapped(sets))
        return rows


class PointwiseMappedEmbedding(MappedEmbedding):
    """Fitted embedding after pointwise maps: the influence of a point is the influence of its image."""

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Return the influence (q, k) of points ``at`` (q, d), up to an additive constant per column."""
        images = None if at is one.relative else self.spec.mapped(as_singletons(one, at)).relative
        return point_influences(self._embedding, self.spec.mapped(one), gradient, images)
