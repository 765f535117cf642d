"""Densities on a tensor grid in four or more dimensions, computed from the points without cosine coefficients.

A density at a node is a mean over points, like a coefficient, so it is computed in the same chunks and pieces. Unlike
coefficients, it depends on the bandwidth, so embeddings of different bandwidths do not share it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist._numba.arrays import F32, I64
from dkdist.embeddings._grid_numba import grid_densities, node_tables
from dkdist.embeddings._tuning import (
    COEFFICIENTS_PER_TILE,
    MAX_COEFFICIENTS,
    MAX_GRID_NODES,
    MIN_SETS_PER_TILE,
)
from dkdist.embeddings.coefficients import Coefficients, CoefficientSpec
from dkdist.sets import SampleSets


@dataclass(frozen=True)
class GridDensitySpec(CoefficientSpec):
    """Parameters of densities at the midpoints of a grid of ``n_basis`` nodes per dimension.

    ``scales`` are the bandwidths of each scale: k tuples of d numbers. ``degrees`` are those of the smallest bandwidth
    of each dimension.
    """

    scales: tuple[tuple[float, ...], ...] = ()
    n_basis: int = 2

    def __post_init__(self) -> None:
        require_grid_size(self.domain.n_dims, self.n_basis, MAX_COEFFICIENTS)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of one density."""
        return int(self.n_basis**self.domain.n_dims)

    @property
    def sets_per_tile(self) -> int:
        """Number of sets per compiled call."""
        return int(np.clip(COEFFICIENTS_PER_TILE // self.n_nodes, 1, MIN_SETS_PER_TILE))

    def select(self, C: F32, wider: CoefficientSpec) -> F32:
        """Return the densities of the first scale, selected from the densities C of all scales of ``wider``."""
        assert isinstance(wider, GridDensitySpec)
        first = wider.scales.index(self.scales[0]) * self.n_nodes
        return C[:, first : first + self.n_nodes]

    def _build(self) -> GridDensities:
        return GridDensities(self)


class GridDensities(Coefficients):
    """Computation of the densities of a `GridDensitySpec`: (n_spans, n_scales * n_nodes), possibly negative."""

    spec: GridDensitySpec

    def __init__(self, spec: GridDensitySpec) -> None:
        self.spec = spec
        self._low_and_scale = spec.domain.low_and_scale
        self._tables = [node_tables(spec.n_basis, bandwidth) for bandwidth in spec.scales]

    def compute(self, sets: SampleSets, spans: I64) -> F32:
        """Return the densities of the sets at ``spans``, which fit into one chunk; points outside are clipped."""
        low, scale = self._low_and_scale
        densities = [
            grid_densities(sets.relative, spans, sets.weights, low, scale, tables) for tables in self._tables
        ]
        return densities[0] if len(densities) == 1 else np.concatenate(densities, axis=1)


def max_grid_basis(d: int, max_nodes: int = MAX_GRID_NODES) -> int:
    """Return the largest number of nodes per dimension of a grid with at most ``max_nodes`` nodes."""
    return int(max_nodes ** (1 / d) + 1e-9)


def require_grid_size(d: int, n_basis: int, max_nodes: int = MAX_GRID_NODES) -> None:
    """Raise ValueError if a grid of ``n_basis`` nodes in each of d dimensions has more than ``max_nodes`` nodes."""
    maximum = max_grid_basis(d, max_nodes)
    if n_basis > maximum:
        raise ValueError(
            f"n_basis must be at most {maximum} for {d} joint dimensions, whose grid has n_basis^{d} nodes; got "
            f"{n_basis}. Reduce n_basis, or use structure='pairs' or 'marginal'."
        )
