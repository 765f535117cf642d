"""How large a set is, as a row of its own: the baseline that says whether sizes alone tell the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.embedding_spec import Specification
from dkdist.loops.array_types import F32, F64
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets


@kept
@dataclass(frozen=True)
class SizesSpec(Specification[Any]):
    """The logarithm of the number of points, for sets of ``n_dims`` dimensions."""

    n_dims: int
    domain: None = None
    n_features: int = 1

    def embed(self, sets: SampleSets) -> F32:
        """log n of each set: (n_sets, 1) float32."""
        return np.log(sets.sizes)[:, None].astype(np.float32)

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Zero: a point that counts more does not change how many there are."""
        return np.zeros((len(at), gradient.shape[1]))
