"""Rows whose columns are standardised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.embedding_spec import AroundEmbedding, Domain, Tables
from dkdist.base.influence import influences
from dkdist.loops.array_types import F32, F64
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets


@kept
@dataclass(frozen=True)
class StandardisedSpec(AroundEmbedding["StandardisedParameters"]):
    """An embedding whose columns have ``centre`` subtracted and are multiplied by ``inverse`` scales."""

    embedding: Any
    centre: tuple[float, ...]
    inverse: tuple[float, ...]

    def check_loaded(self) -> None:
        """Raise ValueError unless the embedding has as many columns."""
        if len(self.centre) != self.n_features:
            raise ValueError(f"{len(self.centre)} columns are standardised of {self.n_features}")

    @classmethod
    def of(cls, embedding: Any, rows: F32) -> StandardisedSpec:
        """By the mean and standard deviation of some rows (n, m); constant columns become zero."""
        scale = rows.std(axis=0, dtype=np.float64)
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        return cls(embedding, tuple(rows.mean(axis=0, dtype=np.float64).tolist()), tuple(inverse.tolist()))

    @property
    def domain(self) -> Domain | None:
        """The embedding's."""
        return self.embedding.domain  # type: ignore[no-any-return]

    def of_rows(self, rows: F32) -> F32:
        """Standardised rows, of rows (n, m) of the embedding."""
        return np.asarray((rows - np.array(self.centre)) * np.array(self.inverse), np.float32)

    def _tables(self) -> StandardisedParameters:
        return StandardisedParameters(self)


class StandardisedParameters(Tables[StandardisedSpec]):
    """The embedding's tables."""

    def __init__(self, spec: StandardisedSpec) -> None:
        self.spec = spec
        self._embedding = spec.embedding.draw()
        self._inverse = np.array(spec.inverse)

    def embed(self, sets: SampleSets) -> F32:
        """Standardised rows: (n_sets, m) float32."""
        return self.spec.of_rows(self._embedding.embed(sets))

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d): the embedding's, by the derivative of its own columns."""
        elsewhere = None if at is one.relative else at
        return influences(self._embedding, one, self._inverse[:, None] * gradient, elsewhere)
