"""Parameters of moment embeddings: sample sets -> means and covariances, in units fixed for all sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dkdist.numerics.moments import moments
from dkdist.sets import SampleSets

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class MomentSpec:
    """What defines a moment embedding, in plain numbers: moments up to ``degree`` of (x - centre) / scale."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    degree: int

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return len(self.centre)

    @property
    def domain(self) -> None:
        """None: points may lie anywhere."""

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        d = self.n_dims
        return d if self.degree == 1 else d + d * (d + 1) // 2

    def draw(self) -> MomentParameters:
        """The arrays of this embedding; drawn once in a process."""
        return _draw(self)


@lru_cache(maxsize=16)
def _draw(spec: MomentSpec) -> MomentParameters:
    return MomentParameters(spec)


class MomentParameters:
    """Arrays of a `MomentSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: MomentSpec) -> None:
        self.spec = spec
        self._centre, self._scale = np.array(spec.centre), np.array(spec.scale)

    def __reduce__(self) -> tuple[Callable[[MomentSpec], MomentParameters], tuple[MomentSpec]]:
        return _draw, (self.spec,)

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32."""
        return moments(sets.relative, sets.offsets, sets.weights, self._centre, self._scale, self.spec.degree)
