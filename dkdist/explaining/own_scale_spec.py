"""Rows of sets that are scaled by their own points first: how the scale moves with a point is part of its influence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dkdist.base.embedding_spec import AroundEmbedding, Selective, Tables
from dkdist.loops.array_types import F32
from dkdist.sets import SampleSets


@dataclass(frozen=True)
class OwnScaleSpec(AroundEmbedding["OwnScaleTables"]):
    """An embedding after maps of sets to sets, the first of which scales each set by itself."""

    scalers: tuple[Any, ...]
    embedding: Any
    domain: None = None

    @property
    def ordered(self) -> bool:
        """Whether the order of a set's points may matter."""
        return bool(getattr(self.embedding, "ordered", False))

    def scaled(self, sets: SampleSets) -> SampleSets:
        """What the embedding is given."""
        for scaler in self.scalers:
            sets = scaler.of_sets(sets)
        return sets

    def require(self, sets: SampleSets, first: int) -> None:
        """Refuse what the embedding refuses; ``first`` is the position of set 0."""
        if isinstance(self.embedding, Selective):
            self.embedding.require(self.scaled(sets), first)

    def _tables(self) -> OwnScaleTables:
        return OwnScaleTables(self)


class OwnScaleTables(Tables[OwnScaleSpec]):
    """The embedding's tables. They know no derivative: points are left out in turn."""

    def __init__(self, spec: OwnScaleSpec) -> None:
        self.spec = spec
        self._embedding = spec.embedding.draw()

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the scaled sets: (n_sets, m) float32."""
        rows: F32 = self._embedding.embed(self.spec.scaled(sets))
        return rows
