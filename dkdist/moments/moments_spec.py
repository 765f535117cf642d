"""Parameters of moment embeddings: sample sets -> means and covariances, in units fixed for all sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from dkdist.base.embedding_spec import Specification, Tables
from dkdist.base.influence import shares
from dkdist.loops.array_types import F32, F64
from dkdist.moments.moments_loops import moments
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets


@kept
@dataclass(frozen=True)
class MomentSpec(Specification["MomentParameters"]):
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

    def column_names(self, names: Sequence[str]) -> list[str]:
        """mean_NAME, then cov_NAME_NAME."""
        means = [f"mean_{name}" for name in names]
        pairs = combinations_with_replacement(names, 2)
        return means if self.degree == 1 else means + [f"cov_{a}_{b}" for a, b in pairs]

    def _tables(self) -> MomentParameters:
        return MomentParameters(self)


class MomentParameters(Tables[MomentSpec]):
    """Arrays of a `MomentSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: MomentSpec) -> None:
        self.spec = spec
        self._centre, self._scale = np.array(spec.centre), np.array(spec.scale)

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32."""
        return moments(sets.relative, sets.offsets, sets.weights, self._centre, self._scale, self.spec.degree)

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d), up to a constant: y for the mean, (y - mean) (y - mean)' for the
        covariance.
        """
        y, d = (at - self._centre) / self._scale, self.spec.n_dims
        found = y @ gradient[:d]
        if self.spec.degree == 2:
            y = y - shares(one) @ ((one.relative - self._centre) / self._scale)
            i, j = np.triu_indices(d)
            found += (y[:, i] * y[:, j] * np.where(i == j, 1, np.sqrt(2))) @ gradient[d:]
        return np.asarray(found)
