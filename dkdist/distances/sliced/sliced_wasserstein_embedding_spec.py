"""Parameters of sliced Wasserstein embeddings: sample sets -> quantiles of their projections on random directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist.base.embedding_spec import Specification, Tables
from dkdist.base.influence import shares
from dkdist.base.roles import Role
from dkdist.distances.sliced.quantile_influence import quantile_potentials
from dkdist.distances.sliced.sliced_wasserstein_embedding_loops import projected_quantiles
from dkdist.loops.array_types import F32, F64
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets


@kept
@dataclass(frozen=True)
class SlicedWassersteinSpec(Specification["SlicedWassersteinParameters"]):
    """What defines a sliced Wasserstein embedding, in plain numbers; points are counted from ``centre``."""

    centre: tuple[float, ...]
    n_directions: int
    n_quantiles: int
    seed: int

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
        return self.n_directions * self.n_quantiles

    def _tables(self) -> SlicedWassersteinParameters:
        return SlicedWassersteinParameters(self)


class SlicedWassersteinParameters(Tables[SlicedWassersteinSpec]):
    """Directions of a `SlicedWassersteinSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: SlicedWassersteinSpec) -> None:
        self.spec = spec
        self._centre = np.array(spec.centre)
        self.directions = random_directions(spec.n_dims, spec.n_directions, spec.seed)

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32."""
        spec = self.spec
        return projected_quantiles(
            sets.relative, sets.offsets, sets.weights, self._centre, self.directions, spec.n_quantiles
        )

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d), up to a constant, by `quantile_potentials`."""
        L, Q = len(self.directions), self.spec.n_quantiles
        lines, there = ((points - self._centre) @ self.directions.T for points in (one.relative, at))
        return quantile_potentials(lines, shares(one), there, gradient.reshape(L, Q, -1) / np.sqrt(L * Q))


def random_directions(n_dims: int, n_directions: int, seed: int) -> F64:
    """Unit vectors (L, d), uniform on the sphere; each d of them, one after another, are orthogonal to each other.

    Orthogonal directions see more of a set than independent ones: the mean over them errs less (in one dimension there
    is one direction).
    """
    if n_dims == 1:
        return np.ones((1, 1))
    rng = np.random.default_rng([seed, Role.SLICED_EMBEDDING])
    frames = rng.standard_normal((-(-n_directions // n_dims), n_dims, n_dims))
    Q, R = np.linalg.qr(frames)
    signs = np.sign(np.diagonal(R, axis1=1, axis2=2))  # without them Q is not uniform
    columns = (Q * signs[:, None, :]).transpose(0, 2, 1).reshape(-1, n_dims)
    return np.ascontiguousarray(columns[:n_directions])
